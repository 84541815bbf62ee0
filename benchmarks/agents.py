"""Reminders that come due: how late an idle agent hears of one, and many agents in the same second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.process import call, host, p50, p99, peak_mb
from benchmarks.report import Figure
from watchbell.clock import wall_ms
from watchbell.instants import render_instant
from watchbell.log.event import Event
from watchbell.log.header import SessionHeader
from watchbell.storage.jsonl.store import JsonlStorage

ONE_AFTER_THE_OTHER = 30


async def measure(work: Path, count: int) -> AsyncIterator[Figure]:
    """Have `count` live agents with one reminder each in the same second; of one agent, its lateness."""
    figures = _measure_one(work) if count == 1 else _measure_many(work, count)
    async for figure in figures:
        yield figure


async def _measure_one(work: Path) -> AsyncIterator[Figure]:
    late: list[float] = []
    bare: list[float] = []
    async with host(work) as running:
        agent = await running.agents.create("s")
        admitted: asyncio.Queue[int] = asyncio.Queue()

        def note(events: object) -> None:
            if isinstance(events, tuple) and any(_is_dispatch(event) for event in events):
                admitted.put_nowait(time.time_ns())

        agent.session.observe(note)
        for _ in range(ONE_AFTER_THE_OTHER):
            target_ms = wall_ms() + 150
            at = render_instant(target_ms)
            await call(agent, "schedule_create", f'{{"prompt":"look","at":"{at}"}}')
            late.append(await admitted.get() / 1e6 - target_ms)
            await agent.when_idle()
            # A machine that slept takes a while to be quick again, whoever wakes it.
            target_ms = wall_ms() + 150
            await asyncio.sleep(target_ms / 1e3 - time.time())
            bare.append(time.time_ns() / 1e6 - target_ms)
    floor = "a bare timer"
    for name, rank in (("p50", p50), ("p99", p99)):
        yield Figure(f"{floor}, lateness, {name}", rank(bare), "ms")
        yield Figure(f"one agent, lateness of admission, {name}", rank(late), "ms", floor, rank(bare))


async def _measure_many(work: Path, count: int) -> AsyncIterator[Figure]:
    storage = _Noting(work)
    async with host(work, storage) as running:
        agents = [await running.agents.create(f"s{number}") for number in range(count)]
        # Far enough that all are armed by then.
        target_ms = (wall_ms() // 1000 + 10 + count // 150) * 1000
        arguments = f'{{"prompt":"look at the build","at":"{render_instant(target_ms)}"}}'
        for number in range(0, count, 64):
            await asyncio.gather(
                *(call(agent, "schedule_create", arguments) for agent in agents[number : number + 64])
            )
        assert wall_ms() < target_ms, "not all were armed in time"
        await asyncio.sleep((target_ms - wall_ms()) / 1000 - 0.05)
        cpu = time.process_time()
        for agent in agents:
            while agent.session.events[-1].type != "turn/end":  # noqa: ASYNC110 - its turn may not have begun
                await asyncio.sleep(0.1)
            await agent.when_idle()
        ended = time.time_ns() / 1e6 - target_ms
        spent = time.process_time() - cpu
    assert storage.dispatches == count
    yield Figure(f"{count:,} agents due at once, all durable", (storage.last_ms - target_ms) / 1e3, "s")
    yield Figure(f"{count:,} agents due at once, all turns ended", ended / 1e3, "s")
    yield Figure(f"{count:,} agents due at once, CPU time", spent, "s")
    yield Figure(f"{count:,} agents due at once, peak memory", peak_mb(), "MB")


class _Noting(JsonlStorage):
    """Notes when the last dispatch became durable."""

    dispatches = 0
    last_ms = 0.0

    async def create(self, header: SessionHeader, seed: Sequence[Event] = ()) -> Any:
        """Create a log whose writer notes it."""
        writer = await super().create(header, seed)
        write = writer.write

        async def noting(events: Sequence[Event]) -> None:
            await write(events)
            if any(map(_is_dispatch, events)):
                self.dispatches += 1
                self.last_ms = time.time_ns() / 1e6

        writer.write = noting
        return writer


def _is_dispatch(event: Event) -> bool:
    return event.type == "schedule/change" and event.data["operation"] == "dispatch"
