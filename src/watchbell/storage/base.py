"""What a store of session logs promises: the contract that every backend keeps.

`watchbell.testing.storage_contract` runs the same suite against each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

import msgspec

from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader


class SessionRef(msgspec.Struct, frozen=True):
    """A stored session, as a listing names it.

    Attributes:
        session_id: The session's id.
        location: Where its log is, for people: a file's path, or `table/id`.
    """

    session_id: str
    location: str


class TornTail(msgspec.Struct, frozen=True):
    """What a crash left of the last batch: it was never confirmed and is no part of the log.

    Attributes:
        offset: Byte offset at which it begins.
        length: Its length in bytes.
        saved_as: Where its bytes were put when the log was opened for writing; None while only read.
    """

    offset: int
    length: int
    saved_as: str | None = None


class StoredLog(msgspec.Struct, frozen=True):
    """A log as read from a store.

    Attributes:
        header: The session's header.
        events: Its events.
        location: Where the log is, for people.
        torn: The incomplete last batch, when a crash left one.
    """

    header: SessionHeader
    events: EventLog
    location: str
    torn: TornTail | None = None


class LogWriter(Protocol):
    """The one writer of one session's log. It holds the session's lock until it is closed.

    Calls never overlap: the caller awaits one before it makes the next.
    """

    def write(self, events: Sequence[Event]) -> Awaitable[None]:
        """Append events that follow the last durable one, as one unit.

        It may begin before it is awaited, and is awaited once.

        Durability: when it has ended, all of them survive the loss of the process and of power. When it
        raises, none of them is in the log: what was half written has been taken away again, so that the
        same events, or more, can be written once more. A crash in between leaves all of them, or a torn
        tail that readers recognise and leave out.

        Cancellation: a write that has begun goes on to its end, or leaves nothing. The next `write` and
        `close` wait for that end.

        Raises:
            PersistenceError: It could not be confirmed, or the log is no longer the file that was opened. The
                message need not name the session.
        """
        ...

    def check(self) -> None:
        """Make sure that the log still is what was opened and confirmed; a log not yet begun always is.

        A barrier asks when nothing is left to write, so this must be cheap: it may touch the disk, and must
        not wait for anybody.

        Raises:
            PersistenceError: The log was moved, removed, replaced or changed under the writer.
        """
        ...

    async def close(self) -> None:
        """Release the lock and every handle; calling it again does nothing."""
        ...


class SessionPersistence(Protocol):
    """A store of session logs. All methods may be called concurrently for different sessions."""

    async def list(self) -> Sequence[SessionRef]:
        """Name the stored sessions, in order of id. Writes nothing; a damaged log is named like any other."""
        ...

    async def read(self, session_id: str) -> StoredLog:
        """Read a log without a lock and without writing; what a writer adds meanwhile may be missing.

        Raises:
            SessionNotFoundError: There is none of that id.
            CorruptLogError: It is damaged, or shorter than its header's seed.
            UnsupportedLogError: It needs a newer or another program.
        """
        ...

    async def open(self, session_id: str) -> tuple[StoredLog, LogWriter]:
        """Open a log for writing, alone. A torn tail is set aside first, and reported in the result.

        Raises:
            SessionLockedError: Somebody else has it open, in this or in another process; at once.
            SessionNotFoundError, CorruptLogError, UnsupportedLogError: As for `read`; nothing was changed.
            PersistenceError: The store could not be reached.
        """
        ...

    async def create(self, header: SessionHeader, seed: Sequence[Event] = ()) -> LogWriter:
        """Begin a new log. Nothing is stored before the first write, but for a seed: it is durable on return.

        Raises:
            SessionExistsError: The id is taken. When another writer takes it later, before the first
                write, that write raises PersistenceError.
            PersistenceError: The seed could not be stored; nothing was.
        """
        ...

    async def aclose(self) -> None:
        """Release what the store itself holds; its writers were closed before."""
        ...
