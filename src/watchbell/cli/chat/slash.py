"""The commands of a chat: lines that begin with a slash."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from watchbell.cli.chat.conversation import Piece
from watchbell.cli.console.times import render_moment, render_span
from watchbell.cli.stored import find_free_id
from watchbell.errors import ScheduleLogError
from watchbell.log.messages import ToolResultBlock
from watchbell.log.payloads import ToolCallEvent, surface_message
from watchbell.log.turns import last_turn
from watchbell.log.values import encode_json
from watchbell.reminders.records import EveryRecord
from watchbell.tools.definition import AbortSignal, ToolExecution

if TYPE_CHECKING:
    from watchbell.cli.chat.talk import Talk

__all__ = ["COMMANDS", "SLASH", "run_command"]

SLASH = "/"
_CALLS = frozenset({"tool/call", "tool/result"})


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
    try:
        records = talk.pending.records()
    except ScheduleLogError as error:
        talk.show(Piece("failure", str(error)))
        return
    if not records:
        note(talk, "No reminders pending.")
    for record in records:
        left = (record.target_ms - talk.agent.ctx.clock.now_ms()) // 1000
        when = f"in {render_span(left)}" if left >= 0 else f"{render_span(-left)} overdue"
        if isinstance(record, EveryRecord):
            when += f", then every {render_span(record.every_seconds)}"
        note(talk, f"{record.id}, {when}: {record.prompt}")
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
    stored = await _list(talk)
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
    name = rest or find_free_id(f"{agent.id}-fork", await _list(talk))
    pending = talk.pending.describe()
    await talk.move(await agent.ctx.agents.fork(agent, name))
    note(talk, f"Now in session {name}, with the conversation so far and no reminders.")
    note(talk, f"Session {agent.id} is closed. {pending}")


async def _list(talk: Talk) -> list[str]:
    return [ref.session_id for ref in await talk.agent.sessions.list()]


async def _stop(talk: Talk, rest: str) -> None:
    if talk.agent.phase == "turn":
        talk.agent.cancel()
    else:
        note(talk, "No answer is coming.")


async def _calls(talk: Talk, rest: str) -> None:
    events = talk.agent.session.events
    turn = last_turn(events)
    found = list(events.select(_CALLS, 0 if turn is None else turn[0]))
    for event in found:
        if event.type == "tool/call":
            call = event.decode(ToolCallEvent)
            note(talk, f"{call.name} {call.arguments}")
        else:
            for block in surface_message(event).content:
                if isinstance(block, ToolResultBlock):
                    note(talk, "  -> " + "".join(part.text for part in block.content))
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
