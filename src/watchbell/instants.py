"""Instants, wall times and durations, and how the first two are written (contract section 3).

An instant is a point on the one line of time. A wall time is what clocks show, a date and a time of day; it
becomes an instant through an offset or a time zone, and is a type of its own so that nobody takes it for one.
The grammar is ours alone: no lenient parser of the standard library has a say.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NewType

import msgspec

Instant = NewType("Instant", int)
"""A point in time, epoch milliseconds."""

Duration = NewType("Duration", int)
"""A length of time, milliseconds."""

MIN_INSTANT_MS = Instant(-62_135_596_800_000)
"""The instant `0001-01-01T00:00:00.000Z`."""

MAX_INSTANT_MS = Instant(253_402_300_799_999)
"""The instant `9999-12-31T23:59:59.999Z`."""


class WallTime(msgspec.Struct, frozen=True):
    """What clocks show, wherever they hang.

    Attributes:
        utc_ms: Epoch milliseconds of the instant at which clocks in UTC show it.
    """

    utc_ms: int


_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = _EPOCH.toordinal()
_MILLISECOND = timedelta(milliseconds=1)
_DATE = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,3}))?")
_OFFSET_TIME = re.compile(r"([0-9-]{10})T([0-9:.]{8,12})(?:Z|([+-])([0-9]{2}):([0-9]{2}))")
_INSTANT = re.compile(_DATE.pattern + r"T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_WRITTEN = "an instant is written YYYY-MM-DDTHH:mm:ss.sssZ"
_DAYS_KEPT = _HOURS_KEPT = 4096
# An instant in pieces: looking them up is several times as fast as reading their digits.
_HOUR_TEXTS = [f"T{hour:02}" for hour in range(24)]
_SECOND_TEXTS = [f":{minute:02}:{second:02}." for minute in range(60) for second in range(60)]
_MILLI_TEXTS = [f"{milli:03}Z" for milli in range(1000)]
_HOUR_STARTS = {text: hour * _HOUR_MS for hour, text in enumerate(_HOUR_TEXTS)}
_SECONDS = {text: 1000 * second for second, text in enumerate(_SECOND_TEXTS)}
_MILLIS = {text: milli for milli, text in enumerate(_MILLI_TEXTS)}


def decode_offset_time(text: str) -> Instant:
    """Return the instant of `YYYY-MM-DDTHH:mm:ss[.f..fff](Z|+HH:MM|-HH:MM)`.

    It may lie outside the years 0001 to 9999.

    Raises:
        ValueError: The text is not of that form, or the calendar or the clock has no such time.
    """
    match = _OFFSET_TIME.fullmatch(text)
    if match is None:
        raise ValueError("at is not a date and time with an offset.")
    day, time, sign, hours, minutes = match.groups()
    wall = decode_wall_time(day, time)
    if sign is None:
        return Instant(wall.utc_ms)
    if int(hours) > 23 or int(minutes) > 59 or (sign, hours, minutes) == ("-", "00", "00"):
        raise ValueError("The offset of at is not one of Z, +00:00 to +23:59 and -00:01 to -23:59.")
    offset_ms = (int(hours) * 60 + int(minutes)) * 60_000
    return Instant(wall.utc_ms - offset_ms if sign == "+" else wall.utc_ms + offset_ms)


def decode_wall_time(day: str, time: str) -> WallTime:
    """Return the wall time of `YYYY-MM-DD` and `HH:mm:ss[.f..fff]`.

    Raises:
        ValueError: A text is not of that form, or the calendar or the clock has no such time.
    """
    date_match, time_match = _DATE.fullmatch(day), _TIME.fullmatch(time)
    if date_match is None or time_match is None:
        raise ValueError("A date looks like 2027-06-01 and a time like 09:00:00.")
    try:
        days = date(*map(int, date_match.groups())).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        raise ValueError("The calendar has no such date.") from None
    hour, minute, second = (int(time_match[group]) for group in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("Hours go from 00 to 23, minutes and seconds from 00 to 59.")
    milli = int((time_match[4] or "").ljust(3, "0"))
    return WallTime((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli)


def resolve_wall_time(wall: WallTime, zone: tzinfo) -> Instant | None:
    """Return the earliest instant at which clocks in `zone` show a wall time.

    It may lie outside the years 0001 to 9999. None when the clocks skip that time.
    """
    local = _EPOCH + wall.utc_ms * _MILLISECOND
    found: list[Instant] = []
    # Neither fold is right everywhere: in a gap both are wrong, and for some zones fold 0 is wrong for an
    # hour that exists once. Only an instant that gives the wall time back counts.
    for fold in (0, 1):
        offset = local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()
        instant = Instant(wall.utc_ms - offset // _MILLISECOND)
        if not MIN_INSTANT_MS <= instant <= MAX_INSTANT_MS or _shown(instant, zone) == wall:
            found.append(instant)
    return min(found, default=None)


def _shown(instant: Instant, zone: tzinfo) -> WallTime | None:
    """Return what clocks in `zone` show at an instant; None beyond the calendar's ends."""
    try:
        local = (_EPOCH + instant * _MILLISECOND).astimezone(zone)
    except OverflowError:
        return None
    return WallTime((local.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND)


def decode_instant(text: str) -> Instant:
    """Return the instant that a canonical UTC text names, `YYYY-MM-DDTHH:mm:ss.sssZ`.

    Raises:
        ValueError: The text is not canonical, or the calendar has no such instant.
    """
    try:
        # Not `Instant(...)`: that is a call, and logs are full of instants.
        return _HOURS[text[:13]] + _SECONDS[text[13:20]] + _MILLIS[text[20:]]  # pyright: ignore[reportReturnType]
    except KeyError:
        if _INSTANT.fullmatch(text) is None:
            raise ValueError(_WRITTEN) from None
        raise ValueError("the clock has no such time of day") from None


def render_instant(instant: Instant) -> str:
    """Return the canonical UTC text of an instant.

    Raises:
        ValueError: The instant is outside the years 0001 to 9999.
    """
    if not MIN_INSTANT_MS <= instant <= MAX_INSTANT_MS:
        raise ValueError(f"{instant} ms is outside the years 0001 to 9999")
    days, rest = divmod(instant, _DAY_MS)
    hours, rest = divmod(rest, _HOUR_MS)
    seconds, millis = divmod(rest, 1000)
    return _render_day(days) + _HOUR_TEXTS[hours] + _SECOND_TEXTS[seconds] + _MILLI_TEXTS[millis]


class _Hours(dict[str, int]):
    """Epoch milliseconds of hours, `YYYY-MM-DDTHH`, those that were asked for lately."""

    def __missing__(self, text: str) -> int:
        if _DATE.match(text) is None:
            raise ValueError(_WRITTEN)
        days = date.fromisoformat(text[:10]).toordinal() - _EPOCH_ORDINAL
        start_ms = days * _DAY_MS + _HOUR_STARTS[text[10:]]
        if len(self) >= _HOURS_KEPT:
            self.clear()
        self[text] = start_ms
        return start_ms


_HOURS = _Hours()


@lru_cache(_DAYS_KEPT)
def _render_day(days: int) -> str:
    return date.fromordinal(days + _EPOCH_ORDINAL).isoformat()
