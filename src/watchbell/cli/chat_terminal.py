"""The terminal of a chat: one prompt that stays open while everything else appears above it.

The unfinished last line of a streaming answer is drawn as part of the prompt, over the line being typed, and
printed for good once it is whole. So neither ever damages the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.cells import chop_cells

from watchbell.cli.conversation import Conversation, Piece, print_piece
from watchbell.cli.output import escape, print_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchbell.agent.agent import Agent
    from watchbell.cli.compose import Program
    from watchbell.log.events import Event

__all__ = ["ChatTerminal"]

_PROMPT = "> "
_PREVIEW_ROWS = 6


class ChatTerminal:
    """Shows a live agent's session and sends what is typed.

    It shows what is appended from its construction on.

    Args:
        agent: The agent.
        program: Who types, and in which zone times are told.
        keys: Where keys come from; the terminal when None.
        screen: Where the prompt is drawn; the terminal when None.
    """

    def __init__(
        self, agent: Agent, program: Program, *, keys: Input | None = None, screen: Output | None = None
    ) -> None:
        self._agent = agent
        self._person = program.person
        self._conversation = Conversation(program.zone)
        self._unfinished = ""
        self._prompt: PromptSession[str] = PromptSession(
            self._message, key_bindings=_bind_keys(agent), input=keys, output=screen
        )
        agent.session.observe(self._on_events)

    async def talk(self) -> None:
        """Send each line that is entered as a message, until Ctrl-D."""
        with patch_stdout(raw=True):  # raw: our own colour passes, and stored text was made safe
            while True:
                try:
                    # Signals are the program's own business; Ctrl-C is a key here.
                    line = await self._prompt.prompt_async(handle_sigint=False, set_exception_handler=False)
                except EOFError:
                    return
                if line.strip():
                    self._agent.followup(line, source=self._person)

    def _message(self) -> StyleAndTextTuples:
        """Return what stands before the line being typed: the unfinished answer, in its rows."""
        if not self._unfinished:
            return [("bold", _PROMPT)]
        columns = self._prompt.app.output.get_size().columns
        rows = chop_cells(escape(self._unfinished).expandtabs(4), max(2, columns - 1))
        return [("", "\n".join(rows[-_PREVIEW_ROWS:]) + "\n"), ("bold", _PROMPT)]

    def _on_events(self, events: Sequence[Event]) -> None:
        for piece in self._conversation.read(events):
            self._show(piece)
        self._prompt.app.invalidate()

    def _show(self, piece: Piece) -> None:
        if piece.kind == "answer":
            *lines, self._unfinished = (self._unfinished + piece.text).split("\n")
            for line in lines:
                print_line(line, multiline=True)
            return
        if self._unfinished:
            unfinished, self._unfinished = self._unfinished, ""
            print_line(unfinished, multiline=True)
        if piece.kind not in ("answer-end", "person"):
            print_piece(piece)


def _bind_keys(agent: Agent) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("c-c", eager=True)
    def _(event: KeyPressEvent) -> None:
        if agent.phase == "turn":
            agent.cancel()
        elif event.current_buffer.text:
            event.current_buffer.reset()
        else:
            print_line("(Ctrl-D leaves)", style="dim")

    return keys
