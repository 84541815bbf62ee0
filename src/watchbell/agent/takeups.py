"""Which unanswered turns are to be taken up again, from the log alone (contract section 5). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchbell.log.events import TakeUp
from watchbell.log.transcript import MALFORMED, malformed, surface_message

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog
    from watchbell.log.events import Event

__all__ = ["MAX_TAKE_UPS", "TakeUps"]

MAX_TAKE_UPS = 3
"""How often a message's unanswered turn is taken up again."""

_TYPES = frozenset({"turn/start", "turn/end", "watchbell/take-up"})


class TakeUps:
    """A projection: the messages whose turn has to be run again, oldest first.

    A turn has to when retained messages opened it, no person did, no text of an answer came, and it ended
    `interrupted`, aborted by disposal, or because the barrier before the model's call failed. A later turn
    of the same message that ended in any other way settles it, and so do `MAX_TAKE_UPS` tries.
    """

    def __init__(self, owned_from: int = 0) -> None:
        self._attempts: dict[str, int] = {}
        self._due: dict[str, None] = {}
        self._turn_start: int | None = None
        self._taken_up: tuple[str, int] | None = None  # the message, and the seq of its take-up
        self._watermark = owned_from

    def advance(self, log: EventLog) -> TakeUps:
        """Fold the events that came since the last call, and return itself.

        Raises:
            CorruptLogError: An event is malformed.
        """
        for event in log.select(_TYPES, self._watermark):
            self._watermark = event.seq + 1
            try:
                self._apply(log, event)
            except MALFORMED as error:
                raise malformed(event) from error
        self._watermark = len(log)
        return self

    def due(self) -> TakeUp | None:
        """Return the take-up that comes next, None when no turn has to be taken up."""
        for message_id in self._due:
            attempts = self._attempts.get(message_id, 0)
            if attempts < MAX_TAKE_UPS:
                return TakeUp(message_id, attempts + 1)
        return None

    def _apply(self, log: EventLog, event: Event) -> None:
        match event.type:
            case "watchbell/take-up":
                message_id = event.data["messageId"]
                self._taken_up = message_id, event.seq
                self._attempts[message_id] = self._attempts.get(message_id, 0) + 1
            case "turn/start":
                self._turn_start = event.seq
                if self._taken_up is not None and self._taken_up[1] != event.seq - 1:
                    self._taken_up = None  # torn off its turn by a crash
            case _:
                self._end_turn(log, event)

    def _end_turn(self, log: EventLog, end: Event) -> None:
        start, taken_up = self._turn_start, self._taken_up
        self._turn_start = self._taken_up = None
        if start is None:
            return
        unanswered = _is_unanswered(end.data["reason"])
        if taken_up is None and not unanswered:
            return
        events = list(log.span(start, end.seq))
        message_id = _opener(events) if taken_up is None else taken_up[0]
        if message_id is None:
            return
        if unanswered and not any(_holds_text(event) for event in events):
            self._due[message_id] = None
        else:
            self._due.pop(message_id, None)


def _is_unanswered(reason: dict[str, Any]) -> bool:
    match reason:
        case {"kind": "interrupted"} | {"kind": "aborted", "reason": {"kind": "disposed"}}:
            return True
        case {"kind": "error", "error": {"code": "PERSISTENCE_UNCERTAIN"}}:
            return True
        case _:
            return False


def _holds_text(event: Event) -> bool:
    if event.type == "assistant/chunk":
        chunk = event.data["chunk"]
        return chunk.get("type") == "text-delta" and bool(chunk.get("text"))
    return event.type == "assistant/message" and bool(surface_message(event).text)


def _opener(events: list[Event]) -> str | None:
    """Return the id of the retained message that opened a turn, None when a person did.

    That is the first message of the first step that is either; what hooks put before it is neither. (How many
    were claimed says nothing: a crash can have torn the last of them away.)
    """
    entered = False
    for event in events:
        if event.type == "user/message":
            entered = True
            message = surface_message(event)
            if message.retained:
                return message.id
            if message.is_from_person:
                return None
        elif entered:
            break
    return None
