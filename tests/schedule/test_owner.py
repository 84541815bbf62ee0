"""The owner delivers what is due, one decision at a time, whenever the agent is idle and the storage well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from tests.program import (
    Program,
    ask,
    data,
    inbox,
    operations,
    quiet,
    reason_kinds,
    reminders,
    require_valid,
    run,
    texts,
    types,
    user_texts,
)
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.clock import Timer
from watchbell.instants import render_instant
from watchbell.log.event import Draft
from watchbell.reminders.records import Create, EveryRecord, draft_change
from watchbell.sessions.events import FlushSession
from watchbell.testing import SimulatedClock, call, hang
from watchbell.tools.function import tool

A = [("schedule-1", "2026-12-01T00:01:00.000Z")]


@tool
async def work(seconds: int) -> str:
    """Work for a while."""
    await asyncio.sleep(seconds)
    return "done"


def program(clock: SimulatedClock, script: Any = (), **options: Any) -> Program:
    return Program(clock, script, plugins=[schedule.plugin()], tools=[work], **options)


async def remind(agent: Agent, seconds: int = 60, prompt: str = "p") -> Any:
    return await ask(agent, "schedule_create", prompt=prompt, after_seconds=seconds)


async def repeat(agent: Agent, seconds: int, prompt: str = "p") -> Any:
    return await ask(agent, "schedule_create", prompt=prompt, every_seconds=seconds)


def refuse_dispatches(agent: Agent, times: int) -> list[int]:
    """Refuse the next deliveries; the list holds when each was tried."""
    tried: list[int] = []

    def guard(_: object, drafts: list[Draft]) -> None:
        operations = [bytes(draft.data) for draft in drafts if draft.type == "schedule/change"]
        if any(b'"dispatch"' in operation for operation in operations):
            tried.append(agent.ctx.clock.now_ms() // 1000 - 1796083200)
            if len(tried) <= times:
                raise RuntimeError("refused")

    agent.session.guard(guard)
    return tried


def test_a_due_reminder_and_its_dispatch_are_one_batch_and_open_a_turn_of_their_own() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock, ["Stretch!"]) as running:
            agent = await running.host.agents.create("s")
            await remind(agent, prompt="stretch")
            batches: list[list[str]] = []
            agent.session.observe(lambda events: batches.append(types(events)))
            await asyncio.sleep(60)
            await quiet(agent)
            assert clock.iso() == "2026-12-01T00:01:00.000Z"
            assert batches[0] == ["agent/inbox/spliced", "schedule/change"]
            assert batches[1][0] == "turn/start"
            assert reminders(agent.session.events) == [A]
            assert texts(agent)[-1] == "Stretch!"
            (message,) = data(agent.session.events, "user/message")
            assert message["source"]["retained"] is True
            assert 'reminder_prompt_json: "stretch"' in user_texts(agent.session.events)[0]
            assert await ask(agent, "schedule_list") == []

    run(main)


def test_one_shots_come_one_by_one_by_target_then_by_creation_and_repeaters_together_after_them() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock, [hang()]) as running:
            agent = await running.host.agents.create("s")
            await repeat(agent, 600, "b")
            await repeat(agent, 300, "a")
            for seconds in (120, 60, 120):
                await remind(agent, seconds)
            agent.followup("keep busy")
            await asyncio.sleep(750)
            agent.cancel()
            await quiet(agent)
            order = [[schedule_id for schedule_id, _ in keys] for keys in reminders(agent.session.events)]
            assert order == [["schedule-4"], ["schedule-3"], ["schedule-5"], ["schedule-2", "schedule-1"]]
            assert reminders(agent.session.events)[-1] == [
                ("schedule-2", "2026-12-01T00:10:00.000Z"),
                ("schedule-1", "2026-12-01T00:10:00.000Z"),
            ]
            batch = [c for c in data(agent.session.events, "schedule/change") if "acceptedAt" in c]
            assert {change["acceptedAt"] for change in batch} == {"2026-12-01T00:12:30.000Z"}
            assert (
                data(agent.session.events, "user/message")[-1]["source"]["acceptedAt"]
                == batch[0]["acceptedAt"]
            )
            listed = await ask(agent, "schedule_list")
            assert [view["scheduledAt"][11:19] for view in listed] == ["00:20:00", "00:15:00"]
        require_valid(running.disk.events("s"))

    run(main)


def test_what_falls_due_in_a_turn_comes_after_it_and_after_what_the_user_queued() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock, [call("work", {"seconds": 300}), "worked", "sure"]) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            agent.followup("go")
            await asyncio.sleep(120)
            agent.followup("and then?")
            await quiet(agent)
            said = texts(agent)
            assert said[:5] == ["go", "<work>", "done", "worked", "and then?"]
            assert said[5] == "sure"
            assert said[6].startswith("[SCHEDULE REMINDER]")
            assert reason_kinds(agent.session.events) == ["completed"] * 3
        require_valid(running.disk.events("s"))

    run(main)


def test_a_management_call_of_the_running_turn_never_waits_for_a_reminder_that_is_due() -> None:
    async def main(clock: SimulatedClock) -> None:
        calls = [call("work", {"seconds": 120}), call("work", {"seconds": 120})]
        script = [calls, [call("schedule_list"), call("schedule_delete", {"id": "schedule-1"})], "deleted"]
        async with program(clock, script) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            agent.followup("go")
            await quiet(agent)
            assert clock.iso() == "2026-12-01T00:02:00.000Z"
            await asyncio.sleep(600)
            assert operations(agent.session.events) == ["create schedule-1", "delete schedule-1"]
            assert reminders(agent.session.events) == []

    run(main)


def test_maintenance_keeps_a_reminder_waiting_until_it_is_over() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            with agent.reserve_turn_admission() or pytest.fail("the agent is idle"):
                await asyncio.sleep(600)
                assert reminders(agent.session.events) == []
                assert len(await ask(agent, "schedule_list")) == 1
            await quiet(agent)
            assert reminders(agent.session.events) == [A]

    run(main)


def test_a_delivery_that_is_refused_queues_nothing_and_is_tried_again_after_a_growing_pause() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            tried = refuse_dispatches(agent, times=8)
            await asyncio.sleep(242)
            assert tried == [60, 61, 63, 67, 75, 91, 123, 183]
            assert inbox(agent).next_turn == ()
            assert agent.phase == "idle"
            await asyncio.sleep(3600)
            assert tried[8:] == [243]
            assert reminders(agent.session.events) == [A]
            assert operations(agent.session.events) == ["create schedule-1", "dispatch schedule-1"]

    run(main, logs_errors=True)


def test_a_refused_delivery_is_tried_again_on_the_next_idleness_too_and_the_pause_begins_anew() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            tried = refuse_dispatches(agent, times=7)
            await asyncio.sleep(130)
            agent.followup("hello")
            await quiet(agent)
            assert tried == [60, 61, 63, 67, 75, 91, 123, 130]
            assert reminders(agent.session.events) == [A]
            await remind(agent)
            later = refuse_dispatches(agent, times=1)
            await asyncio.sleep(600)
            assert later == [190, 191]

    run(main, logs_errors=True)


@pytest.mark.parametrize("failing", ["barrier", "append"])
def test_after_a_failure_a_later_reminder_still_comes_at_its_time_and_brings_the_earlier_one(
    failing: str,
) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent, 60)
            await remind(agent, 70 if failing == "append" else 600)
            ends: list[Any] = []
            if failing == "barrier":

                async def fail_flush(_: object) -> bool:
                    raise OSError("full")

                ends.append(running.host.ctx.on(FlushSession, fail_flush))
            else:
                tried = refuse_dispatches(agent, times=4)
            await asyncio.sleep(300 if failing == "barrier" else 66)
            for end in ends:
                end()
            await asyncio.sleep(600 if failing == "barrier" else 5)
            assert [key[0] for message in reminders(agent.session.events) for key in message] == [
                "schedule-1",
                "schedule-2",
            ]
            if failing == "append":
                assert tried[:5] == [60, 61, 63, 67, 70]

    run(main, logs_errors=failing == "append")


def test_reminders_that_no_one_row_could_hold_come_in_several_batches() -> None:
    prompt = "\x01" * 1024 * 1024  # as a JSON string in a JSON string seven times as long

    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            at = render_instant(clock.now_ms() + 300_000)
            records = [EveryRecord(f"schedule-{n}", prompt, at, every_seconds=300) for n in range(10)]
            agent.session.append_batch([draft_change(Create(schedule=record)) for record in records])
            await remind(agent, 301)
            await asyncio.sleep(302)
            await quiet(agent)
            told = [[key[0] for key in message] for message in reminders(agent.session.events)]
            assert sorted(told, key=len)[0] == ["schedule-11"]
            batches = [ids for ids in told if len(ids) > 1]
            assert [len(ids) for ids in batches] == [4, 4, 2]
            assert list(chain(*batches)) == [record.id for record in records]

    run(main)


def test_a_message_that_cannot_be_built_queues_nothing_and_leaves_the_reminder_active(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            with monkeypatch.context() as broken:
                broken.setattr("watchbell.schedule.owner.render_text", lambda _: 1 / 0)
                await asyncio.sleep(3600)
            assert operations(agent.session.events) == ["create schedule-1"]
            assert (await ask(agent, "schedule_list"))[0]["state"] == "overdue"
            await quiet(agent)
            assert reminders(agent.session.events) == [A]

    run(main, logs_errors=True)


def test_without_a_barrier_nothing_is_decided_and_schedule_itself_never_tries_again() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            flushed: list[int] = []

            async def failing(_: object) -> bool:
                flushed.append(clock.now_ms() // 1000 - 1796083200)
                raise OSError("full")

            end = running.host.ctx.on(FlushSession, failing)
            await asyncio.sleep(3600)
            assert flushed == [60]
            assert agent.phase == "idle"
            end()
            await asyncio.sleep(3600)
            assert operations(agent.session.events) == ["create schedule-1"]
            agent.steer("by the way", wake=False)  # leaves the agent idle anew
            await quiet(agent)
            assert reminders(agent.session.events) == [A]

    run(main)


def test_the_turn_begins_before_the_dispatch_is_durable_but_the_model_is_asked_after() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            held = running.store.hold_writes()
            await asyncio.sleep(61)
            assert held.waiting == 1
            assert agent.phase == "turn"
            assert types(agent.session.events)[-1] in ("user/message", "request/header", "request/context")
            assert running.model.requests == []
            held.release()
            await quiet(agent)
            assert len(running.model.requests) == 1

    run(main)


def test_a_dispatch_whose_barrier_fails_stays_decided_and_reaches_the_model_once_storage_heals() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            await asyncio.sleep(59.5)
            running.store.fail_writes(None)
            await asyncio.sleep(600)
            assert running.model.requests == []
            assert operations(agent.session.events) == ["create schedule-1", "dispatch schedule-1"]
            running.store.heal()
            await asyncio.sleep(61)
            await quiet(agent)
            assert len(running.model.requests) == 1
            assert reminders(agent.session.events) == [A]
        require_valid(running.disk.events("s"))

    run(main)


def test_a_clock_set_back_fires_nothing_early_and_one_set_forward_fires_within_a_second() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await remind(agent, 3600)
            clock.step(-1800)
            await asyncio.sleep(3601)
            assert reminders(agent.session.events) == []
            clock.step(1800)
            await asyncio.sleep(1)
            assert reminders(agent.session.events) == [[("schedule-1", "2026-12-01T01:00:00.000Z")]]

    run(main)


def test_a_reminder_made_in_a_reminders_turn_is_armed() -> None:
    async def main(clock: SimulatedClock) -> None:
        again = call("schedule_create", {"prompt": "q", "after_seconds": 30})
        async with program(clock, [again, "ok", "ok"]) as running:
            agent = await running.host.agents.create("s")
            await remind(agent)
            await asyncio.sleep(91)
            assert [keys[0][0] for keys in reminders(agent.session.events)] == ["schedule-1", "schedule-2"]

    run(main)


def test_a_thousand_wakes_of_a_repeater_leave_one_timer() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await repeat(agent, 300)
            for _ in range(50):
                await asyncio.sleep(300)
                await ask(agent, "schedule_list")
            await asyncio.sleep(1)
            assert len(reminders(agent.session.events)) == 50
            assert len(clock._heap) <= 2

    run(main)


def test_a_timer_that_could_not_be_armed_is_armed_a_second_later() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            call_at, began_ms = clock.call_at, clock.now_ms()

            def refuse_at_first(target_ms: int, callback: Callable[[], None]) -> Timer:
                if target_ms == began_ms + 60_000 and clock.now_ms() == began_ms:
                    raise OverflowError("too far")
                return call_at(target_ms, callback)

            clock.call_at = refuse_at_first
            await remind(agent)
            await asyncio.sleep(61)
            assert reminders(agent.session.events) == [A]

    run(main, logs_errors=True)
