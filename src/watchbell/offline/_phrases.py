"""Reads what a person wrote: what is not understood to its last word is asked back.

A request is `remind me TIME to PROMPT`, with its time before, between or behind. Whatever else stands there,
or looks like a part of the time, is asked about: nothing here guesses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TypeAlias

import msgspec

from watchbell.offline import _grammar as grammar
from watchbell.offline._sentences import HELP, SMALL_TALK
from watchbell.zones import ZoneTable

__all__ = ["Call", "LocalNow", "Wish", "read_now", "read_wish"]

Call: TypeAlias = tuple[str, Mapping[str, object]]
_Pieces: TypeAlias = list[re.Match[str]]

_LONGEST = 2_000  # characters; the patterns are not made for more
_ZONES = ZoneTable()
_LISTING: tuple[Call, ...] = (("schedule_list", {}),)
_EXAMPLE = "for example: remind me at 2030-01-01 09:00 in Europe/Berlin to call Ann."
_SAY_HOUR = "Say the hour as 00:00 to 23:59"
_FIRST_TIME = 0xE000  # the first of the characters that stand for times
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_AREAS = ("Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
_PARTS = {"morning": (1, 12), "afternoon": (12, 19), "evening": (16, 24), "night": (18, 24)}
_ANY = "is are it there please can could you tell me us show now and the my what whats what's what’s which"
_REMINDERS = f"{_ANY} do i we have any all of our active current list reminder schedule"
_QUESTIONS = {  # words of which it holds one, and all others that it may hold
    "list": ("list reminders pending due upcoming planned scheduled schedules", _REMINDERS),
    "next": ("next", f"{_REMINDERS} when when's when’s one due coming time"),
    "time": ("time date day today's today’s", f"{_ANY} current today do have know"),
    "thanks": ("thanks thank thx cheers great perfect ok okay", "you very much a lot so many good nice cool"),
    "hello": ("hello hi hey morning afternoon evening", "good there day how are you everybody"),
    "bye": ("bye goodbye", "good for now see you later thanks"),
    "help": ("help can", "me please you i need what do for how"),
}


class LocalNow(msgspec.Struct, frozen=True):
    """What the time-context message told: the instant, and the reader's zone when it is known."""

    at: datetime
    zone: str | None


class Wish(msgspec.Struct, frozen=True):
    """What is to be done about what a person wrote.

    Attributes:
        said: What to say at once.
        calls: Which tools to call, each with its arguments.
        of_list: What `tell_list` is to make of the reminders, once they are listed.
    """

    said: str = ""
    calls: tuple[Call, ...] = ()
    of_list: str = ""


class _AskError(Exception):
    """A sentence is not understood; the text asks back."""


def _unclear(words: str, hint: str = "When should I remind you? Say it in one sentence") -> _AskError:
    shown = " ".join(words.split()).strip(" .,;:!?–—-")
    return _AskError(f'I do not understand "{shown[:80]}" there, so I set nothing. {hint}, {_EXAMPLE}')


def read_now(text: str) -> LocalNow | None:
    """Read a time-context message; None when it does not tell the time."""
    told = dict(re.findall(r"^(now_utc|time_zone): *(\S+) *$", text, re.MULTILINE))
    try:
        at = datetime.fromisoformat(told["now_utc"]).replace(tzinfo=UTC)
    except (KeyError, ValueError):
        return None
    zone = told.get("time_zone", "")
    return LocalNow(at, zone if "/" in zone or zone == "UTC" else None)


def read_wish(text: str, now: LocalNow | None) -> Wish:
    """Read what a person wrote; `now` is the time as far as it was told."""
    if len(text) > _LONGEST:
        return Wish(HELP)
    text = re.sub(r"\b([ap])\.\s?m\b\.?", r"\1m", re.sub("[\0\ue000-\uf8ff]", " ", text), flags=re.IGNORECASE)
    words = set(re.findall(r"[\w'’]+", text.lower()))
    for about, (keys, others) in _QUESTIONS.items():
        if words & set(keys.split()) and words <= {*keys.split(), *others.split()}:
            if about in ("list", "next"):
                return Wish(calls=_LISTING, of_list=about)
            return Wish(_tell_time(now) if about == "time" else SMALL_TALK[about])
    bare = re.sub(rf"^\W*(?:{grammar.POLITE.pattern})*", "", _close(text), flags=re.IGNORECASE)
    if cancel := grammar.CANCEL.match(bare):
        what = bare[cancel.end() :]
        if re.fullmatch(r"(?:(?:and|the|reminders?|schedule-\d+)\b[\s,]*)+", what, re.IGNORECASE):
            ids = dict.fromkeys(re.findall(r"schedule-\d+", what.lower()))
            return Wish(calls=tuple(("schedule_delete", {"id": schedule_id}) for schedule_id in ids))
        return Wish(calls=_LISTING, of_list=f"cancel {what}")
    try:
        prompt, pieces = _read_request(text)
        return Wish(calls=(("schedule_create", {"prompt": prompt, **_read_when(pieces, now)}),))
    except _AskError as error:
        return Wish(str(error))


# --- the words -------------------------------------------------------------------------------------------


def _read_request(text: str) -> tuple[str, _Pieces]:
    """Return what to be reminded of, and the pieces of its time."""
    marked, runs = _mark_times(text)

    def unclear(words: str) -> _AskError:
        return _unclear(re.sub("[\ue000-\uf8ff]", lambda mark: runs[ord(mark[0]) - _FIRST_TIME][0], words))

    if told := _read_told(text, marked, runs):
        return told
    pieces = [piece for _, found in runs for piece in found]
    head = grammar.HEAD.match(marked)
    rest = marked[head.end() :] if head else marked
    if head is None or not head["lead"]:
        if "\n" in text.strip():
            raise _AskError(HELP)
        if remind := re.search(r"\b(?:remind(?:ers?|ing)?|cancel|delete)\b", marked, re.IGNORECASE):
            raise unclear(marked[: remind.start()].strip() or marked)
        _require_order(marked, rest, pieces)
    elif _close(rest) and not grammar.JOINT.match(rest):
        raise unclear(re.split(r"\s(?:to|that)\s", rest)[0])
    joint = grammar.JOINT.match(rest)
    prompt = rest[joint.end() :] if joint else rest
    body = _close(prompt)
    if "\ue000" <= body[-1:] <= "\uf8ff" and not grammar.BEFORE.search(body[:-1]):
        prompt = _close(body[:-1])
    if found := grammar.UNCLEAR.search(re.sub(r'"[^"\n]*"', "", prompt)):
        raise unclear(found[0])
    prompt = " ".join((prompt if prompt.endswith("!") else _close(prompt)).split())
    if pieces and not prompt:
        raise _AskError(
            "What should I remind you of? Say it in one sentence, such as: remind me in 1 hour to stretch."
        )
    return prompt, pieces


def _close(text: str) -> str:
    """Return the text without what ends a sentence and asks for nothing."""
    while (shorter := grammar.CLOSE.sub("", text.rstrip(" \n.,;:!?"))) != text:
        text = shorter
    return text


def _require_order(marked: str, rest: str, pieces: _Pieces) -> None:
    """Let pass what needs no "remind me": an order after its time, or with an interval behind it."""
    if not pieces or "?" in marked:
        raise _AskError(HELP)
    is_first = rest[:1] != marked.strip()[:1] or pieces[0].lastgroup == "every"
    if not (is_first and grammar.ORDER.match(rest)):
        raise _AskError(f'If you want a reminder of that, begin with "remind me", {_EXAMPLE}')


def _read_told(text: str, marked: str, runs: list[tuple[str, _Pieces]]) -> tuple[str, _Pieces] | None:
    """Read `The call is at 9. Remind me tomorrow.`: one sentence has the clock, the other the day."""
    pieces = [piece for _, found in runs for piece in found if piece.lastgroup != "calendar"]
    kinds = sorted({piece.lastgroup or "" for piece in pieces[:-1]})
    is_told = re.fullmatch("[^.!?]+\\.\\s+Remind\\s+me\\s+[\ue000-\uf8ff]\\W*", marked)
    if not is_told or pieces[-1].lastgroup != "day" or kinds not in (["clock"], ["clock", "zone"]):
        return None
    return re.split(r"\.\s+Remind\s", text)[0], pieces


def _mark_times(text: str) -> tuple[str, list[tuple[str, _Pieces]]]:
    """Return the text with one character in the place of each time, and the words and pieces of these."""
    quoted = re.sub(r'"[^"\n]*"', lambda quote: "\1" * len(quote[0]), text)  # no part of the grammar
    runs: list[tuple[str, _Pieces]] = []
    marked, end = "", 0
    for word in re.compile(r"(?<![\w'’/.:+-])\w").finditer(quoted):
        start = word.start()
        pieces, stop = _read_run(quoted, start) if start >= end else ([], end)
        if pieces:
            marked += text[end:start] + chr(_FIRST_TIME + len(runs))
            runs.append((text[start:stop], pieces))
            end = stop
    return marked + text[end:], runs


def _read_run(text: str, start: int) -> tuple[_Pieces, int]:
    """Return the pieces of time that follow each other from `start` on, and where they end."""
    pieces: _Pieces = []
    end, before = start, ""
    while piece := grammar.PIECE.match(text, end):
        kind = piece.lastgroup or ""
        has_sign = any(piece[sign] for sign in ("noon", "sure", "half", "oclock", "daytime"))
        if kind == "clock" and not has_sign:
            if not ((piece["bare"] or before == "day") and grammar.BARE_END.match(text, piece.end())):
                break
        elif kind == "zone" and before not in ("day", "clock"):
            break
        pieces.append(piece)
        before, end = kind, piece.end()
        while text[end : end + 1] in (" ", ",", "\n"):
            end += 1
    return pieces, pieces[-1].end() if pieces else start


# --- the time --------------------------------------------------------------------------------------------


def _read_when(pieces: _Pieces, now: LocalNow | None) -> dict[str, object]:
    of_kind = {
        kind: [piece for piece in pieces if piece.lastgroup == kind]
        for kind in ("calendar", "every", "after", "instant", "day", "clock", "zone")
    }
    calendar, every, after, instant, days, clocks, named = of_kind.values()
    if not pieces:
        raise _AskError(f"When should I remind you? Say it in one sentence, {_EXAMPLE}")
    if calendar or (every and (days or clocks)):
        raise _AskError(
            f'I cannot repeat a reminder by the calendar ("{(calendar or every)[0][0]}"), only at a '
            "fixed interval that is counted from now, such as: every 24 hours look at the build."
        )
    is_moment = bool(clocks) and not instant
    double = next((same[1] for same in (clocks, named, after) if len(same) > 1), None)
    if double or (not is_moment and len(pieces) > max(1, len(days))):
        raise _unclear((double or pieces[1])[0])
    if is_moment:
        return {"at": _read_moment(clocks[0], [*days, *after], named[0] if named else None, now)}
    if days:
        raise _AskError(f"At what time {days[0][0]}? Say it in one sentence, {_EXAMPLE}")
    if instant:
        return {"at": instant[0]["at"]}
    return {"every_seconds" if every else "after_seconds": _count_seconds(pieces[0][0].lower())}


def _count_seconds(span: str) -> int:
    if not (parts := grammar.SPAN.findall(span)):  # hourly, every day, every other week
        return grammar.UNITS[span.split()[-1][0]] * (2 if " other " in span else 1)
    total = 0.0
    for amount, before, unit, after in parts:
        count = grammar.NUMBERS.get(" ".join(amount.split())) or float(amount)
        total += (count + (0.5 if before or after else 0)) * grammar.UNITS[unit[0]]
    return round(total)


def _read_moment(
    clock: re.Match[str], days: _Pieces, named: re.Match[str] | None, now: LocalNow | None
) -> dict[str, str]:
    zone = _read_zone(named, now)
    time = _read_time(clock, days)
    if now is None and (not days or any(day["iso"] is None for day in days)):
        raise _AskError(f"I do not know today's date. Say the full date and the zone, {_EXAMPLE}")
    local = (now.at if now else _LONG_AGO).astimezone(zone)
    has_passed = time <= f"{local:%H:%M:%S}"
    is_bare = not (days or clock["noon"] or clock["sure"] or clock["half"] or clock["daytime"])
    if is_bare and has_passed and int(time[:2]) + 12 > local.hour:  # such as "at 5", said at noon
        raise _unclear(clock[0], _SAY_HOUR)
    try:
        dates = {_read_day(day, local.date(), has_passed) for day in days}
        dates = dates or {_plus(local.date(), has_passed)}
    except OverflowError:
        raise _AskError(f"That is too far away. Say it in one sentence, {_EXAMPLE}") from None
    if len(dates) > 1:
        raise _unclear(days[-1][0])
    return {"date": dates.pop(), "time": time, "time_zone": str(zone)}


def _tell_time(now: LocalNow | None) -> str:
    if now is None:
        return "I do not know the time here: nobody told me."
    zone = _ZONES.find(now.zone or "UTC") or UTC
    return f"It is {now.at.astimezone(zone):%A, %Y-%m-%d %H:%M} in {zone} ({now.at:%H:%M} UTC)."


def _read_zone(named: re.Match[str] | None, now: LocalNow | None) -> tzinfo:
    name = re.sub(r"^in\s+|\s+time$", "", named[0] if named else "local", flags=re.IGNORECASE)
    if name.lower() in ("local", "my", "our"):
        if now is None or now.zone is None:
            raise _AskError(f"I do not know your time zone. Say the full date and the zone, {_EXAMPLE}")
        name = now.zone
    names = [name, *(f"{area}/{name.replace(' ', '_')}" for area in _AREAS)]
    found = [UTC] if name.upper() == "GMT" else [zone for zone in map(_ZONES.find, names) if zone is not None]
    if len(found) != 1:
        raise _AskError(f"I do not know the time zone {name!r}. Use a name such as Europe/Berlin, {_EXAMPLE}")
    return found[0]


def _read_time(clock: re.Match[str], days: _Pieces) -> str:
    said = (clock["noon"] or clock["hour"]).lower()
    hour = int(said) if said.isdigit() else int({"noon": 12, "midnight": 0, **grammar.NUMBERS}[said])
    words = " ".join([clock["daytime"] or "", *(f"{day['near']} {day['part']}" for day in days)]).lower()
    parts = [range(*hours) for name, hours in _PARTS.items() if name in words]
    hours = [hour]
    if half := (clock["half"] or "").lower():
        hours = [hour % 12 + (12 if half == "pm" else 0)] if 0 < hour <= 12 else []
    elif parts and hour <= 12 and not clock["noon"]:
        hours = [hour, (hour + 12) % 24]
    hours = [each for each in hours if all(each in part for part in parts)]
    if len(hours) != 1 or (said == "midnight" and days):
        raise _unclear(clock[0], _SAY_HOUR)
    rest = clock["rest"] or "00"
    return f"{hours[0]:02}:{rest}" if ":" in rest else f"{hours[0]:02}:{rest}:00"


def _read_day(day: re.Match[str], today: date, has_passed: bool) -> str:
    if day.lastgroup == "after":
        days, rest = divmod(_count_seconds(day[0].lower()), grammar.UNITS["d"])
        if rest:
            raise _unclear(day[0])
        return _plus(today, days)
    if day["iso"]:
        return day["iso"]
    if near := (day["near"] or "").lower():
        return _plus(today, 2 if "after" in near else int("tomorrow" in near))
    if said := (day["date"] or "").lower():
        number = int(re.sub(r"\D", "", said))
        month = next(place for name, place in grammar.MONTHS.items() if re.search(rf"\b{name}", said))
        year = int(day["year"] or today.year + ((month, number) < (today.month, today.day)))
        return f"{year:04}-{month:02}-{number:02}"
    ahead = (grammar.WEEKDAYS[day["weekday"].lower()] - today.weekday()) % 7
    # On a Monday, "Monday" may be today; and "next Friday" may be the one of this week or of the next.
    if (ahead == 0 and not (has_passed or day["next"])) or (day["next"] and 0 < ahead < 7 - today.weekday()):
        raise _unclear(day[0], "Say its date")
    return _plus(today, ahead or 7)


def _plus(day: date, days: int) -> str:
    return (day + timedelta(days=days)).isoformat()
