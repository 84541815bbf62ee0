"""What 100,000 armed reminders cost while nothing happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from benchmarks.logs import write_log
from benchmarks.process import host, peak_mb
from benchmarks.report import Figure
from watchbell.clock import wall_ms
from watchbell.instants import render_instant
from watchbell.reminders.records import AtRecord, Create, encode_change

SESSIONS, REMINDERS = 100, 1_000
SECONDS = 12


async def measure(work: Path) -> AsyncIterator[Figure]:
    """Arm them, in sessions of a thousand each, and wait."""
    first_ms = wall_ms() + 3_600_000
    for number in range(SESSIONS):
        write_log(work, f"s{number}", iter([b"".join(_creates(first_ms + number))]), "zstd")
    async with host(work) as running:
        for number in range(SESSIONS):
            await running.agents.resume(f"s{number}")
        await asyncio.sleep(1)  # whose own timer has run by then
        timers = sum(not handle.cancelled() for handle in getattr(asyncio.get_running_loop(), "_scheduled"))  # noqa: B009
        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(SECONDS)
        share = (time.process_time() - cpu) / (time.perf_counter() - started)
    yield Figure("100,000 reminders armed, peak memory", peak_mb(), "MB")
    yield Figure("100,000 reminders armed, timers of the loop", timers, "timers")
    yield Figure("100,000 reminders armed, CPU in an idle minute", share * 60, "s")
    yield Figure("100,000 reminders armed, share of a core", share * 100, "%")


def _creates(first_ms: int) -> Iterator[bytes]:
    for number in range(REMINDERS):
        at = render_instant(first_ms + number * 1_000)
        change = Create(schedule=AtRecord(id=f"schedule-{number + 1}", prompt="look at it", scheduled_at=at))
        head = b'{"type":"schedule/change","seq":%d,"time":%d,"data":' % (number, first_ms - 3_600_000)
        yield head + encode_change(change) + b"}\n"
