"""Every message that a model gets from Schedule, word for word: they tell it how to repair its call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watchbell.errors import ScheduleLogError
from watchbell.instants import decode_instant
from watchbell.reminders.arguments import Limits, decode_create, decode_delete, decode_list, require_room
from watchbell.reminders.records import AtRecord, Create, Delete, Dispatch, EveryRecord, decode_change
from watchbell.reminders.state import ScheduleState
from watchbell.reminders.times import resolve
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


# --- what is wrong with a log, for people ----------------------------------------------------------------

RECORD = '{"id":"a","kind":"at","prompt":"p","scheduledAt":"2027-01-01T00:00:00.000Z"}'
CHANGE = '{"version":1,"operation":"create","schedule":' + RECORD + "}"
NOT_OURS = "the schedule history is invalid at event 7: not a change of version 1: "


def after(seconds: str) -> str:
    rule = f'"afterSeconds":{seconds},"scheduledAt"'
    return CHANGE.replace('"at"', '"after"').replace('"scheduledAt"', rule)


def halved(seconds: str) -> str:
    return after(seconds).replace('"p"', '"\\ud800"')


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (CHANGE.replace('"p"', '" p"'), "a prompt is trimmed and not blank - at `$.schedule`"),
        (
            CHANGE.replace('"a"', '""'),
            "an id is not empty and has no white space around it - at `$.schedule`",
        ),
        (CHANGE.replace(".000Z", "Z"), "an instant is written YYYY-MM-DDTHH:mm:ss.sssZ - at `$.schedule`"),
        (CHANGE.replace("T00", "T24"), "the clock has no such time of day - at `$.schedule`"),
        (after("0"), "afterSeconds is a positive safe integer - at `$.schedule`"),
        (
            CHANGE.replace('"at"', '"every"').replace('"scheduledAt"', '"everySeconds":299,"scheduledAt"'),
            "everySeconds is a safe integer of at least 300 - at `$.schedule`",
        ),
        (CHANGE.replace('"version":1,', ""), "a key is missing or holds null"),
        (CHANGE.replace('"id"', '"prompt":"p","id"'), "a key is repeated"),
        (CHANGE.replace(":1", ":1.0"), "Expected `int`, got `float` - at `$.version`"),
        (after("600.0"), "Expected `int`, got `float` - at `$.schedule.afterSeconds`"),
        # Half a surrogate pair is read the slow way, which has words of its own.
        (halved("600.0"), "600.0 is not an integer"),
        (halved("600." + "0" * 20), "600.0000000000000000 is not an integer"),
        (halved("NaN"), "NaN is not an integer"),
        (CHANGE.replace(":1", ":NaN"), "NaN is not an integer"),
        (after("1" * 20), "afterSeconds is a positive safe integer - at `$.schedule`"),
        (halved("1" * 20), "afterSeconds is a positive safe integer - at `$.schedule`"),
        (halved("1" * 21), "a number is out of range"),
        (CHANGE.replace("create", "a\\nb"), "Invalid value 'a"),
        (CHANGE.replace(":1", ":2"), "Invalid enum value 2 - at `$.version`"),
    ],
)
def test_a_change_that_cannot_be_read_is_told_of_in_these_words(raw: str, why: str) -> None:
    with pytest.raises(ScheduleLogError) as corrupt:
        decode_change(raw.encode(), 7)
    assert str(corrupt.value) == NOT_OURS + why


AT = AtRecord("a", "p", NOW)
EVERY = EveryRecord("a", "p", NOW, every_seconds=300)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([Create(AT), Create(AT)], "id 'a' is used again"),
        ([Delete("a")], "id 'a' is not active"),
        ([Create(AT), Dispatch("a", NOW)], "one-shot 'a' is dispatched with acceptedAt"),
        ([Create(EVERY), Dispatch("a")], "repeating 'a' is dispatched without acceptedAt"),
        (
            [Create(EVERY), Dispatch("a", "2026-11-30T23:59:59.999Z")],
            "repeating 'a' is dispatched before its target",
        ),
    ],
)
def test_a_change_that_cannot_follow_is_told_of_in_these_words(changes: list[Any], why: str) -> None:
    state = ScheduleState()
    *earlier, last = changes
    for change in earlier:
        state.apply(change, 0)
    with pytest.raises(ScheduleLogError) as corrupt:
        state.apply(last, 7)
    assert str(corrupt.value) == f"the schedule history is invalid at event 7: {why}"
    assert corrupt.value.seq == 7
