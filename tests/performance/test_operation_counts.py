"""What costs time is counted, so that no change makes it grow unseen: rows read, fsyncs, timers, bytes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.program import ask
from watchbell import Host, JsonlStorage, schedule
from watchbell.agent.agent import Agent
from watchbell.clock import Timer, WallClock, wall_ms
from watchbell.instants import Instant, render_instant
from watchbell.log.codec import encode_rows
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog, PackedRow
from watchbell.log.header import SessionHeader
from watchbell.log.messages import Message, TextBlock, TextDelta
from watchbell.log.payloads import ChunkEvent, Completed, StepMark, TurnEnd, TurnStart
from watchbell.log.segments import Block, decode_block
from watchbell.reminders.records import AtRecord, Create, Dispatch, draft_change
from watchbell.storage.base import StoredLog
from watchbell.storage.jsonl.files import FileSystem
from watchbell.testing import ScriptedModel

T = TypeVar("T")
FAR = "2999-01-01T00:00:00.000Z"
TURNS = 200


class CountedRows:
    """Rows of a stored log that count how often one of them is made or handed out."""

    def __init__(self, rows: Block) -> None:
        self.first, self.length = rows.first, rows.length
        self.read = 0
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Event | PackedRow:
        self.read += 1
        return self._rows[number]

    def lines(self, types: frozenset[str], start: int, stop: int) -> bytes:
        lines = self._rows.lines(types, start, stop)
        self.read += lines.count(b"\n")
        return lines

    @property
    def may_replace(self) -> bool:
        return self._rows.may_replace

    def row_of(self, seq: int) -> int:
        return self._rows.row_of(seq)

    def find(self, types: frozenset[str], start: int, stop: int) -> Sequence[int]:
        return self._rows.find(types, start, stop)


class CountingFiles(FileSystem):
    """The real disk, with a count of what is written and synced."""

    def __init__(self) -> None:
        self.writes = self.syncs = 0

    def write(self, descriptor: int, data: memoryview) -> int:
        self.writes += 1
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.syncs += 1
        super().fsync(descriptor)


class CountingStorage(JsonlStorage):
    """A store whose resumed logs count what is read of them."""

    def __init__(self, home: Path) -> None:
        self.files = CountingFiles()
        super().__init__(home, files=self.files)
        self.rows: CountedRows | None = None

    async def open(self, session_id: str) -> Any:
        stored, writer = await super().open(session_id)
        log = EventLog()
        self.rows = CountedRows(decode_block(encode_rows(stored.events), 0))
        log.extend_rows(self.rows)
        return StoredLog(stored.header, log, stored.location), writer


class CountingClock(WallClock):
    """The machine's clock, with a count of what was armed."""

    def __init__(self) -> None:
        super().__init__(wall_ms, lambda: asyncio.get_running_loop().time())
        self.armed = 0

    def call_at(self, target_ms: int, callback: Callable[[], None]) -> Timer:
        self.armed += 1
        return super().call_at(target_ms, callback)


def history(turns: int) -> Iterator[Draft]:
    """A conversation with one reminder in each turn, the first ones delivered."""
    for number in range(1, turns + 1):
        message = Message(f"m{number}", "user", {"kind": "user"}, (TextBlock("hello"),))
        yield Draft("turn/start", TurnStart(number))
        yield Draft("step/start", StepMark(number, 1))
        yield Draft("user/message", message, None, "append")
        for _ in range(9):
            yield Draft("assistant/chunk", ChunkEvent(number, 1, TextDelta(0, "word ")))
        yield draft_change(Create(schedule=AtRecord(id=f"r{number}", prompt="p", scheduled_at=FAR)))
        if number < turns // 2:
            yield draft_change(Dispatch(id=f"r{number}"))
        yield Draft("step/end", StepMark(number, 1))
        yield Draft("turn/end", TurnEnd(number, Completed()))


def long_log(turns: int) -> list[Event]:
    return [draft.at(seq, 1_000) for seq, draft in enumerate(history(turns))]


def live(home: Path, turns: int, body: Callable[[Agent, CountingStorage, CountingClock], Awaitable[T]]) -> T:
    """Resume a session of so many turns and run `body` with its agent."""

    async def main() -> T:
        storage, clock = CountingStorage(home), CountingClock()
        if turns:
            writer = await storage.create(SessionHeader(id="s", created_at=0, delegation_depth=0))
            await writer.write(long_log(turns))
            await writer.close()
        model = ScriptedModel(["hello again"] * 3)
        async with Host(storage=storage, model=model, plugins=[schedule.plugin()], clock=clock) as host:
            agent = await host.agents.open("s")
            await ask(agent, "schedule_create", prompt="warm", after_seconds=600)
            return await body(agent, storage, clock)

    return asyncio.run(main())


@pytest.mark.parametrize("turns", [0, TURNS])
def test_each_call_that_changes_something_writes_and_syncs_once(tmp_path: Path, turns: int) -> None:
    async def body(agent: Agent, storage: CountingStorage, _: object) -> list[tuple[int, int]]:
        counts: list[tuple[int, int]] = []
        calls: list[tuple[str, dict[str, Any]]] = [
            ("schedule_create", {"prompt": "p", "after_seconds": 900}),
            ("schedule_list", {}),
            ("schedule_delete", {"id": "r199" if turns else "schedule-1"}),
            ("schedule_delete", {"id": "never"}),
        ]
        for name, arguments in calls:
            storage.files.writes = storage.files.syncs = 0
            await ask(agent, name, **arguments)
            counts.append((storage.files.writes, storage.files.syncs))
        return counts

    assert live(tmp_path, turns, body) == [(1, 1), (0, 0), (1, 1), (0, 0)]


def test_a_call_reads_nothing_of_what_was_folded_before(tmp_path: Path) -> None:
    async def body(agent: Agent, storage: CountingStorage, _: object) -> int:
        assert storage.rows is not None
        storage.rows.read = 0
        calls: list[tuple[str, dict[str, Any]]] = [
            ("schedule_create", {"prompt": "p", "after_seconds": 900}),
            ("schedule_list", {}),
            ("schedule_delete", {"id": "r199"}),
        ]
        for name, arguments in calls:
            await ask(agent, name, **arguments)
        return storage.rows.read

    assert live(tmp_path, TURNS, body) == 0


def test_a_resume_reads_no_streamed_text(tmp_path: Path) -> None:
    """Rows of the types that a projection folds are read once for it; the model's stream is nobody's."""

    async def body(_: Agent, storage: CountingStorage, __: object) -> int:
        assert storage.rows is not None
        return storage.rows.read

    read = live(tmp_path, TURNS, body)
    # Turn marks for inbox and take-ups together, messages for the inbox and recovery, changes, a few more.
    assert read <= TURNS * (2 + 2 + 2) + 20


def test_a_further_turn_reads_the_conversation_once_and_then_nothing(tmp_path: Path) -> None:
    async def body(agent: Agent, storage: CountingStorage, _: object) -> list[int]:
        assert storage.rows is not None
        counts: list[int] = []
        for _ in range(2):
            storage.rows.read = 0
            agent.followup("hello")
            await agent.when_idle()
            counts.append(storage.rows.read)
        return counts

    assert live(tmp_path, TURNS, body) == [TURNS, 0]


def test_batches_that_wait_go_in_one_write(tmp_path: Path) -> None:
    async def body(agent: Agent, storage: CountingStorage, _: object) -> tuple[int, int]:
        storage.files.writes = storage.files.syncs = 0
        for number in range(50):
            agent.session.append_batch(
                [Draft("watchbell/take-up", {"messageId": f"{number}", "attempt": 1}, ignorable=True)]
            )
        await agent.ctx.sessions.flush(agent.session)
        return storage.files.writes, storage.files.syncs

    assert live(tmp_path, 0, body) == (1, 1)


def test_only_an_earlier_target_arms_the_timer_anew(tmp_path: Path) -> None:
    async def body(agent: Agent, _: object, clock: CountingClock) -> list[int]:
        counts: list[int] = []
        for seconds in (1_000, 2_000, 3_000, 300, 4_000):
            clock.armed = 0
            await ask(agent, "schedule_create", prompt="p", after_seconds=seconds)
            await asyncio.sleep(0)
            counts.append(clock.armed)
        return counts

    assert live(tmp_path, 0, body) == [0, 0, 0, 1, 0]


def test_all_that_is_armed_shares_one_timer_of_the_loop() -> None:
    class CountingLoop(asyncio.SelectorEventLoop):
        timers = 0

        def call_at(self, *arguments: Any, **context: Any) -> asyncio.TimerHandle:
            CountingLoop.timers += 1
            return super().call_at(*arguments, **context)

    async def main() -> int:
        clock = CountingClock()
        for number in range(10_000):
            clock.call_at(wall_ms() + 3_600_000 + number, lambda: None)
        return CountingLoop.timers

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        assert runner.run(main()) == 1


def test_a_live_agent_holds_few_objects_that_the_collector_looks_at(tmp_path: Path) -> None:
    """A full collection looks at all of them, and thousands of agents live in one program.

    An agent is some forty objects: its session, log, inbox, transcript, writer, Schedule state, owner, timer
    and the like. Most have a list or a mapping, and the three tools have their closures. What does not belong
    to one agent alone, such as the schemas of its tools, is not among them.
    """

    async def main() -> float:
        async with Host(
            storage=JsonlStorage(tmp_path), model=ScriptedModel(), plugins=[schedule.plugin()]
        ) as host:

            async def arm(name: str) -> None:
                await ask(await host.agents.create(name), "schedule_create", prompt="p", after_seconds=900)

            await arm("warm")
            before = count_tracked()
            for number in range(20):
                await arm(f"s{number}")
            return (count_tracked() - before) / 20

    assert asyncio.run(main()) <= 120


def count_tracked() -> int:
    gc.collect()
    return len(gc.get_objects())


def test_a_delivery_and_its_turn_leave_nothing_to_the_collector(tmp_path: Path) -> None:
    """Everything that they make is freed as soon as nobody needs it: none of it is part of a cycle."""

    async def body(agent: Agent, _: object, __: object) -> int:
        ended = asyncio.Event()
        agent.session.observe(lambda events: ended.set() if events[-1].type == "turn/end" else None)
        gc.collect()
        for _ in range(3):
            ended.clear()
            await ask(agent, "schedule_create", prompt="p", at=render_instant(Instant(wall_ms() + 20)))
            await ended.wait()
            await agent.when_idle()
        return gc.collect()

    gc.disable()
    try:
        assert live(tmp_path, 0, body) == 0
    finally:
        gc.enable()
