"""What is typed in a chat, apart from any terminal: over a simulated clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.program import Program as Hosted
from tests.program import ask, quiet, reason_kinds, reminders, run, user_texts
from watchbell import schedule
from watchbell.cli.chat.conversation import Piece
from watchbell.cli.chat.talk import Talk
from watchbell.cli.program import Program
from watchbell.host.settings import Settings
from watchbell.offline.model import OfflineModel
from watchbell.testing import SimulatedClock
from watchbell.zones import ZoneTable

PROGRAM = Program(Settings(home=Path("/nowhere")), OfflineModel(), ZoneTable(), "UTC")


def play(script: Callable[[Talk, list[Piece]], Awaitable[None]], *, answers: tuple[str, ...] = ()) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Hosted(clock, list(answers), plugins=[schedule.plugin()]) as hosted:
            shown: list[Piece] = []
            talk = Talk(await hosted.host.agents.create("s"), PROGRAM, shown.append)
            await script(talk, shown)

    run(main)


def notes(shown: list[Piece]) -> str:
    return "\n".join(piece.text for piece in shown if piece.kind in ("note", "failure"))


def test_text_with_a_slash_is_said_behind_a_space_or_a_second_slash() -> None:
    async def script(talk: Talk, shown: list[Piece]) -> None:
        for text in ("//etc/passwd", " /etc/passwd", "no /slash first", "  ", ""):
            await talk.take(text)
            await quiet(talk.agent)
        assert user_texts(talk.agent.session.events) == ["/etc/passwd", "/etc/passwd", "no /slash first"]

    play(script, answers=("a", "b", "c"))


def test_an_unknown_command_says_nothing_to_the_model() -> None:
    async def script(talk: Talk, shown: list[Piece]) -> None:
        await talk.take("/remnders")
        await talk.take("/\x1b[2J")
        assert "did you mean /reminders?" in notes(shown)
        assert len(talk.agent.session.events) == 0

    play(script)


def test_any_white_space_parts_a_command_from_its_argument() -> None:
    async def script(talk: Talk, shown: list[Piece]) -> None:
        await talk.take("/cancel\tschedule-7\n")
        await talk.take("/cancel\u00a0 schedule-8")
        assert "no active reminder schedule-7;" in notes(shown)
        assert "no active reminder schedule-8;" in notes(shown)

    play(script)


def test_a_command_that_fails_is_a_line_and_the_talk_goes_on() -> None:
    async def script(talk: Talk, shown: list[Piece]) -> None:
        await talk.take("hello")
        await quiet(talk.agent)
        await talk.take("/fork s")
        assert "live already" in notes(shown)
        assert talk.agent.id == "s"

    play(script, answers=("hi",))


def test_a_fork_has_the_conversation_and_its_parent_keeps_the_reminders() -> None:
    async def script(talk: Talk, shown: list[Piece]) -> None:
        await ask(talk.agent, "schedule_create", prompt="x", after_seconds=60)
        await talk.take("/fork")
        assert talk.agent.id == "s-fork"
        assert "Session s is closed. 1 reminder pending" in notes(shown)
        await talk.take("/reminders")
        assert notes(shown).endswith("No reminders pending.")

    play(script)


def test_a_line_sent_as_a_reminder_comes_due_is_a_turn_of_its_own() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Hosted(clock, lambda _: "ok", plugins=[schedule.plugin()], delay_seconds=0.003) as hosted:
            for number in range(500):
                agent = await hosted.host.agents.create(f"s{number}")
                talk = Talk(agent, PROGRAM, lambda _: None)
                await ask(agent, "schedule_create", prompt="A", after_seconds=60)
                target_ms = agent.ctx.clock.now_ms() + 60_000
                offset = number % 21 - 10  # from ten milliseconds before to ten after
                await agent.ctx.clock.sleep_until(target_ms + offset)
                draft = "long draft " * 500 if number % 2 else "B"
                await talk.take(draft)
                await asyncio.sleep(2)
                await quiet(agent)
                events = agent.session.events
                assert len(reminders(events)) == 1, number
                assert [text for text in user_texts(events) if text == draft] == [draft], number
                assert reason_kinds(events) == ["completed", "completed"], number
                assert agent.phase == "idle"
                await agent.aclose()

    run(main)
