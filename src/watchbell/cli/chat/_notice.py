"""A due reminder as a framed notice: who it is, how late it came, and the answer to it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from watchbell.cli.chat.conversation import Due
from watchbell.cli.console.output import can_print, escape, wrap

_LONGEST = 72
_BOX = ("\u256d\u2500 ", "\u2502 ", "\u251c", "\u2570", "\u2500")
_ASCII = ("+- ", "| ", "+", "+", "-")


class Frame:
    """The lines of a notice. It is open to the right, so that a terminal of any width can show it.

    Args:
        width: The terminal's columns.
    """

    def __init__(self, width: int) -> None:
        self._width = max(12, min(width - 1, _LONGEST))
        self._head, self.bar, self._middle, self._foot, self._dash = (
            _BOX if can_print("".join(_BOX)) else _ASCII
        )

    def begin(self, dues: tuple[Due, ...]) -> Iterator[str]:
        """Return the lines above the answer."""
        for number, due in enumerate(dues):
            if number:
                yield self._rule(self._middle)
            title = f"Reminder {escape(due.schedule_id)}, {due.lateness}"
            first, *rest = wrap(title, self._width - cell_len(self._head))
            yield self._head + first if not number else self.bar + first
            yield from (self.bar + line for line in rest)
            yield from self.inside(f"due {due.moment}")
            yield from self.inside(escape(due.prompt, multiline=True))
        yield self._rule(self._middle)

    def inside(self, text: str) -> Iterator[str]:
        """Return lines of text, made safe, behind the bar."""
        for line in text.split("\n"):
            yield from (
                self.bar + part for part in wrap(line.expandtabs(4), self._width - cell_len(self.bar))
            )

    def end(self) -> str:
        """Return the last line."""
        return self._rule(self._foot)

    def _rule(self, corner: str) -> str:
        return corner + self._dash * (self._width - 1)
