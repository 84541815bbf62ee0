"""Rows of a stored log, checked many at a time and kept as the text that they are.

A block knows of each row where it lies, its type and its first seq; the row becomes objects when somebody
reads it. So a long log costs hardly more memory than its text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate, compress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from watchbell.log._packing import PACKED_TYPES, decode_runs, unpack
from watchbell.log.checks import (
    MAX_ROW_BYTES,
    MAX_SAFE_INTEGER,
    MAX_VALUES,
    MESSAGE_TYPES,
    Count,
    Holder,
    Identified,
)
from watchbell.log.codec import SUSPICIOUS_LENGTH, decode_row, decode_rows
from watchbell.log.event import SURFACE_TYPES, Event, known_types
from watchbell.log.eventlog import PackedRow
from watchbell.log.values import MAX_NESTING, nesting_depth

_PACKED, _OTHER = 0, 255

_RUN = re.compile(rb"\x01+")  # of rows, in the marks that tell them from others

_decode_event = msgspec.json.Decoder(Event).decode


class Block:
    """Checked rows with contiguous seqs: a part of an `EventLog`.

    Args:
        lines: The rows, each with its line end (LF).
        codes: A number for each row's type.
        begins: Where each row begins in `lines`, and where they end, counted without the line ends.
        starts: Seq of the first event of each row, and of the event after the block.
        others: The types that have no number of their own, by the number of their row.
        may_replace: Whether an event may replace messages of the transcript, not only add one.

    Attributes:
        first: Seq of its first event.
        length: Number of its events.
        may_replace: As it was given.
    """

    __slots__ = ("_begins", "_codes", "_lines", "_others", "_starts", "first", "length", "may_replace")

    def __init__(
        self,
        lines: bytes,
        codes: bytes,
        begins: Iterable[int],
        starts: Sequence[int],
        others: Mapping[int, str],
        *,
        may_replace: bool,
    ) -> None:
        self.may_replace = may_replace
        self.first = starts[0]
        self.length = starts[-1] - self.first
        self._lines = lines
        self._codes = codes
        self._others = others
        self._begins = array("I" if len(lines) < 2**32 else "Q", begins)
        # Without a packed row, row k begins at event k.
        self._starts = None if isinstance(starts, range) else array("Q", starts)

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
        begins = self._begins
        return self._lines[begins[number] + number : begins[number + 1] + number]

    def start_of(self, number: int) -> int:
        """Seq of the first event of row `number`; behind the last row, of the event after the block."""
        return self.first + number if self._starts is None else self._starts[number]

    def row_of(self, seq: int) -> int:
        """Number of the row that holds event `seq`, which is in the block."""
        return seq - self.first if self._starts is None else bisect_right(self._starts, seq) - 1

    def find(self, types: frozenset[str], start: int, stop: int) -> list[int]:
        """Numbers of the rows of `types` with `start <= number < stop`, in order."""
        marks = self._marks(types)
        return list(compress(range(start, stop), marks[start:stop])) if 1 in marks else []

    def lines(self, types: frozenset[str], start: int, stop: int) -> bytes:
        """The text of those rows, each with its line end."""
        text, begins = self._lines, self._begins
        spans = [match.span() for match in _RUN.finditer(self._marks(types), start, stop)]
        if spans == [(0, len(self))]:
            return text
        return b"".join([text[begins[first] + first : begins[end] + end] for first, end in spans])

    def _marks(self, types: frozenset[str]) -> bytes:
        """A byte for each row: 1 for one of `types`, 0 for any other."""
        marks = self._codes.translate(_marks_of(types))
        if self._others:
            changed = bytearray(marks)
            for number, name in self._others.items():
                changed[number] = name in types
            return bytes(changed)
        return marks


@cache
def _codes() -> dict[str, int]:
    """Numbers for the types of rows, so that a row's type takes one byte."""
    codes = {name: code for code, name in enumerate(sorted(known_types()), start=1)}
    return codes | dict.fromkeys(PACKED_TYPES, _PACKED)


@cache
def _marks_of(types: frozenset[str]) -> bytes:
    """The table that `bytes.translate` needs to tell rows of `types` from others."""
    codes = _codes()
    wanted = {codes[name] for name in types if name in codes}
    if "assistant/chunk" in types:
        wanted.add(_PACKED)
    return bytes(code in wanted for code in range(256))


# --- rows, checked many at a time ------------------------------------------------------------------------

_ENTERED = frozenset({"user/message"})
_HOLDERS = MESSAGE_TYPES - _ENTERED
_ABSENT = -(2**63)
_LONGEST_USUAL = MAX_VALUES  # shorter rows cannot hold as many values as `decode_row` refuses


class _Envelope(
    msgspec.Struct,
    gc=False,
    kw_only=True,
    omit_defaults=True,
    rename={"raw": "data", "source_event_seqs": "sourceEventSeqs", "surface_op": "surfaceOp"},
):
    """A row as nearly all are. What it leaves out, and what a packed row has instead, shows by the length."""

    type: str
    seq: int = _ABSENT
    time: Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)] = _ABSENT
    raw: Raw
    source_event_seqs: list[Count] | UnsetType = UNSET
    surface_op: Literal["append"] | UnsetType = UNSET
    ignorable: bool = False


_decode_identified = msgspec.json.Decoder(Identified).decode_lines
_decode_holders = msgspec.json.Decoder(Holder).decode_lines
_encode_lines = msgspec.json.Encoder().encode_lines


@cache
def _envelope_decoder() -> Callable[[bytes], list[Any]]:
    """Return what decodes usual rows. In them each type is one object, whose hash is known."""
    usual: Any = Literal[tuple(sorted(_codes()))]
    shape = msgspec.defstruct("_Usual", [("type", usual)], bases=(_Envelope,), gc=False)
    return msgspec.json.Decoder(shape).decode_lines


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
    codes_of = _codes()
    codes = bytes([_PACKED if isinstance(row, PackedRow) else codes_of.get(row.type, _OTHER) for row in rows])
    others = {at: rows[at].type for at, code in enumerate(codes) if code == _OTHER}
    counts = [row.count if isinstance(row, PackedRow) else 1 for row in rows]
    begins = accumulate(map(len, lines.split(b"\n")[:-1]), initial=0)
    starts = list(accumulate(counts, initial=next_seq))
    return Block(lines, codes, begins, starts, others, may_replace=True)


def _decode_usual(lines: bytes, next_seq: int) -> Block | None:
    """Check lines as a whole; None when one of them is unusual and all have to be looked at one by one."""
    texts = lines.split(b"\n")
    texts.pop()
    lengths = list(map(len, texts))
    longest = max(lengths)
    if longest > _LONGEST_USUAL:
        return None
    try:
        if not lines.isascii():
            lines.decode()
        rows: list[Any] = _envelope_decoder()(lines)
        codes_of = _codes()
        codes = bytes([codes_of[row.type] for row in rows])
        if len(rows) != len(texts) or not _are_usual(rows, codes):
            return None
        starts = _replace_packed(rows, codes, texts, next_seq)
        # Encoded again they are the same to the byte: each line is one row, and says nothing twice.
        is_same = _encode_lines(rows) == lines and [row.seq for row in rows] == list(starts[:-1])
    except (ValueError, RecursionError):
        return None  # msgspec's errors are ValueErrors, too
    if not is_same or (longest > SUSPICIOUS_LENGTH and not _are_sane(texts)):
        return None
    begins = accumulate(lengths, initial=0)
    return Block(lines, codes, begins, starts, {}, may_replace=False)  # the usual is `"append"`


def _are_usual(rows: Sequence[_Envelope], codes: bytes) -> bool:
    """Whether rows are what `decode_row` takes, as far as their envelopes show it.

    Args:
        rows: The rows; of packed ones more has to be looked at.
        codes: The numbers of their types.

    Raises:
        ValueError: One is not.
    """
    if [row.time for row in rows].count(_ABSENT) != codes.count(_PACKED):
        return False
    surfaces = [row for row in rows if row.surface_op is not UNSET or row.source_event_seqs is not UNSET]
    for row in surfaces:
        if row.type not in SURFACE_TYPES or (row.source_event_seqs == [] and row.type != "assistant/message"):
            return False
    # Each message has an id; of what this refuses, `decode_row` finds out why.
    for decode, types in ((_decode_identified, _ENTERED), (_decode_holders, _HOLDERS)):
        decode(b"\n".join([row.raw for row in compress(rows, codes.translate(_marks_of(types)))]))
    return True


def _replace_packed(rows: list[Any], codes: bytes, texts: Sequence[bytes], next_seq: int) -> Sequence[int]:
    """Put what packed rows hold in their place.

    Returns:
        Seq of the first event of each row, and of the event after them, if the first is `next_seq`.

    Raises:
        ValueError: A packed row is unusual.
    """
    marks = codes.translate(_marks_of(PACKED_TYPES))
    packed = b"\n".join(compress(texts, marks))
    if not packed:
        return range(next_seq, next_seq + len(rows) + 1)
    numbers = compress(range(len(rows)), marks)
    counts = [1] * len(rows)
    for number, run, count in zip(numbers, *decode_runs(packed), strict=True):
        rows[number], counts[number] = run, count
    return list(accumulate(counts, initial=next_seq))


def _are_sane(texts: Sequence[bytes]) -> bool:
    """Whether none of some lines is too long or nested too deeply."""
    long = [text for text in texts if len(text) > SUSPICIOUS_LENGTH]
    return all(len(text) <= MAX_ROW_BYTES and nesting_depth(text) <= MAX_NESTING for text in long)
