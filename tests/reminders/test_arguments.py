"""What a call asks for, and every word that a model gets to hear when it cannot be had."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watchbell.instants import Duration, decode_instant, render_instant
from watchbell.reminders.arguments import Limits, decode_create, decode_delete, decode_list, require_room
from watchbell.reminders.records import AfterRecord, Record
from watchbell.reminders.times import occurrence_at, resolve
from watchbell.reminders.views import RefusedError
from watchbell.zones import ZoneTable

NOW = "2026-12-01T00:00:00.000Z"
LIMITS = Limits(max_prompt_bytes=16)
FORMS = (
    ' Give at as text with an offset, such as "2027-06-01T09:00:00Z" or "2027-06-01T09:00:00+02:00", or as '
    'an object, such as {"date":"2027-06-01","time":"09:00:00","time_zone":"Europe/Berlin"}.'
)
DAY = {"date": "2027-06-01", "time": "09:00:00", "time_zone": "UTC"}
EXACT_KEYS = "at as an object has exactly the keys date, time and time_zone, each once." + FORMS
NO_FORM = "A date looks like 2027-06-01 and a time like 09:00:00." + FORMS
NO_CLOCK = "Hours go from 00 to 23, minutes and seconds from 00 to 59." + FORMS
NO_OFFSET = "The offset of at is not one of Z, +00:00 to +23:59 and -00:01 to -23:59." + FORMS
NO_ZONE = (
    'time_zone must be "UTC" or an IANA name with a slash, such as "Europe/Berlin". Abbreviations and '
    "offsets are not accepted."
)
WHEN = "Say when: give exactly one of after_seconds, at and every_seconds."
ARGUMENTS = "The arguments of this tool are: after_seconds, at, every_seconds, prompt."
ONE_OBJECT = "The arguments must be one JSON object and nothing else."
LONGEST = "a" * 40


def said(**arguments: Any) -> str:
    return json.dumps({"prompt": "p", **arguments})


CREATE: list[tuple[str, str, str]] = [
    ("[]", "invalid_selector", ONE_OBJECT),
    ("{", "invalid_selector", ONE_OBJECT),
    (
        '{"when":1,"color":1}',
        "invalid_selector",
        f'Unknown argument "color". {ARGUMENTS}',
    ),
    (
        f'{{"{LONGEST}":1}}',
        "invalid_selector",
        f'Unknown argument "{LONGEST}". {ARGUMENTS}',
    ),
    (
        f'{{"{LONGEST}b":1}}',
        "invalid_selector",
        f'Unknown argument "{LONGEST}\\u2026". {ARGUMENTS}',
    ),
    (
        '{"prompt":"p","at":1,"at":1,"after_seconds":1,"after_seconds":1}',
        "invalid_selector",
        'Argument "after_seconds" is repeated. Give it once.',
    ),
    (said(), "invalid_selector", WHEN),
    (
        said(at="", every_seconds=0, after_seconds=1),
        "invalid_selector",
        (
            "Only one selector is allowed, but after_seconds and at and every_seconds are given. Keep the "
            "one that is meant and leave the others out (an empty text or 0 counts as given)."
        ),
    ),
    (said(prompt=1, at="x"), "invalid_prompt", "Give prompt as text: what the reminder is to say."),
    (
        '{"prompt":"p","prompt":"p","at":1}',
        "invalid_prompt",
        'Argument "prompt" is repeated. Give it once.',
    ),
    (said(prompt=" ", at=1), "invalid_prompt", "The prompt is blank. Say what the reminder is about."),
    (
        said(prompt="\0", at=1),
        "invalid_prompt",
        "The prompt holds U+0000 or half of a surrogate pair. Leave that character out.",
    ),
    (
        said(prompt="é" * 9, at=1),
        "invalid_prompt",
        "The prompt has 18 bytes of UTF-8, and at most 16 are allowed. Shorten it.",
    ),
    (
        said(after_seconds="1"),
        "invalid_rule",
        "after_seconds must be a number of seconds, such as 600, and not text.",
    ),
    (
        said(every_seconds=300.5),
        "invalid_rule",
        "every_seconds must be a whole number of at most 9007199254740991.",
    ),
    (said(after_seconds=0), "invalid_rule", "after_seconds must be greater than 0, such as 600."),
    (
        said(every_seconds=299),
        "frequency_too_high",
        (
            "every_seconds must be at least 300. Use a longer interval, or after_seconds for a reminder that "
            "comes once."
        ),
    ),
    (said(at=1), "invalid_rule", "at is neither text nor an object." + FORMS),
    (said(at="tomorrow"), "invalid_rule", "at is not a date and time with an offset." + FORMS),
    (said(at="2027-06-01T09:00:00-00:00"), "invalid_rule", NO_OFFSET),
    (said(at={**DAY, "fold": 1}), "invalid_rule", EXACT_KEYS),
    (said(at={**DAY, "date": 1}), "invalid_rule", "date and time are texts." + FORMS),
    (said(at={**DAY, "time": "9:00"}), "invalid_rule", NO_FORM),
    (said(at={**DAY, "date": "2027-02-29"}), "invalid_rule", "The calendar has no such date." + FORMS),
    (said(at={**DAY, "time": "24:00:00"}), "invalid_rule", NO_CLOCK),
    (said(at={**DAY, "time_zone": "EST"}), "invalid_time_zone", NO_ZONE),
    (said(at={**DAY, "time_zone": 1}), "invalid_time_zone", NO_ZONE),
    (
        said(at={"date": "2027-03-28", "time": "02:30:00", "time_zone": "Europe/Berlin"}),
        "invalid_rule",
        (
            "Clocks in Europe/Berlin skip 2027-03-28 02:30:00: that local time does not exist. Give an "
            "earlier or a later one."
        ),
    ),
    (
        said(at="9999-12-31T23:59:59-00:01"),
        "time_out_of_range",
        "The reminder must fall within the UTC years 0001 to 9999.",
    ),
    (
        said(at="2020-01-01T00:00:00Z"),
        "not_future",
        (
            "The reminder would be due at 2020-01-01T00:00:00.000Z, which is not in the future: the clock "
            f"reads {NOW} (UTC). Give a later time."
        ),
    ),
]


@pytest.mark.parametrize(("text", "code", "message"), CREATE)
def test_a_create_is_refused_in_these_words(text: str, code: str, message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        resolve(decode_create(text, ZoneTable(), LIMITS), "a", decode_instant(NOW))
    assert (refused.value.code, refused.value.message, str(refused.value)) == (code, message, message)


def test_a_list_is_refused_in_these_words() -> None:
    for text, message in (
        ('{"all":1}', 'Unknown argument "all". The arguments of this tool are: none.'),
        ("[]", ONE_OBJECT),
    ):
        with pytest.raises(RefusedError) as refused:
            decode_list(text)
        assert (refused.value.code, refused.value.message) == ("invalid_selector", message)


@pytest.mark.parametrize("text", ["{}", '{"id":1}', '{"id":" a"}', '{"id":null}', '{"id":"\\ud800"}'])
def test_a_delete_is_refused_in_these_words(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        decode_delete(text)
    assert refused.value.code == "invalid_rule"
    assert refused.value.message == 'Give id as text, as schedule_list shows it, such as "schedule-1".'


def test_a_full_session_is_told_of_in_these_words() -> None:
    with pytest.raises(RefusedError) as refused:
        require_room(7, Limits(max_active=7))
    assert refused.value.code == "invalid_rule"
    assert refused.value.message == (
        "This session has 7 active reminders, and at most 7 are allowed. Delete one that is no longer needed "
        "with schedule_delete, then try again."
    )


# --- what is taken ---------------------------------------------------------------------------------------


def answer(text: str) -> Record | str:
    """Return the record of a call that succeeds, else its code."""
    try:
        return resolve(decode_create(text, ZoneTable(), Limits()), "schedule-1", decode_instant(NOW))
    except RefusedError as error:
        return error.code


def test_a_delay_is_kept_as_an_integer_however_it_is_written() -> None:
    for digits, seconds in (("1", 1), ("600.0", 600), ("6e2", 600), ("1E3", 1000), ("0.1e1", 1)):
        record = answer(f'{{"prompt":"p","after_seconds":{digits}}}')
        assert isinstance(record, AfterRecord)
        assert (type(record.after_seconds), record.after_seconds) == (int, seconds)


@pytest.mark.parametrize(
    ("name", "code", "digits"),
    [
        ("after_seconds", "invalid_rule", "600.5 0 -0 -0.0 -1 1e400 -1e400 NaN Infinity true [600] {}"),
        ("after_seconds", "invalid_rule", "9007199254740992 9007199254740993 9007199254740993.0"),
        ("after_seconds", "time_out_of_range", "9007199254740991 251606217600"),
        ("every_seconds", "frequency_too_high", "299 299.0 0 -0.0 -300"),
        ("every_seconds", "invalid_rule", "299.5 true 1e400 9007199254740993 " + "9" * 4301),
        ("every_seconds", "time_out_of_range", "9007199254741 9007199254740991 251606217600"),
    ],
)
def test_a_number_that_is_no_length_of_time_is_refused(name: str, code: str, digits: str) -> None:
    for written in digits.split():
        assert answer(f'{{"prompt":"p","{name}":{written}}}') == code


@pytest.mark.parametrize("zone", ["", " UTC", "right/America/New_York", "Factory", ["UTC"], {"a": "UTC"}])
def test_what_is_no_zone_is_refused_as_such(zone: Any) -> None:
    assert answer(said(at={**DAY, "time_zone": zone})) == "invalid_time_zone"


def test_a_prompt_is_trimmed_and_otherwise_kept() -> None:
    for prompt, stored in (
        ("\ufeff\u2003 a\u0085 \n", "a\u0085"),
        ("\x01\x1b\x7f", "\x01\x1b\x7f"),
        (" " * 50_000 + "\u200ba", "\u200ba"),
    ):
        record = answer(json.dumps({"prompt": prompt, "after_seconds": 600}))
        assert isinstance(record, AfterRecord)
        assert record.prompt == stored
    for prompt in (
        "\u00a0\u2028\ufeff",
        " \u2060\u200d ",
        "\u202e",
        "\ufe0f",
        "\0" * 100_000,
        True,
        [],
        {"a": "b"},
    ):
        assert answer(json.dumps({"prompt": prompt, "after_seconds": 600})) == "invalid_prompt"
    assert answer('{"prompt":"\\ud83d\\ude00","after_seconds":600}') == answer(
        json.dumps({"prompt": "\U0001f600", "after_seconds": 600}, ensure_ascii=False)
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"prompt":"","after_seconds":600,"colour":"red"}', "invalid_selector"),
        ('{"prompt":"a","prompt":"a"}', "invalid_selector"),
        ('{"prompt":"p","x":null,"x":null,"after_seconds":600}', "invalid_selector"),
        ('{"prompt":"p","at":' + "[" * 100_000, "invalid_selector"),
        ('{"prompt":"","after_seconds":-1}', "invalid_prompt"),
        ('{"prompt":" ","at":"2020-01-01T00:00:00Z"}', "invalid_prompt"),
    ],
)
def test_what_is_wrong_in_several_ways_gets_the_first_code(text: str, code: str) -> None:
    assert answer(text) == code


def test_delete_takes_the_id_of_another_program() -> None:
    assert decode_delete('{"id":"an id of another program"}') == "an id of another program"


@pytest.mark.parametrize(
    ("target", "interval_seconds", "now", "occurrence"),
    [
        ("2026-12-02T03:40:00.000Z", 14400, "2026-12-02T03:52:00.000Z", "2026-12-02T03:40:00.000Z"),
        ("2026-12-01T00:05:00.123Z", 300, "2026-12-01T00:17:30.000Z", "2026-12-01T00:15:00.123Z"),
        ("1969-12-31T23:00:00.000Z", 300, "1970-01-01T00:02:00.000Z", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_the_latest_occurrence_lies_on_the_grid_of_the_creation(
    target: str, interval_seconds: int, now: str, occurrence: str
) -> None:
    interval = Duration(interval_seconds * 1000)
    latest, following = occurrence_at(decode_instant(target), interval, decode_instant(now))
    assert (render_instant(latest), following - latest) == (occurrence, interval)
