"""A chat over a pipe, and what a resumed one shows; what a terminal shows is in `tests/terminal`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.conftest import PAST, Start, Store, create, read_payloads
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.commands.chat import show_beginning
from watchbell.cli.program import Program
from watchbell.host.settings import Settings
from watchbell.offline.model import OfflineModel
from watchbell.zones import ZoneTable


def test_each_line_of_standard_input_is_one_turn(start: Start, home: Path) -> None:
    chat = start("chat")
    out, err = chat.communicate("remind me in 5 hours to stretch\r\n\nlist", timeout=20)
    assert (chat.returncode, err) == (0, "")
    assert "- schedule-1: stretch" in out
    assert out.splitlines()[-1].startswith("1 reminder pending; the next, schedule-1, fires")
    messages = read_payloads(home, "main", "user/message")
    said = [message["content"][0]["text"] for message in messages if message["source"]["kind"] == "user"]
    assert said == ["remind me in 5 hours to stretch", "list"]


@pytest.mark.parametrize(
    ("arguments", "lines", "says"),
    [
        (("--model", "m", "--base-url", "http://127.0.0.1:9/v1"), "hello\n", "CONNECTION"),
        ((), "hello\n/fork main\n", "choose another id"),
    ],
)
def test_a_chat_over_a_pipe_in_which_anything_failed_exits_with_1(
    start: Start, arguments: tuple[str, ...], lines: str, says: str
) -> None:
    chat = start("chat", *arguments, environment={"WATCHBELL_MAX_RETRIES": "0"})
    out, _ = chat.communicate(lines, timeout=20)
    assert says in out
    assert chat.returncode == 1


def test_a_reminder_that_is_overdue_comes_before_the_first_line(start: Start, store: Store) -> None:
    store("main", create("schedule-1", "stretch"))
    out, _ = start("chat").communicate("list\n", timeout=20)
    begins = [line.split(" ")[0] for line in out.splitlines()]
    assert begins == ["[reminder]", "Reminder:", "[tool]", "You", "No"]


@pytest.mark.parametrize("shown", ["20", "2", "0"])
def test_resuming_shows_the_last_of_the_history(
    home: Path, store: Store, capsys: pytest.CaptureFixture[str], shown: str
) -> None:
    store("main", create("schedule-1", "stretch", PAST))

    async def main() -> None:
        program = Program(Settings(home=home), OfflineModel(), ZoneTable(), "UTC")
        async with program.host() as host:
            agent = await host.agents.open("main")
            agent.followup("what reminders do I have", source=program.person)
            await agent.when_idle()
            await PendingReminders(agent, program.zone).overdue_delivered()
            capsys.readouterr()
            show_beginning(agent, program, int(shown))

    asyncio.run(main())
    out = capsys.readouterr().out.splitlines()
    assert out[-1].startswith("Session main, answered by offline offline-1. No reminders pending.")
    assert ("you> what reminders do I have" in out) == (shown == "20")
    assert any("earlier" in line for line in out) == (shown == "2")
