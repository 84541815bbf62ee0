"""An agent is idle when no reminder is owed: what was due is delivered and answered by then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.program import Program, run, texts
from watchbell import schedule
from watchbell.sessions.events import FlushSession
from watchbell.testing import MemoryDisk, SimulatedClock, call, say


def remind(count: int, seconds: int = 60) -> list[Any]:
    calls = [call("schedule_create", {"prompt": f"p{n}", "after_seconds": seconds}) for n in range(count)]
    return [calls, say("Set.")]


@pytest.mark.parametrize("count", [1, 30])
def test_an_opened_agent_is_idle_once_overdue_reminders_are_answered(count: int) -> None:
    disk = MemoryDisk()

    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, remind(count), disk=disk, plugins=[schedule.plugin()]) as first:
            agent = await first.host.agents.create("s")
            agent.followup("go")
            await agent.when_idle()
        await asyncio.sleep(120)
        answers = [say(f"Reminder {n}.") for n in range(count)]
        async with Program(clock, answers, disk=disk, plugins=[schedule.plugin()]) as second:
            agent = await second.host.agents.resume("s")
            await agent.when_idle()
            assert texts(agent)[-2 * count + 1 :: 2] == [f"Reminder {n}." for n in range(count)]

    run(main)


def test_what_the_storage_holds_up_is_not_waited_for() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [*remind(1), say("Here.")], plugins=[schedule.plugin()]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("go")
            await agent.when_idle()

            async def refuse(_: FlushSession) -> bool:
                raise OSError("full")

            end = program.host.ctx.on(FlushSession, refuse)
            await asyncio.sleep(120)
            await agent.when_idle()
            assert texts(agent)[-1] == "Set."
            end()
            agent.steer("by the way", wake=False)
            await agent.when_idle()
            assert texts(agent)[-1] == "Here."

    run(main)
