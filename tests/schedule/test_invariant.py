"""The companion refuses a Schedule event that replay would refuse, before it is in a log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.program import Program, ask, operations, quiet, reminders, run, store
from watchbell import schedule
from watchbell.errors import ScheduleLogError
from watchbell.log.event import Draft
from watchbell.testing import MemoryDisk, SimulatedClock

RECORD = {"id": "a", "kind": "at", "prompt": "p", "scheduledAt": "2026-12-01T00:01:00.000Z"}


def change(operation: str, **rest: Any) -> Draft:
    return Draft("schedule/change", {"version": 1, "operation": operation, **rest})


CREATE = change("create", schedule=RECORD)


@pytest.mark.parametrize(
    "bad",
    [
        [change("delete", id="a")],
        [CREATE, CREATE],
        [CREATE, change("dispatch", id="a", acceptedAt="2026-12-01T00:01:00.000Z")],
        [CREATE, change("delete", id="a"), CREATE],
        [change("snooze", id="a")],
        [Draft("schedule/change", {"version": 2, "operation": "create", "schedule": RECORD})],
    ],
)
def test_a_candidate_that_replay_would_refuse_never_enters_the_log(bad: list[Draft]) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[schedule.invariant()]) as program:
            session = await program.host.sessions.create("s")
            session.append("turn/start", {"turn": 1})
            with pytest.raises(ScheduleLogError):
                session.append_batch([Draft("turn/end", {"turn": 1, "reason": {"kind": "completed"}}), *bad])
            assert len(session.events) == 1
            session.append_batch([CREATE])
            with pytest.raises(ScheduleLogError):
                session.append_batch([CREATE])
            session.append_batch([change("delete", id="a")])
            assert operations(session.events) == ["create a", "delete a"]

    run(main)


def test_sessions_that_are_live_already_are_guarded_until_it_is_unloaded() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            session = await program.host.sessions.create("s")
            session.append_batch([CREATE])
            scope = program.host.ctx.child()
            await scope.load(schedule.invariant())
            with pytest.raises(ScheduleLogError):
                session.append_batch([CREATE])
            await scope.aclose()
            session.append_batch([CREATE])
            other = await program.host.sessions.create("t")
            other.append_batch([change("delete", id="a")])

    run(main)


def test_it_does_not_load_over_a_log_that_is_invalid_already() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, CREATE, CREATE)
        with pytest.raises(ScheduleLogError, match="at event 1"):
            await Program(clock, disk=disk, plugins=[schedule.invariant()]).__aenter__()

    run(main)


def test_a_fork_is_checked_from_its_own_first_event_on() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, CREATE, CREATE, seed_length=1)
        async with Program(clock, disk=disk, plugins=[schedule.invariant()]) as program:
            session = await program.host.sessions.resume("s")
            with pytest.raises(ScheduleLogError):
                session.append_batch([CREATE])
            fork = await program.host.sessions.fork(session, "f")
            with pytest.raises(ScheduleLogError):
                fork.append_batch([change("delete", id="a")])
            fork.append_batch([CREATE])

    run(main)


def test_schedule_itself_passes() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[schedule.invariant(), schedule.plugin()]) as program:
            agent = await program.host.agents.create("s")
            await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            await ask(agent, "schedule_create", prompt="p", every_seconds=300)
            await asyncio.sleep(700)
            await quiet(agent)
            assert len(reminders(agent.session.events)) == 3
            await ask(agent, "schedule_delete", id="schedule-2")
            assert len(operations(agent.session.events)) == 6
        async with Program(clock, disk=program.disk, plugins=[schedule.invariant()]):
            pass

    run(main)
