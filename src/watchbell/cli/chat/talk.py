"""One person's talk with one agent at a time: what was typed is said, or is a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.cli.chat.conversation import Conversation, Piece
from watchbell.cli.chat.slash import SLASH, run_command
from watchbell.errors import WatchbellError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from watchbell.agent.agent import Agent
    from watchbell.cli.program import Program
    from watchbell.log.event import Event

__all__ = ["Talk"]


class Talk:
    """Shows what a live session's events say, from its construction on, and takes what is typed.

    Args:
        agent: With whom it begins.
        program: Who types, and in which zone times are told.
        show: Shows a piece.
    """

    def __init__(self, agent: Agent, program: Program, show: Callable[[Piece], None]) -> None:
        self.program = program
        self.show = show
        self.agent = agent
        self._stop = self._listen()

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
        left, self.agent = self.agent, agent
        self._stop()
        self._stop = self._listen()
        await left.aclose()

    def _listen(self) -> Callable[[], None]:
        conversation = Conversation(self.program.zone, self.agent.session.events)

        def on_events(events: Sequence[Event]) -> None:
            for piece in conversation.read(events):
                self.show(piece)

        return self.agent.session.observe(on_events)
