"""Reading one log file whole, without a lock and without writing (log-format, "Bytes").

Errors of the operating system pass through here as they are; `watchbell.storage.jsonl` translates them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from watchbell.errors import CorruptLogError, LogError, UnsupportedLogError
from watchbell.log.codec import decode_header, decode_rows
from watchbell.log.eventlog import EventLog, PackedRow
from watchbell.log.events import Event
from watchbell.log.session import SessionHeader
from watchbell.storage.base import StoredLog, TornTail
from watchbell.storage.frames import Part, read_frames, read_plain
from watchbell.storage.layout import LOG_NAMES, escape_session_id, project_directory

__all__ = [
    "OPEN_FLAGS",
    "READ_BYTES",
    "is_compressed",
    "open_log",
    "read_log",
    "read_open_log",
    "require_file",
]

READ_BYTES = 1024 * 1024
"""How much of a file is read or copied at a time."""

OPEN_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""To be added when a log is opened: opening a pipe in its place would wait for somebody to write to it."""


def read_log(path: Path) -> StoredLog:
    """Read a log without a lock and without writing.

    Raises:
        CorruptLogError, UnsupportedLogError: As `SessionPersistence.read` says.
        OSError: It cannot be read.
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
        CorruptLogError: It is no regular file.
        OSError: It cannot be opened.
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
        CorruptLogError: It is a directory, a pipe, a link that leads nowhere, or the like.
        OSError: It cannot be looked at.
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
    compressed = is_compressed(path)
    try:
        parts = read_frames(file, size) if compressed else read_plain(file, size)
        header, events, torn = _fold(parts, lines_have_offsets=not compressed)
        _check_identity(path, header)
        _check_seed(header, events)
    except CorruptLogError as error:
        raise CorruptLogError(error.reason, path=str(path), offset=error.offset) from error
    except UnsupportedLogError as error:
        raise UnsupportedLogError(error.reason, path=str(path)) from error
    return StoredLog(header, events, str(path), torn)


def _fold(
    parts: Iterator[Part | TornTail], *, lines_have_offsets: bool
) -> tuple[SessionHeader, EventLog, TornTail | None]:
    """Decode all parts; rows, and what is wrong with them, count only in a whole unit."""
    header: SessionHeader | None = None
    log = EventLog()
    pending: list[Event | PackedRow] = []
    failure: LogError | None = None
    is_begun = False
    for part in parts:
        if isinstance(part, TornTail):
            return _require_header(header if is_begun else None, part), log, part
        lines = part.lines
        if header is None:
            head, _, lines = lines.partition(b"\n")
            header = _decode_first(head.removesuffix(b"\r"))
        if failure is None:
            try:
                pending += decode_rows(lines, _next_seq(log, pending))
            except CorruptLogError as error:
                inside = len(part.lines) - len(lines) + (error.offset or 0)
                offset = part.offset + (inside if lines_have_offsets else 0)
                failure = CorruptLogError(error.reason, offset=offset)
            except UnsupportedLogError as error:
                failure = error
        if part.is_last:
            if failure is not None:
                raise failure
            log.extend(pending)
            pending.clear()
            is_begun = True
    return _require_header(header, None), log, None


def _next_seq(log: EventLog, pending: list[Event | PackedRow]) -> int:
    if not pending:
        return len(log)
    last = pending[-1]
    return last.seq + (last.count if isinstance(last, PackedRow) else 1)


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
