"""One person's talk with one agent at a time: what was typed is said, or is a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.cli.chat.conversation import Conversation, Piece
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.chat.slash import SLASH, run_command
from watchbell.errors import WatchbellError

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchbell.agent.agent import Agent
    from watchbell.cli.program import Program

__all__ = ["Talk"]


class Talk:
    """Shows what a live session's events say, from its construction on, and takes what is typed.

    Attributes:
        agent: With whom it goes on.
        pending: That agent's reminders.

    Args:
        agent: With whom it begins.
        program: Who types, and in which zone times are told.
        show: Shows a piece.
    """

    def __init__(self, agent: Agent, program: Program, show: Callable[[Piece], None]) -> None:
        self.program = program
        self.show = show
        self._follow(agent)

    async def take(self, text: str) -> None:
        """Say a text, or run the command that it is; blank text does nothing.

        Text that begins with a slash is said when a space or a second slash stands before it.
        """
        if not text.strip():
            return
        if text.startswith(SLASH) and not text.startswith(SLASH * 2):
            try:
                await run_command(self, text)
            except (WatchbellError, OSError) as error:
                self.show(Piece("failure", str(error)))
            return
        said = text[1:] if text.startswith((SLASH * 2, f" {SLASH}")) else text
        self.agent.followup(said, source=self.program.person)

    async def move(self, agent: Agent) -> None:
        """Go on with another agent; the one before is closed, with everything stored."""
        left = self.agent
        self._stop()
        self._follow(agent)
        await left.aclose()

    def _follow(self, agent: Agent) -> None:
        zone, session = self.program.zone, agent.session
        self.agent = agent
        self.pending = PendingReminders(agent, zone)
        self._stop = Conversation(zone, session.events).watch(session, self.show)
