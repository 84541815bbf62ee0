"""Reading one log file whole, without a lock and without writing (log-format, "Bytes").

Errors of the operating system pass through here as they are; `watchbell.storage.jsonl` translates them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from watchbell.errors import CorruptLogError, LogError, UnsupportedLogError
from watchbell.log.codec import decode_header
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.log.segments import Block, decode_block
from watchbell.storage.base import StoredLog, TornTail
from watchbell.storage.jsonl._frames import Part, read_frames, read_plain
from watchbell.storage.jsonl.layout import LOG_NAMES, escape_session_id, project_directory

READ_BYTES = 1024 * 1024
"""How much of a file is read or copied at a time."""

OPEN_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""To be added when a log is opened: opening a pipe in its place would wait for somebody to write to it."""
_BLOCK_BYTES = 128 * 1024  # of rows that are decoded at once: few enough to let other threads run


def read_log(path: Path) -> StoredLog:
    """Read a log without a lock and without writing.

    Raises:
        CorruptLogError, UnsupportedLogError: As `SessionPersistence.read` says.
        OSError: The file cannot be read.
    """
    for attempts_left in (2, 1, 0):
        with open_log(path) as file:
            before = os.fstat(file.fileno())
            try:
                return read_open_log(path, file)
            except CorruptLogError:
                after = os.fstat(file.fileno())
                # A writer that takes back a failed batch changes the bytes under a reader's eyes.
                is_unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
                if is_unchanged or not attempts_left:
                    raise
    raise AssertionError("unreachable")


def open_log(path: Path) -> BinaryIO:
    """Open a log for reading, without ever waiting for what has its name and is no file.

    Raises:
        CorruptLogError: What has the name is no regular file.
        OSError: The file cannot be opened.
    """
    require_file(path)
    descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS)
    try:
        require_file(path, descriptor)
        return os.fdopen(descriptor, "rb", buffering=READ_BYTES)
    except BaseException:
        os.close(descriptor)
        raise


def require_file(path: Path, descriptor: int | None = None) -> None:
    """Make sure that what has a log's name, or was opened by it, is a file; that nothing is there is fine.

    Raises:
        CorruptLogError: There is a directory, a pipe, a link that leads nowhere, or the like.
        OSError: The system does not tell what is there.
    """
    try:
        found = path.stat() if descriptor is None else os.fstat(descriptor)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        if not path.is_symlink():
            return
        raise CorruptLogError("a link that leads nowhere, not a regular file", path=str(path)) from None
    if not stat.S_ISREG(found.st_mode):
        raise CorruptLogError("not a regular file", path=str(path))


def read_open_log(path: Path, file: BinaryIO) -> StoredLog:
    """Read the log at `path` from `file`, which stands at its beginning, as `read_log` does."""
    size = os.fstat(file.fileno()).st_size
    try:
        if is_compressed(path):
            header, events, torn = _read_frames(file, size)
        else:
            header, events, torn = _fold(read_plain(file, size), lines_have_offsets=True)
        _check_identity(path, header)
        _check_seed(header, events)
    except CorruptLogError as error:
        raise CorruptLogError(error.reason, path=str(path), offset=error.offset) from error
    except UnsupportedLogError as error:
        raise UnsupportedLogError(error.reason, path=str(path)) from error
    return StoredLog(header, events, str(path), torn)


def _read_frames(file: BinaryIO, size: int) -> tuple[SessionHeader, EventLog, TornTail | None]:
    # Many frames at once first, which is several times faster; it tells that something is wrong, not where.
    # Then once more, frame by frame, to find the very frame; by now the first error holds nothing in memory.
    with contextlib.suppress(CorruptLogError):
        return _fold(read_frames(file, size, together=True), lines_have_offsets=False)
    file.seek(0)
    return _fold(read_frames(file, size), lines_have_offsets=False)


def _fold(
    parts: Iterator[Part | TornTail], *, lines_have_offsets: bool
) -> tuple[SessionHeader, EventLog, TornTail | None]:
    """Decode all parts; rows, and what is wrong with them, count only in a whole unit."""
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
        self._failure: LogError | None = None  # in that unit

    def add(self, part: Part, lines: bytes) -> None:
        """Take a part's lines.

        Raises:
            CorruptLogError, UnsupportedLogError: A row of a whole unit is refused.
        """
        if not part.is_last and self._is_whole:
            self.decode()
            self._is_whole = False
        if lines:
            self._waiting.append((part, lines))
            self._size += len(lines)
        if self._size >= _BLOCK_BYTES or (part.is_last and not self._is_whole):
            self.decode()
        if part.is_last and not self._is_whole:
            if self._failure is not None:
                raise self._failure
            self._is_whole = True
            self._count()

    def decode(self) -> None:
        """Decode what is waiting; what is wrong in a unit that is not whole yet is kept for its end.

        Raises:
            CorruptLogError, UnsupportedLogError: A row of a whole unit is refused.
        """
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting or self._failure is not None:
            return
        try:
            self._decode_parts(waiting)
        except LogError as error:
            if self._is_whole:
                raise
            self._failure = error

    def _decode_parts(self, waiting: list[tuple[Part, bytes]]) -> None:
        # Rows do not span parts, so all at once are right when each part is. If they are refused, reading
        # part by part finds which one is wrong, and where.
        if len(waiting) > 1:
            with contextlib.suppress(CorruptLogError):
                self._append(decode_block(b"".join([lines for _, lines in waiting]), self._next_seq))
                return
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


def _check_seed(header: SessionHeader, events: EventLog) -> None:
    # A fork gets its name together with its whole seed, so no crash cuts it in there.
    if header.owned_from > len(events):
        raise CorruptLogError(f"its seed has {header.owned_from} events, the log {len(events)}")


def is_compressed(path: Path) -> bool:
    """Whether the log at `path` is in zstd frames rather than plain lines."""
    return path.name == LOG_NAMES["zstd"]
