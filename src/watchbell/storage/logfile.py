"""One log file: reading it whole, and the blocking half of its one writer (log-format, "Bytes").

Errors of the operating system pass through here as they are; `watchbell.storage.jsonl` translates them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from watchbell.errors import CorruptLogError, PersistenceError, SessionLockedError, UnsupportedLogError
from watchbell.log.blocks import Block, decode_block
from watchbell.log.codec import decode_header
from watchbell.log.eventlog import EventLog
from watchbell.log.session import SessionHeader
from watchbell.storage.base import StoredLog, TornTail
from watchbell.storage.files import FileSystem, make_directories, sync_directory, sync_names, write_all
from watchbell.storage.frames import Part, encode_frame, read_frames, read_plain
from watchbell.storage.layout import LEVELS, LOG_NAMES, OWNER_NAME, escape_session_id, project_directory
from watchbell.storage.lock import read_owner, take_lock, write_owner

__all__ = ["LogFile", "encode_unit", "read_log"]

_READ_BYTES = 1024 * 1024
_BLOCK_BYTES = 128 * 1024  # of rows that are decoded at once: few enough to let other threads run
_TEMPORARY = "new-"


def encode_unit(path: Path, lines: bytes) -> bytes:
    """Return the bytes that add `lines` to the log at `path`, in the log's own encoding."""
    return encode_frame(lines) if _is_compressed(path) else lines


def read_log(path: Path) -> StoredLog:
    """Read a log without a lock and without writing.

    Raises:
        CorruptLogError, UnsupportedLogError: As `SessionPersistence.read` says.
        OSError: It cannot be read.
    """
    for attempts_left in (2, 1, 0):
        with path.open("rb", buffering=_READ_BYTES) as file:
            before = os.fstat(file.fileno())
            try:
                return _read(path, file)
            except CorruptLogError:
                after = os.fstat(file.fileno())
                # A writer that takes back a failed batch changes the bytes under a reader's eyes.
                is_unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
                if is_unchanged or not attempts_left:
                    raise
    raise AssertionError("unreachable")


def _read(path: Path, file: BinaryIO) -> StoredLog:
    size = os.fstat(file.fileno()).st_size
    try:
        header, events, torn = _read_frames(file, size) if _is_compressed(path) else _read_plain(file, size)
        _check_identity(path, header)
    except CorruptLogError as error:
        raise CorruptLogError(error.reason, path=str(path), offset=error.offset) from error
    except UnsupportedLogError as error:
        raise UnsupportedLogError(error.reason, path=str(path)) from error
    return StoredLog(header, events, str(path), torn)


def _read_frames(file: BinaryIO, size: int) -> tuple[SessionHeader, EventLog, TornTail | None]:
    try:
        return _fold(read_frames(file, size, together=True), lines_have_offsets=False)
    except CorruptLogError:
        file.seek(0)  # once more, to find the very frame
        return _fold(read_frames(file, size), lines_have_offsets=False)


def _read_plain(file: BinaryIO, size: int) -> tuple[SessionHeader, EventLog, TornTail | None]:
    return _fold(read_plain(file, size), lines_have_offsets=True)


def _fold(
    parts: Iterator[Part | TornTail], *, lines_have_offsets: bool
) -> tuple[SessionHeader, EventLog, TornTail | None]:
    """Decode all parts; the rows of a unit count only when it is whole."""
    rows = _RowReader(lines_have_offsets=lines_have_offsets)
    header: SessionHeader | None = None
    torn: TornTail | None = None
    is_begun = False
    try:
        for part in parts:
            if isinstance(part, TornTail):
                torn = part
                break
            lines = part.lines
            if header is None:
                head, _, lines = lines.partition(b"\n")
                header = _decode_first(head.removesuffix(b"\r"))
            is_begun |= part.is_last
            rows.add(part, lines)
    finally:
        rows.decode()  # what is wrong there comes before what was wrong after it
    return _require_header(header if is_begun or torn is None else None, torn), rows.log, torn


class _RowReader:
    """Decodes the rows of parts, many parts at a time, into `log`, which gets those of whole units."""

    def __init__(self, *, lines_have_offsets: bool) -> None:
        self.log = EventLog()
        self._lines_have_offsets = lines_have_offsets
        self._next_seq = 0
        self._waiting: list[tuple[Part, bytes]] = []  # with their lines, but for the header's
        self._size = 0
        self._is_whole = True  # whether those waiting are whole units
        self._pending: list[Block] = []  # of a unit that is not whole yet

    def add(self, part: Part, lines: bytes) -> None:
        """Take a part's lines."""
        if not part.is_last and self._is_whole:
            self.decode()
            self._is_whole = False
        if lines:
            self._waiting.append((part, lines))
            self._size += len(lines)
        if self._size >= _BLOCK_BYTES or (part.is_last and not self._is_whole):
            self.decode()
        if part.is_last and not self._is_whole:
            self._is_whole = True
            self._count()

    def decode(self) -> None:
        """Decode what is waiting."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        try:
            self._append(decode_block(b"".join([lines for _, lines in waiting]), self._next_seq))
        except CorruptLogError:
            for part, lines in waiting:
                self._decode_part(part, lines)

    def _decode_part(self, part: Part, lines: bytes) -> None:
        try:
            self._append(decode_block(lines, self._next_seq))
        except CorruptLogError as error:
            inside = len(part.lines) - len(lines) + (error.offset or 0)
            offset = part.offset + (inside if self._lines_have_offsets else 0)
            raise CorruptLogError(error.reason, offset=offset) from error

    def _append(self, block: Block) -> None:
        self._pending.append(block)
        self._next_seq += block.length
        if self._is_whole:
            self._count()

    def _count(self) -> None:
        for block in self._pending:
            self.log.extend_rows(block)
        self._pending.clear()


def _decode_first(line: bytes) -> SessionHeader:
    try:
        return decode_header(line)
    except CorruptLogError as error:
        raise CorruptLogError(error.reason, offset=0) from error


def _require_header(header: SessionHeader | None, torn: TornTail | None) -> SessionHeader:
    # A log gets its name together with its header and first batch, so a crash cannot leave one without.
    if header is None:
        reason = "the file is empty" if torn is None else "the file ends inside its header"
        raise CorruptLogError(reason, offset=0)
    return header


def _check_identity(path: Path, header: SessionHeader) -> None:
    try:
        folder = escape_session_id(header.id)
    except ValueError:
        folder = ""
    project = project_directory(header.cwd)
    if (path.parent.parent.name, path.parent.name) != (project, folder):
        raise CorruptLogError(
            f"wrong identity: it is session {header.id!r}, which belongs into {project}/{folder}", offset=0
        )


def _is_compressed(path: Path) -> bool:
    return path.name == LOG_NAMES["zstd"]


class LogFile:
    """The log of a session that is open for writing; it holds the lock until `close`.

    Args:
        files: The operating system's calls.
        path: Where the log is, or will be.
    """

    def __init__(self, files: FileSystem, path: Path) -> None:
        self._files = files
        self._path = path
        self._name = str(path)
        self._descriptor: int | None = None
        self._length = 0  # of what is durable
        self._is_dirty = False  # whether more than that may be in the file

    @classmethod
    def open(cls, files: FileSystem, path: Path, session_id: str, now_ms: int) -> tuple[StoredLog, LogFile]:
        """Lock and read a log, and set its torn tail aside.

        Raises:
            SessionLockedError: It is open elsewhere.
            CorruptLogError, UnsupportedLogError: It cannot be used; nothing was changed.
            OSError: It cannot be opened, or its torn tail not be saved.
        """
        log = cls(files, path)
        log._descriptor = files.open(path, os.O_RDWR | os.O_APPEND)
        try:
            if not take_lock(log._descriptor):
                owner = read_owner(path.with_name(OWNER_NAME))
                raise SessionLockedError(
                    session_id,
                    holder=None if owner is None else owner.pid,
                    since=None if owner is None else owner.since,
                )
            stored = log._load(now_ms)
            write_owner(path.with_name(OWNER_NAME), now_ms)
        except BaseException:
            os.close(log._descriptor)
            raise
        return stored, log

    def publish(self, data: bytes, now_ms: int) -> None:
        """Make the log, with its header and first batch, durable under its name and locked.

        Raises:
            OSError: It could not be made and was not; it can be tried again.
        """
        self.withdraw()
        made = make_directories(self._files, self._path.parent)
        try:
            self._publish(data, max(LEVELS, len(made)))
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
            OSError: It is still there.
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
            OSError: It could not be confirmed and is not in the log.
        """
        descriptor = self._require_open()
        if self._is_dirty:
            self._take_back(descriptor)
        self._check(descriptor, self._length)
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

    def close(self) -> None:
        """Release the lock; calling it again does nothing."""
        descriptor = self._descriptor
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            if self._is_dirty:
                self._take_back(descriptor)
            if self._is_ours(descriptor):
                # Nothing durable: a first write was published, failed, and could not be withdrawn.
                (self._path.with_name(OWNER_NAME) if self._length else self._path).unlink()
        os.close(descriptor)
        self._descriptor = None

    def _require_open(self) -> int:
        if self._descriptor is None:
            raise PersistenceError("the session's log is closed")
        return self._descriptor

    def _publish(self, data: bytes, levels: int) -> None:
        temporary, descriptor = self._open_temporary()
        self._descriptor = descriptor
        try:
            # Locked before it has its name, so that nobody can come first.
            if not take_lock(descriptor):
                raise PersistenceError("the session's new log is locked by another program")
            write_all(self._files, descriptor, data)
            self._files.fsync(descriptor)
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

    def _open_temporary(self) -> tuple[Path, int]:
        for number in itertools.count():
            path = self._path.with_name(f"{_TEMPORARY}{number}")
            with contextlib.suppress(FileExistsError):
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
                return path, self._files.open(path, flags)
        raise AssertionError("unreachable")

    def _load(self, now_ms: int) -> StoredLog:
        descriptor = self._require_open()
        if not self._is_ours(descriptor):
            raise PersistenceError("the session's log was replaced while it was opened; try again")
        with os.fdopen(os.dup(descriptor), "rb", buffering=_READ_BYTES) as file:
            stored = _read(self._path, file)
        self._length = os.fstat(descriptor).st_size
        # Whoever wrote last may have been killed before it could sync; what is read here counts as durable.
        self._files.fsync(descriptor)
        sync_names(self._files, self._path, LEVELS)
        for leftover in self._path.parent.glob(f"{_TEMPORARY}*"):  # of a crash in the first write
            with contextlib.suppress(OSError):
                self._files.unlink(leftover)
        if stored.torn is None:
            return stored
        torn = self._set_aside(descriptor, stored.torn, now_ms)
        return msgspec.structs.replace(stored, torn=torn)

    def _set_aside(self, descriptor: int, torn: TornTail, now_ms: int) -> TornTail:
        """Copy the torn tail to a file of its own, then cut it off."""
        self._length = torn.offset
        path, copy = self._open_side_file(now_ms)
        try:
            for offset in range(torn.offset, torn.offset + torn.length, _READ_BYTES):
                length = min(_READ_BYTES, torn.offset + torn.length - offset)
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

    def _open_side_file(self, now_ms: int) -> tuple[Path, int]:
        for number in itertools.count():
            path = self._path.with_name(f"torn-{now_ms}-{number}" if number else f"torn-{now_ms}")
            with contextlib.suppress(FileExistsError):
                return path, self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        raise AssertionError("unreachable")

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
