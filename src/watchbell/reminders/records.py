"""Schedule's durable protocol, version 1: records, changes, and their strict reading (contract section 2).

A record or change that exists is valid: its constructor refuses everything that replay would refuse, so
what is decoded never has to be checked again.

Longer than other modules: the protocol is one document, and stands in one place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.instants import decode_instant
from watchbell.log.event import Draft, declare_type
from watchbell.log.values import encode_json

__all__ = [
    "MAX_SAFE_INTEGER",
    "MIN_EVERY_INTERVAL_SECONDS",
    "SCHEDULE_CHANGE",
    "WHITE_SPACE",
    "AfterRecord",
    "AtRecord",
    "Change",
    "ChangeRow",
    "Create",
    "CreateLine",
    "Delete",
    "Delivery",
    "Dispatch",
    "DispatchLine",
    "Ending",
    "EveryRecord",
    "Record",
    "decode_change",
    "decode_changes",
    "draft_change",
    "encode_change",
    "is_schedule_id",
    "render_change",
    "render_record",
    "trim",
]

SCHEDULE_CHANGE = declare_type("schedule/change")
"""The one event type of the protocol."""

MIN_EVERY_INTERVAL_SECONDS = 300
"""Shortest interval of a repeating reminder, seconds."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exact."""

WHITE_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""ECMAScript's white space and line ends, with U+FEFF; `str.strip` alone would take more."""

_TRIMMED_ID = "an id is not empty and has no white space around it"


def trim(text: str) -> str:
    """Return `text` without the white space and U+FEFF around it, as ECMAScript's `trim` does."""
    return text.strip(WHITE_SPACE)


def is_schedule_id(text: str) -> bool:
    """Whether `text` can be a reminder's id: not empty, no white space around it."""
    return bool(text) and trim(text) == text


class _Record(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, rename="camel", tag_field="kind"
):
    """What every reminder has: its id, its trimmed prompt and its target as canonical UTC."""

    id: str
    prompt: str
    scheduled_at: str

    @property
    def target_ms(self) -> int:
        """The target, epoch milliseconds."""
        return decode_instant(self.scheduled_at)


class AfterRecord(_Record, frozen=True, gc=False, tag="after", kw_only=True):
    """A one-shot reminder made from a delay of `after_seconds`."""

    after_seconds: int

    def __post_init__(self) -> None:
        _check_record(self.id, self.prompt, self.scheduled_at)
        if not 0 < self.after_seconds <= MAX_SAFE_INTEGER:
            raise ValueError("afterSeconds is a positive safe integer")


class AtRecord(_Record, frozen=True, gc=False, tag="at"):
    """A one-shot reminder made from an explicit instant."""

    def __post_init__(self) -> None:
        _check_record(self.id, self.prompt, self.scheduled_at)


class EveryRecord(_Record, frozen=True, gc=False, tag="every", kw_only=True):
    """A repeating reminder; `scheduled_at` is its earliest occurrence not yet dispatched."""

    every_seconds: int

    def __post_init__(self) -> None:
        _check_record(self.id, self.prompt, self.scheduled_at)
        if self.every_seconds < MIN_EVERY_INTERVAL_SECONDS or self.every_seconds * 1000 > MAX_SAFE_INTEGER:
            raise ValueError(f"everySeconds is a safe integer of at least {MIN_EVERY_INTERVAL_SECONDS}")

    @property
    def interval_ms(self) -> int:
        """The interval, milliseconds."""
        return self.every_seconds * 1000


Record: TypeAlias = AfterRecord | AtRecord | EveryRecord


class _Change(
    msgspec.Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    rename="camel",
    tag_field="operation",
    kw_only=True,
):
    """What every change has: the version of the protocol."""

    version: Literal[1] = 1


class Create(_Change, frozen=True, gc=False, tag="create"):
    """A reminder begins."""

    schedule: Record

    @property
    def id(self) -> str:
        """The reminder that changes."""
        return self.schedule.id


class Ending(_Change, frozen=True, gc=False):
    """The shape of what names an active reminder. As read from a row it is checked when it is applied."""

    id: str


class Delete(Ending, frozen=True, gc=False, tag="delete"):
    """An active reminder ends undelivered."""

    def __post_init__(self) -> None:
        _require_id(self.id)


class Delivery(Ending, frozen=True, gc=False):
    """The shape of a dispatch. As read from a row it is checked when it is applied.

    Attributes:
        accepted_at: Canonical UTC instant of the decision, for a repeating reminder; None for a one-shot.
    """

    accepted_at: str | None = None


class Dispatch(Delivery, frozen=True, gc=False, tag="dispatch"):
    """An active reminder was delivered."""

    def __post_init__(self) -> None:
        _require_id(self.id)
        if self.accepted_at is not None:
            decode_instant(self.accepted_at)


Change: TypeAlias = Create | Delete | Dispatch

_decoder = msgspec.json.Decoder(Change)


# As they stand in a log: there the version is never left out, and an absent key is not null.
class CreateLine(Create, frozen=True, gc=False, tag="create", kw_only=True):
    """A row's `Create`."""

    version: Literal[1]  # pyright: ignore[reportGeneralTypeIssues] - keyword only: it needs no default


class _DeleteLine(Ending, frozen=True, gc=False, tag="delete", kw_only=True):
    version: Literal[1]  # pyright: ignore[reportGeneralTypeIssues] - keyword only: it needs no default


class DispatchLine(Delivery, frozen=True, gc=False, tag="dispatch", kw_only=True, omit_defaults=True):
    """A row's `Dispatch`; its id and instant are checked when it is applied."""

    version: Literal[1]  # pyright: ignore[reportGeneralTypeIssues] - keyword only: it needs no default


class ChangeRow(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="type", tag=SCHEDULE_CHANGE
):
    """A row of a log that holds a change."""

    seq: int
    time: int
    data: CreateLine | _DeleteLine | DispatchLine


_decode_rows = msgspec.json.Decoder(ChangeRow).decode_lines
_encode_rows = msgspec.json.Encoder().encode_lines


def render_record(record: Record) -> dict[str, Any]:
    """Return a record as JSON data, with the keys of the protocol in their order."""
    match record:
        case AfterRecord():
            rule = {"afterSeconds": record.after_seconds}
            kind = "after"
        case AtRecord():
            rule = {}
            kind = "at"
        case EveryRecord():
            rule = {"everySeconds": record.every_seconds}
            kind = "every"
    head = {"id": record.id, "kind": kind, "prompt": record.prompt}
    return {**head, **rule, "scheduledAt": record.scheduled_at}


def render_change(change: Change) -> dict[str, Any]:
    """Return a change as JSON data, with the keys of the protocol in their order."""
    match change:
        case Create():
            return {"version": 1, "operation": "create", "schedule": render_record(change.schedule)}
        case Delete():
            return {"version": 1, "operation": "delete", "id": change.id}
        case Dispatch(accepted_at=None):
            return {"version": 1, "operation": "dispatch", "id": change.id}
        case Dispatch():
            head = {"version": 1, "operation": "dispatch", "id": change.id}
            return {**head, "acceptedAt": change.accepted_at}


def encode_change(change: Change) -> bytes:
    """Return a change as the compact JSON that stands in a log."""
    return encode_json(render_change(change))


def draft_change(change: Change) -> Draft:
    """Return a change as an event to append."""
    return Draft(SCHEDULE_CHANGE, msgspec.Raw(encode_change(change)))


def decode_change(raw: bytes | msgspec.Raw, seq: int | None = None) -> Change:
    """Read the payload of a `schedule/change`, accepting only what version 1 allows.

    Key order, white space and escapes do not matter. Missing, extra and repeated keys, look-alike values
    such as `true` or `300.0`, and everything out of range do.

    Args:
        raw: The payload's JSON text.
        seq: The event's place in its log, for the error.

    Raises:
        ScheduleLogError: The payload is not a change of version 1.
    """
    text = bytes(raw)
    try:
        change = _decoder.decode(text)
        if encode_change(change) == text:
            return change
    except msgspec.ValidationError as error:
        raise ScheduleLogError(f"not a change of version 1: {_first_line(error)}", seq=seq) from error
    except (ValueError, RecursionError):
        pass  # Not what we write: damaged, or written by a program with other habits.
    try:
        return _decode_slowly(text)
    except (ValueError, RecursionError) as error:
        raise ScheduleLogError(f"not a change of version 1: {_first_line(error)}", seq=seq) from error


def decode_changes(lines: bytes) -> Sequence[ChangeRow] | None:
    """Read rows of `schedule/change` events, many at a time, each as strictly as `decode_change` reads one.

    Each has its line end.
    What names an active reminder is checked when it is applied: an id that is not active is refused there.

    Returns:
        The rows; None when they have to be read one by one, to say what is wrong or because they are unusual.
    """
    try:
        rows = _decode_rows(lines)
    except (ValueError, RecursionError):
        return None
    # What was decoded can only be shorter: by a repeated key, a null, white space or an escape.
    return rows if len(_encode_rows(rows)) == len(lines) else None


def _decode_slowly(text: bytes) -> Change:
    """Read a change in any spelling; sees repeated keys, and fractions that equal an integer."""
    data = json.loads(
        text.decode(),
        object_pairs_hook=_unrepeated,
        parse_int=_short_int,
        parse_float=_no_number,
        parse_constant=_no_number,
    )
    change = msgspec.convert(data, Change)
    # The struct fills in a missing version and takes a null for an absent acceptedAt; version 1 has neither.
    if render_change(change) != data:
        raise ValueError("a key is missing or holds null")
    return change


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key is repeated")
    return data


def _short_int(digits: str) -> int:
    # Longer ones are out of range anyway, and Python refuses to read very long ones.
    if len(digits) > 20:
        raise ValueError("a number is out of range")
    return int(digits)


def _no_number(text: str) -> object:
    raise ValueError(f"{text[:20]} is not an integer")


def _require_id(schedule_id: str) -> None:
    if not schedule_id or schedule_id.strip(WHITE_SPACE) != schedule_id:
        raise ValueError(_TRIMMED_ID)


def _check_record(schedule_id: str, prompt: str, scheduled_at: str) -> None:
    if not prompt or prompt.strip(WHITE_SPACE) != prompt:
        raise ValueError("a prompt is trimmed and not blank")
    if not schedule_id or schedule_id.strip(WHITE_SPACE) != schedule_id:
        raise ValueError(_TRIMMED_ID)
    decode_instant(scheduled_at)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
