"""The terminal of a chat: one prompt that stays open while everything else appears above it.

The unfinished last line of a streaming answer is drawn as part of the prompt, over the line being typed, and
printed for good once it is whole. So neither ever damages the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from rich.cells import chop_cells

from watchbell.agent.agent import Agent
from watchbell.cli.chat._history import ChatHistory
from watchbell.cli.chat._notice import Frame
from watchbell.cli.chat.conversation import Piece, print_piece
from watchbell.cli.chat.talk import Talk
from watchbell.cli.console.output import escape, print_line
from watchbell.cli.program import Program

_PROMPT = "> "
_PREVIEW_ROWS = 6
_NO_ENDS = ("note", "failure")
_NOTICE = "yellow"


class ChatTerminal:
    """Shows a live agent's session and sends what is typed.

    It shows what is appended from its construction on.

    Attributes:
        talk: How the talk stands.

    Args:
        agent: The agent.
        program: Who types, and in which zone times are told.
        keys: Where keys come from; the terminal when None.
        screen: Where the prompt is drawn; the terminal when None.
    """

    def __init__(
        self, agent: Agent, program: Program, *, keys: Input | None = None, screen: Output | None = None
    ) -> None:
        self._unfinished = ""
        self._frame: Frame | None = None
        self.talk = Talk(agent, program, self._show)
        self._prompt: PromptSession[str] = PromptSession(
            self._message,
            key_bindings=self._bind_keys(),
            history=ChatHistory(program.home),
            completer=_Commands(),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            input=keys,
            output=screen,
        )
        for window in self._prompt.layout.find_all_windows():
            content = window.content
            if isinstance(content, BufferControl) and content.buffer is self._prompt.default_buffer:
                window.height = self._draft_height

    async def run(self) -> None:
        """Take each line that is entered, until Ctrl-D."""
        with patch_stdout(raw=True):  # raw: our own colour passes, and stored text was made safe
            while True:
                try:
                    # Signals are the program's own business; Ctrl-C is a key here.
                    line = await self._prompt.prompt_async(handle_sigint=False, set_exception_handler=False)
                except EOFError:
                    return
                await self.talk.take(line)

    def _message(self) -> StyleAndTextTuples:
        """Return what stands before the line being typed: the unfinished answer, in its rows.

        A line that is entered is drawn once more, for good, and the unfinished answer is not part of it.
        """
        if not self._unfinished or self._prompt.app.is_done:
            return [("bold", _PROMPT)]
        rows_left, columns = self._prompt.app.output.get_size()
        if self._frame is None:
            rows = chop_cells(escape(self._unfinished).expandtabs(4), max(2, columns - 1))
        else:
            rows = list(self._frame.inside(escape(self._unfinished)))
        return [
            ("", "\n".join(rows[-max(1, min(_PREVIEW_ROWS, rows_left // 4)) :]) + "\n"),
            ("bold", _PROMPT),
        ]

    def _draft_height(self) -> Dimension:
        """A long draft scrolls in half of the screen, so that what is printed above it stays in sight."""
        if self._prompt.app.is_done:
            return Dimension()
        return Dimension(max=max(1, self._prompt.app.output.get_size().rows // 2))

    def _show(self, piece: Piece) -> None:
        if piece.kind == "answer":
            *lines, self._unfinished = (self._unfinished + piece.text).split("\n")
            for line in lines:
                self._print_answer(line)
        else:
            # What a command says in the middle of an answer stands above its last line; `answer-end` ends it.
            if self._unfinished and piece.kind not in _NO_ENDS:
                unfinished, self._unfinished = self._unfinished, ""
                self._print_answer(unfinished)
            self._show_whole(piece)
        self._prompt.app.invalidate()

    def _show_whole(self, piece: Piece) -> None:
        if piece.kind == "reminder":
            self._frame = Frame(self._prompt.app.output.get_size().columns)
            for line in self._frame.begin(piece.dues):
                print_line(line, style=_NOTICE)
        elif piece.kind == "turn-end":
            if self._frame is not None:
                frame, self._frame = self._frame, None
                print_line(frame.end(), style=_NOTICE)
        elif piece.kind != "person":
            print_piece(piece)

    def _print_answer(self, line: str) -> None:
        if self._frame is None:
            print_line(line, multiline=True)
            return
        for part in self._frame.inside(escape(line, multiline=True)):
            print_line(part, multiline=True)

    def _bind_keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c", eager=True, filter=~is_searching)  # else it ends the search
        def _(event: KeyPressEvent) -> None:
            agent = self.talk.agent
            if agent.phase == "turn":
                agent.cancel()
            elif event.current_buffer.text:
                event.current_buffer.reset()
            else:
                print_line("(Ctrl-D leaves)", style="dim")

        @keys.add("escape", "enter", eager=True)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys


class _Commands(Completer):
    """Offers the commands of the chat where a line begins with a slash."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Return the commands that begin with what stands before the cursor."""
        typed = document.text_before_cursor
        if typed.startswith("/"):
            yield from (Completion(name, -len(typed)) for name in Talk.commands if name.startswith(typed))
