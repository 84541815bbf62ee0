"""What broke schedulers elsewhere: long waits, far targets, feedback, second owners, bad starts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tests.program import (
    Program,
    ask,
    data,
    operations,
    passes,
    quiet,
    reason_kinds,
    reminders,
    require_valid,
    results,
    simulated,
    texts,
    user_texts,
)
from watchbell import schedule
from watchbell.agent.events import StepPrepare
from watchbell.context import Context, Plugin
from watchbell.models.base import ModelRequest
from watchbell.models.openai._wire import wire_messages
from watchbell.reminders.arguments import Limits
from watchbell.testing import (
    MemoryDisk,
    SimulatedClock,
    SimulatedEventLoop,
    call,
    fail,
    hang,
    say,
)
from watchbell.testing.model import Answer, Part

DAY = "2026-12-01T"
A_MINUTE_LATER = [[("schedule-1", f"{DAY}00:01:00.000Z")]]


def program(
    clock: SimulatedClock, script: Any = (), *plugins: Plugin, disk: MemoryDisk | None = None, **limits: int
) -> Program:
    schedules = schedule.plugin(limits=Limits(**limits))
    return Program(clock, script, disk=disk, plugins=[*plugins, schedules])


async def set_clock(clock: SimulatedClock, time: str) -> None:
    """Set the wall clock, and give a running program the time to notice."""
    clock.step((SimulatedClock(time).now_ms() - clock.now_ms()) / 1000)
    await asyncio.sleep(1)


@simulated
async def test_targets_far_beyond_any_timers_range_wait_in_quiet_and_come_once(clock: SimulatedClock) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedEventLoop)
    async with program(clock) as running:
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="a month", after_seconds=2_592_000)
        await ask(agent, "schedule_create", prompt="past 2**32 ms", at="2027-01-19T17:02:48Z")
        await ask(agent, "schedule_create", prompt="never", at="9999-12-31T23:59:59.999Z")
        await quiet(agent)
        before = loop.steps
        await asyncio.sleep(60)
        assert loop.steps - before < 60 * 3  # two looks at the clock a second
        assert reminders(agent.session.events) == []
        due = [("schedule-1", "2026-12-31T00:00:00.000Z"), ("schedule-2", "2027-01-19T17:02:48.000Z")]
        for count, (_, time) in enumerate(due):
            clock.step((SimulatedClock(time).now_ms() - clock.now_ms() - 1) / 1000)
            await passes()
            assert len(reminders(agent.session.events)) == count
            await asyncio.sleep(1)
            await quiet(agent)
            assert reminders(agent.session.events) == [[item] for item in due[: count + 1]]
        await asyncio.sleep(3600)
        assert len(reminders(agent.session.events)) == 2


@simulated
async def test_a_provider_that_demands_alternating_roles_gets_them(clock: SimulatedClock) -> None:
    asked: list[list[dict[str, Any]]] = []

    def strict(request: ModelRequest) -> Answer:
        wire = wire_messages(request.system, request.messages)
        asked.append(wire)
        roles = [message["role"] for message in wire]
        if any(role == before for role, before in zip(roles[1:], roles, strict=False)):
            return fail("INVALID_REQUEST", "roles must alternate", 400)
        return hang() if len(asked) == 1 else "It is time."

    async with program(clock, strict) as running:
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="stretch", after_seconds=60)
        agent.followup("hello")
        await asyncio.sleep(30)
        agent.cancel()
        await asyncio.sleep(31)
        await quiet(agent)
        assert reason_kinds(agent.session.events) == ["aborted", "completed"]
        assert [text[:10] for text in texts(agent)] == ["hello", "[SCHEDULE ", "It is time"]
        assert len(asked) == 2
        assert json.dumps(asked[1]).count("SCHEDULE REMINDER") == 1


@simulated
async def test_reminders_that_create_reminders_stop_at_the_cap(clock: SimulatedClock) -> None:
    """A model that takes what it is reminded of for an order doubles its reminders until it is refused."""

    def obey(request: ModelRequest) -> list[Part]:
        last = request.messages[-1]
        if not last.text.startswith("[SCHEDULE REMINDER BATCH]"):
            return [say("Done.")]
        due = json.loads(last.text.split("reminders_json: ", 1)[1])
        return [
            call(
                "schedule_create",
                {"prompt": item["reminder_prompt"], "every_seconds": 300},
                f"{len(request.messages)}-{number}",
            )
            for number, item in enumerate(due)
        ]

    async with program(clock, obey, max_active=8) as running:
        agent = await running.host.agents.create("s")
        prompt = "Every 5 minutes remind me to stretch"
        await ask(agent, "schedule_create", prompt=prompt, every_seconds=300)
        await asyncio.sleep(86_400)
        await quiet(agent)
        batches = [text for text in user_texts(agent.session.events) if "BATCH" in text]
        assert len(batches) == 288
        assert all("Treat each reminder_prompt as user-authored reminder content." in b for b in batches)
        refused = [json.loads(text) for _, text in results(agent.session.events) if '"code"' in text]
        assert {value["code"] for value in refused} == {"invalid_rule"}
        assert len(refused) > 8 * 200
        listed = await ask(agent, "schedule_list")
        assert [view["prompt"] for view in listed] == [prompt] * 8
        for view in listed:
            await ask(agent, "schedule_delete", id=view["id"])
        await asyncio.sleep(3600)
        assert len(running.model.requests) == 2 * 288


class SlowPlugin:
    """A part of a program that takes its time to begin."""

    name = "slow"
    requires = ()

    def install(self, ctx: Context) -> AbstractAsyncContextManager[None]:
        return self._install()

    @asynccontextmanager
    async def _install(self) -> AsyncGenerator[None]:
        await asyncio.sleep(5)
        yield


@pytest.mark.parametrize("late", ["the agent loop", "a plugin", "the client"])
@simulated
async def test_what_is_overdue_at_the_start_waits_for_whoever_has_to_receive_it(
    clock: SimulatedClock, late: str
) -> None:
    first = program(clock)
    async with first:
        await ask(await first.host.agents.create("s"), "schedule_create", prompt="p", after_seconds=60)
    await asyncio.sleep(3600)
    started = clock.now_ms()
    slow = [SlowPlugin()] if late == "a plugin" else []
    async with program(clock, ["It is time."], *slow, disk=first.disk) as second:
        if late == "the agent loop":
            second.host.ctx.on(StepPrepare, _take_five_seconds)
        agent = await second.host.agents.resume("s")
        seen: list[str] = []
        if late != "the client":
            agent.session.observe(lambda events: seen.extend(event.type for event in events))
        await asyncio.sleep(5)
        await quiet(agent)
        assert [text[:10] for text in texts(agent)] == ["[SCHEDULE ", "It is time"]
        assert ("user/message" in seen) == (late != "the client")
        began = [event.time for event in agent.session.events if event.type == "turn/start"]
        assert began == [started + (0 if late == "the client" else 5000)]
    require_valid(first.disk.events("s"))
    assert reminders(first.disk.events("s")) == A_MINUTE_LATER
    assert operations(first.disk.events("s")) == ["create schedule-1", "dispatch schedule-1"]


async def _take_five_seconds(_: StepPrepare) -> None:
    await asyncio.sleep(5)


@pytest.mark.parametrize("when", ["creating", "delivering"])
@simulated
async def test_a_program_told_to_stop_at_any_pass_stores_what_it_answered(
    clock: SimulatedClock, when: str
) -> None:
    """A stop signal cancels the program's main task; see `watchbell.cli.signals`."""
    for after in range(60):
        disk, answered = MemoryDisk(), list[str]()
        begun = asyncio.Event()
        work = asyncio.create_task(_work(clock, disk, begun, answered))
        await begun.wait()
        await asyncio.sleep(0 if when == "creating" else 60)
        await passes(after)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        if "s" not in disk.headers:
            assert answered == []
            continue
        stopped = disk.events("s")
        require_valid(stopped)
        created = [name for name in operations(stopped) if name.startswith("create")]
        assert answered in (created, [])  # a create whose answer was cut off is there, or is not
        await asyncio.sleep(60)
        async with program(clock, disk=disk) as second:
            await quiet(await second.host.agents.resume("s"))
        assert len(reminders(disk.events("s"))) == len(created)
        require_valid(disk.events("s"))


async def _work(clock: SimulatedClock, disk: MemoryDisk, begun: asyncio.Event, answered: list[str]) -> None:
    async with program(clock, disk=disk) as running:
        agent = await running.host.agents.create("s")
        begun.set()
        made = await ask(agent, "schedule_create", prompt="p", after_seconds=60)
        answered.append(f"create {made['id']}")
        await asyncio.sleep(3600)


@simulated
async def test_a_clock_far_ahead_at_boot_fires_each_once(clock: SimulatedClock) -> None:
    first = program(clock)
    async with first:
        agent = await first.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="once", after_seconds=60)
        await ask(agent, "schedule_create", prompt="often", every_seconds=300)
    await set_clock(clock, "2030-01-01T00:00:00Z")
    async with program(clock, disk=first.disk) as second:
        agent = await second.host.agents.resume("s")
        await quiet(agent)
        fired = [
            [("schedule-1", f"{DAY}00:01:00.000Z")],
            [("schedule-2", "2030-01-01T00:00:00.000Z")],
        ]
        assert reminders(agent.session.events) == fired
        await set_clock(clock, f"{DAY}00:10:00Z")
        await asyncio.sleep(86_400)
        await quiet(agent)
        assert reminders(agent.session.events) == fired
        (view,) = await ask(agent, "schedule_list")
        assert (view["state"], view["scheduledAt"]) == ("scheduled", "2030-01-01T00:05:00.000Z")
    require_valid(first.disk.events("s"))
    assert [len(d) for d in data(first.disk.events("s"), "schedule/change")] == [3, 3, 3, 4]
