"""How long a call of each tool takes on logs of different lengths."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.logs import turns, write_log
from benchmarks.process import Floor, call, find_log, host, p10, p50, p99
from benchmarks.report import Figure

CALLS, TOGETHER = 400, 20
NAMES = {0: "fresh", 10_000: "10k", 100_000: "100k", 1_000_000: "1M"}


async def measure(work: Path, events: int) -> AsyncIterator[Figure]:
    """Create, list and delete on a log of so many events; writes and fsyncs take turns with them."""
    name = NAMES[events]
    if events:
        write_log(work, "s", turns(events), "zstd")
    async with host(work) as running:
        agent = await running.agents.open("s")
        await call(agent, "schedule_create", '{"prompt":"warm","after_seconds":99999}')
        log = find_log(work)
        before = log.stat().st_size
        await call(agent, "schedule_create", '{"prompt":"warm","after_seconds":99999}')
        floor = Floor(work / "floor", log.stat().st_size - before)
        taken: dict[str, list[float]] = {"create": [], "list": [], "delete": [], "floor": []}
        for _ in range(0, CALLS, TOGETHER):
            # Some of each in a row, so that each finds the processor's caches as its like left them.
            ids = list[str]()
            for _ in range(TOGETHER):
                taken["floor"].append(floor.measure())
            for number in range(TOGETHER):
                arguments = f'{{"prompt":"look at build {number}","after_seconds":{90_000 + number}}}'
                taken["create"].append(await call(agent, "schedule_create", arguments))
                ids.append(agent.session.events[-1].data["schedule"]["id"])
            for _ in range(TOGETHER):
                taken["list"].append(await call(agent, "schedule_list", "{}"))
            for schedule_id in ids:
                taken["delete"].append(await call(agent, "schedule_delete", f'{{"id":"{schedule_id}"}}'))
        floor.close()
    base = taken.pop("floor")
    # On a busy machine the tenth of them that nobody disturbed says more than the median.
    for figure, rank in (("p10", p10), ("p50", p50), ("p99", p99)):
        yield Figure(f"write and fsync, {figure}, {name}", rank(base), "ms")
    for tool, values in taken.items():
        writes = tool != "list"
        for figure, rank in (("p10", p10), ("p50", p50), ("p99", p99)):
            baseline = rank(base) if writes else None
            ratio_to = "write and fsync" if writes else None
            yield Figure(f"{tool}, {figure}, {name}", rank(values), "ms", ratio_to, baseline)
