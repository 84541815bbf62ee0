"""Who may own the idle agent: one turn or one task at a time, and nobody waits in vain."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.scene import on_agent
from tests.program import Program, run, texts
from watchbell.agent.agent import Agent
from watchbell.agent.core import Reservation
from watchbell.agent.events import AgentIdle
from watchbell.errors import AgentClosedError
from watchbell.testing import SimulatedClock, hang


@on_agent()
async def test_an_agent_can_be_reserved_until_it_is_closed(agent: Agent) -> None:
    agent.steer("by the way", wake=False)
    with agent.reserve_turn_admission() or pytest.fail("what is injected opens no turn"):
        pass
    await agent.aclose()
    assert agent.reserve_turn_admission() is None
    assert agent.phase == "closed"


@on_agent()
async def test_releasing_twice_takes_nothing_from_the_next_holder(agent: Agent) -> None:
    first = agent.reserve_turn_admission()
    assert first is not None
    first.release()
    second = agent.reserve_turn_admission()
    first.release()
    assert second is not None
    assert agent.phase == "maintenance"
    second.release()
    assert agent.phase == "idle"


@on_agent()
async def test_maintenance_that_is_cancelled_gives_the_agent_back(agent: Agent) -> None:
    running = asyncio.create_task(agent.run_maintenance(asyncio.Event().wait))
    await asyncio.sleep(5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert agent.phase == "idle"


@on_agent(delay_seconds=1)
async def test_who_waits_for_idleness_is_woken_once_nobody_owns_the_agent(
    program: Program, agent: Agent
) -> None:
    await agent.when_idle()
    woken: list[int] = []

    async def waiter() -> None:
        await agent.when_idle()
        assert agent.phase == "idle"
        woken.append(len(program.model.requests))

    agent.followup("one")
    waiters = [asyncio.create_task(waiter()) for _ in range(3)]
    await asyncio.sleep(2)
    agent.followup("two")
    await asyncio.gather(*waiters)
    assert woken == [2, 2, 2]


@on_agent()
async def test_who_waits_sees_no_idleness_that_somebody_took_first(program: Program, agent: Agent) -> None:
    held: list[Reservation | None] = []

    def take(_: AgentIdle) -> None:
        if not held:
            held.append(agent.reserve_turn_admission())

    end = program.host.ctx.on(AgentIdle, take)
    agent.followup("hello")
    waiting = asyncio.create_task(agent.when_idle())
    await asyncio.sleep(5)
    assert agent.phase == "maintenance"
    assert not waiting.done()
    assert held[0] is not None
    held[0].release()
    await waiting
    end()
    end()


@on_agent([hang()])
async def test_disposal_wakes_who_waits_for_idleness(agent: Agent) -> None:
    agent.followup("hello")
    waiting = asyncio.create_task(agent.when_idle())
    await asyncio.sleep(1)
    await agent.aclose()
    await waiting
    await agent.when_idle()


def test_input_during_maintenance_survives_disposal() -> None:
    async def main(clock: SimulatedClock) -> None:
        first = Program(clock)
        async with first:
            agent = await first.host.agents.create("s")
            reservation = agent.reserve_turn_admission()
            assert reservation is not None
            agent.followup("hello")
            await agent.aclose()
            reservation.release()
            with pytest.raises(AgentClosedError):
                agent.followup("too late")
        async with Program(clock, disk=first.disk) as second:
            agent = await second.host.agents.resume("s")
            await agent.when_idle()
            assert texts(agent) == ["hello", "ok"]

    run(main)
