"""The durable protocol is written one way and read strictly."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from watchbell.errors import ScheduleLogError
from watchbell.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, decode_instant, render_instant
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
    trim,
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
        *(('"version":1', f'"version":{value}') for value in ("true", "1.0", '"1"', "2", "0", "null", "1e0")),
        *(
            ('"everySeconds":300', f'"everySeconds":{value}')
            for value in ("300.0", "true", "299", "3e2", '"300"')
        ),
        *(
            ('"everySeconds":300', f'"everySeconds":{value}')
            for value in (
                "9007199254741",
                "-300",
                "9" * 4301,
                "[" * 50_000,
                "NaN",
                "Infinity",
                "null",
                "0300",
            )
        ),
        *(
            ("2026-12-01T00:00:00.000Z", value)
            for value in (
                "2026-12-01T00:00:00Z",
                "2026-12-01T00:00:00.00Z",
                "2026-12-01T00:00:00.000+00:00",
                "2027-02-30T00:00:00.000Z",
                "\uff12\uff10\uff12\uff17-06-01T09:00:00.000Z",
                "2026-12-01T24:00:00.000Z",
                "2026-12-01T23:59:60.000Z",
                "0000-12-01T00:00:00.000Z",
                "2026-12-01t00:00:00.000z",
                "2026-12-01T00:00:00.000Z\\n",
                "",
            )
        ),
        ('"prompt":"p"', '"prompt":" p"'),
        ('"prompt":"p"', '"prompt":"p\\ufeff"'),
        ('"prompt":"p"', '"prompt":""'),
        ('"prompt":"p"', '"prompt":1'),
        ('"prompt":"p"', '"prompt":null'),
        ('"id":"schedule-1"', '"id":"schedule-1 "'),
        ('"id":"schedule-1"', '"id":""'),
        ('"id":"schedule-1"', '"id":1'),
        ('"kind":"every"', '"kind":"cron"'),
        ('"kind":"every"', '"kind":"after"'),
        ('"kind":"every"', '"kind":["every"]'),
        ('"kind":"every",', ""),
        ('"operation":"create"', '"operation":"snooze"'),
        ('"operation":"create"', '"operation":"delete"'),
        ('"operation":"create",', ""),
        ('"version":1,', ""),
        ('"prompt":"p",', ""),
        ('"everySeconds":300,', ""),
        (',"scheduledAt":"2026-12-01T00:00:00.000Z"', ""),
        ('"prompt":"p"', '"prompt":"p","zone":"UTC"'),
        ('"version":1', '"version":1,"x":null'),
        ('"version":1', '"version":1,"id":"schedule-1"'),
        ('"version":1', '"version":1,"version":1'),
        ('"id":"schedule-1"', '"id":"schedule-1","id":"schedule-9"'),
        ('"id":"schedule-1"', '"id":"schedule-1","\\u0069d":"schedule-1"'),
        ('"scheduledAt":"', '"scheduledAt":"2026-12-02T00:00:00.000Z","scheduledAt":"'),
        ('"kind":"every"', '"kind":"every","kind":"every"'),
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
        "null",
        "[]",
        "1",
        '"x"',
        "{}",
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


@pytest.mark.parametrize(
    ("instant_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_796_036_425_787, "2026-11-30T11:00:25.787Z"),
        (951_782_400_001, "2000-02-29T00:00:00.001Z"),
        (MIN_INSTANT_MS, "0001-01-01T00:00:00.000Z"),
        (MAX_INSTANT_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_an_instant_has_one_text(instant_ms: int, text: str) -> None:
    assert render_instant(instant_ms) == text
    assert decode_instant(text) == instant_ms


@pytest.mark.parametrize("instant_ms", [MIN_INSTANT_MS - 1, MAX_INSTANT_MS + 1])
def test_an_instant_beyond_the_calendar_has_no_text(instant_ms: int) -> None:
    with pytest.raises(ValueError, match="0001 to 9999"):
        render_instant(instant_ms)


def test_trim_takes_ecmascripts_white_space_and_nothing_more() -> None:
    taken = "\t\n\v\f\r \u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
    assert trim(f"{taken}a b{taken}") == "a b"
    for kept in "\x00\x1c\x1d\x1e\x1f\x85\u180e\u200b\u200e\u2060":
        assert trim(f" {kept}a{kept} ") == f"{kept}a{kept}"
