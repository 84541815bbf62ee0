from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from tests.cli.conftest import PAST, Start, Store, create, read_events
from watchbell import Host, schedule
from watchbell.agent.agent import Agent
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.chat.terminal import ChatTerminal
from watchbell.cli.commands.chat import show_beginning
from watchbell.cli.program import Program
from watchbell.clock import WallClock, wall_ms
from watchbell.host.settings import Settings
from watchbell.log.chunks import BlockEnd, BlockStart, Chunk, Finish, FinishReason, TextDelta
from watchbell.log.messages import TextBlock
from watchbell.models.base import ModelRequest
from watchbell.offline.model import OfflineModel
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.zones import ZoneTable


def test_each_line_of_standard_input_is_one_turn(start: Start, home: Path) -> None:
    chat = start("chat")
    out, err = chat.communicate("remind me in 5 hours to stretch\r\n\nlist", timeout=20)
    assert (chat.returncode, err) == (0, "")
    assert "- schedule-1: stretch" in out
    assert out.splitlines()[-1].startswith("1 reminder pending; the next, schedule-1, fires")
    messages = [event.data for event in read_events(home, "main") if event.type == "user/message"]
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
    assert [line.split(" ")[0] for line in out.splitlines()] == [
        "[reminder]",
        "Reminder:",
        "[tool]",
        "You",
        "No",
    ]


class Pausing(OfflineModel):
    """Begins an answer and goes on only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        yield BlockStart(0, "text")
        yield TextDelta(0, "first line\nan unfin\x1bished")
        await self.goes_on.wait()
        yield TextDelta(0, " line")
        yield BlockEnd(0, TextBlock("first line\nan unfin\x1bished line"))
        yield Finish(FinishReason("stop"))


class Terminal:
    """A chat in a terminal that is played by a test."""

    def __init__(self, keys: PipeInput, screen: io.StringIO, agent: Agent, clock: SetClock) -> None:
        self.keys = keys
        self.agent = agent
        self.clock = clock
        self._screen = screen

    @property
    def shown(self) -> str:
        """Everything that was drawn so far."""
        return self._screen.getvalue()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not is_so():  # noqa: ASYNC110 - a screen tells nobody that it was drawn on
                await asyncio.sleep(0.005)

    def said(self) -> list[str]:
        """What the person said, in the order of the log."""
        return [message.text for message in self.agent.transcript() if message.is_from_person]


class SetClock(WallClock):
    """The wall clock, as far ahead as a test sets it."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        super().__init__(lambda: wall_ms() + self.ahead_ms, time.monotonic, recheck_seconds=0.005)


def play(
    home: Path, script: Callable[[Terminal], Coroutine[Any, Any, None]], model: OfflineModel | None = None
) -> str:
    """Run a chat over session `main`; return what was drawn."""
    screen = io.StringIO()

    async def main() -> None:
        program = Program(Settings(home=home), model or OfflineModel(), ZoneTable(), "UTC")
        output = Vt100_Output(screen, lambda: Size(rows=24, columns=80), term="xterm")
        clock = SetClock()
        host = Host(storage=JsonlStorage(home), model=program.model, plugins=[schedule.plugin()], clock=clock)
        with create_pipe_input() as keys, create_app_session(input=keys, output=output):
            async with host:
                agent = await host.agents.open("main")
                talking = asyncio.create_task(ChatTerminal(agent, program).run())
                await script(Terminal(keys, screen, agent, clock))
                keys.send_text("\x04")
                await talking

    asyncio.run(main())
    return screen.getvalue()


def test_a_reminder_arrives_over_a_half_typed_line_and_leaves_it_whole(home: Path) -> None:
    async def script(terminal: Terminal) -> None:
        terminal.keys.send_text("remind me in 5 hours to stretch\r")
        await terminal.until(lambda: "schedule-1)" in terminal.shown)
        terminal.keys.send_text("what remin")
        await terminal.until(lambda: "what remin" in terminal.shown)
        terminal.clock.ahead_ms = 6 * 3_600_000
        await terminal.until(lambda: "Reminder schedule-1, " in terminal.shown)
        await terminal.agent.when_idle()
        terminal.keys.send_text("ders do I have\r")
        await terminal.until(lambda: "no active reminders" in terminal.shown)
        assert terminal.said() == ["remind me in 5 hours to stretch", "what reminders do I have"]

    shown = play(home, script)
    assert shown.count("Reminder schedule-1, ") == 1
    assert '[tool] schedule_create {"prompt":"stretch"' in shown


def test_a_line_that_is_sent_as_a_reminder_comes_due_is_a_turn_of_its_own(home: Path) -> None:
    async def script(terminal: Terminal) -> None:
        terminal.keys.send_text("remind me in 5 hours to stretch\r")
        await terminal.until(lambda: "schedule-1)" in terminal.shown)
        terminal.clock.ahead_ms = 6 * 3_600_000
        terminal.keys.send_text("hello\r")
        await terminal.until(
            lambda: "Reminder schedule-1, " in terminal.shown and "stand-in" in terminal.shown
        )
        await terminal.agent.when_idle()

    play(home, script)
    events = read_events(home, "main")
    assert sum(event.type == "turn/end" for event in events) == 3
    assert all(event.data["reason"] == {"kind": "completed"} for event in events if event.type == "turn/end")


def test_control_c_cancels_the_answer_and_keeps_the_line_then_clears_the_line(home: Path) -> None:
    async def script(terminal: Terminal) -> None:
        terminal.keys.send_text("hello\r")
        await terminal.until(lambda: "an unfin\\x1bished" in terminal.shown)
        terminal.keys.send_text("a draft\x03")
        await terminal.until(lambda: "(cancelled)" in terminal.shown)
        terminal.keys.send_text("!\x03kept\r")  # the draft is whole again, then cleared
        await terminal.until(lambda: terminal.said() == ["hello", "kept"])
        terminal.keys.send_text("\x03")
        await terminal.until(lambda: terminal.agent.phase == "idle")
        terminal.keys.send_text("\x03")
        await terminal.until(lambda: "(Ctrl-D leaves)" in terminal.shown)

    shown = play(home, script, Pausing())
    assert "a draft" in shown
    assert "\x1bished" not in shown


def test_a_streaming_answer_stands_over_the_line_being_typed(home: Path) -> None:
    model = Pausing()

    async def script(terminal: Terminal) -> None:
        terminal.keys.send_text("hello\r")
        await terminal.until(lambda: "an unfin\\x1bished" in terminal.shown)
        terminal.keys.send_text("a draft")
        await terminal.until(lambda: "a draft" in terminal.shown)
        model.goes_on.set()
        await terminal.until(lambda: "an unfin\\x1bished line\n" in terminal.shown)
        await terminal.agent.when_idle()
        terminal.keys.send_text(" sent\r")
        await terminal.until(lambda: terminal.said() == ["hello", "a draft sent"])

    play(home, script, model)


def test_leaving_during_an_answer_stops_it(home: Path) -> None:
    async def script(terminal: Terminal) -> None:
        terminal.keys.send_text("hello\r")
        await terminal.until(lambda: "an unfin" in terminal.shown)

    play(home, script, Pausing())
    assert read_events(home, "main")[-1].data["reason"] == {"kind": "aborted", "reason": {"kind": "disposed"}}


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
