from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.cli.conftest import FUTURE, PAST, Store, Watchbell, create, create_every, read_events
from watchbell.cli import program as compose
from watchbell.errors import ModelError
from watchbell.log.messages import BlockEnd, BlockStart, Chunk, Finish, FinishReason, TextBlock, TextDelta
from watchbell.models.base import ModelRequest
from watchbell.offline.model import OfflineModel


class Says(OfflineModel):
    """Answers everything with one text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        yield BlockStart(0, "text")
        yield TextDelta(0, self._text)
        yield BlockEnd(0, TextBlock(self._text))
        yield Finish(FinishReason("stop"))


class Fails(OfflineModel):
    """Fails in the middle of its answer."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        yield TextDelta(0, "half an ans")
        raise ModelError("the line\nis dead", code="DEAD")


def test_one_turn_prints_the_answer_and_what_stays_pending(watchbell: Watchbell) -> None:
    ran = watchbell("run", "a", "remind me in 10 minutes to stretch", "--time-zone", "Asia/Kolkata")
    assert (ran.code, ran.err) == (0, "")
    tool, answer, pending = ran.out.splitlines()
    assert tool.startswith(
        '[tool] schedule_create {"prompt":"stretch","after_seconds":600} -> {"id":"schedule-1"'
    )
    assert "schedule-1" in answer
    assert pending.startswith("1 reminder pending; the next, schedule-1, fires ")
    assert "+05:30 Asia/Kolkata (" in pending
    assert "while the session is open" in pending


def test_the_message_says_which_zone_its_sender_is_in(
    watchbell: Watchbell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert watchbell("run", "a", "hello").code == 0
    assert watchbell("run", "a", "hello", "--time-zone", "utc").code == 0
    monkeypatch.setenv("TZ", "XYZ3")
    assert watchbell("run", "a", "hello").code == 0
    messages = [event.data for event in read_events(home, "a") if event.type == "user/message"]
    sources = [message["source"] for message in messages if message["source"]["kind"] == "user"]
    assert sources == [
        {"kind": "user", "timeZone": "Europe/Berlin"},
        {"kind": "user", "timeZone": "UTC"},
        {"kind": "user"},
    ]


def test_overdue_reminders_of_a_resumed_session_come_first_and_once(
    watchbell: Watchbell, store: Store
) -> None:
    store(
        "a", create("schedule-1", "stretch", PAST), create("schedule-2", "drink", "2021-01-01T00:00:00.000Z")
    )
    out = watchbell("run", "a", "what reminders do I have", "--time-zone", "UTC").out
    lines = out.splitlines()
    assert lines[0].startswith(f"[reminder] schedule-1, due 2020-01-01 00:00:00 +00:00 UTC ({PAST}), ")
    assert lines[0].endswith(" late: stretch")
    assert lines[2].startswith("[reminder] schedule-2")
    assert "[tool] schedule_list {} -> []" in lines
    assert lines[-1] == "No reminders pending."
    assert "[reminder]" not in watchbell("run", "a", "list").out


def test_waiting_ends_when_no_one_shot_is_left(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1", "stretch"), create_every("schedule-2", 300))
    ran = watchbell("run", "a", "hello", "--wait")
    assert ran.code == 0
    assert "[reminder] schedule-1" in ran.out
    assert "1 reminder pending; the next, schedule-2" in ran.out.splitlines()[-1]


def test_json_has_the_answer_what_was_delivered_and_what_is_pending(
    watchbell: Watchbell, store: Store
) -> None:
    store("a", create("schedule-1"), create("schedule-2", "✓", FUTURE))
    out = watchbell("run", "a", "cancel schedule-7", "--json").out
    assert out.isascii()
    told = json.loads(out)
    assert (told["session"], told["ended"]) == ("a", {"kind": "completed"})
    assert told["answer"] == "There is no active reminder schedule-7."
    assert told["delivered"] == [{"id": "schedule-1", "occurrenceAt": PAST}]
    assert [(view["id"], view["prompt"]) for view in told["pending"]] == [("schedule-2", "✓")]


def test_a_failed_turn_fails_the_command_and_says_why(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "build_model", lambda _: Fails())
    ran = watchbell("run", "a", "hello")
    assert ran.code == 1
    assert ran.out.splitlines()[:2] == ["half an ans", "(the turn failed: the line\\nis dead [DEAD])"]


def test_an_answer_reaches_the_terminal_as_text_alone(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = Says("one\n\x1b]0;title\x07[red]two[/red]\u202e")
    monkeypatch.setattr(compose, "build_model", lambda _: says)
    out = watchbell("run", "a", "hello").out
    assert out.splitlines()[:2] == ["one", "\\x1b]0;title\\x07[red]two[/red]\\u202e"]


def test_an_invalid_schedule_history_is_told_and_the_conversation_goes_on(
    watchbell: Watchbell, store: Store
) -> None:
    store("a", create("schedule-1"), create("schedule-1"))
    ran = watchbell("run", "a", "hello")
    assert ran.code == 0
    assert "the schedule history is invalid" in ran.out.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("a",),
        ("a", "  "),
        ("a", "hello", "--time-zone", "none"),
        ("a", "hello", "--model", "m", "--base-url", "nowhere"),
        ("a", "hello", "--base-url", "http://localhost/v1"),
    ],
)
def test_wrong_usage_makes_no_session(watchbell: Watchbell, home: Path, arguments: tuple[str, ...]) -> None:
    assert watchbell("run", *arguments).code == 2
    assert not (home / "sessions").exists()


def test_what_a_run_left_pending_is_delivered_once_when_opened_late(
    watchbell: Watchbell, store: Store, home: Path
) -> None:
    first = watchbell("run", "a", "remind me in 10 minutes to stretch").out.splitlines()[-1]
    assert first.startswith("1 reminder pending")
    assert "Reminders fire while the session is open" in first
    store("b", create("schedule-1", "stretch", PAST))  # the same, ten minutes and more later
    told = json.loads(watchbell("run", "b", "hello", "--json").out)
    assert told["delivered"] == [{"id": "schedule-1", "occurrenceAt": PAST}]
    assert json.loads(watchbell("run", "b", "hello", "--json").out)["delivered"] == []


def test_a_run_that_waits_stays_until_the_reminder_was_answered(watchbell: Watchbell) -> None:
    lines = watchbell("run", "a", "remind me in 1 second to stretch", "--wait").out.splitlines()
    assert [line for line in lines if line.startswith("[reminder] schedule-1")]
    assert lines[-1] == "No reminders pending."
