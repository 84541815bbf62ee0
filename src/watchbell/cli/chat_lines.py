"""A chat in plain lines: for pipes, terminals that can do no more, and screen readers.

Nothing that was printed is ever drawn over, and there are no frames.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import TYPE_CHECKING

from watchbell.cli.conversation import Piece, Printer
from watchbell.cli.output import print_answer
from watchbell.cli.pending import PendingReminders
from watchbell.cli.talk import Talk

if TYPE_CHECKING:
    from watchbell.agent.agent import Agent
    from watchbell.cli.compose import Program

__all__ = ["talk_in_lines"]

_PROMPT = "> "


async def talk_in_lines(agent: Agent, program: Program, *, is_terminal: bool) -> Agent:
    """Take standard input line by line to its end; return with whom the talk ended.

    From a pipe, each line waits for the answers to all before; at a terminal the next may come any time.
    """
    screen = _Screen(prompts=is_terminal)
    talk = Talk(agent, program, screen.show)
    pending = PendingReminders(agent, agent.ctx.clock, program.zone)
    await pending.overdue_delivered()
    lines = _Lines(asyncio.get_running_loop())
    screen.ask()
    while (line := await lines.next()) is not None:
        await talk.take(line)
        if not is_terminal:
            await talk.agent.when_idle()
        elif talk.agent.phase == "idle":
            screen.ask()
    return talk.agent


class _Screen:
    """Prints pieces, and asks again after what came in between."""

    def __init__(self, *, prompts: bool) -> None:
        self._prompts = prompts
        self._asked = False
        self._printer = Printer()

    def ask(self) -> None:
        """Ask for a line."""
        if self._prompts:
            print_answer(_PROMPT)
            sys.stdout.flush()
            self._asked = True

    def show(self, piece: Piece) -> None:
        """Print a piece; a reminder in the middle of a line begins a new one."""
        if self._asked and piece.kind == "reminder":
            print_answer("\n")
        self._asked = False
        self._printer.show(piece)
        sys.stdout.flush()
        if piece.kind == "turn-end":
            self.ask()


class _Lines:
    """The lines of standard input, read by a thread that the end of the process does not wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="watchbell stdin", daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line without its end, None after the last one."""
        return await self._lines.get()

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
