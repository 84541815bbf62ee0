"""Runs seeds on all cores and says what they came to: `python -m tests.simulation --help`."""

from __future__ import annotations

import argparse
import sys

from tests.judge.judge import KINDS
from tests.simulation.campaign import attempt, run_seeds
from tests.simulation.runs import Result
from watchbell.clock import wall_ms

_SHOWN = 10


def main() -> int:
    """Run what the arguments say; 1 when a promise was broken."""
    options = _parse()
    begun_ms = wall_ms()
    total = Result()
    results = run_seeds(options.first, runs=options.runs, seconds=options.seconds)
    if options.seed is not None:
        results = iter([attempt(options.seed)])
    for result in results:
        shown = len(total.violations)
        total.add(result)
        _show(result, _SHOWN - shown)
    if options.seed is not None:
        _say(f"seed {options.seed}: log {total.digest}")
    seconds = max(0.001, (wall_ms() - begun_ms) / 1000)
    counted = ", ".join(f"{kind} {total.count(kind)}" for kind in KINDS)
    _say(f"{total.runs} runs, {total.crashes} crashes, {total.occurrences} occurrences: {counted}")
    _say(f"{seconds:.0f} s, {total.runs / seconds:.1f} seeds per second")
    return 1 if total.violations else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--runs", type=int, help="how many seeds (1000, unless --seconds is given)")
    parser.add_argument("--seconds", type=float, help="run seeds for this long")
    options = parser.parse_args()
    if options.runs is None and options.seconds is None:
        options.runs = 1000
    return options


def _show(result: Result, room: int) -> None:
    for seed, violations in sorted(result.violations.items())[: max(0, room)]:
        _say(f"seed {seed} (again: make sim SEED={seed})")
        for violation in violations[:_SHOWN]:
            _say(f"  {violation.kind}, {violation.session}: {violation.text}")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command line's answer


if __name__ == "__main__":
    sys.exit(main())
