"""The words of the offline stand-in: what a time is made of, and what stands around it.

A request is `remind me TIME to PROMPT` or `remind me to PROMPT TIME`. All else is asked about.
"""

from __future__ import annotations

import re

DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_WORDS = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905 - one line
_TENS = {"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90}
NUMBERS: dict[str, float] = {
    **{word: number for number, word in enumerate(_WORDS, 1)},
    **_TENS,
    **dict.fromkeys(("a", "an"), 1),
    **dict.fromkeys(("half", "half a", "half an"), 0.5),
}


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_AMOUNT = rf"(?:\d{{1,12}}(?:\.\d{{1,3}})?|(?:{'|'.join(sorted(NUMBERS, key=len, reverse=True))})\b)"
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|[smhdw])(?![a-z])"
_SPAN = rf"{_AMOUNT}[\s-]*{_UNIT}(?:(?:\s+and)?\s*\d+\s*{_UNIT})*"
_MONTH = rf"(?:{MONTHS})[a-z]*\.?"
_DATE = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?)"
_AFTER_HOUR = rf"UTC|to|that|about|today|tonight|tomorrow|this|next|on|in|please|{DAYS}"
_BARE_END = rf"(?=\s*(?:$|[.,;!?]|(?:{_AFTER_HOUR})\b|\w+\s+time\b))"

SPAN = _compile(rf"({_AMOUNT})[\s-]*({_UNIT})")
PIECE = _compile(
    rf"(?P<after>in\s+{_SPAN}|{_SPAN}\s+from\s+now)(?![\w'’])"
    rf"|(?P<every>(?:every|each)\s+(?:other\s+)?(?:{_SPAN}|{_UNIT})|hourly|daily|weekly)(?![\w'’])"
    rf"|(?P<calendar>(?:every|each)\s+(?:weekday|weekend|morning|evening|night|month|year|{DAYS})"
    rf"|(?:on\s+)?(?:weekday|weekend|{DAYS})s|monthly|yearly)(?![\w'’])"
    r"|(?:at\s+)?(?P<instant>\d{4}-\d\d-\d\dT\d\d:\d\d(?::[\d.]+)?(?:Z|[+-]\d\d:\d\d))(?!\w)"
    r"|(?:on\s+|at\s+)?(?P<day>(?P<iso>\d{4}-\d\d-\d\d)|(?:the\s+)?day\s+after\s+tomorrow|tomorrow|today|tonight"
    rf"|this(?=\s+(?:morning|afternoon|evening))|(?P<next>next\s+|this\s+)?(?P<weekday>{DAYS})"
    rf"|(?:the\s+)?(?P<date>{_DATE})(?:,?\s+(?P<year>\d{{4}}))?)"
    r"(?:\s+(?P<part>morning|afternoon|evening))?(?![\w'’])"
    rf"|(?:at\s+)?(?P<noon>noon|midnight)(?!\w)|at\s+(?P<bare>\d{{1,2}}|{'|'.join(_WORDS)})(?![\w:/.]){_BARE_END}"
    r"|(?:at\s+)?(?P<clock>\d{1,2}(?::\d\d(?::\d\d)?(?:\s*[ap]m)?|\s*[ap]m))(?![\w:/])"
    r"|in\s+the\s+(?P<half>morning|afternoon|evening)(?!\w)"
    r"|(?:in\s+)?(?P<zone>UTC|[a-z_]+/[a-z_/+-]*[a-z_]|[^\W\d]+(?:\s+[^\W\d]+)?\s+time)(?!\w)"
)
"""One piece of a time; the first group of `KINDS` that matched is its kind."""
KINDS = ("after", "every", "calendar", "instant", "day", "noon", "bare", "clock", "half", "zone")
POLITE = r"(?:(?:please|ok|okay|hey|hi|hello|so|(?:can|could|would|will)\s+you)\b[\s,!]*)*"
LEAD = _compile(
    rf"\s*{POLITE}(?:remind\s+me|(?:(?:set|create|add|make)\s+)?a\s+reminder)\b[\s,]*(?:(?:please|for)\b[\s,]*)?"
)
CANCEL = _compile(rf"\s*{POLITE}(?:cancel|delete|remove|stop\s+reminding\s+me)\b\s*")
JOINT = _compile(r"[\s,]*(?:(?:please\s*,?\s+)?(?:to|that|about|of)\b|[:–—])\s*")
"""What stands between the time and what to be reminded of."""
ORDER = _compile(
    r"(?:call|check|drink|eat|go|join|look|open|pay|read|send|stand|stretch|take|write)\b|\w+[\s.!]*$"
)
"""What an order begins with, where nobody says "remind me"."""
UNCLEAR = _compile(
    r"\bremind\s+me\b.*|\bnext\s+(?:week|month|year)\b|\byesterday\b|\b\d{1,2}[/.]\d{1,2}\b\S*"
    r"|\b(?:until|till|unless|except|but|twice|starting)\b.*|\b\w+\s+times\b"
    r"|[.,;!?–—]\s*(?:no|not|don['’]t|do\s+not|actually|wait|sorry|never\s*mind|and|or)\b.*"
    r"|(?-i:\b(?:[ECMP][SD]T|CES?T|EES?T|WES?T|BST|GMT)\b)"
)
"""What may be a part of the time, or take it back, in what to be reminded of."""
