from __future__ import annotations

import io
import sys
import threading

import pytest

from watchbell.cli.console import progress as module
from watchbell.cli.console.progress import progress


class Screen(io.StringIO):
    """A standard error that is a terminal, or is not; it tells when something was written."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        count = super().write(text)
        if "Reading" in text:
            self.written.set()
        return count


def show(
    monkeypatch: pytest.MonkeyPatch, *, patience: float = 0.001, term: str = "xterm", is_terminal: bool = True
) -> str:
    """Show progress until something was written, or not at all where nothing is to be; return all of it."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", patience)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", screen := Screen(is_terminal=is_terminal))
    with progress("Reading \x1b[2J"):
        assert not is_terminal or patience > 1 or screen.written.wait(20)
    return screen.getvalue()


def test_a_long_wait_shows_what_goes_on_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = show(monkeypatch)
    assert "Reading \\x1b[2J" in shown
    assert shown.rpartition("Reading")[2].endswith("\x1b[?25h\r\x1b[1A\x1b[2K")  # cursor back, line erased


def test_a_dumb_terminal_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert show(monkeypatch, term="dumb") == "Reading \\x1b[2J ...\n"


def test_nothing_is_written_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert show(monkeypatch, is_terminal=False) == ""


def test_a_short_wait_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert show(monkeypatch, patience=60) == ""
