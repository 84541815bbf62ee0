"""A host composes a program in a few lines and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.program import Program, passes, require_valid, run, texts
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.agent.events import AgentDisposed
from watchbell.context import Context
from watchbell.errors import CompositionError, SessionClosedError, ToolConflictError
from watchbell.host import Host
from watchbell.testing import MemoryStorage, ScriptedModel, SimulatedClock, hang
from watchbell.tools.function import tool


@tool
async def ring() -> str:
    """Ring a bell."""
    return "ding"


class Recording:
    """A plugin that notes when it comes and goes."""

    def __init__(self, name: str, order: list[str], *requires: str) -> None:
        self.name = name
        self.requires = requires
        self._order = order

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncIterator[None]:
        self._order.append(f"+{self.name}")
        yield
        self._order.append(f"-{self.name}")


def test_a_host_gives_each_agent_its_services_tools_and_system_prompt() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, tools=[ring], system="Be kind.") as program:
            host = program.host
            for name in ("clock", "session_persistence", "sessions", "tools", "agents"):
                assert host.ctx.has(name)
            agent = await host.agents.create("s")
            assert (host.sessions.live, host.agents.live) == ((agent.session,), (agent,))
            own = await host.agents.create("t", model=ScriptedModel(["mine"]), system="Be brief.")
            for one in (agent, own):
                one.followup("hello")
                await one.when_idle()
            assert (texts(agent)[-1], texts(own)[-1]) == ("ok", "mine")
            (request,) = program.model.requests
            assert request.system == "Be kind."
            assert [spec.name for spec in request.tools] == ["ring"]
            assert b"Be brief." in bytes(own.session.events[5].raw)

    run(main)


def test_plugins_come_in_order_and_go_in_reverse_after_the_agents() -> None:
    async def main(clock: SimulatedClock) -> None:
        order: list[str] = []
        plugins = [Recording("a", order), Recording("b", order, "agents")]
        async with Program(clock, plugins=plugins) as program:
            program.host.ctx.on(AgentDisposed, lambda event: order.append(f"agent {event.agent.id}"))
            await program.host.agents.create("s")
        assert order == ["+a", "+b", "agent s", "-b", "-a"]

    run(main)


def test_a_host_that_cannot_be_composed_leaves_nothing_running() -> None:
    async def main(clock: SimulatedClock) -> None:
        order: list[str] = []
        with pytest.raises(CompositionError, match="'b' requires email, which nothing provides"):
            await Program(clock, plugins=[Recording("a", order), Recording("b", order, "email")]).__aenter__()
        assert order == ["+a", "-a"]
        with pytest.raises(ToolConflictError):
            await Program(clock, tools=[ring, ring]).__aenter__()

    run(main)


def test_leaving_aborts_running_turns_and_stores_what_is_left() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, lambda _: hang()) as program:
            for name in "abc":
                agent = await program.host.agents.create(name)
                agent.followup("hello")
            await asyncio.sleep(1)
            agent.steer("the last word", wake=False)
        for name in "abc":
            events = program.disk.events(name)
            require_valid(events)
            assert len([event for event in events if event.type == "turn/end"]) == 1
        with pytest.raises((SessionClosedError, CompositionError)):
            await program.host.agents.create("late")

    run(main)


def test_an_error_in_the_block_passes_and_the_host_still_ends() -> None:
    async def main(clock: SimulatedClock) -> None:
        async def fail_inside() -> None:
            async with Program(clock) as program:
                agents.append(await program.host.agents.create("s"))
                agents[0].followup("hello")
                raise ZeroDivisionError

        agents: list[Agent] = []
        with pytest.raises(ZeroDivisionError):
            await fail_inside()
        assert agents[0].phase == "closed"

    run(main)


def test_a_host_that_is_cancelled_while_it_ends_still_ends_its_agents() -> None:
    async def main(clock: SimulatedClock) -> None:
        program = Program(clock, [hang()], plugins=[schedule.plugin()])
        await program.host.__aenter__()
        agent = await program.host.agents.create("s")
        agent.followup("hello")
        await asyncio.sleep(1)
        ending = asyncio.create_task(program.host.aclose())
        await passes(1)
        ending.cancel()
        await asyncio.wait([ending])
        await passes()
        assert agent.session.is_closed
        await program.host.aclose()

    run(main)


def test_the_clock_is_the_systems_unless_one_is_given() -> None:
    async def main() -> None:
        async with Host(storage=MemoryStorage(), model=ScriptedModel(["hi"])) as host:
            agent = await host.agents.create()
            agent.followup("hello")
            await agent.when_idle()
            assert texts(agent) == ["hello", "hi"]
            assert agent.session.events[0].time > 1_500_000_000_000

    asyncio.run(main())
