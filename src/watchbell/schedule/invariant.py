"""The invariant companion: refuses a Schedule event that replay would refuse, before it is in a log.

Opt-in, for tests and careful deployments (contract section 7).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from watchbell.context import Context
from watchbell.errors import ScheduleLogError
from watchbell.log.event import Draft
from watchbell.log.values import encode_json
from watchbell.reminders.records import SCHEDULE_CHANGE, decode_change
from watchbell.reminders.state import ScheduleState
from watchbell.sessions.events import SessionCreated
from watchbell.sessions.live import Sessions
from watchbell.sessions.session import Guard, Session

_logger = logging.getLogger("watchbell.schedule")


def invariant() -> InvariantPlugin:
    """Return the invariant companion of Schedule."""
    return InvariantPlugin()


class InvariantPlugin:
    """Checks every stored log when it is loaded, every session from then on, and every candidate event."""

    name = "schedule-invariant"
    requires = ("sessions",)

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncGenerator[None]:
        """Guard the sessions of `ctx` until this is left.

        Raises:
            ScheduleLogError: A stored session's Schedule history is invalid.
            CorruptLogError, UnsupportedLogError: A stored log cannot be read at all.
        """
        sessions: Sessions = ctx.sessions
        for ref in await sessions.list():
            stored = await sessions.read(ref.session_id)
            ScheduleState(stored.header.owned_from).advance(stored.events)
        guarded: WeakKeyDictionary[Session, Callable[[], None]] = WeakKeyDictionary()

        def guard(session: Session) -> None:
            guarded[session] = session.guard(_guard(session))

        for session in sessions.live:
            guard(session)
        stop = ctx.on(SessionCreated, lambda event: guard(event.session))
        try:
            yield
        finally:
            stop()
            for end in guarded.values():
                end()


def _guard(session: Session) -> Guard:
    """Return what checks each batch of a session against its fold."""
    state = ScheduleState(session.header.owned_from)
    try:
        state.advance(session.events)
    except ScheduleLogError:
        _logger.exception("session %s: its schedule history is invalid; it gets no more of it", session.id)

    def check(session: Session, drafts: Sequence[Draft], /) -> None:
        candidates = [draft for draft in drafts if draft.type == SCHEDULE_CHANGE]
        if candidates:
            state.advance(session.events)
            state.check_candidates([decode_change(encode_json(draft.data)) for draft in candidates])

    return check
