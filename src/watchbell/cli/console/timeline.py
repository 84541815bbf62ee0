"""A picture of what is coming: one bar for each reminder, on a scale that has room for minutes and years."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import tzinfo

import msgspec
from rich.cells import cell_len

from watchbell.cli.console.output import escape, shorten, wrap
from watchbell.cli.console.times import render_moment, render_span

_TICKS = (
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (6 * 3600, "6 h"),
    (86_400, "1 day"),
    (7 * 86_400, "1 week"),
    (30 * 86_400, "30 days"),
    (365 * 86_400, "1 year"),
    (3650 * 86_400, "10 years"),
    (36_500 * 86_400, "100 years"),
)
_UNIT_SECONDS = 10.0
"""Below this the scale is even, above it each step multiplies."""
_LABEL = 18
_WIDEST = 100
_EIGHTHS = "\u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588"
_LINES = ("\u2500", "\u253c", "\u251c")

BLOCKS = _EIGHTHS + "".join(_LINES)
"""What a console must be able to print for the picture to be drawn with blocks."""


class Coming(msgspec.Struct, frozen=True):
    """A reminder that is to come.

    Attributes:
        name: Session and id.
        target_ms: When it is due, epoch milliseconds.
        prompt: What it is about.
        every_seconds: How often it comes from then on, None for once.
    """

    name: str
    target_ms: int
    prompt: str
    every_seconds: int | None = None


def draw_timeline(
    coming: Sequence[Coming], now_ms: int, zone: tzinfo | None, width: int, *, blocks: bool
) -> Iterator[str]:
    """Return the lines of the picture, made safe.

    Args:
        coming: What is drawn, in this order.
        now_ms: Epoch milliseconds now.
        zone: The zone that times are told in; None for this computer's.
        width: Columns that a line may take.
        blocks: Whether the console can print block characters.
    """
    width = max(30, min(width, _WIDEST)) - 1
    longest = max([_TICKS[0][0], *((item.target_ms - now_ms) / 1000 for item in coming)])
    scale = _Scale(width - _LABEL, longest)
    yield from wrap(f"Now: {render_moment(now_ms, zone)}", width)
    yield from scale.axis(blocks=blocks)
    for item in coming:
        left = (item.target_ms - now_ms) / 1000
        bar, label = scale.bar(left, blocks=blocks), _tell(item, left)
        if not bar or cell_len(bar) + 1 + len(label) <= width:
            yield f"{bar} {label}".lstrip()
        else:
            yield bar
            yield from _indent(label, width)
        yield from _indent(f"{escape(item.name)}: {shorten(item.prompt)}", width)
        yield from _indent(render_moment(item.target_ms, zone), width)


class _Scale:
    """Where an instant stands on a line of `width` columns that ends `longest` seconds from now."""

    def __init__(self, width: int, longest: float) -> None:
        self._width = width
        self._longest = longest

    def place(self, seconds: float) -> float:
        """Return how many columns a number of seconds takes."""
        share = math.log1p(max(0.0, seconds) / _UNIT_SECONDS) / math.log1p(self._longest / _UNIT_SECONDS)
        return share * self._width

    def bar(self, seconds: float, *, blocks: bool) -> str:
        """Return the bar from now to an instant, empty for one that has passed."""
        if not blocks:
            return "#" * round(self.place(seconds))
        eighths = round(self.place(seconds) * 8)
        whole, rest = divmod(eighths, 8)
        return _EIGHTHS[-1] * whole + (_EIGHTHS[rest - 1] if rest else "")

    def axis(self, *, blocks: bool) -> Iterator[str]:
        """Return the names of the ticks, and the line that they stand on."""
        line, tick, start = _LINES if blocks else ("-", "+", "+")
        names, marks = "now", [start, *line * self._width]
        for seconds, name in _TICKS:
            at = round(self.place(seconds))
            if seconds > self._longest or at < len(names) + 2:
                continue
            names += " " * (at - len(names)) + name
            marks[at] = tick
        yield names
        yield "".join(marks)


def _tell(item: Coming, left: float) -> str:
    when = f"in {render_span(int(left))}" if left > 0 else f"{render_span(int(-left))} overdue"
    return when if item.every_seconds is None else f"{when}, every {render_span(item.every_seconds)}"


def _indent(text: str, width: int) -> Iterator[str]:
    return (f"  {line}" for line in wrap(text, width - 2) if cell_len(line))
