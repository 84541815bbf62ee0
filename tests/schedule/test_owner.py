"""The owner delivers what is due, one decision at a time, whenever the agent is idle and the storage well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest

from tests.program import (
    Program,
    ask,
    inbox,
    operations,
    quiet,
    reminders,
    run,
)
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.clock import Timer
from watchbell.instants import Instant, render_instant
from watchbell.log.event import Draft
from watchbell.reminders.records import Create, EveryRecord, draft_change
from watchbell.sessions.events import FlushSession
from watchbell.testing import SimulatedClock, call

A = [("schedule-1", "2026-12-01T00:01:00.000Z")]


def program(clock: SimulatedClock, script: Any = (), **options: Any) -> Program:
    return Program(clock, script, plugins=[schedule.plugin()], **options)


async def remind(agent: Agent, seconds: int = 60, prompt: str = "p") -> Any:
    return await ask(agent, "schedule_create", prompt=prompt, after_seconds=seconds)


async def repeat(agent: Agent, seconds: int, prompt: str = "p") -> Any:
    return await ask(agent, "schedule_create", prompt=prompt, every_seconds=seconds)


def refuse_dispatches(agent: Agent, times: int) -> list[int]:
    """Refuse the next deliveries; the list holds when each was tried."""
    tried: list[int] = []

    def guard(_: object, drafts: Sequence[Draft]) -> None:
        operations = [bytes(draft.data) for draft in drafts if draft.type == "schedule/change"]
        if any(b'"dispatch"' in operation for operation in operations):
            tried.append(agent.ctx.clock.now_ms() // 1000 - 1796083200)
            if len(tried) <= times:
                raise RuntimeError("refused")

    agent.session.guard(guard)
    return tried


def test_a_refused_delivery_is_tried_again_after_a_growing_pause() -> None:
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


def test_it_is_tried_again_on_idleness_too_and_the_pause_begins_anew() -> None:
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
def test_after_a_failure_a_later_reminder_brings_the_earlier_one(
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


def test_reminders_that_no_one_row_holds_come_in_several_batches() -> None:
    prompt = "\x01" * 1024 * 1024  # as a JSON string in a JSON string seven times as long

    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            at = render_instant(Instant(clock.now_ms() + 300_000))
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
