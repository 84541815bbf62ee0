"""Live sessions: created, resumed, forked, flushed and closed in one place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from watchbell.clock import Clock
from watchbell.context import Context
from watchbell.errors import (
    PersistenceError,
    SessionClosedError,
    SessionExistsError,
    SessionLockedError,
    SettingsError,
)
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.sessions.events import FlushSession, SessionClosed, SessionCreated, SessionHealed
from watchbell.sessions.session import Session
from watchbell.sessions.write_behind import WriteBehind
from watchbell.storage.base import LogWriter, SessionPersistence, SessionRef, StoredLog, TornTail

_logger = logging.getLogger("watchbell")


class _Live:
    """One live session with what keeps it durable."""

    def __init__(self, session: Session, writing: WriteBehind, torn: TornTail | None) -> None:
        self.session = session
        self.writing = writing
        self.torn = torn
        self.closing: asyncio.Task[None] | None = None


class Sessions:
    """The service `ctx.sessions`: every session that is live in this process.

    On the bus it emits `SessionCreated`, `SessionClosed` and `SessionHealed`, and it is a durability listener
    on `FlushSession`: it acknowledges for the sessions that it holds.

    Args:
        ctx: Where it listens and emits.
        persistence: The store; closing it is the caller's.
        clock: Gives events their times.
        new_id: Makes the id of a session for which none is given.
    """

    def __init__(
        self,
        ctx: Context,
        persistence: SessionPersistence,
        clock: Clock,
        *,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._ctx = ctx
        self._persistence = persistence
        self._clock = clock
        self._new_id = new_id
        self._live: dict[str, _Live] = {}
        self._opening: set[str] = set()
        self._is_closed = False
        self._end_listening = ctx.on(FlushSession, self._flush_own)

    @property
    def live(self) -> tuple[Session, ...]:
        """The live sessions, in the order in which they became live."""
        return tuple(live.session for live in self._live.values())

    def get(self, session_id: str) -> Session | None:
        """Return the live session of that id, None when none is live."""
        live = self._live.get(session_id)
        return None if live is None else live.session

    def torn(self, session: Session) -> TornTail | None:
        """Say what was set aside when a live session was opened: a crash's torn last batch."""
        live = self._find(session)
        return None if live is None else live.torn

    async def create(
        self,
        session_id: str | None = None,
        *,
        cwd: str | None = None,
        origin: Literal["subagent"] | None = None,
        delegation_depth: int = 0,
        parent_session: str | None = None,
    ) -> Session:
        """Begin a session; nothing is stored before its first event.

        Args:
            session_id: Its id, a random one when None.
            cwd: Absolute path of the project that it belongs to.
            origin: `subagent` for a child agent's session.
            delegation_depth: 0 for a root session.
            parent_session: Id of the session that it came from.

        Raises:
            SettingsError: An argument cannot be used.
            SessionExistsError: The id is taken.
        """
        if cwd is not None and not Path(cwd).is_absolute():
            raise SettingsError(f"cwd must be an absolute path, not {cwd!r}")
        if delegation_depth < 0:
            raise SettingsError("delegation_depth counts from 0")
        header = SessionHeader(
            id=self._choose_id(session_id),
            created_at=max(0, self._clock.now_ms()),
            cwd=cwd,
            parent_session=parent_session,
            origin=origin,
            delegation_depth=delegation_depth,
        )
        return await self._create(header)

    async def resume(self, session_id: str) -> Session:
        """Open a stored session for work.

        Raises:
            SessionLockedError: It is open, here or elsewhere.
            SessionNotFoundError, CorruptLogError, UnsupportedLogError: It cannot be opened as it is.
            PersistenceError: The store could not be reached.
        """
        if self._is_taken(session_id):
            raise SessionLockedError(session_id, holder=os.getpid())
        with self._reserve(session_id):
            stored, writer = await self._persistence.open(session_id)
            return await self._adopt(stored.header, stored.events, writer, stored.torn)

    async def fork(
        self, parent: Session | str, session_id: str | None = None, *, at: int | None = None
    ) -> Session:
        """Begin a session with the first events of another one; they are durable on return.

        A live parent is flushed first. A stored one is read without a lock.

        Args:
            parent: The parent, or its id.
            session_id: Id of the child, a random one when None.
            at: Number of the parent's events that the child starts with, all when None.

        Raises:
            SettingsError: An argument cannot be used.
            SessionNotFoundError, CorruptLogError, UnsupportedLogError: The parent cannot be read.
            SessionExistsError: The id is taken.
            PersistenceError: The parent could not be flushed, or the child not stored.
        """
        header, seed = await self._seed(parent, at)
        header = msgspec.structs.replace(
            header,
            id=self._choose_id(session_id),
            created_at=max(0, self._clock.now_ms()),
            parent_session=header.id,
            seed_length=len(seed),
        )
        return await self._create(header, seed)

    async def read(self, session_id: str) -> StoredLog:
        """Read what is stored of a session, without a lock and without writing.

        Raises:
            SessionNotFoundError, CorruptLogError, UnsupportedLogError: As for `SessionPersistence.read`.
        """
        return await self._persistence.read(session_id)

    async def list(self) -> Sequence[SessionRef]:
        """Name the stored sessions, in order of id; one that never appended is not stored."""
        return await self._persistence.list()

    async def flush(self, session: Session) -> bool:
        """Wait until everything that is in the log now is durable: the barrier.

        Returns:
            True when at least one durability listener acknowledged, False when there is none.

        Raises:
            PersistenceError: A listener failed; all have settled.
        """
        return any(await self._ctx.gather(FlushSession(session)))

    async def close(self, session: Session) -> None:
        """End a live session: refuse further events, flush, release its lock. Again, it does nothing.

        Cancelling the caller does not stop it.

        Raises:
            PersistenceError: Events were not stored; the session is closed all the same.
        """
        live = self._find(session)
        if live is None:
            return
        if live.closing is None:
            live.closing = asyncio.create_task(self._close(live), name=f"close {session.id}")
        await asyncio.shield(live.closing)

    async def aclose(self) -> None:
        """Close all live sessions, side by side, and accept no more.

        Raises:
            PersistenceError: Of at least one, events were not stored; all are closed.
        """
        self._is_closed = True
        results = await asyncio.gather(*map(self.close, self.live), return_exceptions=True)
        self._end_listening()
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, PersistenceError):
                raise failure
        if failures:
            raise PersistenceError("; ".join(map(str, failures))) from failures[0]

    def _choose_id(self, session_id: str | None) -> str:
        chosen = self._new_id() if session_id is None else session_id
        if not chosen:
            raise SettingsError("a session's id must not be empty")
        if self._is_taken(chosen):
            raise SessionExistsError(f"session {chosen!r} is live already; choose another id")
        return chosen

    def _is_taken(self, session_id: str) -> bool:
        return session_id in self._live or session_id in self._opening

    def _find(self, session: Session) -> _Live | None:
        live = self._live.get(session.id)
        return live if live is not None and live.session is session else None

    @contextlib.contextmanager
    def _reserve(self, session_id: str) -> Generator[None]:
        """Keep others from opening the session while the store is asked."""
        self._opening.add(session_id)
        try:
            yield
        finally:
            self._opening.discard(session_id)

    async def _create(self, header: SessionHeader, seed: EventLog | None = None) -> Session:
        with self._reserve(header.id):
            writer = await self._persistence.create(header, () if seed is None else seed)
            return await self._adopt(header, seed, writer)

    async def _seed(self, parent: Session | str, at: int | None) -> tuple[SessionHeader, EventLog]:
        parent_id = parent if isinstance(parent, str) else parent.id
        live = self._live.get(parent_id)
        if live is None:
            stored = await self.read(parent_id)
            header, events = stored.header, stored.events
        else:
            header, events = live.session.header, live.session.events
        length = len(events) if at is None else at
        if not 0 <= length <= len(events):
            raise SettingsError(f"cannot fork at event {length}: the log of {header.id!r} has {len(events)}")
        if live is not None:
            await live.writing.flush()
        return header, events.prefix(length)

    async def _adopt(
        self, header: SessionHeader, events: EventLog | None, writer: LogWriter, torn: TornTail | None = None
    ) -> Session:
        """Make a session live over a writer that the store gave."""
        if self._is_closed:
            await writer.close()
            raise SessionClosedError("sessions are not accepted any more: the program is ending")
        session = Session(header, events, now_ms=self._clock.now_ms, report=_report)
        writing = WriteBehind(session, writer, on_healed=lambda: self._ctx.emit(SessionHealed(session)))
        self._live[session.id] = _Live(session, writing, torn)
        self._opening.discard(session.id)
        if torn is not None:
            _logger.warning("session %s: a torn last batch was set aside: %s", session.id, torn.saved_as)
        self._ctx.emit(SessionCreated(session))
        return session

    async def _close(self, live: _Live) -> None:
        live.session.close()
        try:
            await live.writing.close()
        finally:
            del self._live[live.session.id]
            self._ctx.emit(SessionClosed(live.session))

    async def _flush_own(self, event: FlushSession) -> bool:
        live = self._find(event.session)
        if live is None:
            return False
        await live.writing.flush()
        return True


def _report(error: Exception) -> None:
    _logger.error("an observer of a session failed", exc_info=error)
