"""The companion refuses a Schedule event that replay would refuse, before it is in a log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.program import Program, run, store
from watchbell import schedule
from watchbell.errors import ScheduleLogError
from watchbell.log.event import Draft
from watchbell.testing import MemoryDisk, SimulatedClock

RECORD = {"id": "a", "kind": "at", "prompt": "p", "scheduledAt": "2026-12-01T00:01:00.000Z"}


def change(operation: str, **rest: Any) -> Draft:
    return Draft("schedule/change", {"version": 1, "operation": operation, **rest})


CREATE = change("create", schedule=RECORD)


def test_live_sessions_are_guarded_until_it_is_unloaded() -> None:
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
