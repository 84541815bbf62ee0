"""Who may own the idle agent: one turn or one task at a time, and nobody waits in vain."""

from __future__ import annotations

import asyncio

import pytest

from tests.program import Program, passes, run, texts
from watchbell.agent.events import AgentIdle
from watchbell.errors import AgentBusyError, AgentClosedError
from watchbell.testing import SimulatedClock, hang


def test_a_reservation_keeps_turns_out_and_what_came_in_opens_one_on_release() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            reservation = agent.reserve_turn_admission()
            assert reservation is not None
            assert agent.phase == "maintenance"
            agent.followup("hello")
            await asyncio.sleep(60)
            assert program.model.requests == []
            reservation.release()
            assert agent.phase == "turn"
            await agent.when_idle()
            assert texts(agent) == ["hello", "ok"]

    run(main)


def test_a_busy_agent_cannot_be_reserved() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [hang()]) as program:
            agent = await program.host.agents.create("s")
            with agent.reserve_turn_admission() or pytest.fail("the agent is idle"):
                assert agent.reserve_turn_admission() is None
            agent.followup("hello")
            assert agent.reserve_turn_admission() is None  # queued for a turn that has not begun
            await asyncio.sleep(1)
            assert agent.reserve_turn_admission() is None
            agent.cancel()
            await agent.when_idle()
            agent.steer("by the way", wake=False)
            with agent.reserve_turn_admission() or pytest.fail("what is injected opens no turn"):
                pass
            await agent.aclose()
            assert agent.reserve_turn_admission() is None
            assert agent.phase == "closed"

    run(main)


def test_releasing_twice_takes_nothing_from_the_next_holder() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            first = agent.reserve_turn_admission()
            assert first is not None
            first.release()
            second = agent.reserve_turn_admission()
            first.release()
            assert second is not None
            assert agent.phase == "maintenance"
            second.release()
            assert agent.phase == "idle"

    run(main)


def test_maintenance_runs_alone_and_gives_its_result() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            called: list[str] = []

            async def task() -> str:
                called.append("begun")
                await asyncio.sleep(10)
                return "done"

            running = asyncio.create_task(agent.run_maintenance(task))
            await passes()
            with pytest.raises(AgentBusyError):
                await agent.run_maintenance(task)
            assert called == ["begun"]
            agent.followup("hello")
            assert await running == "done"
            await agent.when_idle()
            assert texts(agent) == ["hello", "ok"]

    run(main)


@pytest.mark.parametrize("cancelled", [True, False])
def test_maintenance_that_fails_or_is_cancelled_gives_the_agent_back(cancelled: bool) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")

            async def task() -> None:
                await asyncio.sleep(10)
                raise ZeroDivisionError

            running = asyncio.create_task(agent.run_maintenance(task))
            await asyncio.sleep(5)
            if cancelled:
                running.cancel()
            with pytest.raises(asyncio.CancelledError if cancelled else ZeroDivisionError):
                await running
            assert agent.phase == "idle"

    run(main)


def test_who_waits_for_idleness_is_woken_once_nobody_owns_the_agent() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, delay_seconds=1) as program:
            agent = await program.host.agents.create("s")
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

    run(main)


def test_who_waits_sees_no_idleness_that_somebody_took_first() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            held: list[object] = []

            def take(_: AgentIdle) -> None:
                if not held:
                    held.append(agent.reserve_turn_admission())

            end = program.host.ctx.on(AgentIdle, take)
            agent.followup("hello")
            waiting = asyncio.create_task(agent.when_idle())
            await asyncio.sleep(5)
            assert agent.phase == "maintenance"
            assert not waiting.done()
            held[0].release()  # type: ignore[attr-defined]
            await waiting
            end()
            end()

    run(main)


def test_disposal_wakes_who_waits_for_idleness() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [hang()]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("hello")
            waiting = asyncio.create_task(agent.when_idle())
            await asyncio.sleep(1)
            await agent.aclose()
            await waiting
            await agent.when_idle()

    run(main)


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
