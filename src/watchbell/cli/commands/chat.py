"""`watchbell chat`: a conversation in the terminal or, where there is none, over standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchbell.cli.chat.conversation import history, print_piece
from watchbell.cli.chat.lines import talk_in_lines
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.completion import complete_session
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import is_dumb, print_line
from watchbell.cli.console.progress import Progress
from watchbell.cli.console.signals import run_stoppable
from watchbell.cli.options import (
    BaseUrlOption,
    ConfigOption,
    GivenHomeOption,
    ModelOption,
    TimeZoneOption,
    find_settings,
    require_session_id,
)
from watchbell.cli.program import Program

if TYPE_CHECKING:
    from watchbell.agent.agent import Agent

__all__ = ["chat", "show_beginning"]


@guarded
def chat(
    session: Annotated[
        str,
        typer.Argument(
            autocompletion=complete_session,
            callback=require_session_id,
            help="Id of the session; a new one is begun.",
        ),
    ] = "main",
    shown: Annotated[
        int, typer.Option("--history", metavar="N", min=0, help="How many of the last messages to show.")
    ] = 20,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Lines alone, without frames and redrawing, as for a screen reader."),
    ] = False,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    time_zone: TimeZoneOption = None,
    config: ConfigOption = None,
    home: GivenHomeOption = None,
) -> int:
    """Talk in the terminal; reminders come while you type. /help shows the commands.

    Ctrl-C cancels the running answer, or clears the line; Ctrl-D leaves.

    When standard input is not a terminal, each of its lines is one turn; it exits with 1 when one failed.
    """
    settings = find_settings(home, config, model=model, base_url=base_url, time_zone=time_zone).settings
    return run_stoppable(_chat(Program.compose(settings), session, shown, plain=plain or is_dumb()))


async def _chat(program: Program, session_id: str, shown: int, *, plain: bool) -> int:
    async with program.host() as host:
        with Progress(f"Opening session {session_id}"):
            agent = await host.agents.open(session_id, cwd=str(Path.cwd()))
        pending = PendingReminders(agent, host.ctx.clock, program.zone)
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        went_well = True
        if is_terminal and not plain:
            from watchbell.cli.chat.terminal import ChatTerminal  # heavy, and only needed here

            terminal = ChatTerminal(agent, program)
            show_beginning(agent, program, shown, pending)
            agent = await terminal.talk()
        else:
            if is_terminal:
                show_beginning(agent, program, shown, pending)
            agent, went_well = await talk_in_lines(agent, program, is_terminal=is_terminal)
        print_line(PendingReminders(agent, host.ctx.clock, program.zone).describe(), style="dim")
    return 0 if went_well or is_terminal else 1


def show_beginning(
    agent: Agent,
    program: Program,
    shown: int,
    pending: PendingReminders,
) -> None:
    """Show the last pieces of the history, and whom one talks to."""
    pieces, earlier = history(agent.session.events, program.zone, shown)
    if earlier and shown:
        print_line(f"({earlier} earlier; `watchbell log {agent.id}` has everything)", style="dim")
    for piece in pieces:
        print_piece(piece)
    print_line(
        f"Session {agent.id}, answered by {program.model.provider} {program.model.model}. "
        f"{pending.describe()} Ctrl-C cancels an answer, Ctrl-D leaves, /help helps.",
        style="dim",
    )
