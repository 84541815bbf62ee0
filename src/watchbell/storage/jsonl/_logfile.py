"""The blocking half of a log file's one writer (log-format, "Bytes").

Errors of the operating system pass through here as they are; `watchbell.storage.jsonl` translates them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from watchbell.errors import PersistenceError, SessionLockedError
from watchbell.storage.base import StoredLog, TornTail
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl._lock import take_lock, write_owner
from watchbell.storage.jsonl.files import (
    FileSystem,
    alone_in,
    make_directories,
    sync_directory,
    sync_names,
    write_all,
)
from watchbell.storage.jsonl.layout import LEVELS, OWNER_NAME
from watchbell.storage.jsonl.reading import OPEN_FLAGS, READ_BYTES, is_compressed, read_open_log, require_file
from watchbell.storage.jsonl.survey import find_holder

_TEMPORARY = "new-0"
_TEMPORARIES = "new-*"


def encode_unit(path: Path, lines: bytes) -> bytes:
    """Return the bytes that add `lines` to the log at `path`, in the log's own encoding."""
    return encode_frame(lines) if is_compressed(path) else lines


class Leftover(msgspec.Struct, frozen=True):
    """What a log held when it was closed with a failed batch behind its durable length.

    Attributes:
        length: The durable length, in bytes.
        found: Inode, size and time of change of the file then: whether nobody has touched it since.
    """

    length: int
    found: tuple[int, int, int]


class LogFile:
    """The log of a session that is open for writing; it holds the lock until `close`.

    Args:
        files: The operating system's calls.
        path: Where the log is, or will be.
        leftovers: The failed batches that closed logs could not take back, by path; kept up to date here.
    """

    def __init__(self, files: FileSystem, path: Path, leftovers: dict[Path, Leftover]) -> None:
        self._files = files
        self._path = path
        self._name = str(path)
        self._leftovers = leftovers
        self._descriptor: int | None = None
        self._length = 0  # of what is durable
        self._is_dirty = False  # whether more than that may be in the file

    @classmethod
    def open(
        cls,
        files: FileSystem,
        path: Path,
        session_id: str,
        now_ms: int,
        leftovers: dict[Path, Leftover],
    ) -> tuple[StoredLog, LogFile]:
        """Lock and read a log, take back what an earlier close could not, and set its torn tail aside.

        Raises:
            SessionLockedError: Another writer has the log open.
            CorruptLogError, UnsupportedLogError: As `read_log` says; nothing was changed.
            OSError: The log cannot be opened, or its torn tail cannot be saved.
        """
        log = cls(files, path, leftovers)
        require_file(path)
        log._descriptor = files.open(path, os.O_RDWR | os.O_APPEND | OPEN_FLAGS)
        try:
            require_file(path, log._descriptor)
            if not take_lock(log._descriptor):
                raise _locked(session_id, path)
            stored = log._load(now_ms)
            write_owner(path.with_name(OWNER_NAME), now_ms)
        except BaseException:
            os.close(log._descriptor)
            raise
        return stored, log

    def publish(self, data: bytes, now_ms: int, require_free: Callable[[], None]) -> None:
        """Make the log, with its header and first batch, durable under its name and locked.

        Args:
            data: The bytes.
            now_ms: The time, for `owner`.
            require_free: Raises PersistenceError when the session's id is taken. Nobody takes it between this
                and the log's getting its name, whatever the project and the encoding.

        Raises:
            OSError: The log could not be made; nothing is left of it, and a second call may succeed.
        """
        self.withdraw()
        made = make_directories(self._files, self._path.parent)
        try:
            self._publish(data, max(LEVELS, len(made)), require_free)
        except OSError:
            for directory in reversed(made):
                with contextlib.suppress(OSError):
                    directory.rmdir()
            raise
        self._length = len(data)
        write_owner(self._path.with_name(OWNER_NAME), now_ms)

    def withdraw(self) -> None:
        """Take away what a failed `publish` left under the log's name; its lock is held until that is done.

        Raises:
            OSError: The file could not be removed.
        """
        if self._descriptor is None:
            return
        if self._is_ours(self._descriptor):
            self._files.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = None

    def append(self, data: bytes) -> None:
        """Add a unit at the end, durably.

        Raises:
            OSError: The unit could not be made durable; it is not in the log.
        """
        descriptor = self._require_open()
        if self._is_dirty:
            self._take_back(descriptor)
        self._check(descriptor, self._length)
        # From here to the end the file may be longer than what is durable: `_take_back` cuts it there.
        self._is_dirty = True
        try:
            write_all(self._files, descriptor, data)
            self._files.fsync(descriptor)
            self._check(descriptor, self._length + len(data))
        except OSError:
            # Also after a failed fsync: a second one could report lost pages as clean.
            with contextlib.suppress(OSError):
                self._take_back(descriptor)
            raise
        self._is_dirty = False
        self._length += len(data)

    def check(self) -> None:
        """Make sure that what is durable still is there, under the log's name; before `publish` nothing is.

        Raises:
            OSError: The log was moved, removed, replaced or changed.
        """
        if self._descriptor is not None:
            self._check(self._descriptor, self._length)

    def close(self) -> None:
        """Release the lock; calling it again does nothing."""
        descriptor = self._descriptor
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            if self._is_dirty:
                with contextlib.suppress(OSError):
                    self._take_back(descriptor)
            if self._is_dirty:
                self._leftovers[self._path] = Leftover(self._length, _stamp(descriptor))
            if self._is_ours(descriptor):
                # Nothing durable: a first write was published, failed, and could not be withdrawn.
                (self._path.with_name(OWNER_NAME) if self._length else self._path).unlink()
        os.close(descriptor)
        self._descriptor = None

    def _require_open(self) -> int:
        if self._descriptor is None:
            raise PersistenceError("the session's log is closed")
        return self._descriptor

    def _publish(self, data: bytes, levels: int, require_free: Callable[[], None]) -> None:
        temporary, descriptor = self._open_new(_TEMPORARY, os.O_RDWR | os.O_APPEND)
        self._descriptor = descriptor
        try:
            # Locked before it has its name, so that nobody can come first.
            if not take_lock(descriptor):
                raise PersistenceError("the session's new log is locked by another program")
            write_all(self._files, descriptor, data)
            self._files.fsync(descriptor)
            with alone_in(self._files, self._path.parents[LEVELS - 1]):
                require_free()
                self._files.link(temporary, self._path)
            sync_names(self._files, self._path, levels)
            self._check(descriptor, len(data))
        except FileExistsError as error:
            self.withdraw()
            raise PersistenceError("another program has stored a session of this id meanwhile") from error
        except OSError:
            with contextlib.suppress(OSError):
                self.withdraw()
            raise
        finally:
            with contextlib.suppress(OSError):
                self._files.unlink(temporary)

    def _open_new(self, name: str, flags: int) -> tuple[Path, int]:
        """Open a new file beside the log, under that name or, if somebody has it, with a number behind it."""
        for number in itertools.count():
            path = self._path.with_name(f"{name}-{number}" if number else name)
            with contextlib.suppress(FileExistsError):
                return path, self._files.open(path, flags | os.O_CREAT | os.O_EXCL)
        raise AssertionError("unreachable")

    def _load(self, now_ms: int) -> StoredLog:
        descriptor = self._require_open()
        if not self._is_ours(descriptor):
            raise PersistenceError("the session's log was replaced while it was opened; try again")
        self._take_back_leftover(descriptor)
        with os.fdopen(os.dup(descriptor), "rb", buffering=READ_BYTES) as file:
            stored = read_open_log(self._path, file)
        self._length = os.fstat(descriptor).st_size
        # Whoever wrote last may have been killed before it could sync; what is read here counts as durable.
        self._files.fsync(descriptor)
        sync_names(self._files, self._path, LEVELS)
        for leftover in self._path.parent.glob(_TEMPORARIES):  # of a crash in the first write
            with contextlib.suppress(OSError):
                self._files.unlink(leftover)
        if stored.torn is None:
            return stored
        torn = self._set_aside(descriptor, stored.torn, now_ms)
        return msgspec.structs.replace(stored, torn=torn)

    def _take_back_leftover(self, descriptor: int) -> None:
        """Cut off a failed batch: what the disk refused may read well and be gone after a loss of power."""
        leftover = self._leftovers.get(self._path)
        if leftover is not None and leftover.found == _stamp(descriptor):
            self._files.truncate(descriptor, leftover.length)
            self._files.fsync(descriptor)
        self._leftovers.pop(self._path, None)

    def _set_aside(self, descriptor: int, torn: TornTail, now_ms: int) -> TornTail:
        """Copy the torn tail to a file of its own, then cut it off."""
        self._length = torn.offset
        path, copy = self._open_new(f"torn-{now_ms}", os.O_WRONLY)
        try:
            for offset in range(torn.offset, torn.offset + torn.length, READ_BYTES):
                length = min(READ_BYTES, torn.offset + torn.length - offset)
                write_all(self._files, copy, os.pread(descriptor, length, offset))
            self._files.fsync(copy)
            sync_directory(self._files, path.parent)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.unlink(path)
            raise
        finally:
            os.close(copy)
        self._files.truncate(descriptor, torn.offset)
        self._files.fsync(descriptor)
        return msgspec.structs.replace(torn, saved_as=str(path))

    def _check(self, descriptor: int, length: int) -> None:
        """Refuse to go on when the log is no longer this file, or no longer as it was left."""
        status = os.fstat(descriptor)
        if not self._is_named(status):
            raise PersistenceError("the session's log was moved, removed or replaced under the open session")
        if status.st_size != length:
            raise PersistenceError("the session's log was changed by another program")

    def _is_ours(self, descriptor: int) -> bool:
        return self._is_named(os.fstat(descriptor))

    def _is_named(self, status: os.stat_result) -> bool:
        try:
            return os.path.samestat(os.stat(self._name), status)  # noqa: PTH116 - a Path costs more than the call
        except FileNotFoundError:
            return False

    def _take_back(self, descriptor: int) -> None:
        """Cut the file to what is durable."""
        if os.fstat(descriptor).st_size > self._length:
            self._files.truncate(descriptor, self._length)
        if os.fstat(descriptor).st_size != self._length:
            raise PersistenceError("the session's log could not be cut back to its last whole batch")
        self._is_dirty = False


def _locked(session_id: str, path: Path) -> SessionLockedError:
    holder = find_holder(path)
    if holder is None or not holder.is_live:  # `owner` tells of one that was killed, or it has just let go
        return SessionLockedError(session_id)
    return SessionLockedError(session_id, holder=holder.pid, since=holder.since)


def _stamp(descriptor: int) -> tuple[int, int, int]:
    found = os.fstat(descriptor)
    return found.st_ino, found.st_size, found.st_mtime_ns
