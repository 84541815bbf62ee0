"""Rows of a stored log, checked many at a time and kept as the text that they are.

A block knows of each row where it lies, its type and its first seq; the row becomes objects when somebody
reads it. So a long log costs hardly more memory than its text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from watchbell.errors import CorruptLogError
from watchbell.log.codec import KNOWN_TYPES, MESSAGE_TYPES, SUSPICIOUS_LENGTH, decode_row, decode_rows
from watchbell.log.eventlog import PackedRow
from watchbell.log.events import SURFACE_TYPES, Event
from watchbell.log.packing import PACKED_TYPES, decode_runs, unpack
from watchbell.log.session import MAX_ROW_BYTES, MAX_SAFE_INTEGER
from watchbell.log.values import MAX_NESTING, nesting_depth

__all__ = ["Block", "decode_block"]

_PACKED = 0
_OTHER = 255
_CODES = {name: code for code, name in enumerate(sorted(KNOWN_TYPES), start=1)} | dict.fromkeys(PACKED_TYPES, _PACKED)

_HOLDERS = MESSAGE_TYPES - {"user/message"}

_decode_event = msgspec.json.Decoder(Event).decode


class Block:
    """Checked rows with contiguous seqs: a part of an `EventLog`.

    Args:
        lines: The rows, each with its line end (LF).
        ends: Where each row ends in `lines`, its line end not counted.
        types: The type that each row names.
        starts: Seq of the first event of each row, and of the event after the block.

    Attributes:
        first: Seq of its first event.
        length: Number of its events.
    """

    __slots__ = ("_codes", "_ends", "_firsts", "_lines", "_others", "first", "length")

    def __init__(
        self, lines: bytes, ends: Sequence[int], types: Sequence[str], starts: Sequence[int]
    ) -> None:
        self.first = starts[0]
        self.length = starts[-1] - self.first
        self._lines = lines
        self._ends = array("L" if len(lines) >> 32 else "I", ends)
        self._codes = bytes([_CODES.get(name, _OTHER) for name in types])
        self._others = {at: types[at] for at in _find(_pattern(bytes([_OTHER])), self._codes)}
        # Without a packed row, row k begins at event k.
        is_packed = self.length != len(types)
        self._firsts = array("Q", starts) if is_packed else None

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, number: int) -> Event | PackedRow:
        """Make row `number`."""
        line = self.line(number)
        if self._codes[number] != _PACKED:
            try:
                return _decode_event(line)
            except msgspec.DecodeError:
                return decode_row(line)  # a lone surrogate
        start = self.start_of(number)
        return PackedRow(start, self.start_of(number + 1) - start, line, unpack)

    def line(self, number: int) -> bytes:
        """The text of row `number`, without its line end."""
        return self._lines[self._ends[number - 1] + 1 if number else 0 : self._ends[number]]

    def start_of(self, number: int) -> int:
        """Seq of the first event of row `number`; behind the last row, of the event after the block."""
        return self.first + number if self._firsts is None else self._firsts[number]

    def row_of(self, seq: int) -> int:
        """Number of the row that holds event `seq`, which is in the block."""
        return seq - self.first if self._firsts is None else bisect_right(self._firsts, seq) - 1

    def find(self, types: frozenset[str], start: int, stop: int) -> list[int]:
        """Numbers of the rows of `types` with `start <= number < stop`, in order."""
        found = _find(_pattern_of(types), self._codes, start, stop)
        if self._others:
            more = [at for at, name in self._others.items() if name in types and start <= at < stop]
            return sorted(found + more) if more else found
        return found


@cache
def _pattern(codes: bytes) -> re.Pattern[bytes]:
    return re.compile(b"[%b]" % re.escape(codes))


@cache
def _pattern_of(types: frozenset[str]) -> re.Pattern[bytes] | None:
    known = {_CODES[name] for name in types if name in _CODES}
    if "assistant/chunk" in types:
        known.add(_PACKED)
    return _pattern(bytes(known)) if known else None


def _find(
    pattern: re.Pattern[bytes] | None, codes: bytes, start: int = 0, stop: int = MAX_SAFE_INTEGER
) -> list[int]:
    return [] if pattern is None else [match.start() for match in pattern.finditer(codes, start, stop)]


# --- rows, checked many at a time ------------------------------------------------------------------------

_Count = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
_NEVER = -(2**63)


class _Envelope(
    msgspec.Struct,
    gc=False,
    omit_defaults=True,
    rename={"raw": "data", "source_event_seqs": "sourceEventSeqs", "surface_op": "surfaceOp"},
):
    """A row as nearly all are. What it leaves out, and what a packed row has instead, shows by the length."""

    type: str
    raw: Raw
    seq: int = _NEVER
    time: int = _NEVER
    source_event_seqs: list[_Count] | UnsetType = UNSET
    surface_op: Literal["append"] | UnsetType = UNSET
    ignorable: bool = False


class _Identified(msgspec.Struct, gc=False):
    id: str


class _Holder(msgspec.Struct, gc=False):
    message: _Identified | UnsetType = UNSET
    inserted: list[_Identified] | UnsetType = UNSET


_decode_envelopes = msgspec.json.Decoder(_Envelope).decode_lines
_decode_identified = msgspec.json.Decoder(_Identified).decode_lines
_decode_holders = msgspec.json.Decoder(_Holder).decode_lines
_encode_lines = msgspec.json.Encoder().encode_lines


def decode_block(lines: bytes, next_seq: int) -> Block:
    """Check whole lines, the first of which begins with event `next_seq`; their ends may be LF or CRLF.

    At least one row is among them. What is refused is what `decode_row` refuses.

    Raises:
        CorruptLogError: A bad row or a gap in `seq`; its `offset` counts from the start of `lines`.
        UnsupportedLogError: An event of a type that must not be ignored.
    """
    block = _decode_usual(lines, next_seq)
    if block is not None:
        return block
    rows = decode_rows(lines, next_seq)
    lines = lines.replace(b"\r\n", b"\n")
    types = [next(iter(PACKED_TYPES)) if isinstance(row, PackedRow) else row.type for row in rows]
    counts = [row.count if isinstance(row, PackedRow) else 1 for row in rows]
    return Block(lines, _ends(lines.split(b"\n")), types, list(accumulate(counts, initial=next_seq)))


def _decode_usual(lines: bytes, next_seq: int) -> Block | None:
    """Check lines as a whole; None when one of them is unusual and all have to be looked at one by one."""
    texts = lines.split(b"\n")
    texts.pop()
    try:
        if not lines.isascii():
            lines.decode()
        rows = _decode_envelopes(lines)
        types = [row.type for row in rows]
        packed = [at for at, name in enumerate(types) if name in PACKED_TYPES]
        runs = decode_runs([texts[at] for at in packed])
        usual = [row for row in rows if row.type not in PACKED_TYPES] if packed else rows
        size = len(lines) - sum([len(texts[at]) + 1 for at in packed])
        if not (_are_rows(texts, len(rows)) and _are_usual(usual, size)):
            return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    seqs = [row.seq for row in rows]
    counts = [1] * len(rows)
    for at, (seq, count) in zip(packed, runs, strict=True):
        seqs[at], counts[at] = seq, count
    starts = list(accumulate(counts, initial=next_seq))
    return Block(lines, _ends(texts), types, starts) if seqs == starts[:-1] else None


def _are_rows(texts: Sequence[bytes], count: int) -> bool:
    """Whether each of some lines is one object, `count` in all, and none too long or too deeply nested."""
    # A line end inside a value never stands between two braces, so each line is whole.
    if not count == len(texts) == [text[:1] for text in texts].count(b"{") == [text[-1:] for text in texts].count(b"}"):
        return False
    long = [text for text in texts if len(text) > SUSPICIOUS_LENGTH]
    return not any(len(text) > MAX_ROW_BYTES or nesting_depth(text) > MAX_NESTING for text in long)


def _are_usual(rows: Sequence[_Envelope], size: int) -> bool:
    """Whether rows that are not packed are what `decode_row` takes.

    Args:
        rows: The rows.
        size: Their length in the log; re-encoded they are as long when nothing was left out or said twice.
    """
    if not rows:
        return True
    times = [row.time for row in rows]
    if min(times) < -MAX_SAFE_INTEGER or max(times) > MAX_SAFE_INTEGER or len(_encode_lines(rows)) != size:
        return False
    if not KNOWN_TYPES.issuperset([row.type for row in rows]):
        return False
    surfaces = [row for row in rows if row.surface_op is not UNSET or row.source_event_seqs is not UNSET]
    if not all(row.type in SURFACE_TYPES and _has_sources(row) for row in surfaces):
        return False
    entered = [row.raw for row in rows if row.type == "user/message"]
    holders = [row.raw for row in rows if row.type in _HOLDERS]
    # Each message has an id (see `decode_row`); of what cannot be decoded, it finds out why.
    _decode_identified(b"\n".join(entered))
    _decode_holders(b"\n".join(holders))
    return True


def _has_sources(row: _Envelope) -> bool:
    return row.source_event_seqs != [] or row.type == "assistant/message"


def _ends(texts: Sequence[bytes]) -> list[int]:
    """Where each of some lines ends when they are joined."""
    return list(accumulate([len(text) + 1 for text in texts], initial=-1))[1:]
