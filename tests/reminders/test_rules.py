"""Each call of a Schedule tool has exactly one answer, found in a fixed order of checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watchbell.instants import decode_instant, render_instant
from watchbell.reminders.records import Record
from watchbell.reminders.rules import (
    Limits,
    RefusedError,
    decode_create,
    decode_delete,
    decode_list,
    occurrence_at,
    require_room,
    resolve,
)
from watchbell.zones import ZoneTable

T0 = "2026-12-01T00:00:00.000Z"
ZONES = ZoneTable()
RULE, SELECTOR, PROMPT, ZONE = "invalid_rule", "invalid_selector", "invalid_prompt", "invalid_time_zone"
PAST, RANGE, FREQUENCY = "not_future", "time_out_of_range", "frequency_too_high"


def create(text: str, clock: str = T0) -> Record:
    request = decode_create(text, ZONES, Limits())
    return resolve(request, "schedule-1", decode_instant(clock))


def answer(text: str, clock: str = T0) -> str:
    """Return the target of a call that succeeds, else its code."""
    try:
        return create(text, clock).scheduled_at
    except RefusedError as error:
        return error.code


def refusal(text: str) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        create(text)
    return caught.value


def call(**arguments: Any) -> str:
    return json.dumps({"prompt": "p", **arguments})


def local(moment: str, zone: Any) -> str:
    date, time = moment.split(" ", 1)
    return call(at={"date": date, "time": time, "time_zone": zone})


def number(name: str, digits: str) -> str:
    return f'{{"prompt":"p","{name}":{digits}}}'


# --- local times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "clock", "moment", "right"),
    [
        ("Australia/Lord_Howe", T0, "2027-10-03 01:59:59", "2027-10-02T15:29:59.000Z"),
        ("Australia/Lord_Howe", T0, "2027-10-03 02:00:00", RULE),
        ("Australia/Lord_Howe", T0, "2027-10-03 02:15:00", RULE),
        ("Australia/Lord_Howe", T0, "2027-10-03 02:29:59.999", RULE),
        ("Australia/Lord_Howe", T0, "2027-10-03 02:30:00", "2027-10-02T15:30:00.000Z"),
        ("Australia/Lord_Howe", T0, "2027-04-04 01:29:59", "2027-04-03T14:29:59.000Z"),
        ("Australia/Lord_Howe", T0, "2027-04-04 01:30:00", "2027-04-03T14:30:00.000Z"),
        ("Australia/Lord_Howe", T0, "2027-04-04 01:45:00", "2027-04-03T14:45:00.000Z"),
        ("Australia/Lord_Howe", T0, "2027-04-04 01:59:59.999", "2027-04-03T14:59:59.999Z"),
        ("Australia/Lord_Howe", T0, "2027-04-04 02:00:00", "2027-04-03T15:30:00.000Z"),
        ("Australia/Lord_Howe", T0, "2027-04-04 02:15:00", "2027-04-03T15:45:00.000Z"),
        ("Pacific/Apia", "2011-12-01T00:00:00.000Z", "2011-12-29 23:59:59", "2011-12-30T09:59:59.000Z"),
        ("Pacific/Apia", "2011-12-01T00:00:00.000Z", "2011-12-30 00:00:00", RULE),
        ("Pacific/Apia", "2011-12-01T00:00:00.000Z", "2011-12-30 12:00:00", RULE),
        ("Pacific/Apia", "2011-12-01T00:00:00.000Z", "2011-12-30 23:59:59.999", RULE),
        ("Pacific/Apia", "2011-12-01T00:00:00.000Z", "2011-12-31 00:00:00", "2011-12-30T10:00:00.000Z"),
        ("Pacific/Apia", T0, "2011-12-30 12:00:00", RULE),
        ("America/Vancouver", T0, "2027-01-15 09:00:00", "2027-01-15T16:00:00.000Z"),
        ("America/Edmonton", T0, "2027-01-15 09:00:00", "2027-01-15T15:00:00.000Z"),
        ("America/Winnipeg", T0, "2027-01-15 09:00:00", "2027-01-15T14:00:00.000Z"),
        ("America/Inuvik", T0, "2027-01-15 09:00:00", "2027-01-15T15:00:00.000Z"),
        ("America/Vancouver", T0, "2027-03-14 02:30:00", "2027-03-14T09:30:00.000Z"),
        ("America/New_York", T0, "2027-03-14 01:59:59.999", "2027-03-14T06:59:59.999Z"),
        ("America/New_York", T0, "2027-03-14 02:30:00", RULE),
        ("America/New_York", T0, "2027-03-14 03:00:00", "2027-03-14T07:00:00.000Z"),
        ("America/New_York", T0, "2027-11-07 00:59:59.999", "2027-11-07T04:59:59.999Z"),
        ("America/New_York", T0, "2027-11-07 01:00:00", "2027-11-07T05:00:00.000Z"),
        ("America/New_York", T0, "2027-11-07 01:30:00", "2027-11-07T05:30:00.000Z"),
        ("America/New_York", T0, "2027-11-07 02:00:00", "2027-11-07T07:00:00.000Z"),
        ("America/New_York", "2027-11-07T05:45:00.000Z", "2027-11-07 01:30:00", PAST),
        ("America/Nuuk", "2023-10-20T00:00:00.000Z", "2023-10-28 23:30:00", "2023-10-29T01:30:00.000Z"),
        ("America/Nuuk", T0, "2027-03-27 23:30:00", RULE),
        ("America/Nuuk", T0, "2027-03-28 00:00:00", "2027-03-28T01:00:00.000Z"),
        ("America/Nuuk", T0, "2027-10-30 23:30:00", "2027-10-31T00:30:00.000Z"),
        ("Europe/Dublin", T0, "2027-03-28 01:30:00", RULE),
        ("Europe/Dublin", T0, "2027-10-31 01:30:00", "2027-10-31T00:30:00.000Z"),
        ("Africa/Monrovia", "1972-01-01T00:00:00.000Z", "1972-01-06 23:00:00", "1972-01-06T23:44:30.000Z"),
        ("Africa/Monrovia", "1972-01-01T00:00:00.000Z", "1972-01-07 00:44:29", RULE),
        ("Africa/Monrovia", "1972-01-01T00:00:00.000Z", "1972-01-07 00:44:30", "1972-01-07T00:44:30.000Z"),
        ("Asia/Tokyo", T0, "0001-01-01 00:00:00", RANGE),
        ("Asia/Tokyo", T0, "0001-01-01 09:18:59", PAST),
        ("America/New_York", T0, "9999-12-31 23:59:59", RANGE),
        ("Asia/Tokyo", T0, "9999-12-31 23:59:59.999", "9999-12-31T14:59:59.999Z"),
        ("UTC", T0, "2028-12-31 23:59:60", RULE),
        ("UTC", T0, "2028-12-31 24:00:00", RULE),
        ("Etc/GMT+5", T0, "2027-06-01 09:00:00", "2027-06-01T14:00:00.000Z"),
        ("Etc/GMT-5", T0, "2027-06-01 09:00:00", "2027-06-01T04:00:00.000Z"),
        ("Etc/GMT-14", T0, "2027-06-01 09:00:00", "2027-05-31T19:00:00.000Z"),
        ("america/new_york", T0, "2027-06-01 09:00:00", "2027-06-01T13:00:00.000Z"),
        ("AMERICA/NEW_YORK", T0, "2027-06-01 09:00:00", "2027-06-01T13:00:00.000Z"),
        ("utc", T0, "2027-06-01 09:00:00", "2027-06-01T09:00:00.000Z"),
        ("Etc/UTC", T0, "2027-06-01 09:00:00", "2027-06-01T09:00:00.000Z"),
        ("Asia/Tokyo", T0, "2027-06-01 09:00:00", "2027-06-01T00:00:00.000Z"),
    ],
)
def test_a_local_time_is_its_earliest_instant_or_is_refused(
    zone: str, clock: str, moment: str, right: str
) -> None:
    assert answer(local(moment, zone), clock) == right


@pytest.mark.parametrize(
    "zone",
    [
        "",
        " UTC",
        "EST",
        "GMT",
        "Japan",
        "Eastern Standard Time",
        "+05:00",
        "Etc/GMT+15",
        "Factory",
        "localtime",
        "Etc/Unknown",
        "right/America/New_York",
        "Nope/Nope",
        *(None, True, 1, ["UTC"], {"a": "UTC"}),
    ],
)
def test_what_is_no_zone_is_refused_as_such(zone: Any) -> None:
    assert answer(local("2027-06-01 09:00:00", zone)) == ZONE


@pytest.mark.parametrize(
    "at",
    [
        {"date": "2027-06-01", "time": "09:00:00"},
        {"date": "2027-06-01", "time_zone": "UTC"},
        {"time": "09:00:00", "time_zone": "UTC"},
        {},
        {"date": "2027-06-01", "time": "09:00:00", "time_zone": "UTC", "fold": None},
        {"date": "2027-06-01", "time": "09:00:00", "time_zone": "UTC", "fold": 1},
        {"date": 20270601, "time": "09:00:00", "time_zone": "UTC"},
        {"date": None, "time": "09:00:00", "time_zone": "UTC"},
        {"date": "2027-06-01", "time": 9, "time_zone": "UTC"},
        *(
            {"date": "2027-06-01", "time": time, "time_zone": "UTC"}
            for time in (
                "9:00",
                "09:00",
                "09:00:00 AM",
                "09:00:00\n",
                "09:00:00.",
                "09:00:00.0000",
                "09:00:00Z",
            )
        ),
        *(
            {"date": "2027-06-01", "time": time, "time_zone": "UTC"}
            for time in ("\u0660\u0669:\u0660\u0660:\u0660\u0660", "", "09:60:00")
        ),
        *(
            {"date": date, "time": "09:00:00", "time_zone": "UTC"}
            for date in (
                "2027-06-01\n",
                "2027-13-01",
                "2027-02-29",
                "0000-01-01",
                "27-06-01",
                "+2027-06-01",
                "",
            )
        ),
    ],
)
def test_a_misshaped_local_time_is_refused_with_both_forms_shown(at: dict[str, Any]) -> None:
    error = refusal(call(at=at))
    assert error.code == RULE
    assert '"2027-06-01T09:00:00Z"' in error.message
    assert '{"date":"2027-06-01","time":"09:00:00","time_zone":"Europe/Berlin"}' in error.message


# --- times with an offset --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "right"),
    [
        ("2026-12-01T00:00:00.000Z", PAST),
        ("2026-12-01T05:30:00+05:30", PAST),
        ("2026-12-01T00:00:00.001Z", "2026-12-01T00:00:00.001Z"),
        ("2025-01-01T09:00:00Z", PAST),
        ("2027-06-01T09:00:00+02:00", "2027-06-01T07:00:00.000Z"),
        ("2027-06-01T09:00:00-23:59", "2027-06-02T08:59:00.000Z"),
        ("2027-06-01T09:00:00+00:00", "2027-06-01T09:00:00.000Z"),
        ("2027-06-01T09:00:00.5Z", "2027-06-01T09:00:00.500Z"),
        ("2027-06-01T09:00:00.05Z", "2027-06-01T09:00:00.050Z"),
        ("2027-06-01T09:00:00.005Z", "2027-06-01T09:00:00.005Z"),
        ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ("9999-12-31T23:59:59.999-00:01", RANGE),
        ("0001-01-01T00:00:00Z", PAST),
        ("0001-01-01T00:00:00+00:01", RANGE),
    ],
)
def test_an_instant_with_an_offset_is_kept_in_utc(at: str, right: str) -> None:
    assert answer(call(at=at)) == right


OTHER_FORMS = """
0000-01-01T00:00:00Z 10000-01-01T00:00:00Z +2027-06-01T09:00:00Z 2027-06-01T09:00:00 2027-06-01
2028-12-31T23:59:60Z 2028-06-30T16:59:60-07:00 2027-06-01T12:00:60Z 2027-06-01T24:00:00Z
20270601T090000Z 2027-W22-2T09:00:00Z 2027-06-01x09:00:00Z 2027-06-01t09:00:00Z 2027-06-01T09:00:00z
2027-06-01T09:00:00,5Z 2027-06-01T09Z 2027-06-01T09:00Z 2027-06-01T09:00:00+05 2027-06-01T09:00:00+0530
2027-06-01T09:00:00+05:30:15 2027-06-01T09:00:00+05:60 2027-06-01T09:00:00+24:00
2027-06-01T09:00:00-00:00 2027-06-01T09:00:00.Z 2027-06-01T09:00:00.0000Z 2027-02-29T09:00:00Z
2027-06-31T09:00:00Z 1972-01-06T23:00:00-00:44:30 2027-06--1T09:00:00Z 2027-06-01T09:00:00.5+02:00Z
2027-06-01T09:00:00Z[Europe/Berlin] tomorrow 1811840400
"""


@pytest.mark.parametrize(
    "at",
    [
        *OTHER_FORMS.split(),
        "",
        "\uff12\uff10\uff12\uff17-06-01T09:00:00Z",
        "2027-06-01T09:00:00Z\n",
        " 2027-06-01T09:00:00Z",
        "2027-06-01T09:00:00\u22125:00",
        "2027-06-01 09:00:00Z",
        '{"date":"2027-06-01","time":"09:00:00","time_zone":"UTC"}',
        *(1811840400, 20270601, True, 1.5, [], ["2027-06-01T09:00:00Z"]),
    ],
)
def test_any_other_form_of_at_is_refused_with_both_forms_shown(at: Any) -> None:
    error = refusal(call(at=at))
    assert error.code == RULE
    assert '"2027-06-01T09:00:00Z"' in error.message
    assert '"time_zone":"Europe/Berlin"' in error.message


def test_not_future_states_the_clocks_utc_time() -> None:
    assert refusal(call(at="2025-01-01T09:00:00Z")).message == (
        "The reminder would be due at 2025-01-01T09:00:00.000Z, which is not in the future: "
        "the clock reads 2026-12-01T00:00:00.000Z (UTC). Give a later time."
    )


# --- delays and intervals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("digits", "right"),
    [
        ("1", "2026-12-01T00:00:01.000Z"),
        ("600.0", "2026-12-01T00:10:00.000Z"),
        ("6e2", "2026-12-01T00:10:00.000Z"),
        ("1E3", "2026-12-01T00:16:40.000Z"),
        ("0.1e1", "2026-12-01T00:00:01.000Z"),
        *(
            (digits, RULE)
            for digits in ("600.5", "0", "-0", "-0.0", "-1", "1e400", "-1e400", "NaN", "Infinity")
        ),
        *(
            (digits, RULE)
            for digits in ("9007199254740993", "9007199254740993.0", "9007199254740992", "9" * 5000)
        ),
        *((digits, RULE) for digits in ("true", "false", '"600"', "[600]", "{}")),
        ("9007199254740991", RANGE),
        ("251606217600", RANGE),
        ("251606217599", "9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_delay_is_a_positive_whole_number(digits: str, right: str) -> None:
    assert answer(number("after_seconds", digits)) == right


@pytest.mark.parametrize(
    ("digits", "right"),
    [
        ("300", "2026-12-01T00:05:00.000Z"),
        ("3e2", "2026-12-01T00:05:00.000Z"),
        ("299.9999999999999999", "2026-12-01T00:05:00.000Z"),
        ("86400", "2026-12-02T00:00:00.000Z"),
        *((digits, FREQUENCY) for digits in ("299", "299.0", "0", "-0.0", "-300")),
        *((digits, RULE) for digits in ("299.5", "true", '"300"', "1e400", "9007199254740993", "9" * 4301)),
        ("9007199254741", RANGE),
        ("9007199254740991", RANGE),
        ("251606217600", RANGE),
    ],
)
def test_an_interval_is_a_whole_number_of_at_least_300(digits: str, right: str) -> None:
    assert answer(number("every_seconds", digits)) == right


def test_numbers_are_stored_as_integers_whichever_way_they_were_written() -> None:
    record = create(number("after_seconds", "6e2"))
    assert (type(getattr(record, "after_seconds", None)), getattr(record, "after_seconds", None)) == (
        int,
        600,
    )


@pytest.mark.parametrize(
    ("clock", "selector", "right"),
    [
        ("2027-03-13T15:00:00.000Z", {"after_seconds": 86400}, "2027-03-14T15:00:00.000Z"),
        ("2027-11-06T15:00:00.000Z", {"every_seconds": 86400}, "2027-11-07T15:00:00.000Z"),
    ],
)
def test_a_day_is_86400_seconds_also_across_a_clock_change(
    clock: str, selector: dict[str, int], right: str
) -> None:
    assert answer(call(**selector), clock) == right


@pytest.mark.parametrize(
    ("target", "interval_seconds", "now", "occurrence", "following"),
    [
        ("2026-12-02T03:40:00.000Z", 14400, "2026-12-02T03:52:00.000Z", "2026-12-02T03:40:00.000Z", 14400),
        ("2026-12-01T00:05:00.123Z", 300, "2026-12-01T00:17:30.000Z", "2026-12-01T00:15:00.123Z", 300),
        ("2026-12-01T00:05:00.000Z", 300, "2036-12-01T00:00:01.000Z", "2036-12-01T00:00:00.000Z", 300),
        ("2026-12-01T00:05:00.000Z", 300, "2026-12-01T00:05:00.000Z", "2026-12-01T00:05:00.000Z", 300),
        ("2026-12-01T00:05:00.000Z", 300, "2026-12-01T00:09:59.999Z", "2026-12-01T00:05:00.000Z", 300),
        ("1969-12-31T23:00:00.000Z", 300, "1970-01-01T00:02:00.000Z", "1970-01-01T00:00:00.000Z", 300),
    ],
)
def test_the_latest_occurrence_lies_on_the_creation_anchored_grid(
    target: str, interval_seconds: int, now: str, occurrence: str, following: int
) -> None:
    latest_ms, next_ms = occurrence_at(decode_instant(target), interval_seconds * 1000, decode_instant(now))
    assert render_instant(latest_ms) == occurrence
    assert next_ms - latest_ms == following * 1000


# --- prompts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        " ",
        "\u00a0\u2028\ufeff",
        "\u200b",
        " \u2060\u200d ",
        "\u00ad",
        "\u3164",
        "\U000e0041",
        "\u202e",
        "\ufe0f",
        *("a\0b", "\ud83d", "x\udc00y", "a" * 16385, "é" * 8193, "\0" * 100_000),
        *(None, True, 1, [], {"a": "b"}),
    ],
)
def test_a_prompt_that_nobody_could_read_is_refused(prompt: Any) -> None:
    assert answer(json.dumps({"prompt": prompt, "after_seconds": 600})) == PROMPT


@pytest.mark.parametrize(
    ("prompt", "stored"),
    [
        ("\ufeff\u2003 a\u0085 \n", "a\u0085"),
        ("\x1f a", "\x1f a"),
        ("\u200ba", "\u200ba"),
        ("\x01\x1b\x7f", "\x01\x1b\x7f"),
        ("\U0001f600", "\U0001f600"),
        ("a" * 16384, "a" * 16384),
        (" " * 50_000 + "a", "a"),
        ("a" * 16380 + "\U0001f600", "a" * 16380 + "\U0001f600"),
    ],
)
def test_a_prompt_is_trimmed_and_otherwise_kept(prompt: str, stored: str) -> None:
    assert create(call(prompt=prompt, after_seconds=600)).prompt == stored


def test_a_surrogate_pair_in_escapes_is_one_character() -> None:
    assert create('{"prompt":"\\ud83d\\ude00","after_seconds":600}').prompt == "\U0001f600"


def test_a_four_byte_character_across_the_limit_is_refused() -> None:
    assert answer(call(prompt="a" * 16381 + "\U0001f600", after_seconds=600)) == PROMPT


# --- arguments and the order of checks -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ('{"prompt":"p","after_seconds":600,"at":null,"every_seconds":null}', "2026-12-01T00:10:00.000Z"),
        ('{"prompt":"p","after_seconds":600,"colour":null}', "2026-12-01T00:10:00.000Z"),
        ('{"prompt":"p","after_seconds":null,"at":null,"every_seconds":null}', SELECTOR),
        ('{"prompt":null,"after_seconds":600}', PROMPT),
        ('{"after_seconds":600}', PROMPT),
        ('{"prompt":"p"}', SELECTOR),
        ("{}", SELECTOR),
        ('{"prompt":"p","after_seconds":600,"colour":"red"}', SELECTOR),
        ('{"prompt":"","after_seconds":600,"colour":"red"}', SELECTOR),
        ('{"prompt":"","after_seconds":600}', PROMPT),
        ('{"prompt":"p","after_seconds":600,"every_seconds":600}', SELECTOR),
        ('{"prompt":"p","after_seconds":600,"at":""}', SELECTOR),
        ('{"prompt":"","after_seconds":-1,"at":"x"}', SELECTOR),
        ('{"prompt":" ","at":"2020-01-01T00:00:00Z"}', PROMPT),
        ('{"prompt":"","after_seconds":-1}', PROMPT),
        (local("2027-13-01 09:00:00", "Nope/Nope"), RULE),
        (local("2011-12-30 12:00:00", "Nope/Nope"), ZONE),
        ('{"prompt":"p","after_seconds":600,"after_seconds":60}', SELECTOR),
        ('{"prompt":"p","after_seconds":600,"after_seconds":null}', SELECTOR),
        ('{"prompt":"p","after_seconds":600,"\\u0061fter_seconds":60}', SELECTOR),
        ('{"prompt":"a","prompt":"b","after_seconds":600}', PROMPT),
        ('{"prompt":"a","prompt":"a"}', SELECTOR),
        (
            '{"prompt":"p","at":{"date":"2027-06-01","time":"09:00:00","time_zone":"UTC","time_zone":"UTC"}}',
            RULE,
        ),
        ('{"prompt":"p","x":null,"x":null,"after_seconds":600}', SELECTOR),
        ("", SELECTOR),
        ("null", SELECTOR),
        ("[]", SELECTOR),
        ('"text"', SELECTOR),
        ("600", SELECTOR),
        ('{"prompt":"p","after_sec', SELECTOR),
        ('{"prompt":"p","after_seconds":6', SELECTOR),
        ('{"prompt":"p","after_seconds":600} x', SELECTOR),
        ('{"prompt":"p","after_seconds":600}{}', SELECTOR),
        ("{'prompt':'p','after_seconds':600}", SELECTOR),
        ('\ufeff{"prompt":"p","after_seconds":600}', SELECTOR),
        ("[" * 100_000, SELECTOR),
        ('{"prompt":"p","at":' + "[" * 100_000, SELECTOR),
        ('{"a":' * 100_000, SELECTOR),
    ],
)
def test_checks_come_in_a_fixed_order(text: str, right: str) -> None:
    assert answer(text) == right


def test_several_selectors_are_named_in_the_refusal() -> None:
    error = refusal('{"prompt":"p","after_seconds":0,"at":"2027-06-01T09:00:00Z","every_seconds":0}')
    assert error.code == SELECTOR
    assert "after_seconds and at and every_seconds are given" in error.message
    assert "leave the others out" in error.message


def test_a_refusal_shows_a_strange_argument_name_shortly_and_in_ascii() -> None:
    error = refusal(json.dumps({"prompt": "p", "\u202e\n" + "x" * 10_000: 1}))
    assert error.message.isascii()
    assert "\n" not in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize("text", ["", " \n", "null", "{}", " {} ", '{"x":null}'])
def test_list_takes_no_arguments_in_any_spelling(text: str) -> None:
    decode_list(text)


@pytest.mark.parametrize(
    "text", ['{"x":1}', '{"x":null,"x":null}', "[]", "0", '""', "{", "nul", "[" * 100_000]
)
def test_list_refuses_everything_else(text: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decode_list(text)
    assert caught.value.code == SELECTOR


def test_delete_takes_exactly_one_id() -> None:
    assert decode_delete('{"id":"schedule-1"}') == "schedule-1"
    assert decode_delete('{"id":"an id of another program","x":null}') == "an id of another program"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *(
            (f'{{"id":{value}}}', RULE)
            for value in ("true", "1", "null", '""', '" a"', '"a\\ufeff"', '"\\ud83d"')
        ),
        ("{}", RULE),
        ('{"id":"a","id":"a"}', SELECTOR),
        ('{"id":"a","force":true}', SELECTOR),
        ("", SELECTOR),
        ("null", SELECTOR),
        ("[]", SELECTOR),
    ],
)
def test_delete_refuses_what_is_not_exactly_one_id(text: str, code: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decode_delete(text)
    assert caught.value.code == code


def test_a_full_session_is_told_its_cap() -> None:
    require_room(999, Limits())
    with pytest.raises(RefusedError, match="at most 1000 are allowed") as caught:
        require_room(1000, Limits())
    assert caught.value.code == RULE
    with pytest.raises(RefusedError, match="at most 2 are allowed"):
        require_room(2, Limits(max_active=2))
