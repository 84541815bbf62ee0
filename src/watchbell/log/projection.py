"""Projections: what the events of some types add up to, folded from a log as far as a watermark.

A projection is never stored and never the authority: throw it away, and folding the log makes it again. It
reads, of the rows of its types, the keys that it needs, many rows at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.checks import Identified
from watchbell.log.codec import decode_row
from watchbell.log.event import Replacement
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message
from watchbell.log.payloads import Carrier, Splice, TakeUp, TurnEnd, TurnStart
from watchbell.log.values import decode_foreign, decode_json

T = TypeVar("T", bound="AnyRow")
SurfaceOp: TypeAlias = Literal["append"] | Replacement


class AnyRow(msgspec.Struct, frozen=True, gc=False):
    """What a projection reads of a row.

    Attributes:
        seq: The event's seq.
    """

    seq: int


class SurfaceRow(AnyRow, frozen=True, gc=False, rename="camel"):
    """How an event of a surface type enters the transcript."""

    surface_op: SurfaceOp = "append"


class _Row(AnyRow, frozen=True, gc=False, tag_field="type"):
    pass


class TurnStartRow(_Row, frozen=True, gc=False, tag="turn/start"):
    """A turn began."""

    data: TurnStart


class TurnEndRow(_Row, frozen=True, gc=False, tag="turn/end"):
    """A turn ended."""

    data: TurnEnd


class EnteredRow(_Row, frozen=True, gc=False, tag="user/message"):
    """A message entered the conversation."""

    data: Identified


class SplicedRow(_Row, frozen=True, gc=False, tag="agent/inbox/spliced"):
    """A pending list changed; the messages' blocks are plain values yet (see `Message.complete`)."""

    data: Splice


class EnteredMessageRow(_Row, frozen=True, gc=False, rename="camel", tag="user/message"):
    """A message of a person, a plugin or a program; its blocks are plain values yet."""

    data: Message
    surface_op: SurfaceOp = "append"

    @property
    def message(self) -> Message:
        """The message as it was decoded."""
        return self.data


class _CarrierRow(_Row, frozen=True, gc=False, rename="camel"):
    data: Carrier
    surface_op: SurfaceOp = "append"

    @property
    def message(self) -> Message:
        """The message as it was decoded."""
        return self.data.message


class AnswerRow(_CarrierRow, frozen=True, gc=False, rename="camel", tag="assistant/message"):
    """An answer; its blocks are plain values yet."""


class ResultRow(_CarrierRow, frozen=True, gc=False, rename="camel", tag="tool/result"):
    """What a call gave; its blocks are plain values yet."""


class TakeUpRow(_Row, frozen=True, gc=False, tag="watchbell/take-up"):
    """The next turn answers a message again."""

    data: TakeUp


WorkRow: TypeAlias = SplicedRow | EnteredRow | TurnStartRow | TurnEndRow | TakeUpRow
"""What tells which work waits for an agent."""


class Reader(Generic[T]):
    """Reads the rows of some types. Projections that have one in common have each row decoded once.

    Args:
        types: The types whose rows are read.
        decoder: Decodes one row of any of them.
        replacing: Whether stretches are left out of which no event replaces messages of the transcript.
    """

    def __init__(
        self, types: frozenset[str], decoder: msgspec.json.Decoder[T], *, replacing: bool = False
    ) -> None:
        self.types = types
        self._decoder = msgspec.json.Decoder(decoder.type, dec_hook=decode_foreign)
        self._replacing = replacing

    def read(self, log: EventLog, start: int, stop: int) -> Iterator[Sequence[T]]:
        """Read the rows with `start <= seq < stop`, some at a time, in order.

        Raises:
            CorruptLogError: A payload has another shape than its type's.
        """
        for lines in log.lines(self.types, start, stop, replacing=self._replacing):
            yield from self.decode(lines)

    def decode(self, lines: bytes) -> Iterator[Sequence[T]]:
        """Decode whole rows, each with its line end.

        Raises:
            CorruptLogError: A payload has another shape than its type's.
        """
        try:
            yield self._decoder.decode_lines(lines)
        except (ValueError, RecursionError):
            yield from ([_decode(line, self._decoder)] for line in lines[:-1].split(b"\n"))


WORK_TYPES = frozenset({"agent/inbox/spliced", "user/message", "turn/start", "turn/end", "watchbell/take-up"})
WORK = Reader(WORK_TYPES, msgspec.json.Decoder(WorkRow))


class Projection(ABC, Generic[T]):
    """What the events of some types add up to.

    Attributes:
        reader: Reads the rows that it folds.
        watermark: Events before this seq were folded or passed over.
    """

    reader: Reader[T]

    def __init__(self, owned_from: int = 0) -> None:
        self.watermark = owned_from

    @property
    def types(self) -> frozenset[str]:
        """The types of the events that it folds."""
        return self.reader.types

    @abstractmethod
    def fold(self, rows: Sequence[T], log: EventLog) -> None:
        """Fold the next rows of its types.

        Args:
            rows: The rows, in order.
            log: The log that they stand in, for what a row refers to.

        Raises:
            CorruptLogError: A row cannot follow those before it.
        """

    def finish(self, log: EventLog, stop: int) -> None:
        """Note that all events before `stop` were folded or passed over."""
        self.watermark = max(self.watermark, stop)

    def advance(self, log: EventLog, stop: int | None = None) -> Self:
        """Fold what came since the last call, as far as `stop`, at once, and return itself.

        Raises:
            CorruptLogError: An event of its types is malformed, or cannot follow those before it.
        """
        stop = len(log) if stop is None else min(stop, len(log))
        if self.watermark < stop:
            _fold_together(log, [self], stop)
        return self


def fold(log: EventLog, projections: Sequence[Projection[Any]], stop: int) -> None:
    """Bring projections up to the event before `stop`, in one pass.

    Those with the same reader must have come equally far; the rows are decoded once for all of them.

    Raises:
        CorruptLogError: An event is malformed, or cannot follow those before it.
    """
    groups: dict[tuple[Reader[Any], int], list[Projection[Any]]] = {}
    for projection in projections:
        if projection.watermark < stop:
            groups.setdefault((projection.reader, projection.watermark), []).append(projection)
    for group in groups.values():
        _fold_together(log, group, stop)


def _fold_together(log: EventLog, group: Sequence[Projection[Any]], stop: int) -> None:
    """Bring projections up to date that have a reader and a watermark in common."""
    first = group[0]
    for rows in first.reader.read(log, first.watermark, stop):
        for projection in group:
            projection.fold(rows, log)
    for projection in group:
        projection.finish(log, stop)


def _decode(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    shape: Any = decoder.type
    try:
        # A lone surrogate, in this row or another one; or what only a whole reading forgives: a number that
        # is too large, or the first of two values of one key.
        return msgspec.convert(decode_json(line), shape, dec_hook=decode_foreign)
    except ValueError as error:
        row = decode_row(line)
        raise CorruptLogError(f"event {row.seq} ({row.type}) is malformed") from error
