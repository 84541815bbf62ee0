"""What a model's call of a Schedule tool asks for (contract sections 3 and 4).

The published JSON Schemas are derived from the shapes here, and calls are read by them: their fields are the
arguments that there are, and the checks below say of each field what the schema says of it. Everything that
the text alone shows to be wrong is found here, in the fixed order of checks; `times.resolve` takes the clock
and finds the rest.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import tzinfo
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from watchbell.instants import Instant, decode_offset_time, decode_wall_time, resolve_wall_time
from watchbell.reminders.records import (
    MAX_SAFE_INTEGER,
    MIN_EVERY_INTERVAL_SECONDS,
    WHITE_SPACE,
    is_schedule_id,
    trim,
)
from watchbell.reminders.times import After, At, CreateRequest, Every, Selector, ZoneLookup
from watchbell.reminders.views import RefusedError


class LocalTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A date and a time of day as clocks in a time zone show them."""

    date: Annotated[str, Meta(description="YYYY-MM-DD")]
    time: Annotated[str, Meta(description="HH:mm:ss, up to three fraction digits allowed")]
    time_zone: Annotated[str, Meta(description="IANA name such as Europe/Berlin, or UTC")]


class CreateArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of `schedule_create`: the prompt and exactly one of the others, its selectors."""

    prompt: Annotated[
        str, Meta(description="What to remind of, as it should be put to the user when it is due.")
    ]
    after_seconds: (
        Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER, description="Once, this many seconds from now.")]
        | UnsetType
    ) = UNSET
    at: Annotated[
        Annotated[str, Meta(description="An instant with its offset, such as 2027-06-01T09:00:00+02:00.")]
        | LocalTime
        | UnsetType,
        Meta(
            description="Once, at this time: text with an offset, or an object with a local date and time "
            "and its time zone."
        ),
    ] = UNSET
    every_seconds: (
        Annotated[
            int,
            Meta(
                ge=MIN_EVERY_INTERVAL_SECONDS,
                le=MAX_SAFE_INTEGER // 1000,
                description="Again and again, this many seconds apart, first one interval from now.",
            ),
        ]
        | UnsetType
    ) = UNSET


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `schedule_list`: none."""


class DeleteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `schedule_delete`."""

    id: Annotated[str, Meta(description="The id, as schedule_list shows it.")]


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


class Limits(msgspec.Struct, frozen=True):
    """Caps on creation; replay knows none.

    Attributes:
        max_prompt_bytes: Longest prompt, bytes of UTF-8 after trimming.
        max_active: Most active reminders in one session.
    """

    max_prompt_bytes: int = 16 * 1024
    max_active: int = 1000


def decode_create(text: str, zones: ZoneLookup, limits: Limits) -> CreateRequest:
    """Read the arguments of `schedule_create`, in the fixed order of checks.

    Args:
        text: The model's raw argument text.
        zones: Where time zones are looked up.
        limits: The caps in force.

    Raises:
        RefusedError: Something is wrong that needs no clock to be seen.
    """
    call = _decode_call(text, CreateArguments, repeatable="prompt")
    given = [name for name in _SELECTORS if call.get(name) is not None]
    if len(given) != 1:
        raise RefusedError("invalid_selector", _wrong_selectors(given))
    return CreateRequest(_decode_prompt(call, limits), _decode_selector(given[0], call[given[0]], zones))


def decode_list(text: str) -> None:
    """Read the arguments of `schedule_list`, which has none.

    Raises:
        RefusedError: There is an argument, or the text is not one JSON object.
    """
    if text.strip(" \t\r\n") not in ("", "null"):
        _decode_call(text, ListArguments)


def decode_delete(text: str) -> str:
    """Read the arguments of `schedule_delete` and return the id.

    Raises:
        RefusedError: The arguments are not exactly one id.
    """
    schedule_id = _decode_call(text, DeleteArguments).get("id")
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


class _Call(dict[str, object]):
    """A JSON object of a call, with the keys that it repeats."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter[str](name for name, _ in pairs) if len(self) < len(pairs) else Counter[str]()
        self.repeated = {name for name, count in counts.items() if count > 1}


def _decode_call(text: str, shape: type[msgspec.Struct], repeatable: str | None = None) -> _Call:
    """Decode a call's text, and refuse what is no argument of `shape` or is given twice.

    An argument that is null counts as absent. That `repeatable` is repeated is for the caller to see.
    """
    try:
        call = json.loads(
            text, object_pairs_hook=_Call, parse_int=_decode_int, parse_constant=lambda _: math.nan
        )
    except (ValueError, RecursionError):
        call = None
    if not isinstance(call, _Call):
        raise RefusedError("invalid_selector", "The arguments must be one JSON object and nothing else.")
    known = shape.__struct_fields__
    unknown = sorted(call.keys() - set(known))
    if unknown:
        allowed = ", ".join(sorted(known)) or "none"
        raise RefusedError(
            "invalid_selector",
            f"Unknown argument {_quote(unknown[0])}. The arguments of this tool are: {allowed}.",
        )
    repeated = sorted(call.repeated - {repeatable})
    if repeated:
        raise RefusedError("invalid_selector", f"Argument {_quote(repeated[0])} is repeated. Give it once.")
    return call


def _decode_int(digits: str) -> int | float:
    # Longer than any safe integer: too large is all that matters, and Python refuses to read very long ones.
    return int(digits) if len(digits) <= 20 else math.inf


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


def _decode_selector(name: str, value: object, zones: ZoneLookup) -> Selector:
    if name == "at":
        return At(_decode_at(value, zones))
    seconds = _decode_seconds(name, value)
    if name == "after_seconds":
        if seconds <= 0:
            raise RefusedError("invalid_rule", "after_seconds must be greater than 0, such as 600.")
        return After(seconds)
    if seconds < MIN_EVERY_INTERVAL_SECONDS:
        raise RefusedError(
            "frequency_too_high",
            f"every_seconds must be at least {MIN_EVERY_INTERVAL_SECONDS}. Use a longer interval, or "
            "after_seconds for a reminder that comes once.",
        )
    return Every(seconds)


def _decode_seconds(name: str, value: object) -> int:
    """Return a whole safe number of seconds, also when it is written as `600.0` or `6e2`."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise RefusedError("invalid_rule", f"{name} must be a number of seconds, such as 600, and not text.")
    if value % 1 != 0 or abs(value) > MAX_SAFE_INTEGER:  # NaN and infinities have a remainder of NaN
        raise RefusedError("invalid_rule", f"{name} must be a whole number of at most {MAX_SAFE_INTEGER}.")
    return int(value)


def _decode_at(value: object, zones: ZoneLookup) -> Instant:
    """Return the instant that `at` names, possibly outside the years 0001 to 9999."""
    try:
        if isinstance(value, str):
            return decode_offset_time(value)
        local = _decode_local_time(value)
        wall = decode_wall_time(local.date, local.time)
    except ValueError as error:
        raise RefusedError("invalid_rule", f"{error} {_AT_FORMS}") from None
    instant = resolve_wall_time(wall, _find_zone(local.time_zone, zones))
    if instant is None:
        raise RefusedError(
            "invalid_rule",
            f"Clocks in {local.time_zone} skip {local.date} {local.time}: that local time does not exist. "
            "Give an earlier or a later one.",
        )
    return instant


def _decode_local_time(value: object) -> LocalTime:
    if not isinstance(value, _Call):
        raise ValueError("at is neither text nor an object.")
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
