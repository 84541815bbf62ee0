"""The field cases "Input and time": what is said, and the one right answer to each call.

Names such as IN-01 are ids of field cases, kept stable.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.contract.world import T0

RULE, SELECTOR, PROMPT, ZONE = "invalid_rule", "invalid_selector", "invalid_prompt", "invalid_time_zone"
PAST, RANGE, FREQUENCY = "not_future", "time_out_of_range", "frequency_too_high"


class Step(NamedTuple):
    """One call of a case.

    Attributes:
        text: The argument text, or its bytes.
        right: The target in UTC, or the code; of a list the ids, of a delete `deleted`.
        clock: What the clock reads.
        tool: What is called, without `schedule_`.
    """

    text: str | bytes
    right: str
    clock: str = T0
    tool: str = "create"


def said(**arguments: Any) -> str:
    """The argument text of a create, the prompt `p` unless it is given."""
    return json.dumps({"prompt": "p", **arguments}, ensure_ascii=False)


def number(name: str, written: str) -> str:
    """The argument text of a create whose selector is written so."""
    return f'{{"prompt":"p","{name}":{written}}}'


def at_each(zone: Any, moments: dict[str, str], clock: str = T0) -> list[Step]:
    """One call for each local time in one zone; `moments` gives the right answer to each."""
    return [
        Step(said(at={"date": moment[:10], "time": moment[11:], "time_zone": zone}), right, clock)
        for moment, right in moments.items()
    ]


def in_each(zones: dict[Any, str], moment: str = "2027-06-01 09:00:00") -> list[Step]:
    """One call for each zone with the same local time."""
    return [step for zone, right in zones.items() for step in at_each(zone, {moment: right})]


def text_each(texts: dict[str, str], clock: str = T0) -> list[Step]:
    """One call for each `at` as text."""
    return [Step(said(at=text), right, clock) for text, right in texts.items()]


DAY = {"date": "2027-06-01", "time": "09:00:00"}
ARABIC = "\u0660\u0669:\u0660\u0660:\u0660\u0660"

INPUT_CASES: dict[str, list[Step]] = {
    "IN-01": at_each("Australia/Lord_Howe", {
        "2027-10-03 01:59:59": "2027-10-02T15:29:59.000Z",
        "2027-10-03 02:00:00": RULE,
        "2027-10-03 02:15:00": RULE,
        "2027-10-03 02:29:59.999": RULE,
        "2027-10-03 02:30:00": "2027-10-02T15:30:00.000Z",
    }),
    "IN-02": at_each("Australia/Lord_Howe", {
        "2027-04-04 01:29:59": "2027-04-03T14:29:59.000Z",
        "2027-04-04 01:30:00": "2027-04-03T14:30:00.000Z",
        "2027-04-04 01:45:00": "2027-04-03T14:45:00.000Z",
        "2027-04-04 01:59:59.999": "2027-04-03T14:59:59.999Z",
        "2027-04-04 02:00:00": "2027-04-03T15:30:00.000Z",
        "2027-04-04 02:15:00": "2027-04-03T15:45:00.000Z",
    }),
    "IN-04": [
        *at_each("Pacific/Apia", {
            "2011-12-29 23:59:59": "2011-12-30T09:59:59.000Z",
            "2011-12-30 00:00:00": RULE,
            "2011-12-30 12:00:00": RULE,
            "2011-12-30 23:59:59.999": RULE,
            "2011-12-31 00:00:00": "2011-12-30T10:00:00.000Z",
        }, "2011-12-01T00:00:00.000Z"),
        *at_each("Pacific/Apia", {"2011-12-30 12:00:00": RULE}),
    ],
    "IN-05": [
        *in_each({
            "America/Vancouver": "2027-01-15T16:00:00.000Z",
            "America/Edmonton": "2027-01-15T15:00:00.000Z",
            "America/Winnipeg": "2027-01-15T14:00:00.000Z",
            "America/Inuvik": "2027-01-15T15:00:00.000Z",
        }, "2027-01-15 09:00:00"),
        *at_each("America/Vancouver", {"2027-03-14 02:30:00": "2027-03-14T09:30:00.000Z"}),
    ],
    "IN-07": [
        *at_each("America/New_York", {
            "2027-03-14 01:59:59.999": "2027-03-14T06:59:59.999Z",
            "2027-03-14 02:30:00": RULE,
            "2027-03-14 03:00:00": "2027-03-14T07:00:00.000Z",
            "2027-11-07 00:59:59.999": "2027-11-07T04:59:59.999Z",
            "2027-11-07 01:00:00": "2027-11-07T05:00:00.000Z",
            "2027-11-07 01:30:00": "2027-11-07T05:30:00.000Z",
            "2027-11-07 02:00:00": "2027-11-07T07:00:00.000Z",
        }),
        *at_each("America/New_York", {"2027-11-07 01:30:00": PAST}, "2027-11-07T05:45:00.000Z"),
    ],
    "IN-08": [
        *at_each("America/Nuuk", {
            "2023-10-28 23:30:00": "2023-10-29T01:30:00.000Z",
        }, "2023-10-20T00:00:00.000Z"),
        *at_each("America/Nuuk", {
            "2027-03-27 23:30:00": RULE,
            "2027-03-28 00:00:00": "2027-03-28T01:00:00.000Z",
            "2027-10-30 23:30:00": "2027-10-31T00:30:00.000Z",
        }),
    ],
    "IN-10": at_each("Europe/Dublin", {
        "2027-03-28 01:30:00": RULE,
        "2027-10-31 01:30:00": "2027-10-31T00:30:00.000Z",
    }),
    "IN-11": [
        *at_each("Africa/Monrovia", {
            "1972-01-06 23:00:00": "1972-01-06T23:44:30.000Z",
            "1972-01-07 00:44:29": RULE,
            "1972-01-07 00:44:30": "1972-01-07T00:44:30.000Z",
        }, "1972-01-01T00:00:00.000Z"),
        *text_each({"1972-01-06T23:00:00-00:44:30": RULE}, "1972-01-01T00:00:00.000Z"),
    ],
    "IN-13": [
        *text_each({
            "0000-01-01T00:00:00Z": RULE,
            "0001-01-01T00:00:00Z": PAST,
            "0001-01-01T00:00:00+00:01": RANGE,
        }),
        *at_each("Asia/Tokyo", {"0001-01-01 00:00:00": RANGE}),
        *text_each({"10000-01-01T00:00:00Z": RULE, "+2027-06-01T09:00:00Z": RULE}),
    ],
    "IN-14": [
        *text_each({
            "2028-12-31T23:59:60Z": RULE,
            "2028-06-30T16:59:60-07:00": RULE,
            "2027-06-01T12:00:60Z": RULE,
        }),
        *at_each("UTC", {"2028-12-31 23:59:60": RULE}),
    ],
    "IN-16": [
        *text_each({
            "\uff12\uff10\uff12\uff17-06-01T09:00:00Z": RULE,
            "2027-06-01T09:00:00Z\n": RULE,
            " 2027-06-01T09:00:00Z": RULE,
            "2027-06-01T09:00:00\u22125:00": RULE,
        }),
        *(Step(said(at={**DAY, "time_zone": "UTC", **wrong}), RULE)
          for wrong in ({"time": ARABIC}, {"time": "09:00:00\n"}, {"date": "2027-06-01\n"})),
    ],
    "IN-17": text_each(dict.fromkeys([
        "20270601T090000Z", "2027-W22-2T09:00:00Z", "2027-06-01 09:00:00Z", "2027-06-01x09:00:00Z",
        "2027-06-01T09:00:00,5Z", "2027-06-01T09Z", "2027-06-01T09:00Z", "2027-06-01T09:00:00+05",
        "2027-06-01T09:00:00+0530", "2027-06-01T09:00:00+05:30:15", "2027-06-01T09:00:00+05:60",
        "2027-06-01T09:00:00+24:00", "2027-06-01T09:00:00.Z", "2027-02-29T09:00:00Z", "2027-06-31T09:00:00Z",
    ], RULE)),
    "IN-19": [
        *text_each({"2027-06-01T09:00:00": RULE, "2027-06-01": RULE}),
        Step(said(at=DAY), RULE),
        *in_each({"": ZONE, None: ZONE, " UTC": ZONE}),
    ],
    "IN-20": in_each({
        "Etc/GMT+5": "2027-06-01T14:00:00.000Z",
        "Etc/GMT-5": "2027-06-01T04:00:00.000Z",
        "Etc/GMT-14": "2027-05-31T19:00:00.000Z",
        **dict.fromkeys(["Etc/GMT+15", "GMT+5", "UTC+5", "+05:00"], ZONE),
    }),
    "IN-22": in_each({
        **dict.fromkeys(["america/new_york", "AMERICA/NEW_YORK", "America/new_york"],
                        "2027-06-01T13:00:00.000Z"),
        **dict.fromkeys(["utc", "Utc"], "2027-06-01T09:00:00.000Z"),
    }),
    "IN-23": in_each({
        **dict.fromkeys(["EST", "EST5EDT", "PST", "CET", "GMT", "Z", "Zulu", "Japan", "GB-Eire",
                         "Eastern Standard Time"], ZONE),
        **dict.fromkeys(["UTC", "Etc/UTC"], "2027-06-01T09:00:00.000Z"),
    }),
    "IN-25": in_each(dict.fromkeys([
        "right/America/New_York", "posix/Europe/Paris", "posixrules", "localtime", "Factory", "Etc/Unknown",
    ], ZONE)),
    "IN-26": [
        *text_each({
            "2026-12-01T00:00:00.000Z": PAST,
            "2026-12-01T05:30:00+05:30": PAST,
            "2026-12-01T00:00:00.001Z": "2026-12-01T00:00:00.001Z",
            "2025-01-01T09:00:00Z": PAST,
        }),
        Step(said(after_seconds=1), "2026-12-01T00:00:01.000Z"),
    ],
    "IN-28": [
        Step(number("every_seconds", written), right)
        for written, right in {
            "300": "2026-12-01T00:05:00.000Z", "299": FREQUENCY, "299.5": RULE, "0": FREQUENCY,
            "-300": FREQUENCY, "86400": "2026-12-02T00:00:00.000Z",
        }.items()
    ],
    "IN-29": [
        Step(said(after_seconds=86400), "2027-03-14T15:00:00.000Z", "2027-03-13T15:00:00.000Z"),
        Step(said(every_seconds=86400), "2027-11-07T15:00:00.000Z", "2027-11-06T15:00:00.000Z"),
    ],
}  # fmt: skip
