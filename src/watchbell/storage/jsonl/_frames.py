"""The bytes of a log file: zstd frames or plain lines, read in bounded memory (log-format, "Bytes").

A unit is what was written at once: a frame, or in a plain log a line. It is all or nothing. An incomplete
last unit is what a crash leaves behind and comes out as a `TornTail`; any other damage is a
`CorruptLogError`, with its byte offset but without the file's path, which the caller knows.
"""

from __future__ import annotations

import codecs
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import zstandard

from watchbell.errors import CorruptLogError
from watchbell.log.checks import MAX_ROW_BYTES
from watchbell.storage.base import TornTail

_MAGIC = b"\x28\xb5\x2f\xfd"
# One byte can stand for 32 KiB of text at most, so a slice gives at most 64 MiB.
_SLICE = 2048
# How nearly all frames begin: magic, descriptor, the text's length, the header of the first block.
_USUAL_HEAD = struct.Struct("<4sBHHB")
_USUAL_DESCRIPTOR = 0x64  # one segment with a checksum, its length in two bytes
_LAST_COMPRESSED = 0b101
_BLOCK = 128 * 1024
_WINDOW = 64 * 1024
# UTF-32 before UTF-16, whose mark begins the same way; then UTF-16 without a mark.
_ENCODINGS = {
    codecs.BOM_UTF8: "UTF-8 with a byte-order mark",
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    b"{\0": "UTF-16",
    b"\0{": "UTF-16",
    _MAGIC: "zstd, in a file named as a plain log",
}
_LINE_END = 0x0A
_BLANK_LINES = (b"\n", b"\r\n")


class Part(msgspec.Struct, frozen=True, gc=False):
    """Some whole lines of a log.

    Attributes:
        offset: Where their frame begins in the file; in a plain log, where they begin themselves.
        lines: The lines, each with its line end.
        is_last: Whether they end their unit. Only then do they, and the parts before them, count.
    """

    offset: int
    lines: bytes
    is_last: bool


class _PerThread(threading.local):
    """What may not be shared between threads, and costs more to make than to use."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(write_checksum=True)


_own = _PerThread()


def encode_frame(lines: bytes) -> bytes:
    """Compress lines to one frame with a checksum."""
    return _own.compressor.compress(lines)


def read_frames(
    file: BinaryIO, size: int, start: int = 0, *, together: bool = False
) -> Iterator[Part | TornTail]:
    """Read the first `size` bytes of a compressed log; a torn tail comes last.

    Args:
        file: The log.
        size: Where reading ends.
        start: Where the file stands: at the beginning of a frame.
        together: Whether a part may hold several small frames: faster, but a damaged row is not placed.

    Raises:
        CorruptLogError: A damaged frame, or something that is no frame.
    """
    source = _Source(file, size, start)
    decompressor = zstandard.ZstdDecompressor()
    while head := source.peek(len(_MAGIC)):
        begin = source.position
        if not _MAGIC.startswith(head[: len(_MAGIC)]):
            kind = "plain text" if head[:1] == b"{" else "something else"
            raise CorruptLogError(f"{kind} where a zstd frame should begin", offset=begin)
        several = _read_together(source, decompressor) if together else None
        if several is not None:
            yield several
            continue
        is_whole = False
        for part in _read_frame(source, decompressor):
            is_whole = part.is_last
            yield part
        if not is_whole:
            yield _torn_frame(source, begin)
            return


def read_plain(file: BinaryIO, size: int, start: int = 0) -> Iterator[Part | TornTail]:
    """Read the first `size` bytes of a plain log; a torn tail comes last.

    One blank line at the end is left out and counts as torn; a blank line elsewhere is left in.

    Args:
        file: The log.
        size: Where reading ends.
        start: Where the file stands: at the beginning of a line.

    Raises:
        CorruptLogError: Not UTF-8 by its first bytes, or a line that is too long.
    """
    source = _Source(file, size, start)
    head = source.peek(4)[:4]
    for mark, name in _ENCODINGS.items():
        if start == 0 and head.startswith(mark):
            raise CorruptLogError(f"the file is {name}; a plain log is UTF-8 without a mark", offset=0)
    lines = _Lines()
    offset = start
    while data := source.read(_BLOCK):
        for block in lines.feed(data):
            held = _blank_end(block)
            whole = block[: len(block) - held]
            if whole:
                yield Part(offset, whole, is_last=True)
            offset += len(whole)
            lines.hold(block[len(whole) :])
        _check_length(lines, offset)
    if bytes(lines.rest) not in _BLANK_LINES and b"\n" in lines.rest:
        raise CorruptLogError("a blank line", offset=offset)
    if lines.rest:
        yield TornTail(offset, len(lines.rest))


def _read_together(source: _Source, decompressor: zstandard.ZstdDecompressor) -> Part | None:
    """Read the small frames that begin here at once, up to a block of text; None when the first is not small.

    Starting a decompressor costs more than decompressing a small frame, so one stream reads them all. What
    comes out counts only when it is as long as the frames' headers say and has a line end where each frame
    ends: then each ended where it was measured to, in whole lines. Anything else is left to `_read_frame`,
    which says what is wrong. zstd verifies the checksums either way.
    """
    window = source.peek(_WINDOW)
    start = source.position
    end = length = 0
    ends: list[int] = []  # of the frames' texts
    # A frame without text stays alone: at the beginning of a log it is no header.
    while length < _BLOCK and (frame := _measure(window, end)) is not None and 0 < frame[1] <= _BLOCK:
        end, length = frame[0], length + frame[1]
        ends.append(length - 1)
    if not length:
        return None
    reader = decompressor.stream_reader(window[:end], read_across_frames=True)
    try:
        lines = reader.read(length + 1)
    except zstandard.ZstdError:
        return None
    if len(lines) != length or [lines[at] for at in ends].count(_LINE_END) != len(ends):
        return None
    source.skip(end)
    return Part(start, lines, is_last=True)


def _measure(data: bytes, start: int) -> tuple[int, int] | None:
    """Find where the frame at `start` ends, from its headers alone (RFC 8878, section 3.1.1).

    A frame is a magic number, a descriptor, its text's length, blocks that each say how long they are and
    whether another follows, and a checksum. Nearly all have one compressed block, so that one `unpack` finds
    the end. A wrong measure does no harm: `_read_together` checks what comes out.

    Returns:
        Its end, and the length of its text; None when it is not whole, or does not tell that length.
    """
    if not data.startswith(_MAGIC, start) or len(data) < start + 18:
        return None
    _, descriptor, size, block, high = _USUAL_HEAD.unpack_from(data, start)
    if descriptor == _USUAL_DESCRIPTOR and block & 7 == _LAST_COMPRESSED:
        # 21 bits above the block's kind are its length; a text's length in two bytes counts from 256.
        end = start + _USUAL_HEAD.size + (block >> 3 | high << 13) + 4
        return (end, size + 256) if end <= len(data) else None
    return _measure_any(data, start)


def _measure_any(data: bytes, start: int) -> tuple[int, int] | None:
    """Do the same for a frame with or without window, dictionary and checksum, of any number of blocks."""
    descriptor = data[start + 4]
    flag, is_single = descriptor >> 6, descriptor >> 5 & 1
    at = start + 6 - is_single + (0, 1, 2, 4)[descriptor & 3]
    width = (is_single, 2, 4, 8)[flag]
    if not width:
        return None
    length = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)
    at += width
    is_last = 0
    while not is_last:
        header = int.from_bytes(data[at : at + 3], "little")
        is_last = header & 1
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)  # a run-length block holds one byte
        if at > len(data):
            return None
    at += descriptor & 4  # the checksum
    return (at, length) if at <= len(data) else None


def _read_frame(source: _Source, decompressor: zstandard.ZstdDecompressor) -> Iterator[Part]:
    """Read the frame that begins here. Without a last part it is not whole."""
    start = source.position
    decoder = decompressor.decompressobj()
    lines = _Lines()
    while not decoder.eof and (data := source.read(_SLICE)):
        block = b""
        for following in lines.feed(_decompress(decoder, data, start)):
            if block:
                yield Part(start, block, is_last=False)
            block = following
        _check_length(lines, start)
        if decoder.eof and lines.rest:
            raise CorruptLogError("a frame that ends inside a line", offset=start)
        if block or decoder.eof:
            yield Part(start, block, is_last=decoder.eof)
    source.unread(decoder.unused_data)


def _decompress(decoder: zstandard.ZstdDecompressionObj, data: bytes, start: int) -> bytes:
    try:
        return decoder.decompress(data)
    except zstandard.ZstdError as error:
        raise CorruptLogError(f"damaged zstd frame: {error}", offset=start) from error


def _torn_frame(source: _Source, start: int) -> TornTail:
    """Make sure that the unfinished frame is the last thing in the file.

    A flipped bit can make a frame look unfinished when the rest of the log follows. (A crash's torn frame
    holds another frame's magic number by chance only, once in four billion bytes.)
    """
    end = b""
    length = 0
    for data in source.tail(start):
        seen = end + data
        if seen.find(_MAGIC, 0 if length else 1) >= 0:
            raise CorruptLogError("a zstd frame without an end, followed by others", offset=start)
        end = seen[-len(_MAGIC) + 1 :]
        length += len(data)
    return TornTail(start, length)


def _blank_end(block: bytes) -> int:
    """Return the length of the blank line at the end of a block, 0 if there is none."""
    for blank in _BLANK_LINES:
        if block == blank or block.endswith(b"\n" + blank):
            return len(blank)
    return 0


def _check_length(lines: _Lines, offset: int) -> None:
    if len(lines.rest) > MAX_ROW_BYTES:
        raise CorruptLogError(f"a line is longer than {MAX_ROW_BYTES} bytes", offset=offset)


class _Source:
    """The bytes of a file up to a size fixed beforehand, with a look at what comes next."""

    def __init__(self, file: BinaryIO, size: int, start: int) -> None:
        self._file = file
        self._size = size
        self._ahead = b""
        self.position = start

    def peek(self, count: int) -> bytes:
        """Look at the next bytes: at least `count`, or all that are left."""
        if len(self._ahead) < count:
            self._ahead += self._take(max(count - len(self._ahead), _SLICE))
        return self._ahead

    def skip(self, count: int) -> None:
        """Pass over bytes that were looked at."""
        self._ahead = self._ahead[count:]
        self.position += count

    def read(self, count: int) -> bytes:
        """Take the next `count` bytes or less; none at the end alone."""
        if not self._ahead:
            data = self._take(count)
        else:
            data, self._ahead = self._ahead[:count], self._ahead[count:]
        self.position += len(data)
        return data

    def unread(self, data: bytes) -> None:
        """Give back the end of what was read last."""
        self._ahead = data + self._ahead
        self.position -= len(data)

    def tail(self, start: int) -> Iterator[bytes]:
        """Read once more from `start` to the end."""
        self._file.seek(start)
        self._ahead, self.position = b"", start
        while data := self.read(_BLOCK):
            yield data

    def _take(self, count: int) -> bytes:
        left = self._size - self.position - len(self._ahead)
        return self._file.read(min(count, left))


class _Lines:
    """Cuts a stream of bytes into blocks of whole lines; `rest` is the unfinished one."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _BLOCK):
            piece = data[at : at + _BLOCK]
            cut = piece.rfind(b"\n") + 1
            if not cut:
                self.rest += piece
                continue
            block = bytes(self.rest) + piece[:cut] if self.rest else piece[:cut]
            self.rest = bytearray(piece[cut:])
            yield block

    def hold(self, end: bytes) -> None:
        """Take back the end of the block yielded last."""
        self.rest[:0] = end
