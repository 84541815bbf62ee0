"""Which unanswered turns are to be taken up again, from the log alone (contract section 5). Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from watchbell.agent.inbox import Retention
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.payloads import TakeUp, surface_message
from watchbell.log.projection import WORK, Projection, TakeUpRow, TurnEndRow, TurnStartRow, WorkRow

MAX_TAKE_UPS = 3
"""How often a message's unanswered turn is taken up again."""


class TakeUps(Projection[WorkRow]):
    """A projection: the messages whose turn has to be run again, oldest first.

    A turn has to when retained messages opened it, no person did, no text of an answer came, and it ended
    `interrupted`, aborted by disposal, or because the barrier before the model's call failed. A later turn
    of the same message that ended in any other way settles it, and so do `MAX_TAKE_UPS` tries.
    """

    reader = WORK

    def __init__(self, owned_from: int = 0, retention: Retention | None = None) -> None:
        super().__init__(owned_from)
        self._retention = retention or Retention()
        self._attempts: dict[str, int] = {}
        self._due: dict[str, None] = {}
        self._turn_start: int | None = None
        self._taken_up: tuple[str, int] | None = None  # the message, and the seq of its take-up

    def fold(self, rows: Sequence[WorkRow], log: EventLog) -> None:
        """Fold the next rows of `log`.

        Raises:
            CorruptLogError: An event of a turn is malformed.
        """
        for row in rows:
            if type(row) is TurnStartRow:
                self._begin_turn(row.seq)
            elif type(row) is TurnEndRow:
                self._end_turn(log, row)
            elif type(row) is TakeUpRow:
                message_id = row.data.message_id
                self._taken_up = message_id, row.seq
                self._attempts[message_id] = self._attempts.get(message_id, 0) + 1

    def due(self) -> TakeUp | None:
        """Return the take-up that comes next, None when no turn has to be taken up."""
        for message_id in self._due:
            attempts = self._attempts.get(message_id, 0)
            if attempts < MAX_TAKE_UPS:
                return TakeUp(message_id, attempts + 1)
        return None

    def _begin_turn(self, seq: int) -> None:
        self._turn_start = seq
        if self._taken_up is not None and self._taken_up[1] != seq - 1:
            self._taken_up = None  # torn off its turn by a crash

    def _end_turn(self, log: EventLog, row: TurnEndRow) -> None:
        start, taken_up = self._turn_start, self._taken_up
        self._turn_start = self._taken_up = None
        reason = row.data.reason
        unanswered = reason.is_loss or reason.is_uncertainty
        if start is not None and (taken_up is not None or unanswered):
            self._judge(list(log.span(start, row.seq)), taken_up, unanswered=unanswered)

    def _judge(self, events: list[Event], taken_up: tuple[str, int] | None, *, unanswered: bool) -> None:
        message_id = _opener(events, self._retention) if taken_up is None else taken_up[0]
        if message_id is None:
            return
        if unanswered and not any(_holds_text(event) for event in events):
            self._due[message_id] = None
        else:
            self._due.pop(message_id, None)


class _Piece(msgspec.Struct):
    type: str
    text: str = ""


class _Chunk(msgspec.Struct):
    """What is looked at of a chunk, which may be of a type that is not known here."""

    chunk: _Piece


def _holds_text(event: Event) -> bool:
    if event.type == "assistant/chunk":
        chunk = event.decode(_Chunk).chunk
        return chunk.type == "text-delta" and chunk.text != ""
    return event.type == "assistant/message" and bool(surface_message(event).text)


def _opener(events: list[Event], retention: Retention) -> str | None:
    """Return the id of the retained message that opened a turn, None when a person did.

    That is the first message of the first step that is either; what hooks put before it is neither. (How many
    were claimed says nothing: a crash can have torn the last of them away.)
    """
    entered = False
    for event in events:
        if event.type == "user/message":
            entered = True
            message = surface_message(event)
            if retention.holds(message):
                return message.id
            if message.is_from_person:
                return None
        elif entered:
            break
    return None
