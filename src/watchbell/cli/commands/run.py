"""`watchbell run`: one turn without a conversation around it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchbell.cli.chat.conversation import Conversation, Outlet, Printer, is_reminder
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line
from watchbell.cli.console.progress import Progress
from watchbell.cli.console.signals import run_stoppable
from watchbell.cli.options import (
    BaseUrlOption,
    ConfigOption,
    GivenHomeOption,
    JsonOption,
    ModelOption,
    SessionArgument,
    TimeZoneOption,
    find_settings,
)
from watchbell.cli.program import Program
from watchbell.log.payloads import surface_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from watchbell.agent.agent import Agent
    from watchbell.log.event import Event

__all__ = ["run"]


@guarded
def run(
    session: SessionArgument,
    text: Annotated[str, typer.Argument(help="What to say.")],
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Stay until no one-shot reminder is active. Repeating ones never end."),
    ] = False,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    time_zone: TimeZoneOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    home: GivenHomeOption = None,
) -> int:
    """Say one thing, print the answer, and tell what stays pending. A session that is not there is begun.

    Reminders of the session that are overdue come first. Exits with 1 when the turn failed.
    """
    if not text.strip():
        raise typer.BadParameter("there is nothing to say", param_hint="TEXT")
    settings = find_settings(home, config, model=model, base_url=base_url, time_zone=time_zone).settings
    program = Program.compose(settings)
    return run_stoppable(_run(program, session, text, wait=wait, as_json=as_json))


async def _run(program: Program, session_id: str, text: str, *, wait: bool, as_json: bool) -> int:
    async with program.host() as host:
        with Progress(f"Opening session {session_id}"):
            agent = await host.agents.open(session_id, cwd=str(Path.cwd()))
        opened_at = len(agent.session.events)
        outlet = Outlet(Printer().show)
        if not as_json:
            _show_events(agent, program, outlet)
        pending = PendingReminders(agent, host.ctx.clock, program.zone)
        if not await pending.overdue_delivered():
            print_error("warning: overdue reminders could not be delivered yet; they stay pending")
        message = agent.followup(text, source=program.person)
        await agent.when_idle()
        outlet.require()
        if wait:
            if pending.records() and not as_json:
                print_line(f"Waiting. {pending.describe()}", style="dim")
            await pending.one_shots_delivered()
            outlet.require()
        answer, ended = _answer_to(agent, message.id, opened_at)
        if as_json:
            delivered = list(_delivered(agent, opened_at))
            outcome = {"session": agent.id, "answer": answer, "ended": ended}
            print_json({**outcome, "delivered": delivered, "pending": pending.views()})
        else:
            print_line(pending.describe(), style="dim")
        return 0 if ended["kind"] in ("completed", "max-tokens") else 1


def _show_events(agent: Agent, program: Program, outlet: Outlet) -> None:
    """Have all that happens in the session from now on shown."""
    conversation = Conversation(program.zone, agent.session.events)

    def on_events(events: Sequence[Event]) -> None:
        for piece in conversation.read(events):
            outlet.show(piece)

    agent.session.observe(on_events)


def _answer_to(agent: Agent, message_id: str, start: int) -> tuple[str, dict[str, Any]]:
    """Return the text that answered a message, and how the turn ended (`turn/end`'s reason)."""
    texts: list[str] = []
    is_asked = False
    for event in agent.session.events.span(start):
        if event.type == "user/message" and surface_message(event).id == message_id:
            is_asked = True
        elif is_asked and event.type == "assistant/message":
            texts.append(surface_message(event).text)
        elif is_asked and event.type == "turn/end":
            return "\n".join(filter(None, texts)), event.data["reason"]
    return "", {"kind": "aborted"}


def _delivered(agent: Agent, start: int) -> Iterator[dict[str, str]]:
    """Return id and occurrence of each reminder that has come since the session was opened."""
    for event in agent.session.events.select(frozenset({"user/message"}), start):
        message = surface_message(event)
        if is_reminder(message):
            yield from message.source.get("reminders", ())
