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
        self.written.set()
        return count


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.001)
    monkeypatch.setenv("TERM", "xterm")


def show(monkeypatch: pytest.MonkeyPatch) -> str:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("Reading \x1b[2J"):
        assert screen.written.wait(20)
    return screen.getvalue()


def test_a_long_wait_shows_what_goes_on_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = show(monkeypatch)
    assert "Reading \\x1b[2J" in shown
    after = shown.rpartition("Reading")[2]
    assert "\x1b[2K" in after  # the line is erased, and the cursor is back
    assert after.endswith(("\x1b[?25h", "\x1b[2K"))


def test_a_dumb_terminal_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert show(monkeypatch) == "Reading \\x1b[2J ...\n"


def test_nothing_is_written_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("Reading"):
        assert threading.active_count() >= 1
    assert screen.getvalue() == ""


def test_a_short_wait_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 60)
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("Reading"):
        pass
    assert screen.getvalue() == ""
