"""The whole program under simulated time: people talk, reminders come back, processes end and begin again."""

from __future__ import annotations

import asyncio
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
    simulated,
    texts,
    user_texts,
)
from watchbell import schedule
from watchbell.host import time_context
from watchbell.models.base import ModelRequest
from watchbell.testing import MemoryDisk, SimulatedClock, call
from watchbell.testing.model import Answer
from watchbell.tools.function import tool

DAY = "2026-12-01T"
SELECTORS: dict[str, dict[str, Any]] = {
    "after": {"after_seconds": 600},
    "at an instant": {"at": "2026-12-01T01:20:00+01:00"},
    "at a local time": {"at": {"date": "2026-12-01", "time": "09:30:00", "time_zone": "Asia/Tokyo"}},
    "every": {"every_seconds": 2400},
}
DELIVERED = [
    [("schedule-1", f"{DAY}00:10:00.000Z")],
    [("schedule-2", f"{DAY}00:20:00.000Z")],
    [("schedule-3", f"{DAY}00:30:00.000Z")],
    [("schedule-4", f"{DAY}00:40:00.000Z")],
    [("schedule-4", f"{DAY}01:20:00.000Z")],
]


def obliging(request: ModelRequest) -> Answer:
    """Do what a person asks for by the name of a selector, and present what is due."""
    last = request.messages[-1]
    if last.text in SELECTORS:
        return call("schedule_create", {"prompt": last.text, **SELECTORS[last.text]})
    return "It is time." if "SCHEDULE REMINDER" in last.text else "Done."


@tool
async def work(seconds: int) -> str:
    """Work for a while."""
    await asyncio.sleep(seconds)
    return f"worked {seconds} s"


def program(
    clock: SimulatedClock, disk: MemoryDisk | None = None, script: Any = obliging, **options: Any
) -> Program:
    plugins = [schedule.invariant(), schedule.plugin(), time_context(time_zone="Europe/Berlin")]
    return Program(clock, script, disk=disk, plugins=plugins, tools=[work], **options)


async def until(clock: SimulatedClock, time: str) -> None:
    await clock.sleep_until(_ms(time))


def _ms(time: str) -> int:
    return SimulatedClock(f"{time}Z" if "T" in time else f"{DAY}{time}Z").now_ms()


@pytest.mark.parametrize("end", ["none", "dispose", "kill"])
@simulated
async def test_reminders_of_every_kind_come_back_across_restarts(clock: SimulatedClock, end: str) -> None:
    disk = MemoryDisk()
    running = program(clock, disk)
    await running.host.__aenter__()
    agent = await running.host.agents.create("s")
    for selector in SELECTORS:
        agent.followup(selector)
    await quiet(agent)
    for time in ("00:05:00", "00:15:00", "00:20:30", "00:35:00", "00:50:00", "01:25:00"):
        await until(clock, time)
        await quiet(agent)
        if end != "none":
            await (running.kill() if end == "kill" else running.host.aclose())
            await asyncio.sleep(30)
            running = program(clock, disk)
            await running.host.__aenter__()
            agent = await running.host.agents.resume("s")
    await quiet(agent)
    await running.host.aclose()
    events = disk.events("s")
    require_valid(events)
    assert reminders(events) == DELIVERED
    assert operations(events)[4:] == [f"dispatch schedule-{n}" for n in (1, 2, 3, 4, 4)]
    blocks = [a["message"]["content"][0] for a in data(events, "assistant/message")]
    said = [block["text"] for block in blocks if "text" in block]
    assert said == ["Done."] * 4 + ["It is time."] * 5
    assert set(reason_kinds(events)) == {"completed"}


@simulated(start="2026-12-01T23:40:00.000Z")
async def test_a_repeater_stays_on_its_grid_across_restarts_and_busy_times(clock: SimulatedClock) -> None:
    disk = MemoryDisk()
    async with program(clock, disk) as running:
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="p", every_seconds=14_400)
    await until(clock, "2026-12-02T03:29:00")
    async with program(clock, disk, [call("work", {"seconds": 23 * 60})]) as running:
        agent = await running.host.agents.resume("s")
        agent.followup("keep busy")
        await until(clock, "2026-12-02T03:51:59")
        assert reminders(agent.session.events) == []
        await until(clock, "2026-12-02T03:52:01")
        await quiet(agent)
        assert reminders(agent.session.events) == [[("schedule-1", "2026-12-02T03:40:00.000Z")]]
        accepted = [
            c["acceptedAt"] for c in data(agent.session.events, "schedule/change") if "acceptedAt" in c
        ]
        assert accepted == ["2026-12-02T03:52:00.000Z"]
        await until(clock, "2026-12-02T03:53:00")
        await running.kill()
    async with program(clock, disk) as running:
        agent = await running.host.agents.resume("s")
        await quiet(agent)
        (view,) = await ask(agent, "schedule_list")
        assert view["scheduledAt"] == "2026-12-02T07:40:00.000Z"
        assert len(reminders(agent.session.events)) == 1


@simulated
async def test_a_message_sent_in_the_moment_of_a_reminder_gets_a_turn_of_its_own(
    clock: SimulatedClock,
) -> None:
    for after in range(40):
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            await asyncio.sleep(60)
            await passes(after)
            agent.followup("hello")
            await quiet(agent)
            opened = [text[:10] for text in user_texts(agent.session.events) if "TIME CONTEXT" not in text]
            assert sorted(opened) == ["[SCHEDULE ", "hello"]
            assert reason_kinds(agent.session.events) == ["completed"] * 2
            assert sorted(texts(agent)[2::3]) == ["Done.", "It is time."]


@simulated
async def test_a_turn_that_creates_a_reminder_can_be_cancelled_at_any_pass(clock: SimulatedClock) -> None:
    for after in range(60):
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            agent.followup("after")
            await passes(after)
            agent.cancel()
            agent.followup("hello")
            await quiet(agent)
            assert texts(agent)[-1] == "Done."
            listed = await ask(agent, "schedule_list")
            assert [f"create {view['id']}" for view in listed] == operations(agent.session.events)
            await asyncio.sleep(601)
            await quiet(agent)
            assert len(reminders(agent.session.events)) == len(listed)
        require_valid(running.disk.events("s"))


@simulated
async def test_a_clock_wrong_at_boot_fires_nothing_early_and_each_once(clock: SimulatedClock) -> None:
    first = program(clock)
    async with first:
        agent = await first.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="once", after_seconds=60)
        await ask(agent, "schedule_create", prompt="often", every_seconds=300)
    clock.step((_ms("1970-01-01T00:00:10") - clock.now_ms()) / 1000)
    async with program(clock, first.disk) as second:
        agent = await second.host.agents.resume("s")
        await asyncio.sleep(30)
        assert reminders(agent.session.events) == []
        clock.step((_ms("00:10:00") - clock.now_ms()) / 1000)
        await asyncio.sleep(1)
        await quiet(agent)
        assert reminders(agent.session.events) == [
            [("schedule-1", f"{DAY}00:01:00.000Z")],
            [("schedule-2", f"{DAY}00:10:00.000Z")],
        ]
    require_valid(first.disk.events("s"))
