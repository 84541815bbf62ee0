from __future__ import annotations

import io
from collections.abc import Iterator
from hashlib import sha256

import pytest
import zstandard

from watchbell.errors import CorruptLogError
from watchbell.log.checks import MAX_ROW_BYTES
from watchbell.storage.base import TornTail
from watchbell.storage.jsonl._frames import Part, encode_frame, read_frames, read_plain

LINES = [b'{"a":1}\n', b'{"b":"caf\xc3\xa9"}\n{"c":[]}\n', b'{"d":null}\n']
MAGIC = b"\x28\xb5\x2f\xfd"


def read_zstd(data: bytes) -> tuple[list[bytes], TornTail | None]:
    """Return the text of each whole frame, and the torn tail."""
    whole: list[bytes] = []
    pending = b""
    for part in read_frames(io.BytesIO(data), len(data)):
        if isinstance(part, TornTail):
            return whole, part
        pending += part.lines
        if part.is_last:
            whole.append(pending)
            pending = b""
    return whole, None


def read_lines(data: bytes) -> tuple[bytes, TornTail | None]:
    lines = b""
    for part in read_plain(io.BytesIO(data), len(data)):
        if isinstance(part, TornTail):
            return lines, part
        assert part.offset == len(lines)
        assert part.is_last
        lines += part.lines
    return lines, None


def log(*units: bytes) -> bytes:
    return b"".join(encode_frame(unit) for unit in units)


# --- zstd


def test_frames_are_ordinary_zstd_with_a_checksum() -> None:
    frame = encode_frame(LINES[0])
    assert frame.startswith(MAGIC)
    assert zstandard.get_frame_parameters(frame).has_checksum
    assert zstandard.decompress(frame) == LINES[0]


def test_whole_frames_come_out_one_by_one() -> None:
    assert read_zstd(log(*LINES)) == (LINES, None)
    assert read_zstd(b"") == ([], None)


def test_a_part_names_the_offset_of_its_frame() -> None:
    data = log(*LINES)
    parts = [part for part in read_frames(io.BytesIO(data), len(data)) if isinstance(part, Part)]
    starts = [0, len(log(*LINES[:1])), len(log(*LINES[:2]))]
    assert [part.offset for part in parts] == starts


def test_a_large_frame_cut_anywhere_gives_none_of_its_lines() -> None:
    line = b'"' + bytes(range(48, 58)) * 20_000 + b'"\n'
    whole, last = log(LINES[0]), log(line * 40)
    assert read_zstd(whole + last) == ([LINES[0], line * 40], None)
    for cut in (1, 10, len(last) // 2, len(last) - 1):
        assert read_zstd(whole + last[:cut]) == ([LINES[0]], TornTail(len(whole), cut))


def test_an_early_frame_that_seems_to_go_on_is_not_torn() -> None:
    digits = "".join(str(int.from_bytes(sha256(bytes([n])).digest(), "big")) for n in range(240))
    first = bytearray(log(f'"{digits[:18_000]}"\n'.encode()))
    assert len(first) < 8192  # so bit 13 of its block's size is not set, and setting it reaches past the end
    block = zstandard.frame_header_size(bytes(first))
    first[block + 2] |= 1
    whole = log(LINES[0])
    assert read_zstd(whole + first)[1] == TornTail(len(whole), len(first))
    with pytest.raises(CorruptLogError, match="followed by others") as caught:
        read_zstd(whole + first + log(*LINES[1:]))
    assert caught.value.offset == len(whole)


@pytest.mark.parametrize(
    "tail",
    [b'{"x":1}\n', b"\0" * 64, b"\0", b"(", b"\x28\xb5\x30", LINES[0], b"\x50\x2a\x4d\x18\x04\0\0\0abcd"],
)
def test_what_is_no_frame_is_corrupt(tail: bytes) -> None:
    whole = log(*LINES)
    if MAGIC.startswith(tail):
        assert read_zstd(whole + tail)[1] == TornTail(len(whole), len(tail))
        return
    with pytest.raises(CorruptLogError) as caught:
        read_zstd(whole + tail)
    assert caught.value.offset == len(whole)


def test_a_frame_that_ends_inside_a_line_is_corrupt() -> None:
    with pytest.raises(CorruptLogError, match="inside a line"):
        read_zstd(log(LINES[0], b'{"a"'))


def test_only_the_bytes_known_at_the_start_are_read() -> None:
    whole = log(*LINES[:2])
    parts = list(read_frames(io.BytesIO(whole + log(LINES[2])), len(whole) + 5))
    assert parts[-1] == TornTail(len(whole), 5)


def test_a_frame_of_gigabytes_is_refused_at_once() -> None:
    def bomb(unit: bytes) -> Iterator[bytes]:
        compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
        for _ in range(512):
            yield compressor.compress(unit)
        yield compressor.flush()

    data = log(LINES[0]) + b"".join(bomb(b"\0" * 1024 * 1024))
    parts = read_frames(io.BytesIO(data), len(data))
    assert next(parts) == Part(0, LINES[0], is_last=True)
    with pytest.raises(CorruptLogError, match="longer than"):
        next(parts)


# --- plain


def test_whole_lines_come_out_as_they_are() -> None:
    assert read_lines(b"".join(LINES)) == (b"".join(LINES), None)
    assert read_lines(b"") == (b"", None)


def test_a_line_cut_anywhere_is_a_torn_tail() -> None:
    whole, last = b"".join(LINES[:2]), LINES[2]
    for cut in range(1, len(last)):
        assert read_lines(whole + last[:cut]) == (whole, TornTail(len(whole), cut))


@pytest.mark.parametrize("blank", [b"\n", b"\r\n"])
def test_one_blank_line_at_the_end_is_torn(blank: bytes) -> None:
    whole = b"".join(LINES)
    assert read_lines(whole + blank) == (whole, TornTail(len(whole), len(blank)))
    many = whole * 100_000  # more than is read at once
    for size in (2**20, 2**20 + 1):
        whole = many[:size].rpartition(b"\n")[0] + b"\n"
        assert read_lines(whole + blank) == (whole, TornTail(len(whole), len(blank)))


def test_a_blank_line_elsewhere_stays_where_it_is() -> None:
    lines = LINES[0] + b"\n" + LINES[1]
    assert read_lines(lines) == (lines, None)
    assert read_lines(LINES[0] + b"\n\n") == (LINES[0] + b"\n", TornTail(len(LINES[0]) + 1, 1))
    with pytest.raises(CorruptLogError, match="blank") as caught:
        read_lines(LINES[0] + b"\n" + LINES[1][:4])
    assert caught.value.offset == len(LINES[0])


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-8-sig", "UTF-8 with a byte-order mark"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("utf-32", "UTF-32"),
    ],
)
def test_another_encoding_is_named(encoding: str, name: str) -> None:
    with pytest.raises(CorruptLogError, match=name) as caught:
        read_lines(LINES[0].decode().encode(encoding))
    assert caught.value.offset == 0


def test_lines_longer_than_one_read_are_put_together() -> None:
    line = b'"' + b"x" * 3_000_000 + b'"\n'
    lines = LINES[0] + line + LINES[1] + line
    assert read_lines(lines) == (lines, None)
    assert read_lines(lines[:-1]) == (lines[: -len(line)], TornTail(len(lines) - len(line), len(line) - 1))


def test_a_line_over_the_limit_is_not_buffered_further() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1, /) -> bytes:
            self.given += size
            return b"x" * size

    file = Endless()
    with pytest.raises(CorruptLogError, match="longer than"):
        list(read_plain(file, 2**40))  # pyright: ignore[reportArgumentType]
    assert file.given < MAX_ROW_BYTES + 4 * 2**20


@pytest.mark.parametrize("length", [20, 255, 256, 257, 65_000, 65_791, 65_792, 100_000])
@pytest.mark.parametrize("kind", ["like text", "like noise", "of one byte"])
def test_small_frames_are_found_whatever_their_headers(length: int, kind: str) -> None:
    noise = b"".join(sha256(b"%d" % k).hexdigest().encode() for k in range(length // 64 + 1))
    text = {"like text": b"the build is green " * length, "like noise": noise, "of one byte": b"x" * length}
    line = text[kind][: length - 1] + b"\n"
    frames = [encode_frame(line), zstandard.ZstdCompressor(level=1, write_checksum=False).compress(line)]
    data = b"".join(frames * 3)
    parts = list(read_frames(io.BytesIO(data), len(data), together=True))
    assert b"".join(part.lines for part in parts if isinstance(part, Part)) == line * 6
    cut = data[:-1]
    *whole, torn = read_frames(io.BytesIO(cut), len(cut), together=True)
    assert torn == TornTail(len(data) - len(frames[1]), len(frames[1]) - 1)
    lines = b"".join(part.lines for part in whole if isinstance(part, Part) and part.offset < torn.offset)
    assert lines == line * 5
