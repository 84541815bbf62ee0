"""What the operating system says of this process, and the host that the benchmarks measure."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from watchbell import Host, JsonlStorage, schedule
from watchbell.agent.agent import Agent
from watchbell.clock import Clock
from watchbell.reminders.arguments import Limits
from watchbell.testing import ScriptedModel
from watchbell.tools.definition import AbortSignal, ToolExecution

__all__ = ["Floor", "call", "find_log", "host", "p10", "p50", "p99", "peak_mb"]


def peak_mb() -> float:
    """The most memory that the process ever had resident, MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def p10(values: Sequence[float]) -> float:
    """The 10th percentile."""
    return statistics.quantiles(values, n=10)[0]


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(values, n=100)[98]


def host(home: Path, storage: JsonlStorage | None = None, clock: Clock | None = None) -> Host:
    """A host with Schedule, a real clock and a model that answers at once."""
    limits = Limits(max_active=1_000_000)
    model = ScriptedModel(lambda _: "It is time.")
    return Host(
        storage=storage or JsonlStorage(home),
        model=model,
        plugins=[schedule.plugin(limits=limits)],
        clock=clock,
    )


def find_log(home: Path) -> Path:
    """The only log of a home."""
    return next(home.glob("sessions/*/*/session.jsonl.zstd"))


async def call(agent: Agent, tool: str, arguments: str) -> float:
    """Run one call of a tool as the driver does; returns how long it took, milliseconds."""
    started = time.perf_counter()
    outcome = await agent.tools.execute(tool, arguments, ToolExecution(agent, "call", AbortSignal()))
    taken = time.perf_counter() - started
    assert not outcome.is_error, outcome.text
    return taken * 1e3


class Floor:
    """One write and fsync of the bare file, of as many bytes as a call adds to its log."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def measure(self, size: int) -> float:
        """Write once; returns how long it took, milliseconds."""
        data = os.urandom(size)
        started = time.perf_counter()
        os.write(self._descriptor, data)
        os.fsync(self._descriptor)
        return (time.perf_counter() - started) * 1e3

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
