"""Schedule's durable protocol, version 1: records, changes, and their strict reading (contract section 2).

A record that exists is valid: its constructor refuses everything that replay would refuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, final

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.instants import Duration, Instant, decode_instant
from watchbell.log.codec import decode_row
from watchbell.log.event import Draft, Event, declare_type
from watchbell.log.projection import AnyRow, Reader
from watchbell.log.values import encode_json

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
    def target_ms(self) -> Instant:
        """The target."""
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
    def interval_ms(self) -> Duration:
        """The interval."""
        return Duration(self.every_seconds * 1000)


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


class Delete(_Change, frozen=True, gc=False, tag="delete"):
    """An active reminder ends undelivered."""

    id: str


class Dispatch(_Change, frozen=True, gc=False, tag="dispatch"):
    """An active reminder was delivered.

    Attributes:
        id: The reminder.
        accepted_at: Canonical UTC instant of the decision, for a repeating reminder; None for a one-shot.
    """

    id: str
    accepted_at: str | None = None


Change: TypeAlias = Create | Delete | Dispatch


# Changes as rows hold them: there the version is never left out, and an absent key is not null.
class CreateLine(Create, frozen=True, gc=False, tag="create", kw_only=True):
    """A row's `Create`."""

    version: Literal[1]  # pyright: ignore[reportGeneralTypeIssues] - keyword only: it needs no default


class _DeleteLine(Delete, frozen=True, gc=False, tag="delete", kw_only=True):
    version: Literal[1]  # pyright: ignore[reportGeneralTypeIssues] - keyword only: it needs no default


class DispatchLine(Dispatch, frozen=True, gc=False, tag="dispatch", kw_only=True, omit_defaults=True):
    """A row's `Dispatch`."""

    version: Literal[1]  # pyright: ignore[reportGeneralTypeIssues] - keyword only: it needs no default


class ChangeRow(AnyRow, frozen=True, gc=False):
    """A row of a log that holds a change.

    Attributes:
        seq: The event's seq.
        time: When it was appended, epoch milliseconds.
        data: The change. What names an active reminder may name anything yet: `apply` refuses what is not
            active.
    """

    time: int
    data: Change


class _ChangeLine(
    ChangeRow, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="type", tag=SCHEDULE_CHANGE
):
    data: CreateLine | _DeleteLine | DispatchLine


@final
class UnreadableChange(AnyRow, frozen=True, gc=False):
    """A row whose payload is no change of version 1.

    Attributes:
        seq: The event's seq.
        reason: What is wrong with it, in one clause.
    """

    reason: str


_decoder = msgspec.json.Decoder(Change)
_line_decoder = msgspec.json.Decoder(_ChangeLine)
_encode_lines = msgspec.json.Encoder().encode_lines


class _ChangeReader(Reader[ChangeRow | UnreadableChange]):
    """Reads rows of `schedule/change`, each as strictly as `decode_change` reads a payload."""

    def decode(self, lines: bytes) -> Iterator[Sequence[ChangeRow | UnreadableChange]]:
        """Decode whole rows, each with its line end: many at a time, or one by one when some are unusual."""
        try:
            rows = _line_decoder.decode_lines(lines)
        except (ValueError, RecursionError):
            rows = None
        # The structs do not see a repeated key, a null for an absent one, white space or an escape. Encoding
        # again drops each of these and adds nothing, so that as many bytes mean that there was none.
        if rows is not None and len(_encode_lines(rows)) == len(lines):
            yield rows
        else:
            yield [_decode_row(line) for line in lines[:-1].split(b"\n")]


CHANGES: Reader[ChangeRow | UnreadableChange] = _ChangeReader(
    frozenset({SCHEDULE_CHANGE}), msgspec.json.Decoder[ChangeRow | UnreadableChange](_ChangeLine)
)
"""Reads the rows of Schedule's changes."""


def render_record(record: Record) -> dict[str, str | int]:
    """Return a record as JSON data, with the keys of the protocol in their order."""
    name, prompt, at = record.id, record.prompt, record.scheduled_at
    match record:
        case AfterRecord(after_seconds=seconds):
            return {"id": name, "kind": "after", "prompt": prompt, "afterSeconds": seconds, "scheduledAt": at}
        case AtRecord():
            return {"id": name, "kind": "at", "prompt": prompt, "scheduledAt": at}
        case EveryRecord(every_seconds=seconds):
            return {"id": name, "kind": "every", "prompt": prompt, "everySeconds": seconds, "scheduledAt": at}


def render_change(change: Change) -> dict[str, object]:
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
        change = _decode_plainly(text) or _decode_slowly(text)
        if not is_schedule_id(change.id):
            raise ValueError(_TRIMMED_ID)
        if isinstance(change, Dispatch) and change.accepted_at is not None:
            decode_instant(change.accepted_at)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise ScheduleLogError(f"not a change of version 1: {reason}", seq=seq) from error
    return change


def _decode_row(line: bytes) -> ChangeRow | UnreadableChange:
    event = decode_row(line)
    assert isinstance(event, Event)  # noqa: S101 - only chunks of an answer are packed
    try:
        return ChangeRow(event.seq, event.time, decode_change(event.raw))
    except ScheduleLogError as error:
        return UnreadableChange(event.seq, error.reason)


def _decode_plainly(text: bytes) -> Change | None:
    """Read a change that is written as we write it; None when its writer has other habits, or none."""
    try:
        change = _decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):
        return None
    return change if encode_change(change) == text else None


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


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
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


def _check_record(schedule_id: str, prompt: str, scheduled_at: str) -> None:
    if not prompt or prompt.strip(WHITE_SPACE) != prompt:
        raise ValueError("a prompt is trimmed and not blank")
    if not schedule_id or schedule_id.strip(WHITE_SPACE) != schedule_id:
        raise ValueError(_TRIMMED_ID)
    decode_instant(scheduled_at)
