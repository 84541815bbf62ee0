"""Many seeds, on all cores."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import NoReturn

from tests.judge.evidence import Violation
from tests.simulation.runs import Result, run_seed
from watchbell.clock import wall_ms

__all__ = ["attempt", "run_seeds"]

PATIENCE_SECONDS = 60.0
"""CPU time after which a seed, which takes a fraction of a second, counts as one that never ends."""

_CHUNK = 20


class _Stuck(KeyboardInterrupt):
    """The patience with a seed is over; only this kind of exception leaves an event loop at once."""


def run_seeds(first: int, *, runs: int | None = None, seconds: float | None = None) -> Iterator[Result]:
    """Run seeds from `first` on, and yield what some of them came to, as it comes.

    Args:
        first: The first seed.
        runs: How many, without an end when None.
        seconds: For how long, in real time; without an end when None.
    """
    deadline_ms = None if seconds is None else wall_ms() + seconds * 1000
    chunks = _chunks(first, runs)
    cores = os.cpu_count() or 1
    # Fresh processes: what this one was used for before must not change a run.
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        running: set[Future[Result]] = set()
        while True:
            is_over = deadline_ms is not None and wall_ms() >= deadline_ms
            while not is_over and len(running) < 2 * cores and (chunk := next(chunks, None)) is not None:
                running.add(pool.submit(_run_chunk, chunk))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def attempt(seed: int) -> Result:
    """Run one seed; that the simulation itself fails, or never ends, is a finding too."""
    try:
        with _patience():
            return run_seed(seed)
    except _Stuck:
        return _failure(seed, "silent", f"no end after {PATIENCE_SECONDS:.0f} s of CPU time")
    except Exception:  # noqa: BLE001 - whatever it is, the seed is what matters
        return _failure(seed, "invalid", "the simulation failed")


def _failure(seed: int, kind: str, what: str) -> Result:
    text = f"{what}\n{traceback.format_exc(limit=-16)}"
    return Result(1, violations={seed: [Violation(kind, "?", text)]})


@contextlib.contextmanager
def _patience() -> Generator[None]:
    """Interrupt what takes too long, where the system can; soon again where Python ignored it."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    previous = signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_SECONDS, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def _interrupt(*_: object) -> NoReturn:
    raise _Stuck


def _chunks(first: int, runs: int | None) -> Iterator[range]:
    seed, stop = first, None if runs is None else first + runs
    while stop is None or seed < stop:
        end = seed + _CHUNK if stop is None else min(stop, seed + _CHUNK)
        yield range(seed, end)
        seed = end


def _run_chunk(seeds: range) -> Result:
    total = Result()
    for seed in seeds:
        total.add(attempt(seed))
    return total
