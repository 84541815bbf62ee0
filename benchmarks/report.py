"""Figures of several runs, as a table and as JSON lines, and which targets they meet."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

__all__ = [
    "Figure",
    "Summary",
    "Target",
    "compare",
    "print_lines",
    "print_table",
    "print_targets",
    "summarize",
]


class Figure(msgspec.Struct, frozen=True):
    """One measured figure.

    Attributes:
        name: What was measured.
        value: The figure.
        unit: Its unit.
        ratio_to: The name of its floor or peer.
        baseline: What that took in the same run, in the same unit.
    """

    name: str
    value: float
    unit: str
    ratio_to: str | None = None
    baseline: float | None = None


class Summary(msgspec.Struct, frozen=True):
    """One figure over several runs.

    Attributes:
        figure: The medians.
        lowest: The lowest value.
        highest: The highest value.
        ratio: Median of each run's own ratio to its baseline.
    """

    figure: Figure
    lowest: float
    highest: float
    ratio: float | None


class Target(msgspec.Struct, frozen=True):
    """A promise: the value, the ratio to its baseline, or that to another figure, stays within a limit.

    Attributes:
        name: The figure.
        limit: The limit.
        of: `value`, `ratio`, or the name of another figure to divide by.
        at_least: Whether the limit is a lower one.
    """

    name: str
    limit: float
    of: str = "value"
    at_least: bool = False

    def reached(self, summaries: dict[str, Summary]) -> float | None:
        """Return what is to be compared with the limit; None when it was not measured."""
        summary = summaries.get(self.name)
        if summary is None:
            return None
        if self.of == "value":
            return summary.figure.value
        if self.of == "ratio":
            return summary.ratio
        other = summaries.get(self.of)
        return None if other is None else summary.figure.value / other.figure.value


def summarize(runs: Iterable[Sequence[Figure]]) -> dict[str, Summary]:
    """Bring the figures of several runs together, by name."""
    found: dict[str, list[Figure]] = {}
    for run in runs:
        for figure in run:
            found.setdefault(figure.name, []).append(figure)
    return {name: _summarize(figures) for name, figures in found.items()}


def _summarize(figures: list[Figure]) -> Summary:
    values = [figure.value for figure in figures]
    baselines = [figure.baseline for figure in figures if figure.baseline]
    ratios = [figure.value / figure.baseline for figure in figures if figure.baseline]
    middle = msgspec.structs.replace(
        figures[0],
        value=statistics.median(values),
        baseline=statistics.median(baselines) if baselines else None,
    )
    return Summary(middle, min(values), max(values), statistics.median(ratios) if ratios else None)


def compare(summaries: dict[str, Summary], peers: Mapping[str, str]) -> None:
    """Set figures beside those of other cases of the same run, where both were measured."""
    for name, peer in peers.items():
        if name in summaries and peer in summaries:
            summary, baseline = summaries[name], summaries[peer].figure.value
            figure = msgspec.structs.replace(summary.figure, ratio_to=peer, baseline=baseline)
            ratio = figure.value / baseline if baseline else None
            summaries[name] = msgspec.structs.replace(summary, figure=figure, ratio=ratio)


def print_table(summaries: dict[str, Summary]) -> None:
    """Print one line a figure: median, lowest and highest, unit, and the ratio to its floor or peer."""
    print(f"\n{'figure':<52} {'median':>11} {'lowest':>11} {'highest':>11} {'unit':<9} ratio")
    for summary in summaries.values():
        figure = summary.figure
        numbers = " ".join(f"{number:>11,.3f}" for number in (figure.value, summary.lowest, summary.highest))
        ratio = (
            ""
            if summary.ratio is None
            else f"{summary.ratio:.2f} x {figure.ratio_to} ({figure.baseline:,.3f})"
        )
        print(f"{figure.name:<52} {numbers} {figure.unit:<9} {ratio}")


def print_lines(summaries: dict[str, Summary]) -> None:
    """Print one JSON object a figure."""
    print()
    for summary in summaries.values():
        print(json.dumps(msgspec.to_builtins(summary.figure)))


def print_targets(targets: Sequence[Target], summaries: dict[str, Summary]) -> None:
    """Print of each target whether it was met, and by how much not; or that nobody measured it."""
    print("\ntargets")
    for target in targets:
        reached = target.reached(summaries)
        if reached is None:
            print(f"  not measured  {target.name}")
            continue
        met = reached >= target.limit if target.at_least else reached <= target.limit
        sign = ">=" if target.at_least else "<="
        what = {"value": "", "ratio": " to its floor"}.get(target.of, f" to {target.of}")
        verdict = "met         " if met else "not met     "
        print(f"  {verdict}  {target.name}{what}: {reached:,.3f} {sign} {target.limit:,g}")
