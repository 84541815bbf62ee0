"""Schedule comes with root agents made while it is loaded, and goes with them, or with the plugin."""

from __future__ import annotations

import asyncio

import pytest

from tests.logs import create
from tests.program import (
    Program,
    ask,
    cut,
    operations,
    passes,
    quiet,
    reminders,
    require_valid,
    run,
    store,
    texts,
)
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.host import time_context
from watchbell.log.event import Draft
from watchbell.testing import MemoryDisk, SimulatedClock, hang
from watchbell.tools.function import tool

NAMES = ["schedule_create", "schedule_delete", "schedule_list"]


@tool
async def schedule_list() -> str:
    """List the schedule of the trains."""
    return "no trains"


def names(agent: Agent) -> list[str]:
    return [tool.name for tool in agent.tools.tools()]


def test_an_unloaded_plugin_takes_its_tools_and_its_timer_along() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        async with Program(clock, disk=disk) as program:
            scope = program.host.ctx.child()
            await scope.load(schedule.plugin())
            agent = await program.host.agents.create("s")
            await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            await scope.aclose()
            assert names(agent) == []
            agent.followup("hello")
            await asyncio.sleep(600)
            assert texts(agent) == ["hello", "ok"]
            assert operations(agent.session.events) == ["create schedule-1"]
            await program.host.ctx.load(schedule.plugin())
            await agent.aclose()
            agent = await program.host.agents.resume("s")
            await quiet(agent)
            assert len(reminders(agent.session.events)) == 1

    run(main)


@pytest.mark.parametrize("stored", [False, True])
def test_unloading_waits_for_what_is_in_flight(stored: bool) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            scope = program.host.ctx.child()
            await scope.load(schedule.plugin())
            agent = await program.host.agents.create("s")
            held = program.store.hold_writes(stored=stored)
            first, second = (
                asyncio.create_task(ask(agent, "schedule_create", prompt="p", after_seconds=60))
                for _ in range(2)
            )
            await held.reached()
            unloading = asyncio.create_task(scope.aclose())
            await asyncio.sleep(60)
            assert not unloading.done()
            held.release()
            await unloading
            assert (await first)["id"] == "schedule-1"
            assert await second == "The call was cancelled."
            assert operations(agent.session.events) == ["create schedule-1"]

    run(main)


@pytest.mark.parametrize("stage", ["before the claim", "after the append"])
def test_unloading_waits_for_a_delivery_in_flight(stage: str) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            scope = program.host.ctx.child()
            await scope.load(schedule.plugin())
            agent = await program.host.agents.create("s")
            for _ in range(2):
                await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            await asyncio.sleep(59.9)
            if stage == "before the claim":
                agent.steer("something to write", wake=False)
            held = program.store.hold_writes()
            await asyncio.sleep(1)
            unloading = asyncio.create_task(scope.aclose())
            await asyncio.sleep(60)
            assert not unloading.done()
            held.release()
            await unloading
            delivered = operations(agent.session.events)[2:]
            assert delivered == ([] if stage == "before the claim" else ["dispatch schedule-1"])
            await quiet(agent)
            assert operations(agent.session.events)[2:] == delivered

    run(main)


def test_unloading_that_is_cancelled_leaves_the_call_to_its_end() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            scope = program.host.ctx.child()
            await scope.load(schedule.plugin())
            agent = await program.host.agents.create("s")
            held = program.store.hold_writes()
            call = asyncio.create_task(ask(agent, "schedule_create", prompt="p", after_seconds=60))
            await held.reached()
            unloading = asyncio.create_task(scope.aclose())
            await passes()
            unloading.cancel()
            await passes()
            held.release()
            assert (await call)["id"] == "schedule-1"

    run(main)


def test_a_name_that_is_taken_is_logged_with_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[schedule.plugin()], tools=[schedule_list]) as program:
            agent = await program.host.agents.create("s")
            assert names(agent) == ["schedule_list"]
            agent.followup("hello")
            await agent.when_idle()
            assert texts(agent) == ["hello", "ok"]

    run(main, logs_errors=True)
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line == (
        "session s has no reminders, and those that it had are not delivered: a tool named 'schedule_list' "
        "is registered already; rename one, or load Schedule only once; then open the session again"
    )


def test_an_unreadable_message_keeps_only_the_reminders_away() -> None:
    message = {"id": "m", "role": "user", "source": {"kind": "plugin", "plugin": "schedule"}, "content": 7}
    disk = MemoryDisk()
    store(disk, create(1), Draft("user/message", message))

    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, disk=disk, plugins=[schedule.plugin()]) as program:
            agent = await program.host.agents.resume("s")
            assert names(agent) == []

    run(main, logs_errors=True)


def test_what_a_parent_delivered_settles_nothing_of_its_fork() -> None:
    """Also not when the clock was set back, so that the parent's occurrence of that id is the later one."""

    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        async with Program(clock, disk=disk, plugins=[schedule.plugin()]) as program:
            parent = await program.host.agents.create("s")
            await ask(parent, "schedule_create", prompt="parent's", after_seconds=600)
            await asyncio.sleep(601)
            await quiet(parent)
            fork = await program.host.agents.fork(parent, "f")
            clock.step(-7200)
            await ask(fork, "schedule_create", prompt="fork's", after_seconds=60)
        async with Program(clock, disk=disk, plugins=[schedule.plugin()]) as program:
            fork = await program.host.agents.resume("f")
            assert [view["id"] for view in await ask(fork, "schedule_list")] == ["schedule-1"]
            await asyncio.sleep(61)
            await quiet(fork)
            assert texts(fork)[-2].endswith('"fork\'s"')

    run(main)


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_an_agent_can_be_disposed_of_at_any_pass(after: int) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [hang()], plugins=[schedule.plugin()]) as program:
            agent = await program.host.agents.create("s")
            for _ in range(2):
                await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            await asyncio.sleep(60)
            await passes(after)
            await agent.aclose()
            assert not any(operation.startswith("delete") for operation in operations(agent.session.events))
            await asyncio.sleep(600)
            disk = cut(program.disk.events("s"), len(program.disk.events("s")))
        async with Program(clock, disk=disk, plugins=[schedule.plugin()]) as program:
            agent = await program.host.agents.resume("s")
            await quiet(agent)
            assert [keys[0][0] for keys in reminders(agent.session.events)] == ["schedule-1", "schedule-2"]

    run(main)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("stage", ["before the claim", "after the append"])
@pytest.mark.parametrize("end", ["kill", "dispose"])
def test_a_delivery_may_end_while_a_barrier_stands(stored: bool, stage: str, end: str) -> None:
    async def main(clock: SimulatedClock) -> None:
        plugins = [schedule.plugin(), time_context()]
        running = Program(clock, plugins=plugins)
        await running.host.__aenter__()
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="once", after_seconds=60)
        await ask(agent, "schedule_create", prompt="often", every_seconds=300)
        await asyncio.sleep(59.9)
        if stage == "before the claim":
            agent.steer("something to write", wake=False)
        held = running.store.hold_writes(stored=stored)
        await asyncio.sleep(1)
        assert held.waiting == 1
        if end == "kill":
            running.disk.crash()
        ending = asyncio.create_task(running.kill() if end == "kill" else running.host.aclose())
        await passes(10)
        held.release()
        await ending
        async with Program(clock, disk=running.disk, plugins=plugins) as again:
            agent = await again.host.agents.resume("s")
            await asyncio.sleep(300)
            await quiet(agent)
        require_valid(running.disk.events("s"))
        assert reminders(running.disk.events("s")) == [
            [("schedule-1", "2026-12-01T00:01:00.000Z")],
            [("schedule-2", "2026-12-01T00:05:00.000Z")],
        ]

    run(main)
