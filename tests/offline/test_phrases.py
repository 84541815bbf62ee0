from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.offline._phrases import (
    MAX_PHRASE,
    Ask,
    Cancel,
    CancelAll,
    ListAll,
    LocalNow,
    Phrase,
    Remind,
    read_now,
    read_phrase,
)
from watchbell.zones import ZoneTable

ZONES = ZoneTable()
# A Tuesday, ten in the morning in Berlin.
NOW = read_now(
    "now_local: 2026-12-01T10:00:00+01:00\n"
    "time_zone: Europe/Berlin\n"
    "now_utc: 2026-12-01T09:00:00Z\n"
    "weekday: Tuesday"
)
NO_ZONE = read_now("now_utc: 2026-12-01T09:00:00Z\ntime_zone: unknown; ask the user")


def read(text: str, now: LocalNow | None = NOW) -> Phrase | None:
    return read_phrase(text, now, ZONES)


def berlin(date: str, time: str) -> dict[str, str]:
    return {"date": date, "time": time, "time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("remind me in 10 seconds to X", 10),
        ("Remind me to X in 20 minutes.", 1_200),
        ("in an hour, remind me to X", 3_600),
        ("please remind me in 2 hours and 30 minutes to X", 9_000),
        ("in 1h30m X", 5_400),
        ("X in 90s", 90),
        ("remind me in an hour and a half to X", 5_400),
        ("remind me in one and a half hours about X", 5_400),
        ("remind me in 1.5 hours of X", 5_400),
        ("could you remind me in half an hour to X, please?", 1_800),
        ("remind me in twenty-five minutes to X", 1_500),
        ("remind me in a couple of days to X", 172_800),
        ("remind me 5 minutes from now to X", 300),
        ("set a reminder in two weeks to X", 1_209_600),
        ("remind me in 0 seconds to X", 0),
    ],
)
def test_a_delay_is_understood_wherever_it_stands(text: str, seconds: int) -> None:
    assert read(text) == Remind("X", {"after_seconds": seconds})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("every 10 minutes X", 600),
        ("every half hour X", 1_800),
        ("X every half hour", 1_800),
        ("remind me each hour to X", 3_600),
        ("remind me every other day to X", 172_800),
        ("remind me every day to X", 86_400),
        ("every 30 seconds X", 30),
    ],
)
def test_an_interval_is_understood(text: str, seconds: int) -> None:
    assert read(text) == Remind("X", {"every_seconds": seconds})


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("at 2030-01-01 09:00 in Europe/Berlin X", berlin("2030-01-01", "09:00:00")),
        ("at 2030-01-01 09:00 europe/berlin X", berlin("2030-01-01", "09:00:00")),
        ("remind me at 2030-01-01 9pm to X", berlin("2030-01-01", "21:00:00")),
        ("at 2030-01-01T09:00:00Z X", "2030-01-01T09:00:00Z"),
        ("remind me to X at 2030-01-01T09:00:30.250+05:30", "2030-01-01T09:00:30.250+05:30"),
        ("remind me at 09:30 to X on 2030-01-01", berlin("2030-01-01", "09:30:00")),
        ("remind me at 11 to X", berlin("2026-12-01", "11:00:00")),
        ("remind me at 10:00 to X", berlin("2026-12-02", "10:00:00")),
        ("at 09:55 Berlin time X", berlin("2026-12-02", "09:55:00")),
        ("remind me tomorrow at nine to X", berlin("2026-12-02", "09:00:00")),
        ("remind me at nine tomorrow to X", berlin("2026-12-02", "09:00:00")),
        ("remind me at nine to X tomorrow", berlin("2026-12-02", "09:00:00")),
        ("remind me the day after tomorrow at 6 in the evening to X", berlin("2026-12-03", "18:00:00")),
        ("remind me tonight at 8 to X", berlin("2026-12-01", "20:00:00")),
        ("remind me today at 9 to X", berlin("2026-12-01", "09:00:00")),
        ("remind me on Friday at 9am to X", berlin("2026-12-04", "09:00:00")),
        ("remind me next Tuesday at 12 pm to X", berlin("2026-12-08", "12:00:00")),
        ("remind me at noon to X", berlin("2026-12-01", "12:00:00")),
        ("remind me at midnight to X", berlin("2026-12-02", "00:00:00")),
        ("remind me at 12 am to X", berlin("2026-12-02", "00:00:00")),
        ("remind me in 3 days at noon to X", berlin("2026-12-04", "12:00:00")),
        (
            "remind me at 8:30 New York time to X",
            {"date": "2026-12-01", "time": "08:30:00", "time_zone": "America/New_York"},
        ),
        (
            # It is ten in the evening there, so that time comes tomorrow.
            "remind me at 21:30 Auckland time to X",
            {"date": "2026-12-02", "time": "21:30:00", "time_zone": "Pacific/Auckland"},
        ),
        ("remind me at 14:30 UTC to X", {"date": "2026-12-01", "time": "14:30:00", "time_zone": "UTC"}),
        # What the calendar or the clock does not have is the tool's to refuse.
        ("remind me at 2030-02-31 25:99 to X", berlin("2030-02-31", "25:99:00")),
    ],
)
def test_a_moment_is_understood(text: str, at: Any) -> None:
    assert read(text) == Remind("X", {"at": at})


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("remind me to look at 3 logs in 20 minutes", "look at 3 logs"),
        ("remind me in 20 minutes to cancel schedule-1", "cancel schedule-1"),
        ('remind me in 20 minutes of the "numbers" and coffee ☕', 'the "numbers" and coffee ☕'),
        (
            "Remind me in 10 minutes to check the deploy. It is important!",
            "check the deploy. It is important!",
        ),
        (
            "Every weekday stand-up is at 09:55 Berlin time. Remind me tomorrow.",
            "Every weekday stand-up is at 09:55 Berlin time",
        ),
        ("remind me in 5 minutes to x\0y", "x y"),
    ],
)
def test_the_prompt_is_what_remains(text: str, prompt: str) -> None:
    phrase = read(text)
    assert isinstance(phrase, Remind)
    if "stand-up is at" in prompt:
        assert phrase.selector == {"at": berlin("2026-12-02", "09:55:00")}
    assert phrase.prompt == prompt


@pytest.mark.parametrize(
    "text",
    [
        "list",
        "List my reminders, please",
        "show me all reminders",
        "what reminders do I have?",
        "do I have any reminders",
        "reminders?",
        "what's scheduled",
    ],
)
def test_a_wish_to_see_the_reminders_is_understood(text: str) -> None:
    assert read(text) == ListAll()


def test_cancelling_names_ids_or_means_all() -> None:
    assert read("cancel schedule-2") == Cancel(("schedule-2",))
    assert read("Please delete Schedule-1, schedule-3 and schedule-1") == Cancel(("schedule-1", "schedule-3"))
    assert read("can you cancel all my reminders") == CancelAll()


@pytest.mark.parametrize(
    ("text", "now", "question"),
    [
        ("remind me", NOW, "When should I remind you?"),
        ("remind me to call Ann", NOW, "When should I remind you?"),
        ("remind me in a few minutes to call Ann", NOW, "When should I remind you?"),
        ("remind me in 10 minutes", NOW, "What should I remind you of?"),
        ("remind me tomorrow to call Ann", NOW, "At what time tomorrow?"),
        ("remind me at nine to call Ann", None, "do not know your time zone"),
        ("remind me at nine UTC to call Ann", None, "do not know today's date"),
        ("remind me at nine to call Ann", NO_ZONE, "do not know your time zone"),
        ("remind me at 9 Gotham time to call Ann", NOW, "do not know the time zone 'Gotham'"),
        ("remind me at 9:00 Mars/Phobos to call Ann", NOW, "do not know the time zone 'Mars/Phobos'"),
        ("remind me in 999999999999 days at noon to call Ann", NOW, "too far away"),
        ("remind me every weekday at 9 to stand up", NOW, "cannot repeat a reminder by the calendar"),
        ("every day at 9 stand up", NOW, "cannot repeat a reminder by the calendar"),
        ("remind me on Mondays to stand up", NOW, "cannot repeat a reminder by the calendar"),
        ("cancel the build one", NOW, "Which reminder?"),
    ],
)
def test_what_is_missing_is_asked_for(text: str, now: LocalNow | None, question: str) -> None:
    phrase = read(text, now)
    assert isinstance(phrase, Ask)
    assert question in phrase.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "What will the weather be in 2 days?",
        "show me the code",
        "in a meeting",
        "x" * (MAX_PHRASE + 1),
    ],
)
def test_anything_else_is_not_understood(text: str) -> None:
    assert read(text) is None


def test_a_full_date_with_a_zone_needs_no_time_context() -> None:
    at = berlin("2030-01-01", "09:00:00")
    assert read("remind me at 2030-01-01 9:00 Berlin time to X", None) == Remind("X", {"at": at})


def test_the_time_is_not_known_from_a_message_that_does_not_tell_it() -> None:
    assert read_now("time_zone: Europe/Berlin") is None
    assert read_now("now_local: 2026-12-01T10:00:00\nnow_utc: soon") is None
    assert NO_ZONE is not None
    assert NO_ZONE.zone is None


WORDS = [
    "remind",
    "me",
    "to",
    "in",
    "at",
    "every",
    "on",
    "tomorrow",
    "Friday",
    "9",
    "09:55",
    "2030-01-01",
    "T09:00:00Z",
    "999999999999",
    "half",
    "a",
    "an",
    "and",
    "hours",
    "days",
    "UTC",
    "Europe/Berlin",
    "Berlin",
    "time",
    "noon",
    "+25:99",
    "schedule-1",
    "cancel",
    "all",
    "list",
    ".",
    ",",
    "?",
    "x",
]


@given(
    st.lists(st.sampled_from([*WORDS, "\0"]), max_size=14).map(" ".join),
    st.sampled_from([None, NOW, NO_ZONE]),
)
def test_no_sentence_breaks_the_reader(text: str, now: LocalNow | None) -> None:
    phrase = read(text, now)
    if isinstance(phrase, Remind):
        assert phrase.prompt
        assert len(phrase.selector) == 1
