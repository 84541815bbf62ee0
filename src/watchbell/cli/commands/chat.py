"""`watchbell chat`: a conversation in the terminal or, where there is none, over standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from watchbell.agent.agent import Agent
from watchbell.cli import options
from watchbell.cli.chat.conversation import history, print_piece
from watchbell.cli.chat.lines import talk_in_lines
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import is_dumb, print_line
from watchbell.cli.console.progress import progress
from watchbell.cli.console.signals import run_stoppable
from watchbell.cli.program import Program


@guarded
def chat(
    session: options.NewSession = "main",
    shown: Annotated[
        int, typer.Option("--history", metavar="N", min=0, help="How many of the last messages to show.")
    ] = 20,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Lines alone, without frames and redrawing, as for a screen reader."),
    ] = False,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    time_zone: options.TimeZone = None,
    config: options.Config = None,
    home: options.GivenHome = None,
) -> int:
    """Talk in the terminal; reminders come while you type. /help shows the commands.

    Ctrl-C cancels the running answer, or clears the line; Ctrl-D leaves.

    When standard input is not a terminal, each of its lines is one turn; it exits with 1 when one failed.
    """
    effective = options.find_settings(home, config, model=model, base_url=base_url, time_zone=time_zone)
    program = Program.compose(effective.settings)
    return run_stoppable(_chat(program, session, shown, plain=plain or is_dumb()))


async def _chat(program: Program, session_id: str, shown: int, *, plain: bool) -> int:
    async with program.host() as host:
        with progress(f"Opening session {session_id}"):
            agent = await host.agents.open(session_id, cwd=str(Path.cwd()))
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        went_well = True
        if is_terminal and not plain:
            from watchbell.cli.chat.terminal import ChatTerminal  # heavy, and only needed here

            terminal = ChatTerminal(agent, program)
            show_beginning(agent, program, shown)
            await terminal.run()
            talk = terminal.talk
        else:
            if is_terminal:
                show_beginning(agent, program, shown)
            talk, went_well = await talk_in_lines(agent, program, is_terminal=is_terminal)
        print_line(talk.pending.describe(), style="dim")
    return 0 if went_well or is_terminal else 1


def show_beginning(agent: Agent, program: Program, shown: int) -> None:
    """Show the last pieces of the history, and whom one talks to."""
    pieces, earlier = history(agent.session.events, program.zone, shown)
    if earlier and shown:
        print_line(f"({earlier} earlier; `watchbell log {agent.id}` has everything)", style="dim")
    for piece in pieces:
        print_piece(piece)
    print_line(
        f"Session {agent.id}, answered by {program.model.provider} {program.model.model}. "
        f"{PendingReminders(agent, program.zone).describe()} "
        "Ctrl-C cancels an answer, Ctrl-D leaves, /help helps.",
        style="dim",
    )
