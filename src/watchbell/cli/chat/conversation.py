"""What people get to see of a session: its events, live or stored, as a few kinds of text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Literal

import msgspec

from watchbell.cli.console.output import print_answer, print_line, print_row, shorten
from watchbell.cli.console.times import render_lateness, render_moment
from watchbell.instants import decode_instant
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, PluginSource, TextDelta, ToolResultBlock
from watchbell.log.payloads import (
    Aborted,
    Blocked,
    ChunkEvent,
    Failed,
    Interrupted,
    MaxTokens,
    Reason,
    TakeUp,
    ToolCallEvent,
    TurnEnd,
    surface_message,
)
from watchbell.reminders.framing import PLUGIN_NAME, DueReminder, decode_frame
from watchbell.sessions.session import Session

Kind = Literal["person", "reminder", "tool", "note", "failure", "answer", "answer-end", "turn-end"]

_MESSAGES = frozenset({"user/message"})
_STORED = frozenset({"user/message", "assistant/message", "tool/call", "tool/result", "turn/end"})
_ARGUMENTS_SHOWN = 90
_LABELS = {"person": "you> ", "note": "", "failure": ""}
_STYLES = {"person": "bold", "note": "dim", "failure": "red"}


ENDS = ("answer-end", "turn-end")
"""Kinds that show nothing by themselves."""


class Due(msgspec.Struct, frozen=True):
    """A reminder that came.

    Attributes:
        schedule_id: Its id.
        moment: When it was due, local and UTC.
        lateness: How late it came, for people.
        prompt: What it is about.
    """

    schedule_id: str
    moment: str
    lateness: str
    prompt: str


class Piece(msgspec.Struct, frozen=True):
    """One thing to show.

    Attributes:
        kind: `answer` is a piece of an answer's text as it comes, `answer-end` its end, `turn-end` the
            end of the turn; the others stand on lines of their own.
        text: Unescaped: whoever prints it makes it safe.
        dues: The reminders of a message of Schedule.
    """

    kind: Kind
    text: str = ""
    dues: tuple[Due, ...] = ()


class Conversation:
    """Turns a session's events, in order, into pieces.

    Answers are told from their chunks as they stream or, where no chunks are given, from the whole message.

    Args:
        zone: The zone that due times are told in; None for this computer's.
        log: Where the events are from; a reminder that a turn takes up again is shown from there once more.
    """

    def __init__(self, zone: tzinfo | None, log: EventLog | None = None) -> None:
        self._zone = zone
        self._log = log
        self._calls: dict[str, str] = {}
        self._streams = False

    def read(self, events: Iterable[Event]) -> Iterator[Piece]:
        """Return what the next events show."""
        for event in events:
            match event.type:
                case "user/message":
                    yield from self._read_message(surface_message(event), event.time)
                case "assistant/chunk":
                    yield from self._read_chunk(event)
                case "assistant/message":
                    yield from self._read_answer(surface_message(event))
                case "tool/call":
                    call = event.decode(ToolCallEvent)
                    self._calls[call.call_id] = f"{call.name} {shorten(call.arguments, _ARGUMENTS_SHOWN)}"
                case "tool/result":
                    yield from self._read_result(surface_message(event))
                case "watchbell/take-up":
                    yield from self._read_take_up(event.decode(TakeUp))
                case "turn/end":
                    yield from self._read_end(event.decode(TurnEnd).reason)
                case _:
                    pass

    def watch(self, session: Session, show: Callable[[Piece], None]) -> Callable[[], None]:
        """Show what is appended to a live session from now on; what is returned ends that."""

        def on_events(events: Sequence[Event]) -> None:
            for piece in self.read(events):
                show(piece)

        return session.observe(on_events)

    def _read_message(self, message: Message, came_at_ms: int) -> Iterator[Piece]:
        if message.is_from_person:
            yield Piece("person", message.text)
        elif (dues := find_dues(message)) is not None:
            yield Piece("reminder", dues=tuple(self._tell_due(due, came_at_ms) for due in dues))

    def _tell_due(self, due: DueReminder, came_at_ms: int) -> Due:
        due_ms = decode_instant(due.occurrence_at)
        lateness = render_lateness(came_at_ms - due_ms)
        return Due(due.schedule_id, render_moment(due_ms, self._zone), lateness, due.reminder_prompt)

    def _read_take_up(self, take_up: TakeUp) -> Iterator[Piece]:
        yield Piece("note", f"(answering again: the turn was cut off; try {take_up.attempt})")
        for event in () if self._log is None else self._log.select_back(_MESSAGES):
            message = surface_message(event)
            if message.id == take_up.message_id:
                yield from self._read_message(message, event.time)
                return

    def _read_chunk(self, event: Event) -> Iterator[Piece]:
        chunk = event.decode(ChunkEvent).chunk
        if isinstance(chunk, TextDelta) and chunk.text:
            self._streams = True
            yield Piece("answer", chunk.text)

    def _read_answer(self, message: Message) -> Iterator[Piece]:
        if message.text and not self._streams:
            yield Piece("answer", message.text)
        yield from self._end_answer(ends=bool(message.text))

    def _read_result(self, message: Message) -> Iterator[Piece]:
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                call = self._calls.pop(block.tool_call_id, block.tool_call_id)
                yield Piece("tool", f"{call} -> {shorten(''.join(part.text for part in block.content))}")

    def _read_end(self, reason: Reason) -> Iterator[Piece]:
        yield from self._end_answer(ends=False)
        match reason:
            case Failed(error=error):
                yield Piece("failure", f"(the turn failed: {error.message} [{error.code}])")
            case Aborted():
                yield Piece("note", "(stopped: the session was closed)" if reason.is_loss else "(cancelled)")
            case MaxTokens():
                yield Piece("note", "(the answer reached its length limit)")
            case Interrupted():
                yield Piece("note", "(interrupted)")
            case Blocked():
                yield Piece("note", "(blocked)")
            case _:
                pass
        yield Piece("turn-end")

    def _end_answer(self, *, ends: bool) -> Iterator[Piece]:
        if ends or self._streams:
            self._streams = False
            yield Piece("answer-end")


class Outlet:
    """Passes pieces on until standard output fails; the turn that they tell of goes on.

    Attributes:
        failure: What output failed with first, None while it works.
    """

    def __init__(
        self, show: Callable[[Piece], None], *, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self.failure: OSError | None = None
        self._show = show
        self._on_failure = on_failure

    def show(self, piece: Piece) -> None:
        """Show a piece, or nothing any more."""
        if self.failure is None:
            try:
                self._show(piece)
            except OSError as error:
                self.failure = error
                self._on_failure()

    def require(self) -> None:
        """Raise what output failed with, if it did.

        Raises:
            OSError: That.
        """
        if self.failure is not None:
            raise self.failure


class Printer:
    """Shows pieces on standard output as they come."""

    def __init__(self) -> None:
        self._is_open = False

    def show(self, piece: Piece) -> None:
        """Print one piece; what people typed is theirs to see already."""
        if piece.kind == "answer":
            print_answer(piece.text)
            self._is_open = True
            return
        if self._is_open:
            self._is_open = False
            print_line("")
        if piece.kind != "person":
            print_piece(piece)


def print_piece(piece: Piece) -> None:
    """Print a piece that stands on lines of its own, or a whole answer."""
    if piece.kind == "answer":
        print_line(piece.text, multiline=True)
    elif piece.kind == "tool":  # folded: what it came to is told by the answer
        print_row(f"[tool] {piece.text}", style="dim")
    elif piece.kind == "reminder":
        for due in piece.dues:
            print_line(
                f"[reminder] {due.schedule_id}, due {due.moment}, {due.lateness}: {due.prompt}",
                style="bold yellow",
            )
    elif piece.kind not in ENDS:
        text = f"{_LABELS[piece.kind]}{piece.text}"
        print_line(text, style=_STYLES[piece.kind], multiline=piece.kind == "person")


def history(log: EventLog, zone: tzinfo | None, last: int) -> tuple[list[Piece], int]:
    """Return the last pieces of a stored log, and how many there are before them."""
    shown: deque[Piece] = deque(maxlen=last)
    count = 0
    for piece in Conversation(zone, log).read(log.select(_STORED)):
        if piece.kind not in ENDS:
            shown.append(piece)
            count += 1
    return list(shown), count - len(shown)


def find_dues(message: Message) -> Sequence[DueReminder] | None:
    """Return the reminders that a message presents; None when Schedule did not write it."""
    origin = message.origin
    if not isinstance(origin, PluginSource) or origin.plugin != PLUGIN_NAME:
        return None
    return decode_frame(message.text) or ()
