"""A sign of life on standard error while something takes longer than people like to wait in the dark."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from rich.text import Text

from watchbell.cli.console.output import escape, is_dumb, make_console

if TYPE_CHECKING:
    from rich.status import Status

PATIENCE_SECONDS = 0.5
"""How long nothing is shown."""


@contextlib.contextmanager
def progress(text: str) -> Generator[Callable[[str], None]]:
    """Show on a terminal that something goes on, from half a second after the block was entered.

    What is shown is taken away again. A thread shows it, so that it moves though the event loop is busy.
    Nothing is shown where standard error is no terminal.

    Args:
        text: What goes on.

    Yields:
        A function that says what goes on from here.
    """
    shown: Status | None = None

    def tell(now: str) -> None:
        nonlocal text
        text = now
        if shown is not None:
            shown.update(Text(escape(now)))

    def show() -> None:
        nonlocal shown
        with contextlib.suppress(OSError):  # the terminal may be gone
            shown = _begin(escape(text))

    timer = threading.Timer(PATIENCE_SECONDS, show)
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        if shown is not None:
            with contextlib.suppress(OSError):
                shown.stop()


def _begin(text: str) -> Status | None:
    if is_dumb():  # and a screen reader would read each step aloud
        sys.stderr.write(f"{text} ...\n")
        sys.stderr.flush()
        return None
    from rich.status import Status  # slow to import, and seldom needed

    status = Status(Text(text), console=make_console(stderr=True), spinner="line")
    status.start()
    return status
