"""The same things in APScheduler 3, with its SQLite store and with its memory store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import insert

from benchmarks.process import p50, p99, peak_mb
from benchmarks.report import Figure

ADDED, STORED, DUE = 300, 100_000, 1_000
_fired = threading.Semaphore(0)


def fire() -> None:
    """Note that a job ran."""
    _fired.release()


async def measure(work: Path, kind: str) -> AsyncIterator[Figure]:
    """Add date jobs, restart with many of them, and have many due at once."""
    for figure in await asyncio.to_thread(_measure, work, kind):
        yield figure


def _measure(work: Path, kind: str) -> list[Figure]:
    def store(name: str) -> Any:
        return MemoryJobStore() if kind == "memory" else SQLAlchemyJobStore(url=f"sqlite:///{work / name}.db")

    figures = [*_add(store("add"), kind), *_due(store("due"), kind)]
    return figures if kind == "memory" else [*figures, *_restart(store, kind)]


def _scheduler(store: Any) -> BackgroundScheduler:
    pool = {
        "apscheduler.executors.default": {
            "class": "apscheduler.executors.pool:ThreadPoolExecutor",
            "max_workers": 8,
        }
    }
    return BackgroundScheduler(pool, jobstores={"default": store}, timezone=UTC)


def _add(store: Any, kind: str) -> list[Figure]:
    scheduler = _scheduler(store)
    scheduler.start()
    taken: list[float] = []
    later = datetime.now(UTC) + timedelta(hours=1)
    for number in range(ADDED):
        started = time.perf_counter()
        scheduler.add_job(fire, "date", run_date=later + timedelta(seconds=number))
        taken.append((time.perf_counter() - started) * 1e3)
    scheduler.shutdown()
    return [
        Figure(f"APScheduler, {kind}: add a date job, p50", p50(taken), "ms"),
        Figure(f"APScheduler, {kind}: add a date job, p99", p99(taken), "ms"),
    ]


def _due(store: Any, kind: str) -> list[Figure]:
    scheduler = _scheduler(store)
    scheduler.start(paused=True)
    target = datetime.now(UTC) + timedelta(seconds=8 if kind == "memory" else 15)
    for _ in range(DUE):
        scheduler.add_job(fire, "date", run_date=target, misfire_grace_time=600)
    scheduler.resume()
    time.sleep(max(0.0, (target - datetime.now(UTC)).total_seconds()))
    started = time.perf_counter()
    for _ in range(DUE):
        _fired.acquire()
    taken = time.perf_counter() - started
    scheduler.shutdown()
    return [Figure(f"APScheduler, {kind}: {DUE:,} due at once, all run", taken, "s")]


def _restart(store: Callable[[str], Any], kind: str) -> list[Figure]:
    filled = store("restart")
    scheduler = _scheduler(filled)
    scheduler.start(paused=True)
    first = datetime.now(UTC) + timedelta(hours=1)
    job = scheduler.add_job(fire, "date", run_date=first, id="template")
    # Rows as its store writes them, in one transaction: one by one would take minutes.
    rows = []
    for number in range(STORED):
        copy = job.__class__.__new__(job.__class__)
        copy.__setstate__({**job.__getstate__(), "id": f"job-{number}"})
        rows.append(
            {
                "id": copy.id,
                "next_run_time": (first + timedelta(seconds=number)).timestamp(),
                "job_state": __import__("pickle").dumps(copy.__getstate__(), filled.pickle_protocol),
            }
        )
    with filled.engine.begin() as connection:
        connection.execute(insert(filled.jobs_t), rows)
    scheduler.shutdown()
    started = time.perf_counter()
    again = _scheduler(store("restart"))
    again.start()
    count = len(again.get_jobs())
    taken = time.perf_counter() - started
    again.shutdown()
    assert count == STORED + 1
    return [
        Figure(f"APScheduler, {kind}: restart with {STORED:,} jobs and list them", taken, "s"),
        Figure(f"APScheduler, {kind}: restart, peak memory", peak_mb(), "MB"),
    ]
