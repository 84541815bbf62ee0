"""`make bench`: measure everything several times, and print the figures and which targets they meet.

Each case runs in a process of its own, on the disk that holds the checkout, and leaves nothing there. Its
floor or peer is measured in the same run, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import msgspec

from benchmarks import agents, idle, latency, replay, resume
from benchmarks.report import Figure, Target, compare, print_lines, print_table, print_targets, summarize

RUNS = 3

BUSY = 0.5
"""Load of a machine on which others work, so that targets may seem met or missed."""


def _measure_peer(work: Path, kind: str) -> AsyncIterator[Figure]:
    # Only now: where a peer is not installed, all else can be measured.
    return importlib.import_module("benchmarks.peers").measure(work, kind)


CASES: dict[str, Callable[[Path], AsyncIterator[Figure]]] = {
    **{f"latency-{name}": partial(latency.measure, events=size) for size, name in latency.NAMES.items()},
    **{
        f"resume-{name}-{compression}": partial(resume.measure, events=size, compression=compression)
        for size, name in latency.NAMES.items()
        if size
        for compression in ("zstd", "none")
    },
    "replay-10": partial(replay.measure, share="10 %"),
    "replay-100": partial(replay.measure, share="100 %"),
    "agents-1": partial(agents.measure, count=1),
    "agents-1000": partial(agents.measure, count=1_000),
    "agents-10000": partial(agents.measure, count=10_000),
    "idle": idle.measure,
    "peers-sqlite": partial(_measure_peer, kind="SQLite"),
    "peers-memory": partial(_measure_peer, kind="memory"),
}

ONCE = frozenset({"agents-10000"})
"""Cases too long to be run more than once."""

PEERS = {
    **{f"list, p50, {name}": "list, p50, 100k" for name in ("10k", "1M")},
    "1,000 agents due at once, all durable": "APScheduler, SQLite: 1,000 due at once, all run",
    "10,000 agents due at once, all durable": "1,000 agents due at once, all durable",
    "10,000 agents due at once, peak memory": "1,000 agents due at once, peak memory",
    "100,000 reminders armed, peak memory": "APScheduler, SQLite: restart, peak memory",
    "APScheduler, SQLite: add a date job, p50": "create, p50, fresh",
}
"""Which figures stand beside one of another case; a list writes nothing, so that it has no floor."""

TARGETS = (
    Target("create, p50, fresh", 2.5, "ratio"),
    Target("create, p50, 1M", 1.2, "create, p50, fresh"),
    Target("list, p50, 1M", 1.2, "list, p50, 100k"),
    Target("delete, p50, 1M", 1.2, "delete, p50, fresh"),
    Target("resume until armed, 1M, zstd", 2.5, "ratio"),
    Target("resume, peak memory, 1M, zstd", 2.0, "ratio"),
    Target("resume until armed, 100k, zstd", 0.1, "resume until armed, 1M, zstd"),
    Target("resume, longest pause of others, 1M, zstd", 20),
    Target("changes decoded and folded, 100 % Schedule", 0.6, at_least=True),
    Target("events replayed, checked too, 100 % Schedule", 0.6, at_least=True),
    Target("events replayed, checked too, 10 % Schedule", 2.0, at_least=True),
    Target("one agent, lateness of admission, p50", 3),
    Target("1,000 agents due at once, all durable", 1.5),
    Target("1,000 agents due at once, peak memory", 150),
    Target("10,000 agents due at once, all durable", 10, "1,000 agents due at once, all durable"),
    Target("10,000 agents due at once, peak memory", 10, "1,000 agents due at once, peak memory"),
    Target("100,000 reminders armed, timers of the loop", 1),
    Target("100,000 reminders armed, share of a core", 1),
)


def main() -> None:
    """Measure what the command line names, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("cases", nargs="*", help=f"which to run: {', '.join(CASES)}")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        asyncio.run(_measure(arguments.one, arguments.work))
        return
    for case in arguments.cases:
        if not any(_names(case, name) for name in CASES):
            parser.error(f"there is no case {case!r}")
    if arguments.runs < 1:
        parser.error("at least one run is needed")
    chosen = [
        name for name in CASES if not arguments.cases or any(_names(case, name) for case in arguments.cases)
    ]
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"the load is {load:.1f}: figures that wait for a processor say little now", file=sys.stderr)
    runs, status = _run(chosen, arguments.runs)
    summaries = summarize(runs)
    compare(summaries, PEERS)
    print_table(summaries)
    print_lines(summaries)
    print_targets(TARGETS, summaries)
    sys.exit(status)


def _names(case: str, name: str) -> bool:
    """Whether the command line means a case of that name."""
    return name == case or name.startswith(f"{case}-")


def _run(chosen: list[str], count: int) -> tuple[list[list[Figure]], int]:
    """Run cases so often; returns their figures, and the status to end with."""
    runs: list[list[Figure]] = []
    status = 0
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as home:
        try:
            for run in range(count):
                for name in chosen:
                    if not run or name not in ONCE:
                        print(f"run {run + 1} of {count}: {name}", file=sys.stderr)
                        figures, failed = _start(name, Path(home, f"{run}-{name}"))
                        runs.append(figures)
                        status = status or failed
        except KeyboardInterrupt:
            status = 130  # what was measured is shown
    return runs, status


def _start(name: str, work: Path) -> tuple[list[Figure], int]:
    """Run one case in a process of its own; returns its figures, and 1 if it failed."""
    work.mkdir()
    command = [sys.executable, "-m", "benchmarks", "--one", name, "--work", str(work)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - this very program
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt:
            process.kill()
            process.wait()  # so that it makes no more files
            raise
    shutil.rmtree(work)
    if process.returncode:
        print(f"{name} failed, with status {process.returncode}; its figures do not count", file=sys.stderr)
        return [], 1
    return [msgspec.json.decode(line, type=Figure) for line in output.splitlines()], 0


async def _measure(name: str, work: Path) -> None:
    async for figure in CASES[name](work):
        print(msgspec.json.encode(figure).decode(), flush=True)


if __name__ == "__main__":
    main()
