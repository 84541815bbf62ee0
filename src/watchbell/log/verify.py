"""Checks of a decoded log that no single row shows: boundaries, calls and results, the inbox.

See log-format, "Vocabulary that we write". Schedule's own history is checked by its replay.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET

from watchbell.errors import CorruptLogError
from watchbell.log.event import Event, Replacement
from watchbell.log.eventlog import EventLog, PackedRow
from watchbell.log.payloads import ToolCallEvent
from watchbell.log.values import decode_typed

# Only what is looked at is decoded: a payload can be large, and as objects many times as large.


class _Place(msgspec.Struct):
    turn: int
    step: int = 0


class _PackedPlace(msgspec.Struct):
    data: _Place


class _Source(msgspec.Struct, rename="camel"):
    kind: str
    provider: str = ""
    model: str = ""
    call_id: str = ""


class _Block(msgspec.Struct, rename="camel"):
    type: str
    id: str = ""
    tool_call_id: str = ""


class _Message(msgspec.Struct):
    role: Literal["user", "assistant"]
    source: _Source
    content: list[_Block]


class _Carrier(msgspec.Struct):
    message: _Message


class _Config(msgspec.Struct):
    provider: str
    model: str


class _Header(msgspec.Struct):
    config: _Config


class _RequestHeader(msgspec.Struct):
    header: _Header


class _Insertion(msgspec.Struct):
    id: str


class _Splice(msgspec.Struct, rename="camel"):
    target: Literal["next-turn", "next-step"]
    start: int
    inserted: list[_Insertion]
    removed_count: int = 0
    outcome: Literal["canceled"] | None = None


def verify_events(log: EventLog, owned_from: int = 0) -> int | None:
    """Check that the events of a log can follow one another.

    Args:
        log: The events.
        owned_from: Where the session's own events begin; its inbox is folded from there on.

    Returns:
        The number of the last turn when a crash left it open, None when no turn is open.

    Raises:
        CorruptLogError: An event cannot stand where it stands; its place is its seq, not a byte.
    """
    check = _Check(owned_from)
    for row in log.rows():
        try:
            check.apply(row)
        except CorruptLogError as error:
            raise CorruptLogError(f"event {row.seq} ({row.type}): {error.reason}") from error
        except msgspec.DecodeError as error:
            reason = str(error).partition("\n")[0]
            raise CorruptLogError(f"event {row.seq} ({row.type}): {reason}") from error
    if owned_from > len(log):
        raise CorruptLogError(f"its seed has {owned_from} events, the log {len(log)}")
    return check.turn


class _Check:
    """Where a log stands after the events so far.

    Attributes:
        turn: The open turn, None between turns.
    """

    def __init__(self, owned_from: int) -> None:
        self.turn: int | None = None
        self._last_turn = 0
        self._step: int | None = None
        self._last_step = 0
        self._calls: dict[str, int | None] = {}  # calls without a result, and the seqs of their `tool/call`
        self._messages = 0  # length of the transcript
        self._inbox: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self._owned_from = owned_from

    def apply(self, row: Event | PackedRow) -> None:
        """Take the next row.

        Raises:
            CorruptLogError, msgspec.DecodeError: It cannot follow.
        """
        if isinstance(row, PackedRow):
            self._require_place(decode_typed(row.raw, _PackedPlace).data)
            return
        match row.type:
            case "turn/start" | "turn/end" | "step/start" | "step/end":
                self._mark(row.type, decode_typed(row.raw, _Place))
            case "assistant/chunk":
                self._require_place(decode_typed(row.raw, _Place))
            case "user/message":
                self._enter(row, decode_typed(row.raw, _Message))
            case "assistant/message" | "tool/call" | "tool/result":
                self._require_place(decode_typed(row.raw, _Place))
                self._track_call(row)
            case "session/end-seed":
                self._require_no_turn()
            case "request/header" | "request/context":
                self._require_turn()
                _require_model(row)
            case "agent/inbox/spliced" if row.seq >= self._owned_from:
                self._splice(decode_typed(row.raw, _Splice))
            case _:
                pass

    # --- boundaries

    def _mark(self, kind: str, place: _Place) -> None:
        if kind.startswith("turn/"):
            (self._start_turn if kind == "turn/start" else self._end_turn)(place.turn)
            return
        self._require_turn(place.turn)
        if kind == "step/start":
            if self._step is not None:
                raise CorruptLogError(f"step {self._step} is still open")
            if place.step != self._last_step + 1:
                raise CorruptLogError(f"expected step {self._last_step + 1}, found {place.step}")
            self._step = self._last_step = place.step
            return
        self._require_place(place)
        if self._calls:
            raise CorruptLogError(f"call {next(iter(self._calls))!r} has no result")
        self._step = None

    def _start_turn(self, number: int) -> None:
        self._require_no_turn()
        if number != self._last_turn + 1:
            raise CorruptLogError(f"expected turn {self._last_turn + 1}, found {number}")
        self.turn = self._last_turn = number
        self._step, self._last_step = None, 0

    def _end_turn(self, number: int) -> None:
        self._require_turn(number)
        if self._step is not None:
            raise CorruptLogError(f"step {self._step} is still open")
        self.turn = None

    def _require_no_turn(self) -> None:
        if self.turn is not None:
            raise CorruptLogError(f"turn {self.turn} is still open")

    def _require_turn(self, number: int | None = None) -> None:
        if self.turn is None:
            raise CorruptLogError("it stands outside any turn")
        if number not in (None, self.turn):
            raise CorruptLogError(f"it belongs to turn {number}, and turn {self.turn} is open")

    def _require_place(self, place: _Place) -> None:
        self._require_turn(place.turn)
        if self._step is None or place.step != self._step:
            raise CorruptLogError(f"it belongs to step {place.step}, which is not open")

    # --- messages, calls and results

    def _enter(self, event: Event, message: _Message) -> None:
        """Take a message into the transcript."""
        _check_source(message.source)
        place = _replaced(event)
        if place is None:
            self._messages += 1
            if event.type == "user/message" and self._step is None:
                raise CorruptLogError("it stands outside any step")
        elif 0 <= place.start <= place.end <= self._messages:
            self._messages += 1 - (place.end - place.start)
        else:
            raise CorruptLogError(f"messages {place.start} to {place.end} are not there to replace")
        if max(_cited(event), default=-1) >= event.seq:
            raise CorruptLogError("it is made from an event that comes later")

    def _track_call(self, event: Event) -> None:
        if event.type == "tool/call":
            call_id = decode_typed(event.raw, ToolCallEvent).call_id
            if self._calls.get(call_id, -1) is not None:
                raise CorruptLogError(f"call {call_id!r} was not asked for, or was made already")
            self._calls[call_id] = event.seq
            return
        message = decode_typed(event.raw, _Carrier).message
        self._enter(event, message)
        if event.type == "assistant/message":
            self._calls.update({block.id: None for block in message.content if block.type == "tool-call"})
        else:
            self._answer(event, message)

    def _answer(self, event: Event, message: _Message) -> None:
        call_id = message.source.call_id
        if [(block.type, block.tool_call_id) for block in message.content] != [("tool-result", call_id)]:
            raise CorruptLogError("it is not one result of the call that its source names")
        if call_id not in self._calls:
            raise CorruptLogError(f"call {call_id!r} waits for no result")
        made_at = self._calls.pop(call_id)
        if made_at is not None and event.source_event_seqs and made_at not in _cited(event):
            raise CorruptLogError(f"it does not cite call {call_id!r}")

    # --- the inbox

    def _splice(self, splice: _Splice) -> None:
        pending = self._inbox[splice.target]
        end = splice.start + splice.removed_count
        if not (0 <= splice.start <= end <= len(pending) and splice.removed_count >= 0):
            raise CorruptLogError(f"it takes messages {splice.start} to {end} of {len(pending)} pending ones")
        pending[splice.start : end] = [message.id for message in splice.inserted]
        ids = [*self._inbox["next-turn"], *self._inbox["next-step"]]
        if splice.inserted and (len(set(ids)) != len(ids) or "" in ids):
            raise CorruptLogError("a pending message's id is empty or taken")


def _cited(event: Event) -> list[int]:
    sources = event.source_event_seqs
    return [] if sources is UNSET else msgspec.json.decode(sources, type=list[int])


def _replaced(event: Event) -> Replacement | None:
    """Return what a compaction's message takes the place of, None for a message that is appended."""
    operation = event.surface_op
    if operation is UNSET or bytes(operation).startswith(b'"'):
        return None
    return msgspec.json.decode(operation, type=Replacement)


def _check_source(source: _Source) -> None:
    if not source.kind:
        raise CorruptLogError("its message does not say who wrote it")
    if source.kind == "model" and not (source.provider and source.model):
        raise CorruptLogError("its message does not say which model wrote it")
    if source.kind == "tool" and not source.call_id:
        raise CorruptLogError("its message does not say which call it answers")


def _require_model(event: Event) -> None:
    if event.type == "request/header":
        config = decode_typed(event.raw, _RequestHeader).header.config
    else:
        config = decode_typed(event.raw, _Config)
    if not (config.provider and config.model):
        raise CorruptLogError("its provider or model is empty")
