"""Session logs in files, one folder for each session: the default store.

`dsh` and plain `zstdcat` and `jq` read these files too. See log-format, "Layout" and "Bytes".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from watchbell.clock import wall_ms
from watchbell.errors import (
    CorruptLogError,
    PersistenceError,
    SessionExistsError,
    SessionNotFoundError,
    SettingsError,
)
from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.events import Event
from watchbell.log.session import SessionHeader
from watchbell.storage.base import SessionRef, StoredLog
from watchbell.storage.files import FileSystem
from watchbell.storage.layout import Compression, escape_session_id, find_logs, log_path, unescape_session_id
from watchbell.storage.logfile import LogFile, encode_unit, read_log

__all__ = ["JsonlStorage"]

T = TypeVar("T")


class JsonlStorage:
    """A store of session logs under one home directory; a `SessionPersistence`.

    Args:
        home: The directory; `~` is expanded. It is made with the first session.
        compression: How new logs are written. An existing one keeps its encoding.
        executor: Runs what blocks; a small pool of its own when None.
        now_ms: Reads the wall clock, epoch milliseconds: for the names of torn tails, and for `owner`.
        files: The operating system's calls.
    """

    def __init__(
        self,
        home: str | Path,
        *,
        compression: Compression = "zstd",
        executor: Executor | None = None,
        now_ms: Callable[[], int] = wall_ms,
        files: FileSystem | None = None,
    ) -> None:
        if compression not in ("zstd", "none"):
            raise SettingsError(f"compression is 'zstd' or 'none', not {compression!r}")
        self._home = Path(home).expanduser()
        self._compression: Compression = compression
        self._executor = executor
        self._own_executor: ThreadPoolExecutor | None = None
        self._now_ms = now_ms
        self._files = FileSystem() if files is None else files

    def __repr__(self) -> str:
        return f"JsonlStorage({str(self._home)!r})"

    @property
    def home(self) -> Path:
        """The home directory."""
        return self._home

    async def list(self) -> Sequence[SessionRef]:
        """See `SessionPersistence.list`; a folder that no session id names is left out."""
        return await self.run(self._list)

    async def read(self, session_id: str) -> StoredLog:
        """See `SessionPersistence.read`."""
        return await self.run(lambda: self._read(session_id))

    async def open(self, session_id: str) -> tuple[StoredLog, _JsonlWriter]:
        """See `SessionPersistence.open`."""
        return await self.run(lambda: self._open(session_id), undo=lambda opened: opened[1].close_now())

    async def create(self, header: SessionHeader, seed: Sequence[Event] = ()) -> _JsonlWriter:
        """See `SessionPersistence.create`.

        Raises:
            SettingsError: The id is empty, or too long for the name of a folder.
        """
        return await self.run(lambda: self._create(header, seed), undo=_JsonlWriter.close_now)

    async def aclose(self) -> None:
        """See `SessionPersistence.aclose`."""
        executor, self._own_executor = self._own_executor, None
        if executor is not None:
            executor.shutdown()

    async def run(self, work: Callable[[], T], *, undo: Callable[[T], None] | None = None) -> T:
        """Run what blocks, away from the event loop and to its end, also when the caller is cancelled.

        Args:
            work: What to run.
            undo: Given the result when the caller was cancelled and so cannot get it.
        """
        executor = self._executor or self._own_executor
        if executor is None:
            executor = self._own_executor = ThreadPoolExecutor(4, thread_name_prefix="watchbell-storage")
        running = asyncio.get_running_loop().run_in_executor(executor, work)
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return running.result()
        if running.exception() is None and undo is not None:
            undo(running.result())
        raise cancelled

    def publish(self, log: LogFile, header: SessionHeader, path: Path, rows: bytes) -> None:
        """Store a new session's log; blocks.

        Raises:
            PersistenceError: It could not be stored and was not.
        """
        try:
            if taken := next(find_logs(self._home, header.id), None):
                raise PersistenceError(f"session {header.id!r} was stored meanwhile: {taken}")
            units = encode_unit(path, encode_header(header)) + encode_unit(path, rows)
            log.publish(units, self._now_ms())
        except OSError as error:
            raise _translate(error, f"session {header.id!r} could not be stored") from error

    def _list(self) -> list[SessionRef]:
        try:
            found = [(unescape_session_id(path.parent.name), str(path)) for path in find_logs(self._home)]
        except OSError as error:
            raise _translate(error, "the sessions could not be listed") from error
        return [SessionRef(name, path) for name, path in sorted((n, p) for n, p in found if n is not None)]

    def _read(self, session_id: str) -> StoredLog:
        try:
            return read_log(self._find(session_id))
        except FileNotFoundError as error:
            raise _not_found(session_id) from error
        except OSError as error:
            raise _translate(error, f"session {session_id!r} could not be read") from error

    def _open(self, session_id: str) -> tuple[StoredLog, _JsonlWriter]:
        try:
            path = self._find(session_id)
            stored, log = LogFile.open(self._files, path, session_id, self._now_ms())
        except FileNotFoundError as error:
            raise _not_found(session_id) from error
        except OSError as error:
            raise _translate(error, f"session {session_id!r} could not be opened") from error
        return stored, _JsonlWriter(self, stored.header, path, log, len(stored.events))

    def _create(self, header: SessionHeader, seed: Sequence[Event]) -> _JsonlWriter:
        try:
            path = log_path(self._home, header.id, header.cwd, self._compression)
        except ValueError as error:
            raise SettingsError(str(error)) from error
        try:
            taken = next(find_logs(self._home, header.id), None)
        except OSError as error:
            raise _translate(error, f"session {header.id!r} could not be created") from error
        if taken is not None:
            raise SessionExistsError(f"session {header.id!r} exists already: {taken}")
        writer = _JsonlWriter(self, header, path, LogFile(self._files, path))
        if seed:
            writer.write_now(seed)
        return writer

    def _find(self, session_id: str) -> Path:
        try:
            escape_session_id(session_id)
        except ValueError as error:
            raise _not_found(session_id) from error
        paths = list(find_logs(self._home, session_id))
        if not paths:
            raise _not_found(session_id)
        if len(paths) > 1:
            places = " and ".join(str(path) for path in paths)
            raise CorruptLogError(
                f"session {session_id!r} is there more than once: {places}", path=str(paths[0])
            )
        return paths[0]


class _JsonlWriter:
    """The `LogWriter` of a file."""

    def __init__(
        self,
        storage: JsonlStorage,
        header: SessionHeader,
        path: Path,
        log: LogFile,
        length: int | None = None,
    ) -> None:
        self._storage = storage
        self._header = header
        self._path = path
        self._log = log
        self._is_published = length is not None
        self._is_closed = False
        self._next_seq = length or 0

    async def write(self, events: Sequence[Event]) -> None:
        """See `LogWriter.write`; events made durable by a write that was cancelled are passed over."""
        await self._storage.run(lambda: self.write_now(events))

    async def close(self) -> None:
        """See `LogWriter.close`."""
        if not self._is_closed:
            await self._storage.run(self.close_now)

    def close_now(self) -> None:
        """Close; blocks."""
        self._is_closed = True
        self._log.close()

    def write_now(self, events: Sequence[Event]) -> None:
        """Write; blocks."""
        if self._is_closed:
            raise PersistenceError(f"the log of session {self._header.id!r} is closed")
        events = [event for event in events if event.seq >= self._next_seq]
        if not events:
            return
        if events[0].seq != self._next_seq:
            raise PersistenceError(f"event {events[0].seq} cannot follow {self._next_seq} durable ones")
        rows = encode_rows(events)
        if self._is_published:
            self._append(rows)
        else:
            self._storage.publish(self._log, self._header, self._path, rows)
            self._is_published = True
        self._next_seq = events[-1].seq + 1

    def _append(self, rows: bytes) -> None:
        try:
            self._log.append(encode_unit(self._path, rows))
        except OSError as error:
            raise _translate(error, f"session {self._header.id!r} could not be written") from error


def _not_found(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"there is no session {session_id!r}")


def _translate(error: OSError, what: str) -> PersistenceError:
    """Turn the operating system's error into ours, without its paths."""
    if isinstance(error, PersistenceError):
        return PersistenceError(f"{what}: {error}")
    return PersistenceError(f"{what}: {error.strerror or type(error).__name__}")
