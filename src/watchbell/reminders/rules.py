"""What a call of a Schedule tool asks for, and when that falls due (contract sections 3 and 4).

Reading a call has two phases. `decode_create` finds everything that the text alone shows to be wrong, in
the fixed order of checks; `resolve` takes the clock and finds what is out of range or not in the future.

Longer than other modules: about to be parted.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from watchbell.instants import (
    MAX_INSTANT_MS,
    MIN_INSTANT_MS,
    decode_offset_time,
    decode_wall_time,
    render_instant,
    resolve_wall_time,
)
from watchbell.reminders.records import (
    MAX_SAFE_INTEGER,
    MIN_EVERY_INTERVAL_SECONDS,
    WHITE_SPACE,
    AfterRecord,
    AtRecord,
    EveryRecord,
    Record,
    is_schedule_id,
    trim,
)
from watchbell.reminders.shapes import CreateArguments, DeleteArguments, ErrorCode, ListArguments, LocalTime

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = [
    "After",
    "At",
    "CreateRequest",
    "Every",
    "Limits",
    "RefusedError",
    "Selector",
    "ZoneLookup",
    "decode_create",
    "decode_delete",
    "decode_list",
    "occurrence_at",
    "require_room",
    "resolve",
]

_SELECTORS = tuple(name for name in CreateArguments.__struct_fields__ if name != "prompt")
_AT_FORMS = (
    'Give at as text with an offset, such as "2027-06-01T09:00:00Z" or "2027-06-01T09:00:00+02:00", or as an '
    'object, such as {"date":"2027-06-01","time":"09:00:00","time_zone":"Europe/Berlin"}.'
)

# Unicode's Default_Ignorable_Code_Point: characters that a reader does not see.
_UNSEEN = re.compile(
    "[" + WHITE_SPACE + "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]*"
)


class RefusedError(Exception):
    """A call that is refused; the tools turn it into the error value that the model gets.

    Attributes:
        code: One of the closed set.
        message: Stable text that tells the model how to repair the call.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code: ErrorCode = code
        self.message = message
        super().__init__(message)


class Limits(msgspec.Struct, frozen=True):
    """Caps on creation; replay knows none.

    Attributes:
        max_prompt_bytes: Longest prompt, bytes of UTF-8 after trimming.
        max_active: Most active reminders in one session.
    """

    max_prompt_bytes: int = 16 * 1024
    max_active: int = 1000


class ZoneLookup(Protocol):
    """Finds time zones by name."""

    def find(self, name: str) -> tzinfo | None:
        """Return the zone of that name in any letter case, None when there is none."""
        ...


class After(msgspec.Struct, frozen=True):
    """Once, this many seconds from now."""

    seconds: int


class At(msgspec.Struct, frozen=True):
    """Once, at this instant; epoch milliseconds, possibly outside the years that can be stored."""

    target_ms: int


class Every(msgspec.Struct, frozen=True):
    """Again and again, this many seconds apart."""

    seconds: int


Selector: TypeAlias = After | At | Every


class CreateRequest(msgspec.Struct, frozen=True):
    """A well-formed call of `schedule_create`: what to say, trimmed, and when."""

    prompt: str
    selector: Selector


def decode_create(text: str, zones: ZoneLookup, limits: Limits) -> CreateRequest:
    """Read the arguments of `schedule_create`, in the fixed order of checks.

    Args:
        text: The model's raw argument text.
        zones: Where time zones are looked up.
        limits: The caps in force.

    Raises:
        RefusedError: Something is wrong that needs no clock to be seen.
    """
    call = _parse(text)
    _refuse_unknown(call, CreateArguments, repeatable="prompt")
    given = [name for name in _SELECTORS if call.get(name) is not None]
    if len(given) != 1:
        raise RefusedError("invalid_selector", _wrong_selectors(given))
    prompt = _decode_prompt(call, limits)
    value = call[given[0]]
    match given[0]:
        case "after_seconds":
            return CreateRequest(prompt, _decode_after(value))
        case "every_seconds":
            return CreateRequest(prompt, _decode_every(value))
        case _:
            return CreateRequest(prompt, At(_decode_at(value, zones)))


def decode_list(text: str) -> None:
    """Read the arguments of `schedule_list`, which has none.

    Raises:
        RefusedError: There is an argument, or the text is not one JSON object.
    """
    if text.strip(" \t\r\n") in ("", "null"):
        return
    _refuse_unknown(_parse(text), ListArguments)


def decode_delete(text: str) -> str:
    """Read the arguments of `schedule_delete` and return the id.

    Raises:
        RefusedError: The arguments are not exactly one id.
    """
    call = _parse(text)
    _refuse_unknown(call, DeleteArguments)
    schedule_id = call.get("id")
    if isinstance(schedule_id, str) and is_schedule_id(schedule_id) and not _has_lone_surrogate(schedule_id):
        return schedule_id
    raise RefusedError("invalid_rule", 'Give id as text, as schedule_list shows it, such as "schedule-1".')


def require_room(active: int, limits: Limits) -> None:
    """Refuse one more reminder when `active` of them are all that a session may have.

    Raises:
        RefusedError: The session is full.
    """
    if active >= limits.max_active:
        raise RefusedError(
            "invalid_rule",
            f"This session has {active} active reminders, and at most {limits.max_active} are allowed. "
            "Delete one that is no longer needed with schedule_delete, then try again.",
        )


# --- from a selector to a target -------------------------------------------------------------------------


def resolve(request: CreateRequest, schedule_id: str, now_ms: int) -> Record:
    """Return the record that a request makes when the clock reads `now_ms`, epoch milliseconds.

    Raises:
        RefusedError: The target is outside the years 0001 to 9999, or is not after now.
    """
    selector = request.selector
    match selector:
        case At():
            target_ms = selector.target_ms
        case After() | Every():
            target_ms = now_ms + selector.seconds * 1000
    # An interval that is no safe number of milliseconds reaches beyond the calendar too.
    if not MIN_INSTANT_MS <= target_ms <= MAX_INSTANT_MS:
        raise RefusedError("time_out_of_range", "The reminder must fall within the UTC years 0001 to 9999.")
    if target_ms <= now_ms:
        raise RefusedError(
            "not_future",
            f"The reminder would be due at {render_instant(target_ms)}, which is not in the future: "
            f"the clock reads {render_instant(now_ms)} (UTC). Give a later time.",
        )
    prompt, scheduled_at = request.prompt, render_instant(target_ms)
    match selector:
        case After():
            return AfterRecord(schedule_id, prompt, scheduled_at, after_seconds=selector.seconds)
        case Every():
            return EveryRecord(schedule_id, prompt, scheduled_at, every_seconds=selector.seconds)
        case At():
            return AtRecord(schedule_id, prompt, scheduled_at)


def occurrence_at(target_ms: int, interval_ms: int, now_ms: int) -> tuple[int, int]:
    """Return a repeating reminder's latest occurrence and the one after it, by arithmetic alone.

    Args:
        target_ms: Its earliest occurrence not yet dispatched, epoch milliseconds.
        interval_ms: Its interval, milliseconds.
        now_ms: The time of the decision, not before the target.
    """
    occurrence_ms = target_ms + (now_ms - target_ms) // interval_ms * interval_ms
    return occurrence_ms, occurrence_ms + interval_ms


# --- argument text ---------------------------------------------------------------------------------------


class _Call(dict[str, Any]):
    """A JSON object of a call, with the keys that it repeats."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter[str](name for name, _ in pairs) if len(self) < len(pairs) else Counter[str]()
        self.repeated = {name for name, count in counts.items() if count > 1}


def _parse(text: str) -> _Call:
    try:
        call = json.loads(
            text, object_pairs_hook=_Call, parse_int=_decode_int, parse_constant=lambda _: math.nan
        )
    except (ValueError, RecursionError):
        call = None
    if not isinstance(call, _Call):
        raise RefusedError("invalid_selector", "The arguments must be one JSON object and nothing else.")
    return call


def _decode_int(digits: str) -> int | float:
    # Longer than any safe integer: too large is all that matters, and Python refuses to read very long ones.
    return int(digits) if len(digits) <= 20 else math.inf


def _refuse_unknown(call: _Call, shape: type[msgspec.Struct], repeatable: str | None = None) -> None:
    """Refuse unknown and repeated arguments; null counts as absent, `repeatable` is looked at later."""
    known = shape.__struct_fields__
    unknown = sorted(name for name, value in call.items() if name not in known and value is not None)
    if unknown:
        allowed = ", ".join(sorted(known)) or "none"
        raise RefusedError(
            "invalid_selector",
            f"Unknown argument {_quote(unknown[0])}. The arguments of this tool are: {allowed}.",
        )
    repeated = sorted(call.repeated - {repeatable})
    if repeated:
        raise RefusedError("invalid_selector", f"Argument {_quote(repeated[0])} is repeated. Give it once.")


def _quote(name: str) -> str:
    """Show an argument's name in a message: short, in ASCII, on one line."""
    return json.dumps(name if len(name) <= 40 else f"{name[:40]}…")


def _wrong_selectors(given: list[str]) -> str:
    if not given:
        return "Say when: give exactly one of after_seconds, at and every_seconds."
    return (
        f"Only one selector is allowed, but {' and '.join(given)} are given. Keep the one that is meant and "
        "leave the others out (an empty text or 0 counts as given)."
    )


def _decode_prompt(call: _Call, limits: Limits) -> str:
    prompt = call.get("prompt")
    if not isinstance(prompt, str):
        raise RefusedError("invalid_prompt", "Give prompt as text: what the reminder is to say.")
    if "prompt" in call.repeated:
        raise RefusedError("invalid_prompt", 'Argument "prompt" is repeated. Give it once.')
    if _UNSEEN.fullmatch(prompt):
        raise RefusedError("invalid_prompt", "The prompt is blank. Say what the reminder is about.")
    if "\0" in prompt or _has_lone_surrogate(prompt):
        raise RefusedError(
            "invalid_prompt", "The prompt holds U+0000 or half of a surrogate pair. Leave that character out."
        )
    prompt = trim(prompt)
    size = len(prompt.encode())
    if size > limits.max_prompt_bytes:
        raise RefusedError(
            "invalid_prompt",
            f"The prompt has {size} bytes of UTF-8, and at most {limits.max_prompt_bytes} are allowed. "
            "Shorten it.",
        )
    return prompt


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _decode_seconds(name: str, value: object) -> int:
    """Return a whole safe number of seconds, also when it is written as `600.0` or `6e2`."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise RefusedError("invalid_rule", f"{name} must be a number of seconds, such as 600, and not text.")
    if value % 1 != 0 or abs(value) > MAX_SAFE_INTEGER:  # NaN and infinities have a remainder of NaN
        raise RefusedError("invalid_rule", f"{name} must be a whole number of at most {MAX_SAFE_INTEGER}.")
    return int(value)


def _decode_after(value: object) -> After:
    seconds = _decode_seconds("after_seconds", value)
    if seconds <= 0:
        raise RefusedError("invalid_rule", "after_seconds must be greater than 0, such as 600.")
    return After(seconds)


def _decode_every(value: object) -> Every:
    seconds = _decode_seconds("every_seconds", value)
    if seconds < MIN_EVERY_INTERVAL_SECONDS:
        raise RefusedError(
            "frequency_too_high",
            f"every_seconds must be at least {MIN_EVERY_INTERVAL_SECONDS}. Use a longer interval, or "
            "after_seconds for a reminder that comes once.",
        )
    return Every(seconds)


def _decode_at(value: object, zones: ZoneLookup) -> int:
    """Return the instant that `at` names, epoch milliseconds, possibly outside the years 0001 to 9999."""
    try:
        if isinstance(value, str):
            return decode_offset_time(value)
        if not isinstance(value, _Call):
            raise ValueError("at is neither text nor an object.")
        local = _decode_local_time(value)
        wall_ms = decode_wall_time(local.date, local.time)
    except ValueError as error:
        raise RefusedError("invalid_rule", f"{error} {_AT_FORMS}") from None
    instant_ms = resolve_wall_time(wall_ms, _find_zone(local.time_zone, zones))
    if instant_ms is None:
        raise RefusedError(
            "invalid_rule",
            f"Clocks in {local.time_zone} skip {local.date} {local.time}: that local time does not exist. "
            "Give an earlier or a later one.",
        )
    return instant_ms


def _decode_local_time(value: _Call) -> LocalTime:
    if value.repeated or set(value) != set(LocalTime.__struct_fields__):
        raise ValueError("at as an object has exactly the keys date, time and time_zone, each once.")
    zone = value["time_zone"]
    try:
        # What is no name at all is no zone's name either, and that has a code of its own.
        return msgspec.convert({**value, "time_zone": zone if isinstance(zone, str) else ""}, LocalTime)
    except msgspec.ValidationError:
        raise ValueError("date and time are texts.") from None


def _find_zone(name: str, zones: ZoneLookup) -> tzinfo:
    zone = zones.find(name)
    if zone is None:
        raise RefusedError(
            "invalid_time_zone",
            'time_zone must be "UTC" or an IANA name with a slash, such as "Europe/Berlin". Abbreviations '
            "and offsets are not accepted.",
        )
    return zone
