"""A store of session logs in memory, with a disk that outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from watchbell.errors import PersistenceError, SessionExistsError, SessionLockedError, SessionNotFoundError
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.storage.base import LogWriter, SessionRef, StoredLog


class MemoryDisk:
    """What is durable, and who has it open for writing.

    Stores over one disk stand for programs over one home. `crash` is the loss of all of them at once.

    Attributes:
        headers: Header of each stored session, by id.
        batches: Its durable batches, in order, by id.
    """

    def __init__(self) -> None:
        self.headers: dict[str, SessionHeader] = {}
        self.batches: dict[str, list[tuple[Event, ...]]] = {}
        self._holders: dict[str, _MemoryWriter] = {}

    def remove(self, session_id: str) -> None:
        """Take a stored session away, as a person may who clears a folder; its writer finds it gone."""
        del self.headers[session_id], self.batches[session_id]

    def crash(self) -> None:
        """Kill every writer: locks are free, and what they still try to write fails."""
        for writer in self._holders.values():
            writer.dead = True
        self._holders.clear()

    def events(self, session_id: str) -> list[Event]:
        """List the durable events of a session."""
        return [event for batch in self.batches[session_id] for event in batch]

    def hold(self, session_id: str, writer: _MemoryWriter) -> None:
        """Take the lock of a session.

        Raises:
            SessionLockedError: Another writer has it.
        """
        if session_id in self._holders:
            raise SessionLockedError(session_id)
        self._holders[session_id] = writer

    def release(self, session_id: str, writer: _MemoryWriter) -> None:
        """Give the lock of a session back, if `writer` has it."""
        if self._holders.get(session_id) is writer:
            del self._holders[session_id]


class MemoryStorage:
    """A `SessionPersistence` over a `MemoryDisk`, its own when none is given."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk

    async def list(self) -> Sequence[SessionRef]:
        """Name the stored sessions, in order of id."""
        return [SessionRef(session_id, f"memory/{session_id}") for session_id in sorted(self.disk.headers)]

    async def read(self, session_id: str) -> StoredLog:
        """Read what is durable of a log."""
        header = self.disk.headers.get(session_id)
        if header is None:
            raise SessionNotFoundError(f"there is no session {session_id!r}")
        return StoredLog(header, EventLog(self.disk.events(session_id)), f"memory/{session_id}")

    async def open(self, session_id: str) -> tuple[StoredLog, LogWriter]:
        """Open a log for writing, alone."""
        stored = await self.read(session_id)
        writer = _MemoryWriter(self.disk, stored.header, len(stored.events))
        self.disk.hold(session_id, writer)
        return stored, writer

    async def create(self, header: SessionHeader, seed: Sequence[Event] = ()) -> LogWriter:
        """Begin a new log; a seed is durable on return."""
        if header.id in self.disk.headers:
            raise SessionExistsError(f"session {header.id!r} exists already; resume it, or choose another id")
        writer = _MemoryWriter(self.disk, header)
        if seed:
            await writer.write(seed)
        return writer

    async def aclose(self) -> None:
        """Do nothing: the disk stays."""


class _MemoryWriter:
    def __init__(self, disk: MemoryDisk, header: SessionHeader, length: int | None = None) -> None:
        self._disk = disk
        self._header = header
        self._is_stored = length is not None
        self._length = length or 0
        self.dead = False

    async def write(self, events: Sequence[Event]) -> None:
        batch = tuple(events)
        await asyncio.sleep(0)  # a disk is never done in the same pass of the loop
        self.check()
        for seq, event in enumerate(batch, self._length):
            if event.seq != seq:
                raise ValueError(f"expected seq {seq}, found {event.seq}")
        if not self._is_stored:
            self._publish()
        self._disk.batches[self._header.id].append(batch)
        self._length += len(batch)

    def check(self) -> None:
        session_id = self._header.id
        if self.dead:
            raise PersistenceError(f"session {session_id!r}: this writer was closed or its process crashed")
        if self._is_stored and self._disk.headers.get(session_id) is not self._header:
            raise PersistenceError(f"session {session_id!r} was removed under the open session")

    async def close(self) -> None:
        self.dead = True
        self._disk.release(self._header.id, self)

    def _publish(self) -> None:
        session_id = self._header.id
        if session_id in self._disk.headers:
            raise PersistenceError(f"session {session_id!r} was stored by another writer meanwhile")
        self._disk.hold(session_id, self)
        self._disk.headers[session_id] = self._header
        self._disk.batches[session_id] = []
        self._is_stored = True
