"""`watchbell run`: one turn without a conversation around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import typer

from watchbell.cli import options
from watchbell.cli.chat.conversation import Conversation, Outlet, Printer, find_dues
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line
from watchbell.cli.console.progress import progress
from watchbell.cli.console.signals import run_stoppable
from watchbell.cli.program import Program
from watchbell.log.eventlog import EventLog
from watchbell.log.payloads import Completed, MaxTokens, Reason
from watchbell.log.projection import AnswerRow, EnteredMessageRow, Projection, Reader, TurnEndRow

_Row: TypeAlias = EnteredMessageRow | AnswerRow | TurnEndRow


@guarded
def run(
    session: options.Session,
    text: Annotated[str, typer.Argument(help="What to say.")],
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Stay until no one-shot reminder is active. Repeating ones never end."),
    ] = False,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    time_zone: options.TimeZone = None,
    config: options.Config = None,
    as_json: options.Json = False,
    home: options.GivenHome = None,
) -> int:
    """Say one thing, print the answer, and tell what stays pending. A session that is not there is begun.

    Reminders of the session that are overdue come first. Exits with 1 when the turn failed.
    """
    if not text.strip():
        raise typer.BadParameter("there is nothing to say", param_hint="TEXT")
    effective = options.find_settings(home, config, model=model, base_url=base_url, time_zone=time_zone)
    program = Program.compose(effective.settings)
    return run_stoppable(_run(program, session, text, wait=wait, as_json=as_json))


async def _run(program: Program, session_id: str, text: str, *, wait: bool, as_json: bool) -> int:
    async with program.host() as host:
        with progress(f"Opening session {session_id}"):
            agent = await host.agents.open(session_id, cwd=str(Path.cwd()))
        opened_at = len(agent.session.events)
        outlet = Outlet(Printer().show)
        if not as_json:
            Conversation(program.zone, agent.session.events).watch(agent.session, outlet.show)
        pending = PendingReminders(agent, program.zone)
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
        came = _Came(message.id, opened_at).advance(agent.session.events)
        if as_json:
            print_json({"session": agent.id, **came.describe(), "pending": pending.views()})
        else:
            print_line(pending.describe(), style="dim")
        return 0 if isinstance(came.ended, Completed | MaxTokens) else 1


class _Came(Projection[_Row]):
    """What has come since a session was opened: the answer to one message, and reminders.

    Attributes:
        ended: How the turn about the message ended.

    Args:
        message_id: The message.
        opened_at: Events before this seq were there already.
    """

    reader = Reader(
        frozenset({"user/message", "assistant/message", "turn/end"}), msgspec.json.Decoder[_Row](_Row)
    )

    def __init__(self, message_id: str, opened_at: int) -> None:
        super().__init__(opened_at)
        self.ended: Reason | None = None
        self._message_id = message_id
        self._is_asked = False
        self._texts: list[str] = []
        self._delivered: list[dict[str, str]] = []

    def fold(self, rows: Sequence[_Row], log: EventLog) -> None:
        """Note answers and reminders."""
        for row in rows:
            match row:
                case EnteredMessageRow():
                    self._is_asked = self._is_asked or row.message.id == self._message_id
                    for due in find_dues(row.message.complete()) or ():
                        self._delivered.append({"id": due.schedule_id, "occurrenceAt": due.occurrence_at})
                case AnswerRow() if self._is_asked and self.ended is None:
                    self._texts.append(row.message.complete().text)
                case TurnEndRow() if self._is_asked and self.ended is None:
                    self.ended = row.data.reason
                case _:
                    pass

    def describe(self) -> dict[str, object]:
        """Return it as JSON data."""
        if self.ended is None:
            return {"answer": "", "ended": {"kind": "aborted"}, "delivered": self._delivered}
        answer = "\n".join(filter(None, self._texts))
        return {"answer": answer, "ended": self.ended, "delivered": self._delivered}
