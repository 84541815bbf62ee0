"""Kills real host processes on real files at the worst moments, and counts what their logs lost or doubled.

Each home has hosts of several sessions, one after the other. Reminders fall due around the moments at which
they are killed: most kills come in the first 40 ms after a target, some in the turns that follow, some while
a host opens its sessions. Some hosts are stopped by SIGTERM, SIGINT or SIGHUP, and each home has one that is
frozen over its targets (SIGSTOP, SIGCONT). At last a host runs to rest, and the logs' raw lines are judged.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.campaign import Campaign
from tests.judge.judge import KINDS, Verdict
from watchbell.clock import wall_ms

KILLS_OF_A_HOME = 8
MOMENTS = ("due", "turn", "opening", "after a freeze")
_SHOWN = 20


@dataclass
class _Total:
    count: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)


def main() -> int:
    """Run what the arguments say; 1 when a promise was broken."""
    options = _parse()
    begun_ms = wall_ms()
    root = Path(tempfile.mkdtemp(prefix="watchbell-chaos-", dir=options.directory))
    total = asyncio.run(_run(options, root))
    _report(total, options, begun_ms)
    if total.verdict.violations:
        _say(f"the homes, each with the hosts' own log, are kept: {root}")
        _say(f"inspect one:  watchbell --home {root}/HOME log SESSION")
        _say(f"try again:    make chaos KILLS={options.kills} SEED={options.seed}")
        return 1
    shutil.rmtree(root)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=120, help="processes to kill (120)")
    parser.add_argument("--sessions", type=int, default=10, help="sessions of each (10)")
    parser.add_argument("--seed", type=int, default=0, help="decides reminders and moments (0)")
    parser.add_argument("--jobs", type=int, default=2, help="homes at a time (2)")
    parser.add_argument("--directory", type=Path, help="where the homes go (the system's temporary one)")
    return parser.parse_args()


async def _run(options: argparse.Namespace, root: Path) -> _Total:
    total = _Total()
    slots = asyncio.Semaphore(options.jobs)

    async def run_home(number: int, kills: int) -> None:
        async with slots:
            home = root / f"home-{number}"
            home.mkdir()
            campaign = Campaign(home, sessions=options.sessions, kills=kills, seed=f"{options.seed} {number}")
            await campaign.run()
        total.count += campaign.count
        total.verdict.add(campaign.verdict)
        for kind, session, text in campaign.verdict.violations[:_SHOWN]:
            _say(f"{kind}, {home.name} {session}: {text}")
        if not campaign.verdict.violations:
            shutil.rmtree(home)

    full, rest = divmod(options.kills, KILLS_OF_A_HOME)
    homes = [KILLS_OF_A_HOME] * full + [rest] * bool(rest)
    async with asyncio.TaskGroup() as group:
        for number, kills in enumerate(homes):
            group.create_task(run_home(number, kills))
    return total


def _report(total: _Total, options: argparse.Namespace, begun_ms: int) -> None:
    count, verdict = total.count, total.verdict
    moments = ", ".join(f"{count[moment]} {moment}" for moment in MOMENTS)
    _say(f"{count['kill']} kills ({moments}) of hosts with {options.sessions} sessions each:")
    _say(f"  {count['kill'] * options.sessions} kills of a session")
    _say(f"  {count['stop']} stops by a signal, {count['freeze']} freezes")
    _say(f"  {count['second opener']} second openers refused")
    counted = ", ".join(f"{kind} {verdict.count(kind)}" for kind in KINDS)
    cut = f"{verdict.interrupted} turns cut off, {verdict.take_ups} taken up"
    _say(f"  {cut}, {verdict.given_up} given up after three times")
    _say(f"{verdict.occurrences} occurrences: {counted}")
    _say(f"{(wall_ms() - begun_ms) / 1000:.0f} s, seed {options.seed}")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command line's answer


if __name__ == "__main__":
    sys.exit(main())
