"""One person's talk with one agent at a time: what was typed is said, or is one of the commands of a chat."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from typing import ClassVar

from watchbell.agent.agent import Agent
from watchbell.cli.chat.conversation import Conversation, Piece
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.console.times import render_moment, render_span
from watchbell.cli.program import Program
from watchbell.cli.stored import find_free_id
from watchbell.errors import WatchbellError
from watchbell.log.messages import ToolResultBlock
from watchbell.log.payloads import ToolCallEvent, surface_message
from watchbell.log.turns import last_turn
from watchbell.log.values import encode_json
from watchbell.reminders.records import EveryRecord
from watchbell.tools.definition import AbortSignal, ToolExecution

_SLASH = "/"
_CALLS = frozenset({"tool/call", "tool/result"})


class Talk:
    """Shows what a live session's events say, from its construction on, and takes what is typed.

    Attributes:
        agent: With whom it goes on.
        pending: That agent's reminders.
        commands: By name, with its slash: the argument, what the command does, and how.

    Args:
        agent: With whom it begins.
        program: Who types, and in which zone times are told.
        show: Shows a piece.
    """

    def __init__(self, agent: Agent, program: Program, show: Callable[[Piece], None]) -> None:
        self._program = program
        self._show = show
        self._follow(agent)

    async def take(self, text: str) -> None:
        """Say a text, or run the command that it is; blank text does nothing.

        Text that begins with a slash is said when a space or a second slash stands before it.
        """
        if not text.strip():
            return
        if text.startswith(_SLASH) and not text.startswith(_SLASH * 2):
            try:
                await self._run(text)
            except (WatchbellError, OSError) as error:
                self._show(Piece("failure", str(error)))
            return
        said = text[1:] if text.startswith((_SLASH * 2, f" {_SLASH}")) else text
        self.agent.followup(said, source=self._program.person)

    def _follow(self, agent: Agent) -> None:
        zone, session = self._program.zone, agent.session
        self.agent = agent
        self.pending = PendingReminders(agent, zone)
        self._stop_watching = Conversation(zone, session.events).watch(session, self._show)

    def _note(self, text: str) -> None:
        """Show a line that is nobody's."""
        self._show(Piece("note", text))

    async def _run(self, line: str) -> None:
        name, *rest = line.split(maxsplit=1)
        if name.lower() in self.commands:
            _, _, command = self.commands[name.lower()]
            await command(self, "".join(rest).strip())
            return
        near = difflib.get_close_matches(name.lower(), self.commands, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else "/help lists the commands."
        self._note(f"There is no command {name}; {hint} To say it, put a space or another slash before it.")

    async def _help(self, rest: str) -> None:
        for name, (argument, text, _) in self.commands.items():
            self._note(f"{f'{name} {argument}'.rstrip()}: {text}")
        self._note("Text that begins with a slash: put a space or another slash before it.")

    async def _reminders(self, rest: str) -> None:
        records = self.pending.records()
        if not records:
            self._note("No reminders pending.")
        for record in records:
            left = (record.target_ms - self.agent.ctx.clock.now_ms()) // 1000
            when = f"in {render_span(left)}" if left >= 0 else f"{render_span(-left)} overdue"
            if isinstance(record, EveryRecord):
                when += f", then every {render_span(record.every_seconds)}"
            self._note(f"{record.id}, {when}: {record.prompt}")
            self._note(f"  {render_moment(record.target_ms, self._program.zone)}")

    async def _cancel(self, schedule_id: str) -> None:
        if not schedule_id:
            self._note("Which one? /reminders shows their ids.")
            return
        execution = ToolExecution(self.agent, "slash-cancel", AbortSignal())
        arguments = encode_json({"id": schedule_id}).decode()
        outcome = await self.agent.tools.execute("schedule_delete", arguments, execution)
        match outcome.value:
            case {"deleted": True}:
                self._note(f"{schedule_id} is cancelled.")
            case {"deleted": False}:
                self._note(
                    f"There is no active reminder {schedule_id}; /reminders shows those that there are."
                )
            case {"message": str(message)}:
                self._show(Piece("failure", message))
            case _:
                self._show(Piece("failure", outcome.text))

    async def _calls(self, rest: str) -> None:
        events = self.agent.session.events
        turn = last_turn(events)
        found = list(events.select(_CALLS, 0 if turn is None else turn[0]))
        for event in found:
            if event.type == "tool/call":
                call = event.decode(ToolCallEvent)
                self._note(f"{call.name} {call.arguments}")
            else:
                for block in surface_message(event).content:
                    if isinstance(block, ToolResultBlock):
                        self._note("  -> " + "".join(part.text for part in block.content))
        if not found:
            self._note("The last turn called no tool.")

    async def _stop(self, rest: str) -> None:
        if self.agent.phase == "turn":
            self.agent.cancel()
        else:
            self._note("No answer is coming.")

    async def _list_ids(self) -> list[str]:
        return [ref.session_id for ref in await self.agent.ctx.sessions.list()]

    async def _sessions(self, rest: str) -> None:
        stored, own = await self._list_ids(), self.agent.id
        for name in stored if own in stored else [own, *stored]:
            self._note(f"{name} (this one)" if name == own else name)
        self._note("`watchbell chat ID` opens one.")

    async def _fork(self, name: str) -> None:
        parent = self.agent
        if parent.phase != "idle":
            self._note("An answer is still coming; wait for it, or /stop it, then fork.")
            return
        if not len(parent.session.events):
            self._note("There is nothing to fork yet.")
            return
        name = name or find_free_id(f"{parent.id}-fork", await self._list_ids())
        stays = self.pending.describe()
        child = await parent.ctx.agents.fork(parent, name)
        self._stop_watching()
        self._follow(child)
        await parent.aclose()
        self._note(f"Now in session {name}, with the conversation so far and no reminders.")
        self._note(f"Session {parent.id} is closed. {stays}")

    commands: ClassVar[dict[str, tuple[str, str, Callable[[Talk, str], Awaitable[None]]]]] = {
        "/help": ("", "show this", _help),
        "/reminders": ("", "what is to come in this session", _reminders),
        "/cancel": ("ID", "cancel a reminder", _cancel),
        "/calls": ("", "the last turn's tool calls and results in full", _calls),
        "/stop": ("", "stop the answer that is coming", _stop),
        "/sessions": ("", "the stored sessions", _sessions),
        "/fork": ("[NAME]", "go on in a copy of this conversation", _fork),
    }
