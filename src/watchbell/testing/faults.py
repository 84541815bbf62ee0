"""A store whose writes fail, or stand still, when a test says so."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from watchbell.errors import PersistenceError
from watchbell.log.event import Event
from watchbell.log.header import SessionHeader
from watchbell.storage.base import LogWriter, SessionPersistence, SessionRef, StoredLog


class HeldWrites:
    """Writes that stand still until `release`.

    Attributes:
        waiting: How many stand now.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._reached = asyncio.Event()
        self._released = asyncio.Event()

    async def reached(self) -> None:
        """Return once a write stands."""
        await self._reached.wait()

    def release(self) -> None:
        """Let them go on, and all later ones pass."""
        self._released.set()

    async def pass_through(self) -> None:
        """Stand until released; the writer calls it."""
        self.waiting += 1
        self._reached.set()
        try:
            await self._released.wait()
        finally:
            self.waiting -= 1


class FaultyPersistence:
    """Wraps a store: its writes, a fork's seed among them, can be made to fail or to stand still.

    Attributes:
        inner: The store that keeps the logs.
        writes: How many writes were begun, failed ones included.
    """

    def __init__(self, inner: SessionPersistence) -> None:
        self.inner = inner
        self.writes = 0
        self._failures = 0.0  # how many of the next writes fail
        self._held_before: HeldWrites | None = None
        self._held_after: HeldWrites | None = None

    def fail_writes(self, times: int | None = 1) -> None:
        """Make the next `times` writes fail with nothing stored; all until `heal` when None."""
        self._failures = math.inf if times is None else times

    def heal(self) -> None:
        """Let writes succeed again."""
        self._failures = 0

    def hold_writes(self, *, stored: bool = False) -> HeldWrites:
        """Make writes stand still: before anything is stored, or with `stored` before that is confirmed."""
        held = HeldWrites()
        if stored:
            self._held_after = held
        else:
            self._held_before = held
        return held

    async def list(self) -> Sequence[SessionRef]:
        """Name the stored sessions."""
        return await self.inner.list()

    async def read(self, session_id: str) -> StoredLog:
        """Read a log."""
        return await self.inner.read(session_id)

    async def open(self, session_id: str) -> tuple[StoredLog, LogWriter]:
        """Open a log for writing."""
        stored, writer = await self.inner.open(session_id)
        return stored, _FaultyWriter(self, writer)

    async def create(self, header: SessionHeader, seed: Sequence[Event] = ()) -> LogWriter:
        """Begin a new log."""
        if not seed:
            return _FaultyWriter(self, await self.inner.create(header))
        await self.before_write()
        writer = await self.inner.create(header, seed)
        await self.after_write()
        return _FaultyWriter(self, writer)

    async def aclose(self) -> None:
        """Close the store inside."""
        await self.inner.aclose()

    async def before_write(self) -> None:
        """Count a write; stand still and fail as told."""
        self.writes += 1
        if self._held_before is not None:
            await self._held_before.pass_through()
        if self._failures > 0:
            self._failures -= 1
            raise PersistenceError("this write was made to fail")

    async def after_write(self) -> None:
        """Stand still as told."""
        if self._held_after is not None:
            await self._held_after.pass_through()


class _FaultyWriter:
    def __init__(self, store: FaultyPersistence, inner: LogWriter) -> None:
        self._store = store
        self._inner = inner

    async def write(self, events: Sequence[Event]) -> None:
        await self._store.before_write()
        await self._inner.write(events)
        await self._store.after_write()

    def check(self) -> None:
        self._inner.check()

    async def close(self) -> None:
        await self._inner.close()
