"""What people say is understood to its last word, or asked back: nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.offline.talk import Conversation, calls_of, text_of

# A Monday, noon in Berlin.
NOW = "now_local: 2026-11-30T12:00:00+01:00\ntime_zone: Europe/Berlin\nnow_utc: 2026-11-30T11:00:00Z"
NO_ZONE = "now_utc: 2026-11-30T11:00:00Z\ntime_zone: unknown; ask the user"


def hear(text: str, time: str = NOW) -> tuple[list[tuple[str, Any]], str]:
    answer = Conversation(time=time).ask(text)
    return calls_of(answer), text_of(answer)


def berlin(date: str, time: str, zone: str = "Europe/Berlin") -> dict[str, Any]:
    return {"at": {"date": date, "time": f"{time}:00", "time_zone": zone}}


def reminder(number: int, prompt: str, scheduled_at: str = "2026-12-01T00:00:10.250Z") -> dict[str, Any]:
    return {"id": f"schedule-{number}", "kind": "after", "prompt": prompt, "scheduledAt": scheduled_at}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("remind me in 10 seconds to X", 10),
        ("Remind me to X in 20 minutes.", 1_200),
        ("in an hour, remind me to X", 3_600),
        ("please remind me in 2 hours and 30 minutes to X", 9_000),
        ("in 1h30m X", 5_400),
        ("remind me to X in 90s", 90),
        ("remind me in an hour and a half to X", 5_400),
        ("remind me in one and a half hours about X", 5_400),
        ("remind me in 1.5 hours of X", 5_400),
        ("could you remind me in half an hour to X, please?", 1_800),
        ("remind me in twenty-five minutes to X", 1_500),
        ("remind me in a couple of days to X", 172_800),
        ("remind me 5 minutes from now to X", 300),
        ("Hello! Set a reminder in two weeks to X", 1_209_600),
        ("remind me in 30 minutes, please, to X", 1_800),
        ("remind me in 0 seconds to X", 0),
    ],
)
def test_a_delay_is_understood_wherever_it_stands(text: str, seconds: int) -> None:
    assert hear(text) == ([("schedule_create", {"prompt": "X", "after_seconds": seconds})], "")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("every 10 minutes X", 600),
        ("every half hour X", 1_800),
        ("remind me each hour to X", 3_600),
        ("remind me hourly to X", 3_600),
        ("remind me to X every other day", 172_800),
        ("remind me every day to X", 86_400),
        ("remind me to X daily", 86_400),
        ("every 30 seconds X", 30),
    ],
)
def test_an_interval_is_understood(text: str, seconds: int) -> None:
    assert hear(text)[0] == [("schedule_create", {"prompt": "X", "every_seconds": seconds})]


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("at 2030-01-01 09:00 in Europe/Berlin X", berlin("2030-01-01", "09:00")),
        ("at 2030-01-01 09:00 europe/berlin X", berlin("2030-01-01", "09:00")),
        ("remind me at 2030-01-01 9pm to X", berlin("2030-01-01", "21:00")),
        ("at 2030-01-01T09:00:00Z X", {"at": "2030-01-01T09:00:00Z"}),
        ("remind me to X at 2030-01-01T09:00:30.250+05:30", {"at": "2030-01-01T09:00:30.250+05:30"}),
        ("remind me at 09:30 to X on 2030-01-01", berlin("2030-01-01", "09:30")),
        ("remind me at 13 to X", berlin("2026-11-30", "13:00")),
        ("remind me at 12:00 to X", berlin("2026-12-01", "12:00")),
        ("at 09:55 Berlin time X", berlin("2026-12-01", "09:55")),
        ("remind me at 9:00 tomorrow berlin time to X", berlin("2026-12-01", "09:00")),
        ("remind me tomorrow at nine to X", berlin("2026-12-01", "09:00")),
        ("remind me at nine tomorrow to X", berlin("2026-12-01", "09:00")),
        ("remind me at nine to X tomorrow", berlin("2026-12-01", "09:00")),
        ("Remind me to X. Tomorrow at 9.", berlin("2026-12-01", "09:00")),
        ("remind me the day after tomorrow at 6 in the evening to X", berlin("2026-12-02", "18:00")),
        ("tomorrow evening at 7 to X", berlin("2026-12-01", "19:00")),
        ("remind me tomorrow morning at 7 to X", berlin("2026-12-01", "07:00")),
        ("remind me at 3 this afternoon to X", berlin("2026-11-30", "15:00")),
        ("remind me tonight at 8 to X", berlin("2026-11-30", "20:00")),
        ("remind me today at 9 to X", berlin("2026-11-30", "09:00")),
        ("this Friday at 18:00 to X", berlin("2026-12-04", "18:00")),
        ("remind me on Friday at 9am to X", berlin("2026-12-04", "09:00")),
        ("remind me wednesday morning at 9 a.m. to X", berlin("2026-12-02", "09:00")),
        ("remind me on Monday at 9 to X", berlin("2026-12-07", "09:00")),
        ("remind me next Monday at 12 pm to X", berlin("2026-12-07", "12:00")),
        ("remind me on 24 December at 18:00 to X", berlin("2026-12-24", "18:00")),
        ("remind me December 24 at 6pm to X", berlin("2026-12-24", "18:00")),
        ("remind me on the 24th of Dec at 6 p.m. to X", berlin("2026-12-24", "18:00")),
        ("remind me on 24 Dec 2027 at noon to X", berlin("2027-12-24", "12:00")),
        ("remind me on 3 January at 9 to X", berlin("2027-01-03", "09:00")),
        ("remind me at noon to X", berlin("2026-12-01", "12:00")),
        ("remind me at midnight to X", berlin("2026-12-01", "00:00")),
        ("remind me at 12 am to X", berlin("2026-12-01", "00:00")),
        ("remind me in 3 days at noon to X", berlin("2026-12-03", "12:00")),
        ("set a reminder for tomorrow at 9 to X", berlin("2026-12-01", "09:00")),
        ("remind me at 8:30 New York time to X", berlin("2026-11-30", "08:30", "America/New_York")),
        # It is midnight there.
        ("remind me at 00:30 Auckland time to X", berlin("2026-12-01", "00:30", "Pacific/Auckland")),
        ("remind me at 14:30 UTC to X", berlin("2026-11-30", "14:30", "UTC")),
        # What the calendar or the clock does not have is the tool's to refuse.
        ("remind me at 2030-02-31 25:99 to X", berlin("2030-02-31", "25:99")),
    ],
)
def test_a_moment_is_understood(text: str, selector: dict[str, Any]) -> None:
    assert hear(text)[0] == [("schedule_create", {"prompt": "X", **selector})]


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("remind me to look at 3 logs in 20 minutes", "look at 3 logs"),
        ("remind me in 20 minutes to cancel schedule-1", "cancel schedule-1"),
        ("remind me in 20 minutes about tomorrow's meeting", "tomorrow's meeting"),
        ('remind me in 20 minutes of the "numbers" and coffee ☕', 'the "numbers" and coffee ☕'),
        ('remind me in 20 minutes to catch the "5pm" train', 'catch the "5pm" train'),
        (
            "Remind me in 10 minutes to check the deploy. It is important!",
            "check the deploy. It is important!",
        ),
        ("remind me in 5 minutes to x\0y", "x y"),
        ("look at the build every half hour", "look at the build"),
    ],
)
def test_the_prompt_is_what_remains(text: str, prompt: str) -> None:
    assert hear(text)[0][0][1]["prompt"] == prompt


def test_a_day_goes_with_the_hour_that_the_sentence_before_tells() -> None:
    told = "Every weekday stand-up is at 09:55 Berlin time"
    call = ("schedule_create", {"prompt": told, **berlin("2026-12-01", "09:55")})
    assert hear(f"{told}. Remind me tomorrow.")[0] == [call]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("do not remind me tomorrow at 9 to call", '"do not"'),
        ("please don't remind me in 10 minutes to call", "don't"),
        ("you need not remind me at 9 to call", '"you need not"'),
        ("set no reminder for tomorrow at 9", '"set no"'),
        ("I don't want a reminder tomorrow at 9", "don't want"),
        ("remind me not tomorrow but on Friday at 9 to call", '"not tomorrow but on Friday at 9"'),
        ("remind me tomorrow at 9 to call, not today", '"not today"'),
        ("Remind me in 10 minutes to call. No, wait.", '"No, wait"'),
        ("if it rains, remind me in 10 minutes to go", '"if it rains"'),
        ("do not cancel schedule-1", '"do not"'),
        ("did you remind me at 9?", '"did you"'),
        ("remind Bob in 10 minutes to call", "remind Bob"),
        ("remind me on 12/24 at 18:00 to celebrate", '"on 12/24 at 18:00"'),
        ("remind me to celebrate on 12/24 at 18:00", '"12/24"'),
        ("remind me on 24.12. at 18:00 to celebrate", "24.12."),
        ("remind me at 9am EST to call", '"EST"'),
        ("remind me to call at 9am EST", '"at 9am EST"'),
        ("remind me at 9:00 Pacific time to call", "do not know the time zone 'Pacific'"),
        ("remind me at 9:00 Mars/Phobos to call", "do not know the time zone 'Mars/Phobos'"),
        ("remind me in 20 minutes to stretch and in 40 minutes to eat", '"in 40 minutes to eat"'),
        ("in 20 minutes to stretch and in 40 minutes to eat", '"in 40 minutes to eat"'),
        ("remind me to call Ann in 10 minutes and Bob in 20 minutes", '"in 10 minutes and Bob"'),
        ("remind me in 5 minutes to eat. Remind me in 9 to go.", '"Remind me in 9 to go"'),
        ("remind me tomorrow at 9 and at 5pm to call", '"at 9 and at 5pm"'),
        ("remind me tomorrow at 9 or 10 to call", '"at 9 or 10"'),
        ("remind me tomorrow at 9 to call Ann at 10", '"at 10"'),
        ("remind me at 9 to 5 to call", '"at 9"'),
        ("remind me in 20 minutes to take the 5pm train", '"5pm train"'),
        ("remind me in 20 minutes to prepare for Friday", '"Friday"'),
        ("remind me to call. I am free at 15:00.", '"at 15:00"'),
        ("remind me at about 17:00 to call", '"at about 17:00"'),
        ("remind me at half past nine to call", '"at half past nine"'),
        ("remind me in a few minutes to call", '"in a few minutes"'),
        ("remind me in 2 months to call", '"in 2 months"'),
        ("remind me in -5 minutes to call", '"in -5 minutes"'),
        ("remind me in 1,000 seconds to call", '"in 1,000 seconds"'),
        ("remind me yesterday at 9 to call", '"yesterday at 9"'),
        ("remind me next week to call", '"next week"'),
        ("remind me next Friday at 9 to call", '"next Friday"'),
        ("remind me on Monday at 18:00 to call", '"on Monday"'),
        ("remind me on Friday, 24 December at 9 to call", '"24 December"'),
        ("remind me at 9 to call", '"at 9"'),  # now, at noon, the next nine is that of the evening
        ("remind me at 13pm to call", '"at 13pm"'),
        ("remind me tonight at 12 to call", '"at 12"'),
        ("remind me tomorrow morning at 3pm to call", '"at 3pm"'),
        ("remind me tomorrow at midnight to call", '"at midnight"'),
        ("remind me every 10 minutes until 17:00 to rest", '"until 17:00"'),
        ("remind me every 10 minutes to rest three times", '"three times"'),
        ("remind me every second day to rest", '"every second day"'),
        ("remind me in 10 minutes to rest every day", '"every day"'),
        ("remind me in 5 minutes rest", '"rest"'),
    ],
)
def test_what_is_not_understood_is_named_and_nothing_is_set(text: str, asked: str) -> None:
    calls, said = hear(text)
    assert calls == []
    assert asked in said


@pytest.mark.parametrize(
    ("text", "now", "question"),
    [
        ("remind me", NOW, "When should I remind you?"),
        ("remind me to call Ann", NOW, "When should I remind you?"),
        ("remind me in a few minutes to call Ann", NOW, "When should I remind you?"),
        ("remind me in 10 minutes", NOW, "What should I remind you of?"),
        ("remind me tomorrow to call Ann", NOW, "At what time tomorrow?"),
        ("remind me at nine to call Ann", "", "your time zone. Say the full date and the zone"),
        ("remind me at nine UTC to call Ann", "", "do not know today's date"),
        ("remind me at nine to call Ann", NO_ZONE, "do not know your time zone"),
        ("remind me at 9 Gotham time to call Ann", NOW, "do not know the time zone 'Gotham'"),
        ("remind me in 999999999999 days at noon to call Ann", NOW, "too far away"),
    ],
)
def test_what_is_missing_is_asked_for(text: str, now: str, question: str) -> None:
    calls, said = hear(text, now)
    assert calls == []
    assert question in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("remind me daily at 9 to take pills", "daily"),
        ("at 9pm every day to water plants", "every day"),
        ("every day at 9:00 stand up", "every day"),
        ("every weekday at 9 to stand up", "every weekday"),
        ("remind me every weekday at 9 to stand up", "every weekday"),
        ("remind me on Mondays to stand up", "on Mondays"),
        ("remind me monthly to pay", "monthly"),
    ],
)
def test_a_rule_of_the_calendar_is_not_set_as_an_interval(text: str, words: str) -> None:
    calls, said = hear(text)
    assert calls == []
    assert f'cannot repeat a reminder by the calendar ("{words}")' in said


@pytest.mark.parametrize(
    "text",
    [
        "the meeting is at 5pm",
        "we meet on Friday at 10",
        "dinner at 7",
        "in 5 minutes I leave",
        "tomorrow at 9 Ann comes",
        "the bus comes every half hour",
        "at 9am EST to call",
    ],
)
def test_what_only_tells_a_time_sets_nothing(text: str) -> None:
    calls, said = hear(text)
    assert calls == []
    assert 'begin with "remind me"' in said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Write me a poem.",
        "What will the weather be in 2 days?",
        "show me the code",
        "in a meeting",
        "x" * 4_001,
    ],
)
def test_anything_else_gets_an_honest_introduction(text: str) -> None:
    calls, said = hear(text)
    assert calls == []
    assert "not a language model" in said
    assert "- remind me in 20 minutes to check the deploy" in said
    assert "OpenAI-compatible" in said


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
        "what is pending?",
        "what is due?",
    ],
)
def test_a_wish_to_see_the_reminders_is_understood(text: str) -> None:
    said = text_of(Conversation().answer_list(text, [reminder(1, "a"), reminder(2, "b")]))
    assert said.startswith("You have 2 active reminders:\n- schedule-1: a, at")


@pytest.mark.parametrize("text", ["when is the next reminder?", "what's next?", "next reminder"])
def test_the_next_reminder_is_the_earliest(text: str) -> None:
    reminders = [reminder(1, "late", "2026-12-03T00:00:00.000Z"), reminder(2, "early")]
    said = text_of(Conversation().answer_list(text, reminders))
    assert said == "The next one is schedule-2: early, at 2026-12-01 00:00:10 UTC."
    assert text_of(Conversation().answer_list(text, [])) == "You have no active reminders."


@pytest.mark.parametrize("text", ["what time is it?", "what's the time", "what day is it today?"])
def test_the_time_is_told_as_far_as_it_is_known(text: str) -> None:
    assert hear(text) == ([], "It is Monday, 2026-11-30 12:00 in Europe/Berlin (11:00 UTC).")
    assert hear(text, NO_ZONE)[1].startswith("It is Monday, 2026-11-30 11:00 in UTC")
    for unknown in ("", "time_zone: Europe/Berlin", "now_local: 2026-12-01T10:00:00\nnow_utc: soon"):
        assert hear(text, unknown) == ([], "I do not know the time here: nobody told me.")


@pytest.mark.parametrize(
    "text", ["thanks", "Thank you!", "hello", "Good morning.", "bye", "help", "What can you do?"]
)
def test_small_talk_gets_one_friendly_line(text: str) -> None:
    calls, said = hear(text)
    assert calls == []
    assert said
    assert "\n" not in said


def test_ids_are_cancelled_at_once() -> None:
    assert hear("cancel schedule-2")[0] == [("schedule_delete", {"id": "schedule-2"})]
    ids = [call["id"] for _, call in hear("Please delete Schedule-1, schedule-3 and schedule-1")[0]]
    assert ids == ["schedule-1", "schedule-3"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("cancel the last one", ["schedule-4"]),
        ("please cancel the first reminder", ["schedule-1"]),
        ("cancel 2", ["schedule-2"]),
        ("delete reminder number 4", ["schedule-4"]),  # there are but three
        ("cancel call mum", ["schedule-2"]),
        ("cancel the reminder to call mum", ["schedule-2"]),
        ("cancel the build one", ["schedule-4"]),
        ("stop reminding me to call Ann", ["schedule-1"]),
        ("cancel the next one", ["schedule-4"]),
        ("can you cancel all my reminders", ["schedule-1", "schedule-2", "schedule-4"]),
        ("delete everything", ["schedule-1", "schedule-2", "schedule-4"]),
        ("cancel call", []),
        ("cancel 3", []),
        ("cancel it", []),
        ("cancel", []),
        ("cancel the gym", []),
        ("cancel all but schedule-1", []),
        ("cancel the last two", []),
        ("cancel schedule-1 tomorrow", []),
    ],
)
def test_what_is_cancelled_is_the_one_that_is_meant_or_asked_for(text: str, ids: list[str]) -> None:
    reminders = [
        reminder(1, "call Ann", "2026-12-02T00:00:00.000Z"),
        reminder(2, "call mum", "2026-12-03T00:00:00.000Z"),
    ]
    answer = Conversation().answer_list(text, [*reminders, reminder(4, "look at the build")])
    assert calls_of(answer) == [("schedule_delete", {"id": schedule_id}) for schedule_id in ids]
    assert text_of(answer).startswith("Which reminder? I do not understand ") == (not ids)


def test_a_number_that_is_an_id_and_anothers_place_is_asked_about() -> None:
    reminders = [reminder(2, "a"), reminder(3, "b")]
    assert calls_of(Conversation().answer_list("cancel 2", reminders)) == []
    assert calls_of(Conversation().answer_list("cancel it", reminders[:1]))[0][1] == {"id": "schedule-2"}
    for text in ("cancel", "cancel no reminder", "delete nothing"):
        assert calls_of(Conversation().answer_list(text, reminders[:1])) == []
    assert hear("clear")[0] == hear("drop it")[0] == hear("don't cancel anything")[0] == []


def test_two_wishes_that_came_together_are_both_carried_out() -> None:
    conversation = Conversation()
    conversation.add("what is pending?")
    answer = conversation.answer_list("cancel a", [reminder(1, "a"), reminder(2, "b")])
    assert text_of(answer).startswith("You have 2 active reminders:")
    assert calls_of(answer) == [("schedule_delete", {"id": "schedule-1"})]


WORDS = (
    "remind|me|to|in|at|every|on|tomorrow|Friday|9|09:55|2030-01-01|T09:00:00Z|999999999999|half|a|an|and|hours|days"
    "|UTC|Europe/Berlin|Berlin|time|noon|+25:99|schedule-1|cancel|all|list|.|,|?|x|next|24|December|evening|daily|not|\0"
)


@given(
    st.lists(st.sampled_from(WORDS.split("|")), max_size=14).map(" ".join),
    st.sampled_from(["", NOW, NO_ZONE]),
)
def test_no_sentence_breaks_the_reader(text: str, now: str) -> None:
    calls, said = hear(text, now)
    assert calls or said
    for name, arguments in calls:
        assert name != "schedule_create" or (arguments["prompt"] and len(arguments) == 2)
