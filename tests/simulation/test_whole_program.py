"""The whole program under simulated time: people talk, reminders come back, processes end and begin again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.program import (
    Program,
    ask,
    cut,
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
from watchbell.host import Host, time_context
from watchbell.log.event import Event
from watchbell.models.base import ModelRequest
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import MemoryDisk, ScriptedModel, SimulatedClock, call, say
from watchbell.testing.model import Answer, Part
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


@simulated
async def test_the_same_over_files(clock: SimulatedClock, tmp_path: Path) -> None:
    for time in ("00:05:00", "00:25:00", "01:25:00"):
        storage, plugins = JsonlStorage(tmp_path), [schedule.plugin()]
        async with Host(storage=storage, model=ScriptedModel(obliging), plugins=plugins, clock=clock) as host:
            agent = await host.agents.open("s")
            if len(agent.session.events) == 0:
                for selector in SELECTORS:
                    agent.followup(selector)
            await until(clock, time)
            await quiet(agent)
            events = list(agent.session.events)
    require_valid(events)
    stored = await JsonlStorage(tmp_path).read("s")
    assert list(stored.events) == events
    assert reminders(events) == DELIVERED


@simulated
async def test_what_fell_due_while_nothing_ran_is_delivered_on_resume(clock: SimulatedClock) -> None:
    first = program(clock)
    async with first:
        agent = await first.host.agents.create("s")
        agent.followup("after")
        await quiet(agent)
    await asyncio.sleep(86_400)
    async with program(clock, first.disk) as second:
        agent = await second.host.agents.resume("s")
        await quiet(agent)
        assert clock.iso() == "2026-12-02T00:00:00.000Z"
        assert reminders(agent.session.events) == DELIVERED[:1]


@simulated
async def test_overdue_one_shots_cost_a_turn_each_and_all_repeaters_one(clock: SimulatedClock) -> None:
    first = program(clock)
    async with first:
        agent = await first.host.agents.create("s")
        for seconds in (1200, 600):
            await ask(agent, "schedule_create", prompt="once", after_seconds=seconds)
        for seconds in (300, 600, 900):
            await ask(agent, "schedule_create", prompt="often", every_seconds=seconds)
    await until(clock, "01:05:00")
    async with program(clock, first.disk) as second:
        agent = await second.host.agents.resume("s")
        await quiet(agent)
        assert reminders(agent.session.events) == [
            [("schedule-2", f"{DAY}00:10:00.000Z")],
            [("schedule-1", f"{DAY}00:20:00.000Z")],
            [
                ("schedule-3", f"{DAY}01:05:00.000Z"),
                ("schedule-4", f"{DAY}01:00:00.000Z"),
                ("schedule-5", f"{DAY}01:00:00.000Z"),
            ],
        ]
        listed = await ask(agent, "schedule_list")
        assert [view["scheduledAt"][11:16] for view in listed] == ["01:10", "01:10", "01:15"]
        assert len(second.model.requests) == 3


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


@simulated(start="2026-12-01T00:00:00.123Z")
async def test_the_grid_keeps_the_milliseconds_of_the_creation(clock: SimulatedClock) -> None:
    first = program(clock)
    async with first:
        agent = await first.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="p", every_seconds=300)
    await until(clock, "00:17:30")
    async with program(clock, first.disk) as second:
        agent = await second.host.agents.resume("s")
        await quiet(agent)
        assert reminders(agent.session.events) == [[("schedule-1", f"{DAY}00:15:00.123Z")]]
        assert (await ask(agent, "schedule_list"))[0]["scheduledAt"] == f"{DAY}00:20:00.123Z"


@simulated
async def test_a_clock_that_jumps_ten_years_ahead_costs_one_delivery(clock: SimulatedClock) -> None:
    async with program(clock) as running:
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="p", every_seconds=300)
        clock.step((_ms("2036-12-01T00:00:01") - clock.now_ms()) / 1000)
        await asyncio.sleep(1)
        await quiet(agent)
        assert reminders(agent.session.events) == [[("schedule-1", "2036-12-01T00:00:00.000Z")]]
        assert operations(agent.session.events) == ["create schedule-1", "dispatch schedule-1"]
        assert (await ask(agent, "schedule_list"))[0]["scheduledAt"] == "2036-12-01T00:05:00.000Z"


@simulated
async def test_a_laptop_that_slept_over_the_target_is_reminded_when_it_wakes(clock: SimulatedClock) -> None:
    async with program(clock) as running:
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="p", after_seconds=3600)
        await asyncio.sleep(600)
        clock.freeze_monotonic(10_200)
        await asyncio.sleep(1)
        await quiet(agent)
        assert reminders(agent.session.events) == [[("schedule-1", f"{DAY}01:00:00.000Z")]]


BUSY: dict[str, list[Part]] = {
    "the model streams": [say("x" * 8 * 120)],
    "a tool runs": [call("work", {"seconds": 300})],
    "tools are half finished": [call("work", {"seconds": 30}), call("work", {"seconds": 200})],
}


@pytest.mark.parametrize("what", BUSY)
@simulated
async def test_what_falls_due_in_the_middle_of_a_turn_waits_for_its_end(
    clock: SimulatedClock, what: str
) -> None:
    async with program(clock, script=[BUSY[what]], delay_seconds=1) as running:
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="p", after_seconds=60)
        agent.followup("go")
        await asyncio.sleep(70)
        agent.followup("typed meanwhile")
        assert len(data(agent.session.events, "turn/start")) == 1
        await quiet(agent)
        opened = [text for text in user_texts(agent.session.events) if "TIME CONTEXT" not in text]
        assert opened[:2] == ["go", "typed meanwhile"]
        assert opened[2].startswith("[SCHEDULE REMINDER]")
        assert len(opened) == 3
        assert reason_kinds(agent.session.events) == ["completed"] * 3
        assert not any("cancelled" in text for _, text in results(agent.session.events))
    require_valid(running.disk.events("s"))


@simulated
async def test_a_restart_right_after_a_delivery_does_not_deliver_again(clock: SimulatedClock) -> None:
    first = program(clock)
    await first.host.__aenter__()
    agent = await first.host.agents.create("s")
    await ask(agent, "schedule_create", prompt="p", after_seconds=60)
    await asyncio.sleep(90)
    await first.kill()
    async with program(clock, first.disk) as second:
        agent = await second.host.agents.resume("s")
        await asyncio.sleep(600)
        await quiet(agent)
        assert await ask(agent, "schedule_list") == []
        assert second.model.requests == []
    assert len(reminders(first.disk.events("s"))) == 1


async def _delivered(clock: SimulatedClock) -> list[Event]:
    running = program(clock)
    async with running:
        agent = await running.host.agents.create("s")
        await ask(agent, "schedule_create", prompt="p", after_seconds=60)
        await asyncio.sleep(61)
        await quiet(agent)
    return running.disk.events("s")


@pytest.mark.parametrize("lost", ["dispatch and later", "message and later", "all after the dispatch"])
@simulated
async def test_a_crash_around_the_dispatch_leaves_exactly_one_message(
    clock: SimulatedClock, lost: str
) -> None:
    events = await _delivered(clock)
    dispatch = [event.seq for event in events if event.type == "schedule/change"][1]
    length = {"dispatch and later": 0, "message and later": -1, "all after the dispatch": 1}[lost]
    disk = cut(events, dispatch + length)
    async with program(clock, disk) as running:
        agent = await running.host.agents.resume("s")
        await quiet(agent)
        assert len(running.model.requests) == 1
    require_valid(disk.events("s"))
    assert reminders(disk.events("s")) == [[("schedule-1", f"{DAY}00:01:00.000Z")]]
    assert operations(disk.events("s")) == ["create schedule-1", "dispatch schedule-1"]


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
