"""`watchbell chat`: a conversation in the terminal or, where there is none, over standard input."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchbell.cli.compose import Program
from watchbell.cli.conversation import Conversation, Printer, history, print_piece
from watchbell.cli.guard import guarded
from watchbell.cli.options import DEFAULT_HOME, HomeOption, ModelOption, TimeZoneOption
from watchbell.cli.output import print_line
from watchbell.cli.pending import PendingReminders
from watchbell.cli.signals import run_stoppable

if TYPE_CHECKING:
    from watchbell.agent.agent import Agent

__all__ = ["chat", "show_beginning"]


@guarded
def chat(
    session: Annotated[str, typer.Argument(help="Id of the session; a new one is begun.")] = "main",
    shown: Annotated[
        int, typer.Option("--history", metavar="N", min=0, help="How many of the last messages to show.")
    ] = 20,
    model: ModelOption = "offline",
    time_zone: TimeZoneOption = None,
    home: HomeOption = DEFAULT_HOME,
) -> int:
    """Talk in the terminal; reminders come while you type.

    Ctrl-C cancels the running answer, or clears the line; Ctrl-D leaves.

    When standard input is not a terminal, each of its lines is one turn.
    """
    program = Program.choose(home, model, time_zone)
    return run_stoppable(_chat(program, session, shown))


async def _chat(program: Program, session_id: str, shown: int) -> int:
    async with program.host() as host:
        agent = await host.agents.open(session_id, cwd=str(Path.cwd()))
        pending = PendingReminders(agent, host.ctx.clock, program.zone)
        if sys.stdin.isatty() and sys.stdout.isatty():
            from watchbell.cli.chat_terminal import ChatTerminal  # heavy, and only needed here

            terminal = ChatTerminal(agent, program)
            show_beginning(agent, program, shown, pending)
            await terminal.talk()
        else:
            await _talk_in_lines(agent, program)
        print_line(pending.describe(), style="dim")
    return 0


def show_beginning(agent: Agent, program: Program, shown: int, pending: PendingReminders) -> None:
    """Show the last pieces of the history, and whom one talks to."""
    pieces, earlier = history(agent.session.events, program.zone, shown)
    if earlier and shown:
        print_line(f"({earlier} earlier; `watchbell log {agent.id}` has everything)", style="dim")
    for piece in pieces:
        print_piece(piece)
    print_line(
        f"Session {agent.id}, answered by {program.model.provider} {program.model.model}. "
        f"{pending.describe()} Ctrl-C cancels an answer, Ctrl-D leaves.",
        style="dim",
    )


async def _talk_in_lines(agent: Agent, program: Program) -> None:
    conversation, printer = Conversation(program.zone), Printer()

    agent.session.observe(lambda events: printer.show_all(conversation.read(events)))
    pending = PendingReminders(agent, agent.ctx.clock, program.zone)
    await pending.overdue_delivered()
    lines = _Lines(asyncio.get_running_loop())
    while (line := await lines.next()) is not None:
        if line.strip():
            agent.followup(line, source=program.person)
            await agent.when_idle()


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
