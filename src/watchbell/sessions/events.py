"""What `Sessions` tells on the bus of a context."""

from __future__ import annotations

import msgspec

from watchbell.sessions.session import Session


class SessionCreated(msgspec.Struct, frozen=True):
    """A session was created, resumed or forked, and is live."""

    session: Session


class SessionClosed(msgspec.Struct, frozen=True):
    """A session is live no more."""

    session: Session


class SessionHealed(msgspec.Struct, frozen=True):
    """A session's events were stored after a write of them had failed."""

    session: Session


class FlushSession(msgspec.Struct, frozen=True):
    """The barrier: make durable what is in the log of a session now.

    Whoever keeps logs answers with a coroutine: it returns True once that is done, False when this session's
    log is not kept there, and raises `PersistenceError` when it could not be done.
    """

    session: Session
