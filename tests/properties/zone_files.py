"""An oracle for time zones that shares no code with `zoneinfo`: it reads the zone files itself (RFC 9636).

A zone becomes the list of its transitions; from the last one in its file on they follow from the rule in the
file's footer.
"""

from __future__ import annotations

import re
import struct
from calendar import monthrange
from datetime import date
from itertools import pairwise

Transitions = list[tuple[int, int]]
"""From which epoch second on which offset in seconds holds, in order; the first one from the beginning."""

_BEGINNING = -(2**62)
_END = 2**62
_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_OFFSET = r"([+-]?[0-9]+(?::[0-9]+){0,2})"
_DAY = r"M([0-9]+)\.([0-9])\.([0-9])(?:/([+-]?[0-9]+(?::[0-9]+){0,2}))?"
_FOOTER = re.compile(rf"{_NAME}{_OFFSET}(?:{_NAME}{_OFFSET}?,{_DAY},{_DAY})?")


def read_transitions(data: bytes, last_year: int) -> Transitions:
    """The transitions of a zone file, up to the end of a year."""
    start = 44 + _block_size(data, 0, 4)
    counts = _counts(data, start)
    times, kinds = counts[3], counts[4]
    at = start + 44
    seconds = struct.unpack_from(f">{times}q", data, at)
    indexes = data[at + 8 * times : at + 9 * times]
    offsets = [struct.unpack_from(">i", data, at + 9 * times + 6 * kind)[0] for kind in range(kinds)]
    found = [(_BEGINNING, offsets[0])]
    found += [(second, offsets[index]) for second, index in zip(seconds, indexes, strict=True)]
    footer = data[start + 44 + _block_size(data, start, 8) :].decode("ascii").strip("\n")
    first_year = 1970 if not times else max(1970, date.fromordinal(719163 + seconds[-1] // 86400).year)
    rule = [
        change
        for year in range(first_year, last_year + 1)
        for change in _changes_of_year(footer, year)
        if change[0] > found[-1][0]
    ]
    return found + sorted(rule)


def resolve(transitions: Transitions, wall_ms: int) -> int | None:
    """The earliest instant at which clocks show a wall time, epoch milliseconds; None when they skip it."""
    spans = pairwise([*transitions, (_END, 0)])
    instants = (
        wall_ms - offset * 1000
        for (begin, offset), (end, _) in spans
        if begin * 1000 <= wall_ms - offset * 1000 < end * 1000
    )
    return min(instants, default=None)


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    assert data[at : at + 4] == b"TZif"
    return struct.unpack_from(">6L", data, at + 20)


def _block_size(data: bytes, at: int, width: int) -> int:
    is_utc, is_std, leaps, times, kinds, letters = _counts(data, at)
    return times * (width + 1) + kinds * 6 + letters + leaps * (width + 4) + is_std + is_utc


def _changes_of_year(footer: str, year: int) -> Transitions:
    match = _FOOTER.fullmatch(footer)
    assert match is not None, footer
    standard_text, summer_text, *days = match.groups()
    standard = -_seconds(standard_text)
    if days[0] is None:
        return []
    summer = standard + 3600 if summer_text is None else -_seconds(summer_text)
    return [
        (_second_of(year, *days[:4]) - standard, summer),
        (_second_of(year, *days[4:]) - summer, standard),
    ]


def _second_of(year: int, month: str, week: str, weekday: str, clock: str | None) -> int:
    """Return the second of a rule's day and time as if it were UTC; weekday 0 is Sunday, week 5 the last."""
    first = (date(year, int(month), 1).isoweekday()) % 7
    day = 1 + (int(weekday) - first) % 7 + 7 * (int(week) - 1)
    if day > monthrange(year, int(month))[1]:
        day -= 7
    days = date(year, int(month), day).toordinal() - date(1970, 1, 1).toordinal()
    return days * 86400 + _seconds(clock or "2")


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])
