"""How long a call of each tool takes on logs of different lengths."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

from benchmarks.logs import turns, write_log
from benchmarks.process import Floor, call, find_log, host, p10, p50, p99
from benchmarks.report import Figure
from watchbell.agent.agent import Agent

CALLS, TOGETHER = 400, 20
WARM = '{"prompt":"warm","after_seconds":99999}'
NAMES = {0: "fresh", 10_000: "10k", 100_000: "100k", 1_000_000: "1M"}
_Times: TypeAlias = dict[str, list[float]]


async def measure(work: Path, events: int) -> AsyncIterator[Figure]:
    """Create, list and delete on a log of so many events; writes and fsyncs take turns with them."""
    name = NAMES[events]
    if events:
        write_log(work, "s", turns(events), "zstd")
    async with host(work) as running:
        agent = await running.agents.open("s")
        await call(agent, "schedule_create", WARM)
        taken, floors = await _sample(agent, find_log(work), Floor(work / "floor"))
    # On a busy machine the tenth of them that nobody disturbed says more than the median.
    ranks = (("p10", p10), ("p50", p50), ("p99", p99))
    for tool, values in floors.items():
        for figure, rank in ranks:
            yield Figure(f"write and fsync of a {tool}, {figure}, {name}", rank(values), "ms")
    for tool, values in taken.items():
        base = floors.get(tool)  # a list writes nothing
        for figure, rank in ranks:
            baseline = None if base is None else rank(base)
            ratio_to = None if base is None else "write and fsync"
            yield Figure(f"{tool}, {figure}, {name}", rank(values), "ms", ratio_to, baseline)


async def _sample(agent: Agent, log: Path, floor: Floor) -> tuple[_Times, _Times]:
    """Return how long calls of each tool took, and writes of what each adds to the log; milliseconds."""
    sizes: dict[str, int] = {}
    for tool, arguments in (("create", WARM), ("delete", _delete(_last_id(agent)))):
        before = log.stat().st_size  # noqa: ASYNC240 - nobody else is there to wait
        await call(agent, f"schedule_{tool}", arguments)
        sizes[tool] = log.stat().st_size - before  # noqa: ASYNC240
    taken: _Times = {"create": [], "list": [], "delete": []}
    floors: _Times = {tool: [] for tool in sizes}
    for _ in range(0, CALLS, TOGETHER):
        # Some of each in a row, so that each finds the processor's caches as its like left them.
        ids = list[str]()
        for tool, size in sizes.items():
            floors[tool] += [floor.measure(size) for _ in range(TOGETHER)]
        for number in range(TOGETHER):
            arguments = f'{{"prompt":"look at build {number}","after_seconds":{90_000 + number}}}'
            taken["create"].append(await call(agent, "schedule_create", arguments))
            ids.append(_last_id(agent))
        for _ in range(TOGETHER):
            taken["list"].append(await call(agent, "schedule_list", "{}"))
        for schedule_id in ids:
            taken["delete"].append(await call(agent, "schedule_delete", _delete(schedule_id)))
    floor.close()
    return taken, floors


def _last_id(agent: Agent) -> str:
    return agent.session.events[-1].data["schedule"]["id"]


def _delete(schedule_id: str) -> str:
    return f'{{"id":"{schedule_id}"}}'
