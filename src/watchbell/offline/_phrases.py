"""The few English sentences about reminders that the offline model understands.

Nothing here guesses: a sentence is a request that can be carried out, a question back, or not understood.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, TypeAlias

import msgspec

from watchbell.offline._grammar import (
    AFTER,
    ALL,
    CALENDAR,
    CANCEL,
    CITIES,
    CLOCK_FIRST,
    CLOCK_PARTS,
    DATE,
    DAY_ALONE,
    DAY_FIRST,
    EVERY,
    ID,
    LEAD,
    LIST,
    NUMBERS,
    REMIND,
    SMALL,
    SPAN_PARTS,
    TRAIL,
    UNITS,
    WEEKDAYS,
)
from watchbell.zones import ZoneTable

__all__ = [
    "MAX_PHRASE",
    "Ask",
    "Cancel",
    "CancelAll",
    "ListAll",
    "LocalNow",
    "Phrase",
    "Remind",
    "read_now",
    "read_phrase",
]


class LocalNow(msgspec.Struct, frozen=True):
    """What the time-context message told: the instant, and the reader's zone when it is known."""

    at: datetime
    zone: str | None


class Remind(msgspec.Struct, frozen=True):
    """Create a reminder; `selector` holds the one time argument of `schedule_create`."""

    prompt: str
    selector: dict[str, Any]


class ListAll(msgspec.Struct, frozen=True):
    """List the active reminders."""


class Cancel(msgspec.Struct, frozen=True):
    """Delete the reminders of these ids."""

    ids: tuple[str, ...]


class CancelAll(msgspec.Struct, frozen=True):
    """Delete every active reminder."""


class Ask(msgspec.Struct, frozen=True):
    """Something is missing; `text` asks for it."""

    text: str


Phrase: TypeAlias = Remind | ListAll | Cancel | CancelAll | Ask

MAX_PHRASE = 4_000
"""Longest text that is read, characters; the patterns are not made for more."""

_EXAMPLE = "for example: remind me at 2030-01-01 09:00 in Europe/Berlin to call Ann."


def read_now(text: str) -> LocalNow | None:
    """Read a time-context message; None when it does not tell the time."""
    told = dict(re.findall(r"^(now_local|now_utc|time_zone): *(\S+) *$", text, re.MULTILINE))
    for key in ("now_utc", "now_local"):
        try:
            at = datetime.fromisoformat(told[key])
        except (KeyError, ValueError):
            continue
        if at.tzinfo is not None:
            zone = told.get("time_zone", "")
            return LocalNow(at.astimezone(UTC), zone if "/" in zone or zone == "UTC" else None)
    return None


def read_phrase(text: str, now: LocalNow | None, zones: ZoneTable) -> Phrase | None:
    """Read what a person wrote; None when it is nothing that is understood here.

    Args:
        text: What they wrote.
        now: The current time, as far as it was told.
        zones: Where a zone's rules come from.
    """
    if len(text) > MAX_PHRASE:
        return None
    text = text.replace("\0", " ")
    if REMIND.search(text):
        return _read_remind(text, now, zones) or Ask(
            "When should I remind you? Say it in one sentence, " + _EXAMPLE
        )
    if CANCEL.search(text):
        ids = tuple(dict.fromkeys(match.lower() for match in ID.findall(text)))
        if ids:
            return Cancel(ids)
        if ALL.search(text):
            return CancelAll()
        return Ask("Which reminder? Say its id, such as: cancel schedule-2. To see the ids say: list.")
    if LIST.search(text):
        return ListAll()
    found = _find_time(text)
    if found is None:
        return None
    # Without the word "remind" a time counts only where a command has it: at either end.
    leads = not _strip(text[: found.start()])
    trails = "?" not in text and not _strip(text[found.end() :])
    return _read_remind(text, now, zones) if leads or trails else None


def _read_remind(text: str, now: LocalNow | None, zones: ZoneTable) -> Phrase | None:
    found = _find_time(text)
    day = DAY_ALONE.search(text)
    names_a_day = found is not None and day is not None and day[0].lower().split()[-1] not in WEEKDAYS
    if CALENDAR.search(text) and not names_a_day:
        return Ask(
            "I cannot repeat a reminder by the calendar; reminders repeat at a fixed interval, counted from "
            "now, such as: every 24 hours look at the build. For a single one name its day, such as: "
            "tomorrow at 09:00."
        )
    if found is None:
        return None if day is None else Ask(f"At what time {day[0]}? Say it in one sentence, {_EXAMPLE}")
    spans = [found.span()]
    if found.re is CLOCK_FIRST and found["day"] is None and day is not None:
        spans = sorted([*spans, day.span()])
    prompt = _read_prompt(text, spans)
    if not prompt:
        return Ask(
            "What should I remind you of? Say it in one sentence, such as: remind me in 1 hour to stretch."
        )
    if found.re is AFTER:
        return Remind(prompt, {"after_seconds": _seconds(found[1] or found[2])})
    if found.re is EVERY:
        return Remind(prompt, {"every_seconds": _seconds(found[2]) * (2 if found[1] else 1)})
    at = _read_moment(found, day, now, zones)
    return at if isinstance(at, Ask) else Remind(prompt, {"at": at})


def _find_time(text: str) -> re.Match[str] | None:
    """Find the first time in the text; of two that begin together, the longer one."""
    patterns = (AFTER, EVERY, DAY_FIRST, CLOCK_FIRST)
    found = [match for match in (pattern.search(text) for pattern in patterns) if match]
    return min(found, key=lambda match: (match.start(), -match.end()), default=None)


def _seconds(duration: str) -> int:
    total = 0.0
    exact = 0
    for amount, half_before, unit, half_after in SPAN_PARTS.findall(duration) or [("1", "", duration, "")]:
        size = UNITS[unit[0].lower()]
        if amount.isdigit() and not (half_before or half_after):
            exact += int(amount) * size
            continue
        count = NUMBERS.get(" ".join(amount.lower().split())) or float(amount)
        total += (count + (0.5 if half_before or half_after else 0)) * size
    return exact + round(total)


def _read_moment(
    found: re.Match[str], day: re.Match[str] | None, now: LocalNow | None, zones: ZoneTable
) -> dict[str, str] | str | Ask:
    groups = found.groupdict()
    named = groups["zone"] or groups.get("late_zone") or ""
    zone = _read_zone(named, now, zones)
    if isinstance(zone, Ask):
        return zone
    hours, rest = _read_clock(groups["clock"])
    words = (groups["day"] or (day[0] if day else "")).lower()
    if "night" in words and hours < 12:
        hours += 12
    on = re.search(DATE, words)
    try:
        chosen = on[0] if on else _read_day(words, f"{hours:02}:{rest}", now, zone)
    except OverflowError:
        return Ask(f"That is too far away. Say it in one sentence, {_EXAMPLE}")
    if isinstance(chosen, Ask):
        return chosen
    if re.fullmatch(r"\s*(?:Z|[+-]\d\d:\d\d)", named):
        return f"{chosen}T{hours:02}:{rest}{named.strip()}"
    return {"date": chosen, "time": f"{hours:02}:{rest}", "time_zone": str(getattr(zone, "key", "UTC"))}


def _read_zone(named: str, now: LocalNow | None, zones: ZoneTable) -> tzinfo | Ask:
    name = re.sub(r"^[\s,]*(?:in\s+)?|\s+time$", "", named, flags=re.IGNORECASE)
    if not name:
        if now is None or now.zone is None:
            return Ask(f"I do not know your time zone. Say the full date and the zone, {_EXAMPLE}")
        name = now.zone
    if offset := re.fullmatch(r"([+-])(\d\d):(\d\d)", name):
        span = timedelta(hours=min(int(offset[2]), 23), minutes=int(offset[3]) % 60)
        return timezone(-span if offset[1] == "-" else span)
    if name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    found = zones.find(CITIES.get(" ".join(name.lower().split()), name))
    return found or Ask(f"I do not know the time zone {name!r}. Use a name such as Europe/Berlin, {_EXAMPLE}")


def _read_clock(clock: str) -> tuple[int, str]:
    """Return the hour, and minutes with seconds as `MM:SS`."""
    parts = CLOCK_PARTS.match(clock)
    first = parts[1].lower() if parts else ""
    minutes, seconds = (parts[2] or "00", parts[3] or "00") if parts else ("00", "00")
    hours = {"noon": 12, "midnight": 0}.get(first)
    if hours is None:
        hours = int(first) if first.isdigit() else SMALL.index(first) + 1
        half = re.search(r"([ap])\.?m\b|\b(morning|afternoon|evening|night)", clock, re.IGNORECASE)
        if half and hours <= 12:
            late = (half[1] or "").lower() == "p" or half[2] in ("afternoon", "evening", "night")
            hours = hours % 12 + (12 if late else 0)
    return hours, f"{minutes}:{seconds}"


def _read_day(words: str, clock: str, now: LocalNow | None, zone: tzinfo) -> str | Ask:
    """Return the date that `words` mean in `zone`; without words, the next one with `clock` still to come."""
    if now is None:
        return Ask(f"I do not know today's date. Say the full date and the zone, {_EXAMPLE}")
    local = now.at.astimezone(zone)
    today = local.date()
    if "after" in words:
        return _plus(today, 2)
    if words.startswith("in "):
        return _plus(today, _seconds(words[3:]) // UNITS["d"])
    if "tomorrow" in words:
        return _plus(today, 1)
    for weekday, name in enumerate(WEEKDAYS):
        if name in words:
            return _plus(today, (weekday - today.weekday() - 1) % 7 + 1)
    return _plus(today, 0 if words or clock > local.strftime("%H:%M:%S") else 1)


def _plus(day: date, days: int) -> str:
    return (day + timedelta(days=days)).isoformat()


def _read_prompt(text: str, spans: list[tuple[int, int]]) -> str:
    """Return what to be reminded of: the request without its lead and time, and the other sentences."""
    cut: list[str] = []
    marked = ""  # the text with a NUL for each time in it
    end = 0
    for start, stop in spans:
        marked += text[end:start] + "\0"
        cut.append(text[start:stop])
        end = stop
    sentences = re.split(r"(?<=[.!?])\s+|\n+", marked + text[end:])
    asks = next((part for part in sentences if REMIND.search(part)), None)
    main = asks or next(part for part in sentences if "\0" in part)
    pieces: list[str] = []
    for sentence in sentences:
        times = [cut.pop(0) for _ in range(sentence.count("\0"))]
        if sentence is main:
            pieces.append(_strip(sentence.replace("\0", " ")))
        else:
            pieces.append(re.sub("\0", lambda _, times=times: times.pop(0), sentence).strip())
    prompt = ". ".join(
        piece.rstrip(".") if position < len(pieces) else piece
        for position, piece in enumerate(pieces, 1)
        if piece
    )
    return " ".join(prompt.split())


def _strip(text: str) -> str:
    while lead := LEAD.match(text):
        text = text[lead.end() :]
    return TRAIL.sub("", text).strip()
