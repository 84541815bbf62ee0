"""What a row may hold, checked alike when it is read and before it is appended (log-format).

Nothing here decodes more than it looks at: a payload can be large, and as objects many times as large.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from watchbell.errors import CorruptLogError, UnsupportedLogError
from watchbell.log.event import SURFACE_TYPES, Event, Replacement
from watchbell.log.values import MAX_NESTING, count_values, nesting_depth

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exact."""

Count = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
"""What is counted from 0."""

MAX_ROW_BYTES = 64 * 1024 * 1024
"""Longest row of a log, in bytes (log-format, "Size")."""

MAX_SOURCES = 1_000_000
"""Most events that one message can be made from: more never stream in one answer, but fill memory."""

MAX_VALUES = 1_000_000
"""Most values that one payload may be made of: no program writes near as many, but they fill memory."""

MESSAGE_TYPES = SURFACE_TYPES | {"agent/inbox/spliced"}
"""Types whose payload holds messages."""


def check_size(line: bytes) -> None:
    """Refuse a row that is too long or nested too deeply.

    Raises:
        CorruptLogError: It is.
    """
    if len(line) > MAX_ROW_BYTES:
        raise CorruptLogError(f"a line is longer than {MAX_ROW_BYTES} bytes")
    if nesting_depth(line) > MAX_NESTING:
        raise CorruptLogError(f"a row is nested deeper than {MAX_NESTING}")


def check_values(raw: bytes | Raw) -> None:
    """Refuse a payload of so many values that they would take many times the memory of their text.

    Raises:
        CorruptLogError: It has more than `MAX_VALUES`.
    """
    if memoryview(raw).nbytes > MAX_VALUES and count_values(bytes(raw), MAX_VALUES) > MAX_VALUES:
        raise CorruptLogError(f"a payload has more than {MAX_VALUES} values")


def check_place(event: Event) -> None:
    """Refuse a seq or a time that JSON readers would round.

    Raises:
        CorruptLogError: One is out of range.
    """
    if not (0 <= event.seq <= MAX_SAFE_INTEGER and abs(event.time) <= MAX_SAFE_INTEGER):
        raise CorruptLogError("seq or time is out of range")


def check_surface(event: Event) -> None:
    """Refuse surface keys where none belong, and malformed ones.

    Raises:
        CorruptLogError: They are not as log-format says.
    """
    if event.source_event_seqs is UNSET and event.surface_op is UNSET:
        return
    if event.type not in SURFACE_TYPES:
        raise CorruptLogError(f"{event.type!r} carries surface keys")
    try:
        numbers: list[int] = []
        if event.source_event_seqs is not UNSET:
            if bytes(event.source_event_seqs).count(b",") >= MAX_SOURCES:
                raise CorruptLogError(f"sourceEventSeqs names more than {MAX_SOURCES} events")
            numbers = msgspec.json.decode(event.source_event_seqs, type=list[int])
            if not numbers and event.type != "assistant/message":
                raise CorruptLogError(f"sourceEventSeqs of {event.type!r} is empty")
        if event.surface_op is not UNSET and bytes(event.surface_op) != b'"append"':
            place = msgspec.json.decode(event.surface_op, type=Replacement)
            numbers += [place.start, place.end]
    except msgspec.DecodeError as error:
        raise CorruptLogError(f"malformed surface key: {error}") from error
    if not all(0 <= number <= MAX_SAFE_INTEGER for number in numbers):
        raise CorruptLogError("a surface key is out of range")


# A payload can be of any size and from anybody, and as objects it takes many times the memory of its text. So
# what is known of messages before anybody reads one is what these shapes name: that each has an id, and that
# those in a list have a role, without which a list of `{}` could hold more of them than anything real.


class Identified(msgspec.Struct, frozen=True, gc=False):
    """A message."""

    id: str


class _Pending(Identified, frozen=True, gc=False):
    role: Literal["user", "assistant"]


class Holder(msgspec.Struct, frozen=True, gc=False):
    """A payload that carries a message, or a splice that inserts some."""

    message: Identified | UnsetType = UNSET
    inserted: list[_Pending] | UnsetType = UNSET


def check_messages(event: Event) -> None:
    """Refuse the messages without an id that an old pre-release wrote.

    Raises:
        CorruptLogError: A payload of `MESSAGE_TYPES` has another shape than its type's.
        UnsupportedLogError: A message has no id.
    """
    shape = Identified if event.type == "user/message" else Holder
    try:
        msgspec.json.decode(event.raw, type=shape)
    except msgspec.DecodeError as error:
        if "missing required field `id`" in str(error):
            reason = "it holds a message without an id, as only a pre-release wrote"
            raise UnsupportedLogError(reason) from error
        raise CorruptLogError(f"malformed {event.type!r}: {error}") from error
