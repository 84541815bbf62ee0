"""The commands of a chat: lines that begin with a slash."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from watchbell.cli.chat.conversation import Piece
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.console.times import render_moment, render_span
from watchbell.errors import ScheduleLogError
from watchbell.log.values import encode_json
from watchbell.tools.definition import AbortSignal, ToolExecution

if TYPE_CHECKING:
    from watchbell.cli.chat.talk import Talk

__all__ = ["COMMANDS", "SLASH", "run_command"]

SLASH = "/"


async def run_command(talk: Talk, line: str) -> None:
    """Run a command, and show what it has to say."""
    name, *parts = line.split(maxsplit=1)
    rest = "".join(parts)
    entry = COMMANDS.get(name.lower())
    if entry is not None:
        await entry[2](talk, rest.strip())
        return
    near = difflib.get_close_matches(name.lower(), COMMANDS, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "/help lists the commands."
    note(talk, f"There is no command {name}; {hint} To say it, put a space or another slash before it.")


def note(talk: Talk, text: str) -> None:
    """Show a line that is nobody's."""
    talk.show(Piece("note", text))


async def _help(talk: Talk, rest: str) -> None:
    for name, (argument, text, _) in COMMANDS.items():
        note(talk, f"{f'{name} {argument}'.rstrip()}: {text}")
    note(talk, "Text that begins with a slash: put a space or another slash before it.")


async def _reminders(talk: Talk, rest: str) -> None:
    clock = talk.agent.ctx.clock
    pending = PendingReminders(talk.agent, clock, talk.program.zone)
    try:
        records = pending.records()
    except ScheduleLogError as error:
        talk.show(Piece("failure", str(error)))
        return
    if not records:
        note(talk, "No reminders pending.")
    for record in records:
        left = (record.target_ms - clock.now_ms()) // 1000
        when = f"in {render_span(left)}" if left >= 0 else f"{render_span(-left)} overdue"
        seconds = getattr(record, "every_seconds", None)
        every = "" if seconds is None else f", then every {render_span(seconds)}"
        note(talk, f"{record.id}, {when}{every}: {record.prompt}")
        note(talk, f"  {render_moment(record.target_ms, talk.program.zone)}")


async def _cancel(talk: Talk, rest: str) -> None:
    if not rest:
        note(talk, "Which one? /reminders shows their ids.")
        return
    execution = ToolExecution(talk.agent, "slash-cancel", AbortSignal())
    outcome = await talk.agent.tools.execute("schedule_delete", encode_json({"id": rest}).decode(), execution)
    match outcome.value:
        case {"deleted": True}:
            note(talk, f"{rest} is cancelled.")
        case {"deleted": False}:
            note(talk, f"There is no active reminder {rest}; /reminders shows those that there are.")
        case {"message": str(message)}:
            talk.show(Piece("failure", message))
        case _:
            talk.show(Piece("failure", outcome.text))


async def _sessions(talk: Talk, rest: str) -> None:
    stored = [ref.session_id for ref in await talk.agent.ctx.sessions.list()]
    for name in stored if talk.agent.id in stored else [talk.agent.id, *stored]:
        note(talk, f"{name} (this one)" if name == talk.agent.id else name)
    note(talk, "`watchbell chat ID` opens one.")


async def _fork(talk: Talk, rest: str) -> None:
    agent = talk.agent
    if agent.phase != "idle":
        note(talk, "An answer is still coming; wait for it, or /stop it, then fork.")
        return
    if not len(agent.session.events):
        note(talk, "There is nothing to fork yet.")
        return
    name = rest or await _free_name(talk, f"{agent.id}-fork")
    pending = PendingReminders(agent, agent.ctx.clock, talk.program.zone).describe()
    await talk.move(await agent.ctx.agents.fork(agent, name))
    note(talk, f"Now in session {name}, with the conversation so far and no reminders.")
    note(talk, f"Session {agent.id} is closed. {pending}")


async def _free_name(talk: Talk, base: str) -> str:
    taken = {ref.session_id for ref in await talk.agent.ctx.sessions.list()}
    names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


async def _stop(talk: Talk, rest: str) -> None:
    if talk.agent.phase == "turn":
        talk.agent.cancel()
    else:
        note(talk, "No answer is coming.")


async def _calls(talk: Talk, rest: str) -> None:
    events = talk.agent.session.events
    start = next((event.seq for event in events.select_back(frozenset({"turn/start"}))), 0)
    found = False
    for event in events.select(frozenset({"tool/call", "tool/result"}), start):
        found = True
        if event.type == "tool/call":
            note(talk, f"{event.data['name']} {event.data['arguments']}")
        else:
            for block in event.data["message"]["content"]:
                note(talk, "  -> " + "".join(part.get("text", "") for part in block["content"]))
    if not found:
        note(talk, "The last turn called no tool.")


Command = Callable[["Talk", str], Awaitable[None]]

COMMANDS: dict[str, tuple[str, str, Command]] = {
    "/help": ("", "show this", _help),
    "/reminders": ("", "what is to come in this session", _reminders),
    "/cancel": ("ID", "cancel a reminder", _cancel),
    "/calls": ("", "the last turn's tool calls and results in full", _calls),
    "/stop": ("", "stop the answer that is coming", _stop),
    "/sessions": ("", "the stored sessions", _sessions),
    "/fork": ("[NAME]", "go on in a copy of this conversation", _fork),
}
"""By name: its argument, what it does, and the function."""
