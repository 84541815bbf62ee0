"""The durable protocol is written one way and read strictly."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from watchbell.errors import ScheduleLogError
from watchbell.reminders.records import (
    MAX_SAFE_INTEGER,
    AfterRecord,
    AtRecord,
    Change,
    Create,
    Delete,
    Dispatch,
    EveryRecord,
    decode_change,
    draft_change,
    encode_change,
)

AT = "2026-12-01T00:00:00.000Z"
EVERY = (
    '{"version":1,"operation":"create","schedule":{"id":"schedule-1","kind":"every","prompt":"p",'
    '"everySeconds":300,"scheduledAt":"2026-12-01T00:00:00.000Z"}}'
)
WRITTEN: list[tuple[Change, str]] = [
    (
        Create(AfterRecord("schedule-1", "say “hé”", AT, after_seconds=600)),
        (
            '{"version":1,"operation":"create","schedule":{"id":"schedule-1","kind":"after",'
            '"prompt":"say “hé”","afterSeconds":600,"scheduledAt":"2026-12-01T00:00:00.000Z"}}'
        ),
    ),
    (
        Create(AtRecord("x", "a\nb", AT)),
        (
            '{"version":1,"operation":"create","schedule":{"id":"x","kind":"at","prompt":"a\\nb",'
            '"scheduledAt":"2026-12-01T00:00:00.000Z"}}'
        ),
    ),
    (Create(EveryRecord("schedule-1", "p", AT, every_seconds=300)), EVERY),
    (Delete("schedule-1"), '{"version":1,"operation":"delete","id":"schedule-1"}'),
    (Dispatch("schedule-1"), '{"version":1,"operation":"dispatch","id":"schedule-1"}'),
    (
        Dispatch("schedule-1", AT),
        '{"version":1,"operation":"dispatch","id":"schedule-1","acceptedAt":"2026-12-01T00:00:00.000Z"}',
    ),
]


def refused(raw: str | bytes) -> str:
    with pytest.raises(ScheduleLogError) as caught:
        decode_change(raw.encode() if isinstance(raw, str) else raw, 7)
    assert (caught.value.seq, caught.value.code) == (7, "corrupt_schedule_log")
    return caught.value.reason


@pytest.mark.parametrize(("change", "text"), WRITTEN)
def test_a_change_is_written_with_exact_keys_in_their_order_and_reads_back(change: Change, text: str) -> None:
    assert encode_change(change).decode() == text
    assert decode_change(text.encode()) == change
    assert decode_change(msgspec.Raw(text.encode())) == change
    event = draft_change(change).at(3, 5)
    assert (event.type, event.data) == ("schedule/change", json.loads(text))


@pytest.mark.parametrize(("change", "text"), WRITTEN)
def test_key_order_white_space_and_escapes_do_not_matter(change: Change, text: str) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(inner) for key, inner in reversed(value.items())}
        return value

    loose = " " + json.dumps(turned(json.loads(text)), indent=1) + "\n"
    loose = loose.replace("schedule-1", "schedule\\u002d1")
    assert decode_change(loose.encode()) == change


def test_half_a_surrogate_pair_that_another_program_logged_is_kept() -> None:
    change = decode_change(EVERY.replace('"p"', '"p\\ud83d"').encode())
    assert isinstance(change, Create)
    assert change.schedule.prompt == "p\ud83d"
    assert encode_change(change).decode() == EVERY.replace('"p"', '"p\\ud83d"')
    assert isinstance(decode_change(EVERY.replace("schedule-1", "\\ud83d").encode()), Create)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"version":1', '"version":1e0'),
        *(
            ('"everySeconds":300', f'"everySeconds":{value}')
            for value in ("-300", "9" * 4301, "[" * 50_000, "NaN", "Infinity", "0300")
        ),
        ('"prompt":"p"', '"prompt":"p\\ufeff"'),
        ('"kind":"every"', '"kind":["every"]'),
        ('"operation":"create"', '"operation":"delete"'),
        ('"version":1', '"version":1,"id":"schedule-1"'),
        ('"id":"schedule-1"', '"id":"schedule-1","\\u0069d":"schedule-1"'),
        ("}}", "}}}"),
        ("}}", "}"),
    ],
)
def test_a_look_alike_of_a_create_is_refused(old: str, new: str) -> None:
    assert old in EVERY
    assert len(refused(EVERY.replace(old, new))) < 300


@pytest.mark.parametrize(
    "raw",
    [
        "",
        '{"version":1,"operation":"dispatch","id":"a","acceptedAt":null}',
        '{"version":1,"operation":"dispatch","id":"a","acceptedAt":"now"}',
        '{"version":1,"operation":"dispatch","id":"a","acceptedAt":1}',
        '{"version":1,"operation":"dispatch"}',
        '{"version":1,"operation":"delete","id":"a","acceptedAt":"2026-12-01T00:00:00.000Z"}',
        '{"version":1,"operation":"delete","id":" a"}',
        '{"version":1,"operation":"delete","id":"a\\u2028"}',
        b'{"version":1,"operation":"delete","id":"\xff"}',
        b'{"version":1,"operation":"delete","id":"\xed\xa0\xbd"}',
        '{"version":1,"operation":"delete","id":"a"}'.encode("utf-16"),
        '\ufeff{"version":1,"operation":"delete","id":"a"}',
    ],
)
def test_what_is_no_change_of_version_1_is_refused(raw: str | bytes) -> None:
    assert refused(raw)


def test_integers_up_to_the_safe_limit_are_kept() -> None:
    after = AfterRecord("a", "p", AT, after_seconds=MAX_SAFE_INTEGER)
    assert decode_change(encode_change(Create(after))) == Create(after)
    every = EveryRecord("a", "p", AT, every_seconds=MAX_SAFE_INTEGER // 1000)
    assert decode_change(encode_change(Create(every))) == Create(every)


@pytest.mark.parametrize("seconds", [0, -1, MAX_SAFE_INTEGER + 1])
def test_a_record_that_replay_would_refuse_cannot_be_made(seconds: int) -> None:
    with pytest.raises(ValueError, match="afterSeconds"):
        AfterRecord("a", "p", AT, after_seconds=seconds)


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
