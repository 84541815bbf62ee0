"""Write-behind: events become durable within a window, on a barrier, and after failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Self

import pytest

from tests.simulated import simulated
from watchbell.errors import PersistenceError
from watchbell.log.event import Draft, Event
from watchbell.log.header import SessionHeader
from watchbell.sessions.session import Session
from watchbell.sessions.write_behind import WriteBehind
from watchbell.testing import FaultyPersistence, MemoryDisk, MemoryStorage, SimulatedClock, simulate


class Bench:
    """A live session over a store whose writes can fail."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.disk = MemoryDisk()
        self.store = FaultyPersistence(MemoryStorage(self.disk))
        self.healed: list[int] = []
        self.start = clock.now_ms()
        self.turns = 0

    async def __aenter__(self) -> Self:
        header = SessionHeader(id="a", created_at=0, delegation_depth=0)
        self.session = Session(header, now_ms=self.clock.now_ms)
        self.writing = WriteBehind(
            self.session, await self.store.create(header), on_healed=lambda: self.healed.append(self.elapsed)
        )
        self.is_closed = False
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.is_closed:
            await self.close()

    async def close(self) -> None:
        self.is_closed = True
        await self.writing.close()

    @property
    def elapsed(self) -> int:
        return self.clock.now_ms() - self.start

    def append(self, count: int = 1) -> None:
        drafts: Sequence[Draft] = [Draft("turn/start", {"turn": self.turns + n}) for n in range(1, count + 1)]
        self.turns += count
        self.session.append_batch(drafts)

    @property
    def batches(self) -> list[list[int]]:
        stored: Sequence[tuple[Event, ...]] = self.disk.batches.get("a", [])
        return [[event.seq for event in batch] for batch in stored]


@simulated(Bench)
async def test_events_wait_for_companions_in_a_window_that_later_ones_leave(bench: Bench) -> None:
    for _ in range(4):
        bench.append()
        await asyncio.sleep(0.06)
    assert bench.batches == [[0, 1, 2, 3]]
    bench.append()
    await asyncio.sleep(0.19)
    assert bench.batches == [[0, 1, 2, 3]]
    await asyncio.sleep(0.02)
    assert bench.batches == [[0, 1, 2, 3], [4]]


@simulated(Bench)
async def test_a_flush_is_durable_on_return_and_takes_the_window_with_it(bench: Bench) -> None:
    bench.append(3)
    await bench.writing.flush()
    assert bench.elapsed == 0
    assert bench.batches == [[0, 1, 2]]
    await asyncio.sleep(5)
    assert bench.store.writes == 1


@simulated(Bench)
async def test_a_flush_of_nothing_writes_nothing(bench: Bench) -> None:
    await bench.writing.flush()
    await bench.close()
    assert bench.store.writes == 0
    assert bench.disk.headers == {}


@simulated(Bench)
async def test_flushes_share_a_write_and_what_comes_meanwhile_takes_the_next(bench: Bench) -> None:
    held = bench.store.hold_writes()
    bench.append(2)
    early = [asyncio.create_task(bench.writing.flush()) for _ in range(3)]
    await held.reached()
    bench.append(2)
    late = [asyncio.create_task(bench.writing.flush()) for _ in range(3)]
    await asyncio.sleep(1)  # the window of the later two ends while the write stands
    assert bench.store.writes == 1
    held.release()
    await asyncio.gather(*early, *late)
    assert bench.batches == [[0, 1], [2, 3]]


@simulated(Bench)
async def test_a_flush_does_not_wait_for_later_events(bench: Bench) -> None:
    first = bench.store.hold_writes()
    bench.append()
    flush = asyncio.create_task(bench.writing.flush())
    await first.reached()
    second = bench.store.hold_writes()
    bench.append()
    first.release()
    await flush
    assert bench.writing.pending == 1
    second.release()
    await bench.close()
    assert bench.batches == [[0], [1]]


@simulated(Bench)
async def test_events_whose_window_ended_during_a_write_follow_at_once(bench: Bench) -> None:
    held = bench.store.hold_writes()
    bench.append()
    await asyncio.sleep(0.3)
    bench.append()
    await asyncio.sleep(0.5)
    held.release()
    await asyncio.sleep(0.001)
    assert bench.batches == [[0], [1]]


@simulated(Bench)
async def test_a_failed_flush_says_so_and_keeps_the_events_for_the_next(bench: Bench) -> None:
    bench.append(2)
    bench.store.fail_writes(1)
    flushes = await asyncio.gather(bench.writing.flush(), bench.writing.flush(), return_exceptions=True)
    assert [type(failure) for failure in flushes] == [PersistenceError, PersistenceError]
    assert flushes[0] is not flushes[1]
    assert bench.writing.pending == 2
    bench.append()
    await bench.writing.flush()
    assert bench.batches == [[0, 1, 2]]
    assert bench.healed == [0]


@simulated(Bench)
async def test_a_flush_is_not_blamed_for_a_write_that_began_before_its_events(bench: Bench) -> None:
    held = bench.store.hold_writes()
    bench.store.fail_writes(1)
    bench.append()
    early = asyncio.create_task(bench.writing.flush())
    await held.reached()
    bench.append()
    late = asyncio.create_task(bench.writing.flush())
    await asyncio.sleep(0)
    held.release()
    with pytest.raises(PersistenceError):
        await early
    await late
    assert bench.batches == [[0, 1]]


@simulated(Bench)
async def test_retries_double_their_pause_to_a_minute_and_tell_of_the_healing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.store.fail_writes(None)
    bench.append()
    for writes, second in enumerate((0, 1, 3, 7, 15, 31, 63, 123, 183)):
        await bench.clock.sleep_until(bench.start + 200 + second * 1000 - 1)
        assert bench.store.writes == writes
        await asyncio.sleep(0.002)
        assert bench.store.writes == writes + 1
    bench.store.heal()
    await asyncio.sleep(61)
    assert bench.batches == [[0]]
    assert len(bench.healed) == 1
    bench.store.fail_writes(1)  # from here the pauses begin anew
    bench.append()
    await asyncio.sleep(1.3)
    assert bench.batches == [[0], [1]]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING", "INFO"]


@simulated(Bench)
async def test_a_new_events_window_tries_again_and_leaves_the_retry_as_it_was(bench: Bench) -> None:
    bench.store.fail_writes(None)
    bench.append()
    await asyncio.sleep(3.3)  # tried at 0.2, 1.2, 3.2; the next retry stands at 7.2
    assert bench.store.writes == 3
    bench.append()
    await asyncio.sleep(0.3)
    assert bench.store.writes == 4
    with pytest.raises(PersistenceError):
        await bench.writing.flush()
    bench.store.heal()
    await asyncio.sleep(3.5)
    assert bench.batches == []
    await asyncio.sleep(0.2)
    assert bench.batches == [[0, 1]]
    assert bench.healed == [7_200]


@simulated(Bench)
async def test_a_window_that_ended_during_a_failing_write_still_gets_its_try(bench: Bench) -> None:
    held = bench.store.hold_writes()
    bench.store.fail_writes(1)
    bench.append()
    await asyncio.sleep(0.3)
    bench.append()
    await asyncio.sleep(0.5)
    held.release()
    await asyncio.sleep(0.01)
    assert bench.batches == [[0, 1]]


@simulated(Bench)
async def test_a_retry_that_comes_due_during_a_write_leaves_it_alone(bench: Bench) -> None:
    bench.store.fail_writes(2)
    bench.append()
    await asyncio.sleep(0.3)
    held = bench.store.hold_writes()
    flush = asyncio.create_task(bench.writing.flush())
    await asyncio.sleep(5)
    assert bench.store.writes == 2
    held.release()
    with pytest.raises(PersistenceError):
        await flush
    await asyncio.sleep(2.1)
    assert bench.batches == [[0]]


@simulated(Bench)
async def test_cancelling_who_flushes_does_not_cancel_the_write(bench: Bench) -> None:
    held = bench.store.hold_writes()
    bench.append()
    flush = asyncio.create_task(bench.writing.flush())
    await held.reached()
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert held.waiting == 1
    held.release()
    await bench.writing.flush()
    assert bench.batches == [[0]]
    assert bench.store.writes == 1


@simulated(Bench)
async def test_closing_flushes_and_releases_the_lock(bench: Bench) -> None:
    bench.append(2)
    bench.session.close()
    await bench.close()
    stored, writer = await MemoryStorage(bench.disk).open("a")
    assert len(stored.events) == 2
    await writer.close()
    await bench.writing.flush()  # nothing is pending, so this says nothing untrue


@simulated(Bench)
async def test_closing_over_a_dead_disk_releases_and_says_how_much_was_lost(
    bench: Bench,
) -> None:
    bench.append()
    await bench.writing.flush()
    bench.store.fail_writes(None)
    bench.append(3)
    await asyncio.sleep(10)
    with pytest.raises(PersistenceError, match="3 events were not stored: this write was made to fail"):
        await bench.close()
    tried = bench.store.writes
    _, writer = await MemoryStorage(bench.disk).open("a")
    await writer.close()
    with pytest.raises(PersistenceError, match="closed"):
        await bench.writing.flush()
    await asyncio.sleep(600)
    assert bench.store.writes == tried


@simulated(Bench)
async def test_closing_waits_for_the_write_that_runs(bench: Bench) -> None:
    held = bench.store.hold_writes(stored=True)
    bench.append()
    await asyncio.sleep(0.3)
    bench.append()
    closing = asyncio.create_task(bench.close())
    await asyncio.sleep(1)
    assert not closing.done()
    held.release()
    await closing
    assert bench.batches == [[0], [1]]


def test_a_writer_that_breaks_its_contract_loses_nothing() -> None:
    class Broken:
        def __init__(self) -> None:
            self.calls: list[int] = []

        async def write(self, events: Sequence[Event]) -> None:
            self.calls.append(len(events))
            if len(self.calls) == 1:
                raise KeyError("not an error of ours")

        def check(self) -> None:
            raise KeyError("not an error of ours either")

        async def close(self) -> None:
            self.calls.append(-1)

    async def main(clock: SimulatedClock) -> None:
        session = Session(SessionHeader(id="a", created_at=0, delegation_depth=0), now_ms=clock.now_ms)
        writer = Broken()
        writing = WriteBehind(session, writer)
        session.append("turn/start", {"turn": 1})
        with pytest.raises(PersistenceError) as caught:
            await writing.flush()
        assert isinstance(caught.value.__cause__, KeyError)
        await asyncio.sleep(2)
        with pytest.raises(PersistenceError):
            await writing.flush()
        await writing.close()
        assert writer.calls == [1, 1, -1]

    simulate(main)


@simulated(Bench)
async def test_a_barrier_with_nothing_to_write_looks_whether_the_log_is_there(
    bench: Bench,
) -> None:
    await bench.writing.flush()  # not begun, so nothing can be gone
    bench.append()
    await bench.writing.flush()
    await bench.writing.flush()
    header, batches = bench.disk.headers["a"], bench.disk.batches["a"]
    bench.disk.remove("a")
    with pytest.raises(PersistenceError, match="removed"):
        await bench.writing.flush()
    assert bench.store.writes == 1
    await asyncio.sleep(100)
    assert bench.healed == []
    bench.disk.headers["a"], bench.disk.batches["a"] = header, batches
    await asyncio.sleep(60)
    assert len(bench.healed) == 1
    await bench.writing.flush()
    bench.append()
    await bench.close()
    assert bench.batches == [[0], [1]]
