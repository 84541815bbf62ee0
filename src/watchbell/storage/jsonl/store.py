"""Session logs in files, one folder for each session: the default store.

`dsh` and plain `zstdcat` and `jq` read these files too. See log-format, "Layout" and "Bytes".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from watchbell.clock import wall_ms
from watchbell.errors import (
    CorruptLogError,
    PersistenceError,
    SessionExistsError,
    SessionNotFoundError,
    SettingsError,
)
from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.event import Event
from watchbell.log.header import SessionHeader
from watchbell.storage.base import SessionRef, StoredLog
from watchbell.storage.jsonl._logfile import Leftover, LogFile, encode_unit
from watchbell.storage.jsonl._worker import Worker
from watchbell.storage.jsonl.files import FileSystem, raise_descriptor_limit
from watchbell.storage.jsonl.layout import (
    Compression,
    escape_session_id,
    find_logs,
    log_path,
    unescape_session_id,
)
from watchbell.storage.jsonl.reading import read_log

_logger = logging.getLogger("watchbell.storage")


class JsonlStorage:
    """A store of session logs under one home directory; a `SessionPersistence`.

    Each session that is open for writing holds a descriptor, so the first one raises the process's soft limit
    on them to the hard one.

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
        self._worker = Worker(executor)
        self._now_ms = now_ms
        self._files = FileSystem() if files is None else files
        self._leftovers: dict[Path, Leftover] = {}

    def __repr__(self) -> str:
        return f"JsonlStorage({str(self._home)!r})"

    @property
    def home(self) -> Path:
        """The home directory."""
        return self._home

    async def list(self) -> Sequence[SessionRef]:
        """See `SessionPersistence.list`; a folder that no session id names is left out.

        So is what lies in a directory that cannot be read; a warning is logged then.
        """
        found, unread = await self.find_all()
        for path, reason in unread.items():
            _logger.warning("%s cannot be read, so its sessions are not listed: %s", path, reason)
        return found

    async def find_all(self) -> tuple[Sequence[SessionRef], dict[Path, str]]:
        """Name the stored sessions as `list` does, and the directories that cannot be read, each with why."""
        return await self._worker.run(self._find_all)

    async def read(self, session_id: str) -> StoredLog:
        """See `SessionPersistence.read`."""
        return await self._worker.run(lambda: self._read(session_id))

    async def open(self, session_id: str) -> tuple[StoredLog, _JsonlWriter]:
        """See `SessionPersistence.open`."""
        raise_descriptor_limit()
        return await self._worker.run(
            lambda: self._open(session_id), undo=lambda opened: opened[1].close_now()
        )

    async def create(self, header: SessionHeader, seed: Sequence[Event] = ()) -> _JsonlWriter:
        """See `SessionPersistence.create`.

        Raises:
            SettingsError: The id is empty, or too long for the name of a folder.
        """
        raise_descriptor_limit()
        return await self._worker.run(lambda: self._create(header, seed), undo=_JsonlWriter.close_now)

    async def aclose(self) -> None:
        """See `SessionPersistence.aclose`."""
        self._worker.close()

    def _find_all(self) -> tuple[Sequence[SessionRef], dict[Path, str]]:
        failures: dict[Path, OSError] = {}
        logs = find_logs(self._home, failures=failures)
        found = [(unescape_session_id(path.parent.name), str(path)) for path in logs]
        refs = [SessionRef(name, path) for name, path in sorted((n, p) for n, p in found if n is not None)]
        return refs, {path: _reason(error) for path, error in failures.items()}

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
            stored, log = LogFile.open(self._files, path, session_id, self._now_ms(), self._leftovers)
        except FileNotFoundError as error:
            raise _not_found(session_id) from error
        except OSError as error:
            raise _translate(error, f"session {session_id!r} could not be opened") from error
        return stored, _JsonlWriter(self._worker, log, path, len(stored.events))

    def _create(self, header: SessionHeader, seed: Sequence[Event]) -> _JsonlWriter:
        try:
            path = log_path(self._home, header.id, header.cwd, self._compression)
        except ValueError as error:
            raise SettingsError(str(error)) from error
        taken, unread = self._search(header.id)
        if taken:
            raise SessionExistsError(f"session {header.id!r} exists already: {taken[0]}")
        if unread:
            raise PersistenceError(f"session {header.id!r} could not be created: {unread}")
        log = LogFile(self._files, path, self._leftovers)
        publish = partial(self._publish, log, header, path)
        writer = _JsonlWriter(self._worker, log, path, publish=publish)
        if seed:
            try:
                writer.write_now(seed)
            except PersistenceError as error:
                raise _translate(error, f"session {header.id!r} could not be stored") from error
        return writer

    def _publish(self, log: LogFile, header: SessionHeader, path: Path, rows: bytes) -> None:
        data = encode_unit(path, encode_header(header)) + encode_unit(path, rows)
        log.publish(data, self._now_ms(), partial(self._require_free, header.id))

    def _require_free(self, session_id: str) -> None:
        paths, unread = self._search(session_id)
        if paths:
            raise PersistenceError(f"a session of this id was stored meanwhile: {paths[0]}")
        if unread:
            raise PersistenceError(unread)

    def _search(self, session_id: str) -> tuple[list[Path], str]:
        """Return the logs of an id, and where others may be but one cannot look."""
        failures: dict[Path, OSError] = {}
        paths = list(find_logs(self._home, session_id, failures))
        return paths, "; ".join(f"{path}: {_reason(error)}" for path, error in failures.items())

    def _find(self, session_id: str) -> Path:
        try:
            escape_session_id(session_id)
        except ValueError as error:
            raise _not_found(session_id) from error
        paths, unread = self._search(session_id)
        if not paths and unread:
            raise PersistenceError(unread)
        if not paths:
            raise _not_found(session_id)
        if len(paths) > 1:
            places = " and ".join(str(path) for path in paths)
            raise CorruptLogError(
                f"session {session_id!r} is there more than once: {places}", path=str(paths[0])
            )
        return paths[0]


class _JsonlWriter:
    """The `LogWriter` of a file; `publish` makes the file with its first rows, None when it is there.

    Its errors do not name the session: whoever calls it knows which one it is.
    """

    def __init__(
        self,
        worker: Worker,
        log: LogFile,
        path: Path,
        length: int = 0,
        publish: Callable[[bytes], None] | None = None,
    ) -> None:
        self._worker = worker
        self._log = log
        self._path = path
        self._next_seq = length
        self._publish = publish
        self._is_closed = False
        self._turn = threading.Lock()  # a cancelled write may still run when the next call comes

    def write(self, events: Sequence[Event]) -> Awaitable[None]:
        """See `LogWriter.write`; events made durable by a write that was cancelled are passed over."""
        return self._worker.start(lambda: self.write_now(events))

    def check(self) -> None:
        """See `LogWriter.check`; it looks at the file's status and reads nothing."""
        try:
            self._require_open()
            self._log.check()
        except OSError as error:
            raise _translate(error) from error

    async def close(self) -> None:
        """See `LogWriter.close`."""
        if not self._is_closed:
            await self._worker.run(self.close_now)

    def close_now(self) -> None:
        """Close; blocks."""
        with self._turn:
            self._is_closed = True
            self._log.close()

    def write_now(self, events: Sequence[Event]) -> None:
        """Write; blocks."""
        with self._turn:
            self._write(events)

    def _write(self, events: Sequence[Event]) -> None:
        self._require_open()
        events = [event for event in events if event.seq >= self._next_seq]
        if not events:
            return
        if events[0].seq != self._next_seq:
            raise PersistenceError(f"event {events[0].seq} cannot follow {self._next_seq} durable ones")
        rows = encode_rows(events)
        try:
            if self._publish is None:
                self._log.append(encode_unit(self._path, rows))
            else:
                self._publish(rows)
        except OSError as error:
            raise _translate(error) from error
        self._publish = None
        self._next_seq = events[-1].seq + 1

    def _require_open(self) -> None:
        if self._is_closed:
            raise PersistenceError("its log is closed")


def _not_found(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"there is no session {session_id!r}")


def _translate(error: OSError, what: str = "") -> PersistenceError:
    """Turn the operating system's error into ours, without its paths."""
    reason = _reason(error)
    return PersistenceError(f"{what}: {reason}" if what else reason)


def _reason(error: OSError) -> str:
    return str(error) if isinstance(error, PersistenceError) else error.strerror or type(error).__name__
