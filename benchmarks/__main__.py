"""What durability costs: one write and fsync of the bare file, and the same batch through each kind of log.

`make bench` runs it on the disk that holds the checkout. The floor is what the disk takes; the rest is ours.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from watchbell.log.events import Event
from watchbell.log.session import SessionHeader
from watchbell.storage.jsonl import Compression, JsonlStorage

COMPRESSIONS: tuple[Compression, ...] = ("none", "zstd")
BATCHES = 1_000
READ_EVENTS = 200_000
BATCH_EVENTS = 20
STARTED_AT_MS = 1_767_225_600_000


def events(first: int, count: int) -> list[Event]:
    """Events of the size of a model's text chunk."""
    return [
        Event(
            type="assistant/chunk",
            seq=seq,
            time=STARTED_AT_MS + seq,
            raw=msgspec.Raw(
                b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"word %d "}}' % seq
            ),
        )
        for seq in range(first, first + count)
    ]


def rows(batch: Sequence[Event]) -> bytes:
    """The plain lines of a batch."""
    return b"".join(msgspec.json.encode(event) + b"\n" for event in batch)


async def measured(write: Callable[[int], Awaitable[None]]) -> list[float]:
    """Seconds of each of the writes."""
    taken: list[float] = []
    for number in range(BATCHES):
        started = time.perf_counter()
        await write(number)
        taken.append(time.perf_counter() - started)
    return taken


async def floor(folder: Path) -> list[float]:
    """Write and fsync one plain row, with nothing around it."""
    batches = [rows(events(number, 1)) for number in range(BATCHES)]
    with (folder / "floor").open("ab", buffering=0) as file:

        async def write(number: int) -> None:
            file.write(batches[number])
            os.fsync(file.fileno())

        return await measured(write)


async def through_storage(folder: Path, compression: Compression) -> list[float]:
    """Write the same rows, one event a batch, through a session's log writer."""
    batches = [events(number, 1) for number in range(BATCHES)]
    store = JsonlStorage(folder / f"home-{compression}", compression=compression)
    writer = await store.create(SessionHeader(id="bench", created_at=STARTED_AT_MS, delegation_depth=0))
    try:
        return await measured(lambda number: writer.write(batches[number]))
    finally:
        await writer.close()
        await store.aclose()


async def reading(folder: Path, compression: Compression) -> tuple[float, int]:
    """Seconds that it takes to read a long log and walk all its events, and the bytes that it has on disk."""
    home = folder / f"long-{compression}"
    store = JsonlStorage(home, compression=compression)
    writer = await store.create(SessionHeader(id="long", created_at=STARTED_AT_MS, delegation_depth=0))
    for first in range(0, READ_EVENTS, BATCH_EVENTS):
        await writer.write(events(first, BATCH_EVENTS))
    await writer.close()
    started = time.perf_counter()
    stored = await store.read("long")
    walked = sum(1 for _ in stored.events)
    taken = time.perf_counter() - started
    assert walked == READ_EVENTS
    await store.aclose()
    return taken, sum(path.stat().st_size for path in home.rglob("session.jsonl*"))


def report(name: str, taken: Sequence[float]) -> None:
    """Print the median and the 99th percentile, in milliseconds."""
    p99 = statistics.quantiles(taken, n=100)[98]
    print(f"{name:<34} {statistics.median(taken) * 1e3:8.3f} {p99 * 1e3:8.3f}")


async def measure_all(folder: Path) -> None:
    """Measure, and print one line for each."""
    print(f"{f'one event made durable, {BATCHES:,} times':<34} median ms  p99 ms")
    report("write + fsync of the bare file", await floor(folder))
    for kind in COMPRESSIONS:
        report(f"log, compression {kind}", await through_storage(folder, kind))
    print()
    for kind in COMPRESSIONS:
        taken, size = await reading(folder, kind)
        print(f"read {READ_EVENTS:,} events, log {kind:<4} {taken:6.2f} s  {size / 1e6:6.1f} MB")


def main() -> None:
    """Measure on the disk of the current folder, and leave nothing there."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as name:
        asyncio.run(measure_all(Path(name)))


if __name__ == "__main__":
    main()
