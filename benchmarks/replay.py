"""How fast raw rows are checked, and Schedule's decoded and folded; in CPU time, as nothing waits."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.logs import changes, turns
from benchmarks.report import Figure
from watchbell.log.eventlog import EventLog
from watchbell.log.segments import decode_block
from watchbell.reminders.state import ScheduleState

BLOCK_BYTES = 128 * 1024
EVENTS = {"10 %": 1_000_000, "100 %": 300_000}


async def measure(work: Path, share: str) -> AsyncIterator[Figure]:
    """Fold a log of which `share` of the events are Schedule's."""
    events = EVENTS[share]
    blocks, block = list[bytes](), b""
    for rows in turns(events) if share == "10 %" else changes(events):
        block += rows
        if len(block) >= BLOCK_BYTES:
            blocks.append(block)
            block = b""
    blocks.append(block)
    started = time.process_time()
    for text in filter(None, blocks):
        text.split(b"\n")
    split = events / (time.process_time() - started) / 1e6
    log, state = EventLog(), ScheduleState()
    started = time.process_time()
    for text in filter(None, blocks):
        log.extend_rows(decode_block(text, len(log)))
    checked = time.process_time()
    state.advance(log)
    folded = time.process_time()
    assert len(log) == events
    assert len(state) in (99, 100)
    floor = ("split into lines", split)
    folds = events if share == "100 %" else events // 10
    yield Figure(f"rows checked, {share} Schedule", events / (checked - started) / 1e6, "M/s", *floor)
    yield Figure(f"changes decoded and folded, {share} Schedule", folds / (folded - checked) / 1e6, "M/s")
    yield Figure(
        f"events replayed, checked too, {share} Schedule", events / (folded - started) / 1e6, "M/s", *floor
    )
