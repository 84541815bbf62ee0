"""How long it takes to open a stored session until its next reminder is armed, and how much memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import zstandard

from benchmarks.latency import NAMES
from benchmarks.logs import turns, write_log
from benchmarks.process import host, peak_mb
from benchmarks.report import Figure
from watchbell.storage.layout import Compression

SLICE = 2048


async def measure(work: Path, events: int, compression: Compression) -> AsyncIterator[Figure]:
    """Resume, next to decompressing the same file frame by frame and splitting its lines."""
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
    async with host(work) as running:
        gaps = _Gaps()
        watching = asyncio.create_task(gaps.watch())
        await asyncio.sleep(0.05)
        started, cpu = time.perf_counter(), time.process_time()
        agent = await running.agents.resume("s")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        taken, spent = time.perf_counter() - started, time.process_time() - cpu
        watching.cancel()
        assert len(agent.session.events) >= events
    yield Figure(f"resume until armed, {name}", taken, "s", "decompress and split", floor)
    yield Figure(f"resume until armed, CPU time, {name}", spent, "s", "CPU time of that", cpu_floor)
    yield Figure(f"resume, peak memory, {name}", peak_mb(), "MB", "text", size / 1e6)
    yield Figure(f"resume, longest pause of others, {name}", gaps.longest * 1e3, "ms")


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
        if compression == "none":
            while data := file.read(128 * 1024):
                size += len(data)
                data.split(b"\n")
            return size
        decompressor, decoder = zstandard.ZstdDecompressor(), None
        while data := file.read(SLICE):
            while data:
                decoder = decoder or decompressor.decompressobj()
                text = decoder.decompress(data)
                size += len(text)
                text.split(b"\n")
                data, decoder = (decoder.unused_data, None) if decoder.eof else (b"", decoder)
    return size
