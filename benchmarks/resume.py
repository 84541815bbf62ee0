"""How long it takes to open a stored session until its next reminder is armed, and how much memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import zstandard

from benchmarks.latency import NAMES
from benchmarks.logs import turns, write_log
from benchmarks.process import host, peak_mb
from benchmarks.report import Figure
from watchbell.clock import SystemClock, Timer
from watchbell.storage.jsonl.layout import Compression

BLOCK_BYTES = 128 * 1024


async def measure(work: Path, events: int, compression: Compression) -> AsyncIterator[Figure]:
    """Resume, next to decompressing the same file, the quickest way there is, and splitting its lines."""
    path = write_log(work, "s", turns(events), compression)
    name = f"{NAMES[events]}, {compression}"
    floors, cpu_floors = list[float](), list[float]()
    size = 0
    for _ in range(3):
        started, cpu = time.perf_counter(), time.process_time()
        size = _split(path, compression)
        floors.append(time.perf_counter() - started)
        cpu_floors.append(time.process_time() - cpu)
    floor, cpu_floor = sorted(floors)[1], sorted(cpu_floors)[1]
    yield Figure(f"decompress and split, {name}", floor, "s")
    clock = _NotingClock()
    async with host(work, clock=clock) as running:
        gaps = _Gaps()
        watching = asyncio.create_task(gaps.watch())
        await asyncio.sleep(0.05)
        started, cpu = time.perf_counter(), time.process_time()
        agent = await running.agents.resume("s")
        await clock.armed.wait()
        taken, spent = clock.armed_at - started, time.process_time() - cpu
        watching.cancel()
        assert len(agent.session.events) >= events
    yield Figure(f"resume until armed, {name}", taken, "s", "decompress and split", floor)
    yield Figure(f"resume until armed, CPU time, {name}", spent, "s", "CPU time of that", cpu_floor)
    yield Figure(f"resume, peak memory, {name}", peak_mb(), "MB", "text", size / 1e6)
    yield Figure(f"resume, longest pause of others, {name}", gaps.longest * 1e3, "ms")


class _NotingClock(SystemClock):
    """Notes when it was armed first."""

    armed_at = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.armed = asyncio.Event()

    def call_at(self, target_ms: int, callback: Callable[[], None]) -> Timer:
        self.armed_at = self.armed_at or time.perf_counter()
        self.armed.set()
        return super().call_at(target_ms, callback)


class _Gaps:
    """Another agent of the same loop: how long it has to wait at most."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last - 0.001), now


def _split(path: Path, compression: Compression) -> int:
    size = 0
    with path.open("rb") as file:
        source = file
        if compression == "zstd":
            source = zstandard.ZstdDecompressor().stream_reader(
                file, read_size=BLOCK_BYTES, read_across_frames=True
            )
        while text := source.read(BLOCK_BYTES):
            size += len(text)
            text.split(b"\n")
    return size
