"""Reading rows for a projection: of the types that it folds, the keys that it needs, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.codec import decode_row
from watchbell.log.events import Message
from watchbell.log.values import decode_json

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog

__all__ = [
    "WORK_TYPES",
    "AnswerRow",
    "AnyRow",
    "EnteredMessageRow",
    "EnteredRow",
    "Reason",
    "ResultRow",
    "SplicedRow",
    "SurfaceRow",
    "TakeUpRow",
    "TurnEndRow",
    "TurnStartRow",
    "WorkRow",
    "read_rows",
    "work_decoder",
]

T = TypeVar("T", bound="AnyRow")


class AnyRow(msgspec.Struct, frozen=True, gc=False):
    """What a projection reads of a row.

    Attributes:
        seq: The event's seq.
    """

    seq: int


class SurfaceRow(AnyRow, frozen=True, gc=False, rename="camel"):
    """How an event of a surface type enters the transcript."""

    surface_op: Any = "append"


class _Row(AnyRow, frozen=True, gc=False, tag_field="type"):
    pass


class _TurnNumber(msgspec.Struct, frozen=True, gc=False):
    turn: int


class TurnStartRow(_Row, frozen=True, gc=False, tag="turn/start"):
    """A turn began."""

    data: _TurnNumber


class Reason(msgspec.Struct, frozen=True, gc=False):
    """Why a turn ended, with what some kinds say besides."""

    kind: str
    reason: Any = None
    error: Any = None

    @property
    def is_loss(self) -> bool:
        """Whether the program ended before the turn did."""
        if self.kind == "interrupted":
            return True
        return self.kind == "aborted" and _names(self.reason, "kind", "disposed")

    @property
    def is_uncertainty(self) -> bool:
        """Whether the barrier before the model's call failed."""
        return self.kind == "error" and _names(self.error, "code", "PERSISTENCE_UNCERTAIN")


def _names(value: Any, key: str, name: str) -> bool:
    return isinstance(value, dict) and cast("dict[str, Any]", value).get(key) == name


class _TurnReason(msgspec.Struct, frozen=True, gc=False):
    reason: Reason


class TurnEndRow(_Row, frozen=True, gc=False, tag="turn/end"):
    """A turn ended."""

    data: _TurnReason


class _Identified(msgspec.Struct, frozen=True, gc=False):
    id: str


class EnteredRow(_Row, frozen=True, gc=False, tag="user/message"):
    """A message entered the conversation."""

    data: _Identified


class _Splice(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    target: Literal["next-turn", "next-step"]
    start: int
    inserted: list[Message]
    removed_count: int = 0
    outcome: str | None = None


class SplicedRow(_Row, frozen=True, gc=False, tag="agent/inbox/spliced"):
    """A pending list changed; the messages' blocks are plain values yet (see `Message.complete`)."""

    data: _Splice


class EnteredMessageRow(_Row, frozen=True, gc=False, rename="camel", tag="user/message"):
    """A message of a person, a plugin or a program; its blocks are plain values yet."""

    data: Message
    surface_op: Any = "append"

    @property
    def message(self) -> Message:
        """The message as it was decoded."""
        return self.data


class _Holder(msgspec.Struct, frozen=True, gc=False):
    message: Message


class _MessageRow(_Row, frozen=True, gc=False, rename="camel"):
    data: _Holder
    surface_op: Any = "append"

    @property
    def message(self) -> Message:
        """The message as it was decoded."""
        return self.data.message


class AnswerRow(_MessageRow, frozen=True, gc=False, rename="camel", tag="assistant/message"):
    """An answer; its blocks are plain values yet."""


class ResultRow(_MessageRow, frozen=True, gc=False, rename="camel", tag="tool/result"):
    """What a call gave; its blocks are plain values yet."""


class _TakenUp(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    message_id: str


class TakeUpRow(_Row, frozen=True, gc=False, tag="watchbell/take-up"):
    """The next turn answers a message again."""

    data: _TakenUp


WorkRow: TypeAlias = SplicedRow | EnteredRow | TurnStartRow | TurnEndRow | TakeUpRow
"""What tells which work waits for an agent."""

WORK_TYPES = frozenset({"agent/inbox/spliced", "user/message", "turn/start", "turn/end", "watchbell/take-up"})
work_decoder = msgspec.json.Decoder(WorkRow)


def read_rows(
    log: EventLog,
    types: frozenset[str],
    decoder: msgspec.json.Decoder[T],
    start: int,
    stop: int,
    *,
    replacing: bool = False,
) -> Iterator[Sequence[T]]:
    """Read the rows of `types` with `start <= seq < stop`.

    Args:
        log: The log.
        types: The types that `decoder` knows.
        decoder: Decodes one row.
        start: Seq of the first event.
        stop: Seq of the event after the last one.
        replacing: Whether stretches are left out of which no event replaces messages of the transcript.

    Yields:
        Some rows at a time, in order.

    Raises:
        CorruptLogError: A payload has another shape than its type's.
    """
    for lines in log.lines(types, start, stop, replacing=replacing):
        try:
            yield decoder.decode_lines(lines)
        except (ValueError, RecursionError):
            yield from ([_decode(line, decoder)] for line in lines[:-1].split(b"\n"))


def _decode(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    shape: Any = decoder.type
    try:
        # A lone surrogate, in this row or another one; or what only a whole reading forgives: a number that
        # is too large, or the first of two values of one key.
        return msgspec.convert(decode_json(line), shape)
    except ValueError as error:
        row = decode_row(line)
        raise CorruptLogError(f"event {row.seq} ({row.type}) is malformed") from error
