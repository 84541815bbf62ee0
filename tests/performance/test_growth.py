"""What a call, a delivery, a turn and a resume cost does not grow with what there is already.

Counted are calls of functions, Python's and C's: a loop over what is active, over what a log holds or over
the rows that are read shows in them, wherever it stands.
"""

from __future__ import annotations

import asyncio
import gc
import io
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.logs import HEADER, place
from tests.performance.test_operation_counts import CountingFiles, count_tracked, long_log
from tests.program import Program, ask, run, store
from watchbell import Host, JsonlStorage, schedule
from watchbell.agent.agent import Agent
from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.reminders.arguments import Limits
from watchbell.reminders.records import AtRecord, Change, Create, Delete, EveryRecord, draft_change
from watchbell.reminders.state import ScheduleState
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl.files import FileSystem
from watchbell.storage.jsonl.reading import read_log
from watchbell.testing import ScriptedModel, SimulatedClock

FAR = "2999-01-01T00:00:00.000Z"
MANY = Limits(max_active=10_000)


class Calls:
    """How many functions were called in this thread."""

    count = 0

    def note(self, _: FrameType, event: str, __: object) -> None:
        if event in {"call", "c_call"}:
            self.count += 1


@contextmanager
def counted() -> Iterator[Calls]:
    """Count the calls of what is done inside, and not of what the garbage collector ends meanwhile."""
    calls, before = Calls(), sys.getprofile()
    gc.collect()
    gc.disable()
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        gc.enable()


@asynccontextmanager
async def real_host(
    home: Path, clock: SimulatedClock
) -> AsyncGenerator[tuple[Host, ScriptedModel, CountingFiles]]:
    """A host over real files, in simulated time."""
    files, model = CountingFiles(), ScriptedModel()
    storage = JsonlStorage(home, files=files, now_ms=clock.now_ms)
    async with Host(storage=storage, model=model, plugins=[schedule.plugin()], clock=clock) as host:
        yield host, model, files


async def deliver(agent: Agent, clock: SimulatedClock) -> None:
    """Have a reminder of an agent come due, and its turn end."""
    await ask(agent, "schedule_create", prompt="p", after_seconds=1)
    await clock.sleep_until(clock.now_ms() + 2_000)
    await agent.when_idle()


async def costs(agent: Agent, clock: SimulatedClock) -> dict[str, int]:
    """Count what each thing that an agent does calls, after each was done once."""

    async def create() -> None:
        await ask(agent, "schedule_create", prompt="p", after_seconds=99_999)

    async def delete() -> None:
        await ask(agent, "schedule_delete", id=f"schedule-{len(created)}")

    async def turn() -> None:
        agent.followup("hello")
        await agent.when_idle()

    created: list[str] = []
    agent.session.observe(
        lambda events: created.extend(
            e.type for e in events if e.type == "schedule/change" and e.data["operation"] == "create"
        )
    )
    created.extend("before" for event in agent.session.events if event.type == "schedule/change")
    bodies: dict[str, Callable[[], Awaitable[None]]] = {
        "delivery": lambda: deliver(agent, clock),
        "create": create,
        "delete": delete,
        "turn": turn,
    }
    found: dict[str, int] = {}
    for name, body in bodies.items():
        await body()
        if name == "delete":
            await create()
        with counted() as calls:
            await body()
        found[name] = calls.count
    return found


def costs_after(*drafts: Draft, appended: int = 0) -> dict[str, int]:
    """What an agent costs whose session has so many events from before, and so many of this opening."""

    async def main(clock: SimulatedClock) -> dict[str, int]:
        async with Program(clock, plugins=[schedule.plugin(limits=MANY)]) as program:
            store(program.disk, Draft("watchbell/first", {}, ignorable=True), *drafts)
            agent = await program.host.agents.open("s")
            for _ in range(appended):
                agent.session.append("watchbell/other", {})
            await agent.ctx.sessions.flush(agent.session)
            return await costs(agent, clock)

    return run(main)


def test_nothing_costs_more_when_many_reminders_are_active() -> None:
    def reminders(count: int) -> Iterator[Draft]:
        for number in range(1, count + 1):
            record = (
                AtRecord(id=f"schedule-{number}", prompt="p", scheduled_at=FAR)
                if number % 2
                else EveryRecord(id=f"schedule-{number}", prompt="p", scheduled_at=FAR, every_seconds=300)
            )
            yield draft_change(Create(schedule=record))

    few, many = costs_after(*reminders(4)), costs_after(*reminders(2_000))
    assert {name: count for name, count in many.items() if count > few[name] * 1.1 + 50} == {}


def test_nothing_costs_more_late_in_the_life_of_a_session() -> None:
    few, many = costs_after(appended=1), costs_after(appended=3_000)
    assert {name: count for name, count in many.items() if count > few[name] * 1.1 + 50} == {}


def test_agents_that_wait_cost_no_more_than_one() -> None:
    async def idle_minute(clock: SimulatedClock, agents: int) -> int:
        async with Program(clock, plugins=[schedule.plugin()]) as program:
            for number in range(agents):
                agent = await program.host.agents.create(f"s{number}")
                await ask(agent, "schedule_create", prompt="p", after_seconds=3_600)
            await asyncio.sleep(60)
            with counted() as calls:
                await asyncio.sleep(60)
            return calls.count

    one, many = (run(lambda clock, agents=agents: idle_minute(clock, agents)) for agents in (1, 40))
    assert many == one
    assert one <= 120 * 80, "the wall clock is read twice a second, and no more is done"


def test_a_turn_leaves_nothing_behind_but_what_is_in_the_log(tmp_path: Path) -> None:
    class Forgetful(list[Any]):
        def append(self, _: Any, /) -> None:
            """Keep no request: the tests' model would otherwise hold them all."""

    async def main(clock: SimulatedClock) -> list[int]:
        async with real_host(tmp_path, clock) as (host, model, _):
            model.requests = Forgetful()
            agent = await host.agents.create("s")
            counts: list[int] = []
            for _ in range(4):
                for _ in range(20):
                    await deliver(agent, clock)
                counts.append(count_tracked())
            return counts

    _, first, _, last = run(main)
    assert last - first <= 40 * 2 + 10, "the transcript's message has its source, a mapping with a list"


def test_a_delivery_and_its_turn_write_and_sync_so_often(tmp_path: Path) -> None:
    """Once for the create, for the delivery, for what the model is to be told, and for the rest."""

    async def main(clock: SimulatedClock) -> tuple[int, int]:
        async with real_host(tmp_path, clock) as (host, _, files):
            agent = await host.agents.create("s")
            await deliver(agent, clock)
            files.writes = files.syncs = 0
            await deliver(agent, clock)
            return files.writes, files.syncs

    assert run(main) == (4, 4)


def test_a_healed_storage_costs_each_agent_the_same_however_many_there_are() -> None:
    async def main(clock: SimulatedClock, agents: int) -> float:
        async with Program(clock, plugins=[schedule.plugin()]) as program:
            sessions = [(await program.host.agents.create(f"s{n}")).session for n in range(agents)]
            program.store.fail_writes(None)
            for session in sessions:
                session.append("watchbell/other", {})
            await asyncio.sleep(0.5)
            program.store.heal()
            with counted() as calls:
                await asyncio.sleep(5)
            return calls.count / agents

    few, many = (run(lambda clock, agents=agents: main(clock, agents)) for agents in (20, 200))
    assert many <= few * 1.1


def test_targets_of_ended_reminders_are_not_kept() -> None:
    """Behind an earlier one that stays they would wait for years."""

    def fold(change: Change) -> None:
        log.extend([draft_change(change).at(len(log), 0)])
        state.advance(log).earliest()

    state, log = ScheduleState(), EventLog()
    fold(Create(schedule=AtRecord(id="first", prompt="p", scheduled_at="2090-01-01T00:00:00.000Z")))
    for number in range(2_000):
        fold(Create(schedule=AtRecord(id=f"r{number}", prompt="p", scheduled_at=FAR)))
        fold(Delete(id=f"r{number}"))
    log.extend([draft_change(Delete(id="first")).at(len(log), 0)])
    state.advance(log)
    with counted() as calls:
        assert state.earliest() is None
    assert calls.count < 1_000


def test_sessions_are_synced_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=20)

    class MeetingFiles(FileSystem):
        def fsync(self, descriptor: int) -> None:
            if is_meeting:
                together.wait()  # for the other session, which no other thread would let come
            super().fsync(descriptor)

    async def main() -> list[Any]:
        nonlocal is_meeting
        storage = JsonlStorage(tmp_path, files=MeetingFiles())
        async with Host(storage=storage, model=ScriptedModel(), plugins=[schedule.plugin()]) as host:
            agents = [await host.agents.create(name) for name in ("a", "b")]
            for agent in agents:
                await ask(agent, "schedule_create", prompt="p", after_seconds=900)
            is_meeting = True
            views = await asyncio.gather(
                *(ask(agent, "schedule_create", prompt="p", after_seconds=900) for agent in agents)
            )
            is_meeting = False
            return [view.get("state") for view in views]

    is_meeting = False
    assert asyncio.run(main()) == ["scheduled", "scheduled"]


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are not limited there")
def test_a_program_may_hold_as_many_sessions_as_the_system_lets_it(tmp_path: Path) -> None:
    """Each holds a descriptor, and the soft limit on them is often low."""
    program = f"""
import asyncio, resource
from watchbell import Host, JsonlStorage
from watchbell.testing import ScriptedModel

async def main():
    async with Host(storage=JsonlStorage({str(tmp_path)!r}), model=ScriptedModel()) as host:
        for number in range(100):
            (await host.agents.create(f"s{{number}}")).session.append("watchbell/other", {{}})
        await asyncio.gather(*(host.ctx.sessions.flush(agent.session) for agent in host.agents.live))

resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert len(list(tmp_path.glob("sessions/*/*/session.jsonl.zstd"))) == 100


# --- resuming --------------------------------------------------------------------------------------------


def write_log(home: Path, turns: int, frames: int) -> Path:
    events = long_log(turns)
    each = -(-len(events) // frames)
    texts = [encode_rows(events[at : at + each]) for at in range(0, len(events), each)]
    return place(home, b"".join(map(encode_frame, [encode_header(HEADER), *texts])))


def test_a_resume_reads_its_log_once_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    class CountingFile(io.FileIO):
        def readinto(self, buffer: Any, /) -> int | None:
            nonlocal count
            taken = super().readinto(buffer)
            count += taken or 0
            return taken

        def readall(self) -> bytes:
            nonlocal count
            data = super().readall()
            count += len(data)
            return data

    def fdopen(descriptor: int, mode: str = "r", buffering: int = -1, **_: Any) -> Any:
        return io.BufferedReader(CountingFile(descriptor, mode), buffering)

    path = write_log(tmp_path, 2_000, 500)
    monkeypatch.setattr(os, "fdopen", fdopen)

    async def main() -> int:
        async with Host(
            storage=JsonlStorage(tmp_path), model=ScriptedModel(), plugins=[schedule.plugin()]
        ) as host:
            return len((await host.agents.resume("s")).session.events)

    size = path.stat().st_size
    assert asyncio.run(main()) >= 2_000 * 15
    assert count == size


def test_reading_a_log_takes_few_calls_a_row_and_a_frame(tmp_path: Path) -> None:
    """Rows are checked many at a time, and small frames are decompressed together."""
    counts: list[int] = []
    for frames in (50, 1_000):
        path = write_log(tmp_path / f"{frames}", 2_000, frames)
        with counted() as calls:
            stored = read_log(path)
        counts.append(calls.count)
    rows = sum(1 for _ in stored.events.rows())
    few, many = counts
    assert few < rows
    assert (many - few) / 950 <= 10


def test_resuming_a_longer_log_keeps_others_waiting_no_longer(tmp_path: Path) -> None:
    async def longest(home: Path) -> int:
        """The most calls between two turns of somebody else."""
        async with Host(
            storage=JsonlStorage(home), model=ScriptedModel(), plugins=[schedule.plugin()]
        ) as host:
            with counted() as calls:
                most = last = 0
                resuming = asyncio.create_task(host.agents.resume("s"))
                while not resuming.done():
                    await asyncio.sleep(0)
                    most, last = max(most, calls.count - last), calls.count
            await resuming
            return most

    counts: list[int] = []
    for turns in (500, 4_000):
        write_log(tmp_path / f"{turns}", turns, turns)
        counts.append(asyncio.run(longest(tmp_path / f"{turns}")))
    assert counts[1] <= counts[0] * 2
