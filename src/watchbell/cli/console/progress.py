"""A sign of life on standard error while something takes longer than people like to wait in the dark."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

from watchbell.cli.console.output import escape, is_dumb, print_unbroken

__all__ = ["Progress"]

PATIENCE_SECONDS = 0.5
"""How long nothing is shown."""

_PERIOD_SECONDS = 0.25
_ERASE = "\r\x1b[K"


class Progress:
    """Shows on a terminal that something goes on, from half a second after the `with` block was entered.

    It takes its own line away again. A thread shows it, so that it moves though the event loop is busy; where
    standard error is no terminal nothing is shown at all.

    Args:
        text: What goes on.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, text: str) -> None:
        """Say what goes on from here."""
        self._text = text

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, name="watchbell progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._ended.wait(PATIENCE_SECONDS):
            return
        if is_dumb():  # and a screen reader would read each step aloud
            print_unbroken(f"{escape(self._text)} ...\n")
            return
        dots = 0
        while not self._ended.is_set():
            dots = dots % 3 + 1
            print_unbroken(f"{_ERASE}{escape(self._text)} {'.' * dots}")
            self._ended.wait(_PERIOD_SECONDS)
        print_unbroken(_ERASE)
