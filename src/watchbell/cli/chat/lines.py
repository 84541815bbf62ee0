"""A chat in plain lines: for pipes, terminals that can do no more, and screen readers.

Nothing that was printed is ever drawn over, and there are no frames.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import nullcontext

from watchbell.agent.agent import Agent
from watchbell.cli.chat.conversation import ENDS, Outlet, Piece, Printer
from watchbell.cli.chat.talk import Talk
from watchbell.cli.console.output import print_answer
from watchbell.cli.console.signals import on_interrupt
from watchbell.cli.program import Program

_PROMPT = "> "
LEAVING = Piece("note", "(Ctrl-D leaves)")


async def talk_in_lines(agent: Agent, program: Program, *, is_terminal: bool) -> tuple[Talk, bool]:
    """Take standard input line by line to its end; return how the talk stands then, and whether all is well.

    From a pipe, each line waits for the answers to all before; at a terminal the next may come any time, and
    Ctrl-C cancels the answer or clears the line, which the terminal itself does.

    Raises:
        OSError: Standard output failed; the turn in which it did was carried to its end.
    """
    lines = _Lines(asyncio.get_running_loop())
    screen = _Screen(prompts=is_terminal)
    outlet = Outlet(screen.show, on_failure=lines.end)
    talk = Talk(agent, program, outlet.show)

    def interrupt() -> None:
        if talk.agent.phase == "turn":
            talk.agent.cancel()
        else:
            outlet.show(LEAVING)
            screen.ask()

    with on_interrupt(interrupt) if is_terminal else nullcontext():
        await talk.pending.overdue_delivered()
        screen.ask()
        await _take_lines(lines, talk, screen)
    if outlet.failure is not None:
        await talk.agent.when_idle()
    outlet.require()
    return talk, not screen.has_failed


async def _take_lines(lines: _Lines, talk: Talk, screen: _Screen) -> None:
    while (line := await lines.next()) is not None:
        screen.entered()
        await talk.take(line)
        if not screen.prompts:
            await talk.agent.when_idle()
        elif talk.agent.phase == "idle":
            screen.ask()


class _Screen:
    """Prints pieces, and asks again after what came in between.

    Attributes:
        prompts: Whether anybody is asked.
        has_failed: Whether a turn or a command has.
    """

    def __init__(self, *, prompts: bool) -> None:
        self.prompts = prompts
        self.has_failed = False
        self._asked = False
        self._printer = Printer()

    def ask(self) -> None:
        """Ask for a line."""
        if self.prompts:
            print_answer(_PROMPT)
            sys.stdout.flush()
            self._asked = True

    def entered(self) -> None:
        """Know that a line was entered, which ended the one with the prompt."""
        self._asked = False

    def show(self, piece: Piece) -> None:
        """Print a piece; it begins a new line where the prompt, and perhaps half a line, stands."""
        if self._asked and piece.kind not in (*ENDS, "person"):
            print_answer("\n")
            self._asked = False
        self.has_failed = self.has_failed or piece.kind == "failure"
        self._printer.show(piece)
        sys.stdout.flush()
        if piece.kind == "turn-end":
            self.ask()


class _Lines:
    """The lines of standard input, read by a thread that the end of the process does not wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._is_over = False
        threading.Thread(target=self._read, name="watchbell stdin", daemon=True).start()

    def end(self) -> None:
        """Give no more lines."""
        self._is_over = True
        self._lines.put_nowait(None)

    async def next(self) -> str | None:
        """Return the next line without its end, None after the last one."""
        line = await self._lines.get()
        return None if self._is_over else line

    def _read(self) -> None:
        # Not through `sys.stdin`: a thread that waits in its buffer makes the interpreter's shutdown fail.
        rest = b""
        try:
            while data := os.read(0, 65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._put(line.removesuffix(b"\r").decode("utf-8", "replace"))
        except OSError:
            pass
        if rest:
            self._put(rest.decode("utf-8", "replace"))
        self._put(None)

    def _put(self, line: str | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
