"""Reads what a person wrote. What is not understood to its last word is asked back; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TypeAlias

import msgspec

from watchbell.offline import _grammar as grammar
from watchbell.offline._speech import HELP, SMALL_TALK
from watchbell.zones import ZoneTable

Call: TypeAlias = tuple[str, Mapping[str, object]]
_Pieces: TypeAlias = dict[str, re.Match[str]]

_LONGEST = 2_000  # characters; the patterns are not made for more
_ZONES = ZoneTable()
_EXAMPLE = "Say it in one sentence, for example: remind me at 2030-01-01 09:00 in Europe/Berlin to call Ann."
_DAYS: list[str] = [*grammar.DAYS.split("|")]
_MONTHS: list[str] = [*grammar.MONTHS.split("|")]
_AREAS = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
_ANY = "is are it there please can could you tell me us show now and the my what what's what’s which"
_REMINDERS = f"{_ANY} do i we have any all of our active current list reminder schedule"
_QUESTIONS = {  # words of which it holds one, and all others that it may hold
    "list": ("list reminders pending due upcoming planned scheduled", _REMINDERS),
    "next": ("next", f"{_REMINDERS} when when's when’s one due coming"),
    "time": ("time date day", f"{_ANY} current today do"),
    "thanks": ("thanks thank", "you very much a lot so"),
    "hello": ("hello hi hey morning afternoon evening", "good there"),
    "bye": ("bye goodbye", "good for now"),
    "help": ("help can", "me please you i need what do"),
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
    text = re.sub(r"\b([ap])\.m\b\.?", r"\1m", text.replace("\0", " "), flags=re.IGNORECASE).strip()
    words = set(re.findall(r"[\w'’]+", text.lower()))
    for about, (keys, others) in _QUESTIONS.items():
        if words & set(keys.split()) and words <= {*keys.split(), *others.split()}:
            if about in ("list", "next"):
                return Wish(calls=(("schedule_list", {}),), of_list=about)
            return Wish(_tell_time(now) if about == "time" else SMALL_TALK[about])
    if cancel := grammar.CANCEL.match(text):
        what = text[cancel.end() :].strip(" .!?")
        ids = re.fullmatch(r"(?:(?:and\s+)?schedule-\d+[\s,]*)+", what, re.IGNORECASE)
        if ids is None:
            return Wish(calls=(("schedule_list", {}),), of_list=f"cancel {what}")
        named = dict.fromkeys(re.findall(r"schedule-\d+", what.lower()))
        return Wish(calls=tuple(("schedule_delete", {"id": schedule_id}) for schedule_id in named))
    try:
        prompt, pieces = _read_request(text)
        return Wish(calls=(("schedule_create", {"prompt": prompt, **_read_when(pieces, now)}),))
    except _AskError as error:
        return Wish(str(error))


# --- the words -------------------------------------------------------------------------------------------


def _unclear(words: str, hint: str = "When should I remind you?") -> _AskError:
    shown = " ".join(words.split()).strip(" .,;:!?–—-")
    return _AskError(f'I do not understand "{shown[:80]}" there, so I set nothing. {hint} {_EXAMPLE}')


def _read_request(text: str) -> tuple[str, _Pieces]:
    """Return what to be reminded of, and the pieces of its time."""
    start, pieces = _read_time(
        text, len(polite[0]) if (polite := re.match(grammar.POLITE, text, re.I)) else 0
    )
    lead = grammar.LEAD.match(text[start:].lstrip(" ,"))
    if lead is None:
        if "\n" in text:
            raise _AskError(HELP)
        rest = text[start:]
        remind = re.search(r"\b(?:remind|reminder|cancel)\b", text, re.IGNORECASE)
        if remind:
            raise _unclear(text[: remind.start()] or text)
    else:
        rest = text[start:].lstrip(" ,")[lead.end() :]
        if not pieces:
            end, pieces = _read_time(rest, 0)
            rest = rest[end:]
    joint = grammar.JOINT.match(rest)
    body = rest[joint.end() :] if joint else rest.lstrip(" ,")
    prompt, behind = _split_end(body)
    if lead is None:
        _require_order(text, prompt, pieces, behind, is_joined=joint is not None)
    elif body.strip(" .!?") and joint is None:
        raise _unclear(re.split(r"\s(?:to|that)\s", body)[0])
    if doubled := pieces.keys() & behind.keys():
        raise _unclear(behind[doubled.pop()][0])
    prompt = re.sub(r"[\s,]*\bplease$", "", " ".join(prompt.split()).rstrip(" .,;:?"), flags=re.IGNORECASE)
    _require_clear(prompt)
    pieces = {**pieces, **behind}
    if pieces and not prompt:
        raise _AskError("What should I remind you of? Say, for example: remind me in 1 hour to stretch.")
    return prompt, pieces


def _read_time(text: str, start: int) -> tuple[int, _Pieces]:
    """Return where the pieces of time end that follow each other from `start` on, and the pieces by kind."""
    pieces: _Pieces = {}
    end = start
    while piece := grammar.PIECE.match(text, end):
        kind = next(kind for kind in grammar.KINDS if piece[kind])
        kind = "clock" if kind in ("noon", "bare") else kind
        if kind in pieces or (kind in ("half", "zone") and not pieces.keys() & {"day", "clock"}):
            break
        pieces[kind] = piece
        end = piece.end()
        end += len(text[end:]) - len(text[end:].lstrip(" ,"))
    return end, pieces


def _split_end(text: str) -> tuple[str, _Pieces]:
    """Return the text without the time that it ends with, and the pieces of that."""
    whole = text.rstrip(" .,;:!?")
    for word in re.finditer(r"(?<![\w'’/.:+-])\w", whole):
        end, pieces = _read_time(whole, word.start())
        if pieces and end >= len(whole):
            if re.search(r"[.!?]\s+\w", whole[: word.start()]):  # of a sentence of its own
                raise _unclear(whole[word.start() :])
            return text[: word.start()], pieces
    return text, {}


def _require_order(text: str, prompt: str, pieces: _Pieces, behind: _Pieces, *, is_joined: bool) -> None:
    """Let pass what needs no "remind me": an order with its time before it, or with an interval behind it."""
    if not (pieces or behind) or "?" in text:
        raise _AskError(HELP)
    is_told = bool(pieces) and is_joined
    if not is_told and not ((pieces or "every" in behind) and grammar.ORDER.match(prompt)):
        raise _AskError(f'If you want a reminder of that, begin with "remind me". {_EXAMPLE}')


def _require_clear(prompt: str) -> None:
    """Ask about what may be a part of the time, in what to be reminded of; what is quoted is not."""
    bare = re.sub(r'"[^"\n]*"', "", prompt)
    if found := grammar.UNCLEAR.search(bare):
        raise _unclear(found[0])
    for word in re.finditer(r"(?<![\w'’/.:+-])\w", bare):
        end, pieces = _read_time(bare, word.start())
        if pieces:
            raise _unclear(bare[word.start() : max(end, bare.find(" ", end))])


# --- the time --------------------------------------------------------------------------------------------


def _read_when(pieces: _Pieces, now: LocalNow | None) -> dict[str, object]:
    if not pieces:
        raise _AskError(f"When should I remind you? {_EXAMPLE}")
    repeats = pieces.get("calendar") or pieces.get("every")
    if "calendar" in pieces or (repeats and len(pieces) > 1):
        words = repeats[0] if repeats else ""
        raise _AskError(
            f'I cannot repeat a reminder by the calendar ("{words}"), only at a fixed interval that is '
            "counted from now, such as: every 24 hours look at the build."
        )
    if "clock" in pieces and pieces.keys() <= {"clock", "half", "day", "zone"}:
        return {"at": _read_moment(pieces, now)}
    first, *others = pieces.values()
    if "day" in pieces:
        raise _AskError(f"At what time {pieces['day'][0]}? {_EXAMPLE}")
    if others:
        raise _unclear(others[0][0])
    if instant := pieces.get("instant"):
        return {"at": instant["instant"]}
    return {"every_seconds" if repeats else "after_seconds": _count_seconds(first[0].lower())}


def _count_seconds(span: str) -> int:
    if not (parts := grammar.SPAN.findall(span)):  # hourly, every day, every other week
        word = {"hourly": "h", "daily": "d", "weekly": "w"}.get(span) or span.split()[-1][0]
        return grammar.UNITS[word] * (2 if " other " in span else 1)
    return round(
        sum(
            (grammar.NUMBERS.get(" ".join(amount.split())) or float(amount)) * grammar.UNITS[unit[0]]
            for amount, unit in parts
        )
    )


def _read_moment(pieces: _Pieces, now: LocalNow | None) -> dict[str, str]:
    clock, day = pieces["clock"], pieces.get("day")
    zone = _read_zone(pieces.get("zone"), now)
    part = pieces["half"]["half"] if "half" in pieces else (day["part"] or day["day"]) if day else ""
    time = _read_clock(clock, part.lower(), has_day=day is not None)
    if day is not None and day["iso"]:
        return {"date": day["iso"], "time": time, "time_zone": str(zone)}
    if now is None:
        raise _AskError(f"I do not know today's date: say the full date and the zone. {_EXAMPLE}")
    local = now.at.astimezone(zone)
    has_passed = time <= f"{local:%H:%M:%S}"
    if day is None and has_passed and clock["bare"] and int(time[:2]) + 12 > local.hour:
        raise _unclear(clock[0], "Say the hour as 00:00 to 23:59.")  # such as "at 5", said at noon
    on = (
        local.date() + timedelta(days=has_passed) if day is None else _read_day(day, local.date(), has_passed)
    )
    return {"date": on if isinstance(on, str) else on.isoformat(), "time": time, "time_zone": str(zone)}


def _tell_time(now: LocalNow | None) -> str:
    if now is None:
        return "I do not know the time here: nobody told me."
    zone = _ZONES.find(now.zone or "UTC") or UTC
    return f"It is {now.at.astimezone(zone):%A, %Y-%m-%d %H:%M} in {zone} ({now.at:%H:%M} UTC)."


def _read_zone(named: re.Match[str] | None, now: LocalNow | None) -> tzinfo:
    if named is None:
        found = None if now is None or now.zone is None else _ZONES.find(now.zone)
        if found is None:
            raise _AskError(f"I do not know your time zone: say the full date and the zone. {_EXAMPLE}")
        return found
    name = re.sub(r"\s+time$", "", named["zone"], flags=re.IGNORECASE)
    names = [name, *(f"{area}/{name.replace(' ', '_')}" for area in _AREAS)]
    zones = [zone for zone in map(_ZONES.find, names) if zone is not None]
    if len(zones) != 1:
        raise _AskError(f"I do not know the time zone {name!r}: use a name such as Europe/Berlin. {_EXAMPLE}")
    return zones[0]


def _read_clock(clock: re.Match[str], part: str, *, has_day: bool) -> str:
    """Return `HH:MM:SS`, as far as the hour is clear; `part` is the part of the day."""
    said = (clock["noon"] or clock["bare"] or clock["clock"]).lower()
    if said in ("noon", "midnight"):
        if has_day and said == "midnight":
            raise _unclear(clock[0], "Say the hour as 00:00 to 23:59.")
        return "12:00:00" if said == "noon" else "00:00:00"
    digits, _, rest = re.sub(r"\s*[ap]m$", "", said).partition(":")
    hour = int(grammar.NUMBERS.get(digits) or digits)
    if half := re.search(r"[ap]m$", said):
        if not 0 < hour <= 12 or (part == "morning" and half[0] == "pm"):
            raise _unclear(clock[0], "Say the hour as 00:00 to 23:59.")
        hour = hour % 12 + (12 if half[0] == "pm" else 0)
    elif part in ("afternoon", "evening", "tonight"):
        if hour == 12:
            raise _unclear(clock[0], "Say the hour as 00:00 to 23:59.")
        hour += 12 if hour < 12 else 0
    return f"{hour:02}:{rest}" if rest.count(":") else f"{hour:02}:{rest or '00'}:00"


def _read_day(day: re.Match[str], today: date, has_passed: bool) -> date | str:
    said = day["day"].lower()
    if day["date"]:
        number = int(re.sub(r"\D", "", day["date"]))
        name = re.search(rf"\b(?:{grammar.MONTHS})", said)
        month = _MONTHS.index(name[0]) + 1 if name else 0
        year = int(day["year"] or today.year + ((month, number) < (today.month, today.day)))
        return f"{year:04}-{month:02}-{number:02}"  # whether the calendar has it is the tool's to say
    if not day["weekday"]:
        return today + timedelta(days=2 if "after" in said else int("tomorrow" in said))
    ahead = (_DAYS.index(day["weekday"].lower()) - today.weekday()) % 7
    is_next = (day["next"] or "").lower().startswith("next")
    # On a Monday, "Monday" may be today; and "next Friday" may be the one of this week or of the next.
    if (ahead == 0 and not (has_passed or is_next)) or (is_next and 0 < ahead < 7 - today.weekday()):
        raise _unclear(day[0], "Say its date.")
    return today + timedelta(days=ahead or 7)
