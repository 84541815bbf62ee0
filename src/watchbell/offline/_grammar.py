"""The patterns of the offline model's English: pieces of time, and the words around them."""

from __future__ import annotations

import re

__all__ = [
    "BARE_END", "BEFORE", "CANCEL", "CLOSE", "HEAD", "JOINT", "MONTHS", "NUMBERS", "ORDER", "PIECE", "POLITE",
    "SPAN", "UNCLEAR", "UNITS", "WEEKDAYS",
]  # fmt: skip

_HOURS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
WEEKDAYS = {name: place for place, name in enumerate(_DAYS.split("|"))}
MONTHS = {name[:3]: place for place, name in enumerate(_MONTHS.split("|"), 1)}
_TENS = list(enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2))
_SMALL = [*_HOURS.split("|"), "thirteen", "fourteen", "fifteen"]
NUMBERS: dict[str, float] = {
    **{word: count for count, word in enumerate(_SMALL, 1)},
    **{ten: 10 * n for n, ten in _TENS},
    **{f"{ten}-{one}": 10 * n + m for n, ten in _TENS for m, one in enumerate(_SMALL[:9], 1)},
    **dict.fromkeys(("a", "an"), 1),
    **dict.fromkeys(("half", "half a", "half an"), 0.5),
    "a couple of": 2,
}
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_DATE = rf"(?:{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS.split('|'))})\b\.?"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_COUNTS = "|".join(sorted(NUMBERS, key=len, reverse=True))
_AMOUNT = rf"(?:(?<![\d.])\d{{1,15}}(?:\.\d{{1,3}})?|\b(?:{_COUNTS})\b)"
_UNIT = r"(?:seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)(?![a-z])"
_HALF = r"(?:\s+and\s+a\s+half)?"
_SPAN = rf"{_AMOUNT}{_HALF}[\s-]*{_UNIT}{_HALF}"
_SPANS = rf"{_SPAN}(?:(?:\s*,)?(?:\s*and)?\s*{_SPAN})*"
_PLACE = r"[^\W\d]+(?:[ _-][^\W\d]+)?\s+time\b"
SPAN = _compile(rf"({_AMOUNT})({_HALF})[\s-]*({_UNIT})({_HALF})")
PIECE = _compile(
    rf"(?P<after>(?:in|after)\s+{_SPANS}(?:\s+from\s+now)?|{_SPANS}\s+from\s+now\b)"
    rf"|(?P<every>(?:every|each)\s+(?:other\s+)?(?:{_SPANS}|{_UNIT})(?!\s+{_UNIT})|(?:hour|dai|week)ly\b)"
    r"|(?P<calendar>(?:every|each)\s+(?:other\s+)?(?:weekday|workday|working\s+day|weekend|morning|noon|afternoon"
    rf"|evening|night|month|year|{_DAYS})\b|(?:on\s+)?(?:weekday|weekend|{_DAYS})s\b|(?:month|year|night)ly\b)"
    r"|(?P<instant>(?:at\s+)?(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d(?::[\d.]+)?(?:Z\b|[+-]\d\d:\d\d)))"
    r"|(?P<day>(?:(?:on|at)\s+)?(?:(?P<iso>\d{4}-\d\d-\d\d)(?!\w)"
    r"|(?:(?P<near>(?:the\s+)?day\s+after\s+tomorrow|tomorrow|today|tonight|this(?=\s+(?:morning|afternoon|evening)\b))"
    rf"|(?:(?:this|coming)\s+)*(?P<next>next\s+)?(?P<weekday>{_DAYS})"
    rf"|(?:the\s+)?(?P<date>{_NTH}\s+(?:of\s+)?{_DATE}|{_DATE}\s+(?:the\s+)?{_NTH})(?:,?\s+(?P<year>\d{{4}}))?)"
    r"(?:\s+(?P<part>morning|afternoon|evening|night))?(?![\w'’])))"
    r"|(?P<clock>(?P<bare>at\s+)?(?:(?P<noon>noon|midnight)\b|(?P<hour>(?<![\d.:/-])\d{1,2}(?![\d/])"
    rf"|\b(?:{_HOURS})\b)(?P<sure>:(?P<rest>\d\d(?::\d\d(?:\.\d{{1,3}})?)?)(?!\d))?(?:\s*(?P<half>[ap]m)\b|(?P<oclock>\s*o['’]clock\b))?)"
    r"(?:\s+(?:in\s+the|at)\s+(?P<daytime>morning|afternoon|evening|night)\b)?)"
    r"|(?P<zone>(?:in\s+)?(?:(?:(?:UTC|GMT)\b|[a-z_]+/[\w+/-]*\w)(?:\s+time\b)?"
    rf"|(?!(?:to|that|about|of|for|on|at)\b){_PLACE}))"
)
"""One piece of a time; the last group that matched is its kind."""
BARE_END = _compile(
    rf"\s*(?:$|[.,;!?](?:\s|$)|(?:to(?!\s+(?:\d|(?:{_HOURS})\b))|that|about|of|today|tonight|tomorrow|on|in|this|next"
    rf"|please|remind|{_DAYS})\b|(?-i:[A-Z])|{_PLACE})"
)
"""What may follow an hour that is a number alone."""
POLITE = _compile(r"(?:please|okay|ok|hey|hi|hello|so|well|just|(?:can|could|would|will)\s+you)\b[\s,!]*")
CLOSE = _compile(r"\b(?:please|thanks|thank\s+you)$")
_LEAD = (
    r"(?:I\s+(?:want|need)\s+you\s+to\s+)?remind\s+(?:me|us)\b"
    r"|(?:(?:(?:set|create|add|make|give)(?:\s+(?:me|us|up))?|I\s+(?:need|want))\s+)?an?(?:other)?\s+reminder\b"
)
_TIME = "[\ue000-\uf8ff]"
HEAD = _compile(
    rf"\W*(?:{POLITE.pattern}|{_TIME}[\s,]*)*(?:(?P<lead>{_LEAD})(?:[\s,]|please\b|(?:for\s+)?{_TIME})*)?"
)
"""What stands before the prompt. Here, and below, one character stands for each time in the text."""
JOINT = _compile(r"(?:to|that|about|of|for)\b\s*|[:–—-]\s+")
"""What stands between all that and what to be reminded of."""
ORDER = _compile(
    r"(?:to|ask|book|bring|buy|call|check|clean|close|cook|drink|eat|feed|fetch|fill|finish|get|give|go|join|leave|look"
    r"|make|meet|open|pack|pay|phone|pick|prepare|pull|put|read|renew|say|send|stand|start|stop|stretch|take|talk|tell"
    r"|turn|update|visit|wake|walk|wash|water|write)\b|\w+[\s.,!]*$"
)
"""What an order begins with, or all of it, where nobody says "remind me"."""
BEFORE = _compile(
    r"\b(?:about|for|of|by|before|until|till|since|from|to|with|the|an?|and|or|not|no|my|our|your|than|then)\s*$"
    r"|\w{3}[.!?]\s+.*\w"
)
"""What makes a time behind it a part of something else: such a word, or a sentence of its own."""
UNCLEAR = _compile(
    rf"{_TIME}.*|\bremind\s+(?:me|us)\b.*|\b\d{{1,2}}/\d{{1,2}}\b\S*|\b\d{{1,2}}\.\d{{1,2}}\.\S*|\byesterday\b"
    r"|\bnext\s+(?:week|month|year)\b|\b(?:until|till|unless|except|but\s+not|twice|starting|beginning)\b.*|\b\w+\s+times\b|\bo['’]clock\b"
    r"|[.,;!?–—-]\s*(?:no|not|don['’]t|do\s+not|actually|wait|sorry|never\s*mind|cancel|rather)\b.*"
    r"|(?-i:\b(?:A?[ACEMP][SD]T|CES?T|EES?T|WES?T|[BIJ]ST|UTC|GMT)\b|\b[A-Z][a-z]+(?:/[A-Z][A-Za-z_]+|\s+time)\b)"
)
"""What may be a part of the time, or take it back, in what to be reminded of."""
CANCEL = _compile(
    r"(?:cancel|delete|remove|clear(?=\s+(?:all|my|the|every))|stop(?=\s+(?:reminding|the\s+reminder|schedule-)))\b"
    r"(?:\s+reminding\s+(?:me|us))?\s*"
)
