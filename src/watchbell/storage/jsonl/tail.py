"""Following a log file that others write: only what was added since the last look is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from watchbell.errors import LogError
from watchbell.log.codec import decode_header
from watchbell.log.eventlog import EventLog
from watchbell.log.segments import Block, decode_block
from watchbell.storage.base import TornTail
from watchbell.storage.jsonl._frames import read_frames, read_plain
from watchbell.storage.jsonl.reading import is_compressed, open_log, read_log


class LogTail:
    """The events of a log file, read on from where the last whole batch ended.

    Nothing is locked or written. A batch that is only half there is left for the next look.

    Args:
        path: The log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._seen: tuple[int, int, int] | None = None  # inode, size, time of the last look
        self.events = EventLog()

    def read(self) -> bool:
        """Take in what is new; return whether the file has changed since the last look.

        A file that is another one, or was cut, is read from its beginning, into new `events`: another object.

        Raises:
            CorruptLogError, UnsupportedLogError: What is new is damaged, or needs another program.
            OSError: The file cannot be read.
        """
        with open_log(self._path) as file:
            stat = os.fstat(file.fileno())
            seen = stat.st_ino, stat.st_size, stat.st_mtime_ns
            if seen == self._seen:
                return False
            if self._seen is not None and (stat.st_ino != self._seen[0] or stat.st_size < self._offset):
                self._offset = 0
            if self._offset == 0:
                self.events = EventLog()
            self._seen = seen
            try:
                self._read_on(file, stat.st_size)
            except LogError:
                read_log(self._path)  # tells what is wrong, and where; or a writer just took back a batch
                self._seen, self._offset = None, 0
                return False
        return True

    def _read_on(self, file: BinaryIO, size: int) -> None:
        start, pending = self._offset, list[Block]()
        next_seq = len(self.events)
        file.seek(start)
        read = read_frames if is_compressed(self._path) else read_plain
        for part in read(file, size, start):
            if isinstance(part, TornTail):
                self._offset = part.offset
                return
            lines = part.lines
            if start == 0:  # the header is there only once
                start = -1
                head, _, lines = lines.partition(b"\n")
                decode_header(head.removesuffix(b"\r"))
            if lines:
                pending.append(decode_block(lines, next_seq))
                next_seq += pending[-1].length
            if part.is_last:
                for block in pending:
                    self.events.extend_rows(block)
                pending.clear()
        self._offset = size
