"""A simulated machine outlives its processes, and only its disk and its clock do."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from watchbell import Host, schedule
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import LeftoverTaskError, ProcessKilled, ScriptedModel, SimulatedMachine


def host_on(machine: SimulatedMachine) -> Host:
    return Host(
        storage=JsonlStorage(machine.disk.home, files=machine.disk, now_ms=machine.clock.now_ms),
        model=ScriptedModel(),
        plugins=[schedule.plugin()],
        clock=machine.clock,
        new_id=machine.new_id,
    )


def test_a_process_killed_at_any_await_leaves_what_was_durable(tmp_path: Path) -> None:
    lengths: set[int] = set()
    for after in range(0, 60, 3):
        root = tmp_path / str(after)
        root.mkdir()
        machine = SimulatedMachine(root, seed=after)

        async def talk(machine: SimulatedMachine = machine, after: int = after) -> None:
            async with host_on(machine) as host:
                agent = await host.agents.create("s")
                machine.kill(after=after)
                agent.followup("hello")
                await agent.when_idle()
                await asyncio.sleep(60)

        with contextlib.suppress(ProcessKilled):
            machine.run(talk)

        async def look(machine: SimulatedMachine = machine) -> int:
            async with host_on(machine) as host:
                agent = await host.agents.open("s")
                await agent.when_idle()
                return len(agent.session.events)

        lengths.add(machine.run(look))
    assert len(lengths) > 2


def test_no_finally_of_a_killed_process_reaches_the_disk(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path)
    entered: list[bool] = []

    async def process() -> None:
        try:
            machine.kill()
            await asyncio.sleep(1)
        finally:
            entered.append(machine.is_running)
            with pytest.raises(ProcessKilled):
                machine.disk.mkdir(machine.disk.home / "late")

    with pytest.raises(ProcessKilled):
        machine.run(process)
    assert entered == [False]
    assert list(machine.disk.home.iterdir()) == []


def test_time_goes_on_from_process_to_process(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, start="2026-12-01T00:00:00Z")

    async def sleep() -> str:
        await asyncio.sleep(10)
        return machine.clock.iso()

    assert machine.run(sleep) == "2026-12-01T00:00:10.000Z"
    machine.rest(50)
    assert machine.run(sleep) == "2026-12-01T00:01:10.000Z"
    assert machine.elapsed_seconds == 70


def test_a_process_that_leaves_tasks_behind_is_told(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path)
    kept: list[asyncio.Task[None]] = []

    async def process() -> None:
        kept.append(asyncio.create_task(asyncio.sleep(1000)))

    with pytest.raises(LeftoverTaskError):
        machine.run(process)


def test_ids_are_the_seed_s(tmp_path: Path) -> None:
    ids: list[list[str]] = []
    for number in range(2):
        root = tmp_path / str(number)
        root.mkdir()
        machine = SimulatedMachine(root, seed=3)

        async def process(machine: SimulatedMachine = machine) -> list[str]:
            return [machine.new_id() for _ in range(3)]

        ids.append(machine.run(process))
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3
