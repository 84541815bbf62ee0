"""The words and patterns of the offline model's English: pieces of regular expressions, nothing more."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = [
    "AFTER",
    "ALL",
    "CALENDAR",
    "CANCEL",
    "CITIES",
    "CLOCK_FIRST",
    "CLOCK_PARTS",
    "DATE",
    "DAY_ALONE",
    "DAY_FIRST",
    "EVERY",
    "ID",
    "LEAD",
    "LIST",
    "NUMBERS",
    "REMIND",
    "SMALL",
    "SPAN_PARTS",
    "TRAIL",
    "UNITS",
    "WEEKDAYS",
]

SMALL = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_TEENS = ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NUMBERS: dict[str, float] = {
    **{word: count for count, word in enumerate([*SMALL, *_TEENS], 1)},
    **{word: count * 10 for count, word in enumerate(_TENS, 2)},
    **{
        f"{ten}-{one}": tens * 10 + ones
        for tens, ten in enumerate(_TENS, 2)
        for ones, one in enumerate(SMALL[:9], 1)
    },
    "a": 1,
    "an": 1,
    "a couple of": 2,
    "half": 0.5,
    "half a": 0.5,
    "half an": 0.5,
}
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
CITIES = {
    "amsterdam": "Europe/Amsterdam",
    "athens": "Europe/Athens",
    "auckland": "Pacific/Auckland",
    "beijing": "Asia/Shanghai",
    "berlin": "Europe/Berlin",
    "boston": "America/New_York",
    "brussels": "Europe/Brussels",
    "budapest": "Europe/Budapest",
    "cairo": "Africa/Cairo",
    "chicago": "America/Chicago",
    "copenhagen": "Europe/Copenhagen",
    "delhi": "Asia/Kolkata",
    "denver": "America/Denver",
    "dubai": "Asia/Dubai",
    "dublin": "Europe/Dublin",
    "eastern": "America/New_York",
    "helsinki": "Europe/Helsinki",
    "hong kong": "Asia/Hong_Kong",
    "istanbul": "Europe/Istanbul",
    "kolkata": "Asia/Kolkata",
    "kyiv": "Europe/Kyiv",
    "lagos": "Africa/Lagos",
    "lisbon": "Europe/Lisbon",
    "london": "Europe/London",
    "los angeles": "America/Los_Angeles",
    "madrid": "Europe/Madrid",
    "melbourne": "Australia/Melbourne",
    "mexico city": "America/Mexico_City",
    "moscow": "Europe/Moscow",
    "mumbai": "Asia/Kolkata",
    "nairobi": "Africa/Nairobi",
    "new york": "America/New_York",
    "oslo": "Europe/Oslo",
    "pacific": "America/Los_Angeles",
    "paris": "Europe/Paris",
    "prague": "Europe/Prague",
    "rome": "Europe/Rome",
    "san francisco": "America/Los_Angeles",
    "sao paulo": "America/Sao_Paulo",
    "seattle": "America/Los_Angeles",
    "seoul": "Asia/Seoul",
    "shanghai": "Asia/Shanghai",
    "singapore": "Asia/Singapore",
    "stockholm": "Europe/Stockholm",
    "sydney": "Australia/Sydney",
    "são paulo": "America/Sao_Paulo",
    "tokyo": "Asia/Tokyo",
    "toronto": "America/Toronto",
    "vienna": "Europe/Vienna",
    "warsaw": "Europe/Warsaw",
    "washington": "America/New_York",
    "zurich": "Europe/Zurich",
}


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_AMOUNT = rf"(?:(?<![\d.])\d{{1,15}}(?:\.\d{{1,3}})?|\b(?:{_any_of(NUMBERS)})\b)"
_UNIT = r"(?:seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)(?![a-z])"
_HALF = r"(?:\s+and\s+a\s+half)?"
_SPAN = rf"{_AMOUNT}{_HALF}[\s-]*{_UNIT}{_HALF}"
_DURATION = rf"{_SPAN}(?:(?:\s*,)?(?:\s*and)?\s*{_SPAN})*"
SPAN_PARTS = re.compile(rf"({_AMOUNT})({_HALF})[\s-]*({_UNIT})({_HALF})", re.IGNORECASE)

AFTER = re.compile(
    rf"\b(?:in|after)\s+({_DURATION})(?:\s+from\s+now)?|\b({_DURATION})\s+from\s+now\b", re.IGNORECASE
)
EVERY = re.compile(rf"\b(?:every|each)\s+(other\s+)?({_DURATION}|(?:half\s+)?{_UNIT})", re.IGNORECASE)
CALENDAR = re.compile(
    rf"\b(?:every|each)\s+(?:other\s+)?(?:weekday|workday|working\s+day|morning|noon|afternoon|evening|night|month"
    rf"|year|{'|'.join(WEEKDAYS)}|day\s+at\b|week\s+(?:at|on)\b)|\bon\s+(?:weekday|{'|'.join(WEEKDAYS)})s\b",
    re.IGNORECASE,
)

DATE = r"\d{4}-\d{2}-\d{2}"
_DAY = (
    rf"(?:on\s+)?(?:{DATE}(?!\d)|(?:today|tonight|(?:the\s+)?day\s+after\s+tomorrow|tomorrow"
    rf"|(?:next\s+)?(?:{'|'.join(WEEKDAYS)})|in\s+{_AMOUNT}\s+(?:days?|weeks?))\b)"
)
_BARE_HOUR_ENDS = r"(?=\s*(?:$|[.,;!?]|(?:to|that|about|of|today|tonight|tomorrow|on|in|UTC)\b|(?-i:[A-Z])))"
_CLOCK = (
    r"(?:\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:\s*[ap]\.?m\b\.?)?|noon\b|midnight\b"
    rf"|(?:\d{{1,2}}|{'|'.join(SMALL)})(?:\s*[ap]\.?m\b\.?|\s*o['’]clock\b|\b{_BARE_HOUR_ENDS}))"
    r"(?:\s+in\s+the\s+(?:morning|afternoon|evening)\b|\s+at\s+night\b)?"
)
_ZONE = (
    r"\s*(?:Z\b|[+-]\d{2}:\d{2}\b)|,?\s+(?:in\s+)?(?:(?:UTC|GMT)\b|[A-Za-z_]+/[A-Za-z0-9_+/-]*[A-Za-z0-9]"
    rf"|(?:{_any_of(CITIES)})\s+time\b|(?-i:[A-Z][a-z]+(?:\s[A-Z][a-z]+)?)\s+time\b)(?:\s+time\b)?"
)
DAY_FIRST = re.compile(
    rf"\b(?:at\s+)?(?P<day>{_DAY})(?:T|,?\s+(?:at\s+)?)(?P<clock>{_CLOCK})(?P<zone>{_ZONE})?", re.IGNORECASE
)
CLOCK_FIRST = re.compile(
    rf"\bat\s+(?P<clock>{_CLOCK})(?P<zone>{_ZONE})?(?:,?\s+(?P<day>{_DAY}))?(?P<late_zone>{_ZONE})?",
    re.IGNORECASE,
)
DAY_ALONE = re.compile(rf"\b{_DAY}", re.IGNORECASE)
CLOCK_PARTS = re.compile(r"(\d+|[a-z]+)(?::(\d{2}))?(?::(\d{2}(?:\.\d+)?))?", re.IGNORECASE)

REMIND = re.compile(r"\bremind\b|\b(?:set|create|add|make|need|want)\b.*\breminder\b", re.IGNORECASE)
CANCEL = re.compile(
    r"^\W*(?:please\s+|(?:can|could)\s+you\s+)*(?:cancel|delete|remove|clear|drop|stop)\b", re.IGNORECASE
)
ALL = re.compile(r"\b(?:all|every|everything)\b", re.IGNORECASE)
LIST = re.compile(
    r"^\W*(?:please\s+|(?:can|could)\s+you\s+)*(?:list|show)"
    r"(?:\s+(?:me|us|all|my|of|the|them|active|current|reminders?|schedules?|please))*\W*$"
    r"|\b(?:what|which|any|have|my|are\s+there)\b.*\breminders?\b|^\W*reminders\W*$|\bwhat(?:'s|’s|\s+is)\s+scheduled\b",
    re.IGNORECASE,
)
ID = re.compile(r"\bschedule-\d+\b", re.IGNORECASE)
LEAD = re.compile(
    r"^(?:[\s,.:;!?–—-]+|(?:please|ok|okay|hey|hi|hello|can\s+you|could\s+you|would\s+you|will\s+you|remind\s+(?:me|us)"
    r"|i\s+(?:need|want)|(?:set|create|add|make)(?:\s+me)?|(?:up\s+)?a\s+reminder|to|that|of|about|for|and|then)\b)",
    re.IGNORECASE,
)
TRAIL = re.compile(r"(?:[\s,.:;!?]|\bplease)+$", re.IGNORECASE)
