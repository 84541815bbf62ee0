"""What became of each delivery: the turn that it opened and how that ended, from the log alone. Pure.

A delivery's message is found by its key (`framing`), its turn by the message, and that turn's end says the
rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.log.messages import Message
from watchbell.log.payloads import (
    Aborted,
    Blocked,
    Completed,
    Failed,
    MaxTokens,
    OtherReason,
    Reason,
    Splice,
    TakeUp,
    TurnEnd,
    TurnStart,
    surface_message,
)
from watchbell.reminders.framing import ReminderKey, derive_key
from watchbell.reminders.receipts import ReminderPresentation, derive_receipts
from watchbell.reminders.records import SCHEDULE_CHANGE, Create, decode_change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchbell.log.event import Event
    from watchbell.log.eventlog import EventLog

__all__ = ["Delivery", "Outcome", "derive_deliveries"]

Outcome: TypeAlias = Literal["answered", "failed", "interrupted", "cancelled", "pending", "unknown"]
"""What became of a delivery.

`pending`: its message waits, or its turn runs. `unknown`: the log holds no message of it.
"""

_TYPES = frozenset(
    {SCHEDULE_CHANGE, "agent/inbox/spliced", "user/message", "watchbell/take-up", "turn/start", "turn/end"}
)


class Delivery(msgspec.Struct, frozen=True):
    """One dispatch and what came of it.

    Attributes:
        seq: Seq of the dispatch.
        receipt: What it showed.
        dispatched_at_ms: When the dispatch was appended, epoch milliseconds.
        turn: The turn that its message opened, None while it has opened none.
        outcome: How the last turn about it ended; of an inherited one, how far that had come in this log.
        inherited: Whether it is a parent's, from before the session was forked.
    """

    seq: int
    receipt: ReminderPresentation
    dispatched_at_ms: int
    turn: int | None
    outcome: Outcome
    inherited: bool


def derive_deliveries(events: EventLog, seed_length: int) -> list[Delivery]:
    """Return every delivery of a log that has a receipt, in its order.

    Args:
        events: The session's log.
        seed_length: How many of the first events were the parent's; 0 for a session that is no fork.

    Raises:
        CorruptLogError: An event is malformed.
    """
    receipts = derive_receipts(events, seed_length)
    progress = _Progress()
    found: list[tuple[Event, ReminderPresentation, _Sent | None]] = []
    for event in events.select(_TYPES):
        if event.seq in receipts:
            receipt = receipts[event.seq]
            found.append((event, receipt, progress.find(receipt)))
            continue
        progress.apply(event)
    return [
        Delivery(
            event.seq,
            receipt,
            event.time,
            None if sent is None else sent.turn,
            "unknown" if sent is None else sent.outcome,
            inherited=event.seq < seed_length,
        )
        for event, receipt, sent in found
    ]


class _Sent(msgspec.Struct, eq=False):
    """A message of Schedule on its way from the inbox through its turns."""

    message_id: str
    entered: bool = False
    turn: int | None = None
    outcome: Outcome = "pending"


class _Progress:
    """Follows Schedule's messages through the log.

    The lists of pending messages are not emptied where a fork begins with none: every position that the
    fork's events name is one among its own messages, which so always stand before what was its parent's.
    """

    def __init__(self) -> None:
        self._pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self._sent: dict[str, _Sent] = {}
        self._presented: dict[str, dict[str, _Sent]] = {}  # by schedule id, then by occurrence
        self._turn: int | None = None
        self._running: list[_Sent] = []
        self._taken_up: tuple[str, int] | None = None  # the message, and the seq of its take-up

    def find(self, receipt: ReminderPresentation) -> _Sent | None:
        """Return the message that presents an occurrence, None when there was none since its create."""
        return self._presented.get(receipt.schedule_id, {}).get(receipt.occurrence_at)

    def apply(self, event: Event) -> None:
        """Take note of one event."""
        match event.type:
            case "schedule/change":
                self._change(event)
            case "agent/inbox/spliced":
                self._splice(event.decode(Splice))
            case "user/message":
                self._enter(event)
            case "watchbell/take-up":
                self._taken_up = event.decode(TakeUp).message_id, event.seq
            case "turn/start":
                self._turn = event.decode(TurnStart).turn
                self._running = list(self._take_up(event.seq))
            case _:
                for sent in self._running:
                    sent.outcome = _outcome(event.decode(TurnEnd).reason)
                self._turn, self._running = None, []

    def _change(self, event: Event) -> None:
        try:
            change = decode_change(event.raw)
        except ScheduleLogError:
            return  # nothing about it has a receipt either
        if isinstance(change, Create):
            # The id of an ancestor's reminder, used again: so may be its occurrence, and its message's id.
            for sent in self._presented.pop(change.id, {}).values():
                self._sent.pop(sent.message_id, None)

    def _splice(self, splice: Splice) -> None:
        pending, start = self._pending[splice.target], splice.start
        removed = pending[start : start + splice.removed_count]
        inserted = [message.complete() for message in splice.inserted]
        pending[start : start + len(removed)] = [message.id for message in inserted]
        if splice.outcome == "canceled":
            for message_id in removed:
                if message_id in self._sent:
                    self._sent[message_id].outcome = "cancelled"
        for message in inserted:
            self._send(message)

    def _enter(self, event: Event) -> None:
        sent = self._send(surface_message(event)) if b'"schedule"' in bytes(event.raw) else None
        if sent is not None and not sent.entered:
            sent.entered, sent.turn = True, self._turn
            self._running.append(sent)

    def _send(self, message: Message) -> _Sent | None:
        """Return what is known of a message, which is Schedule's when it has a key."""
        key = derive_key(message.source, message.text)
        if key is None:
            return None
        sent = self._sent.get(message.id)
        if sent is None:
            sent = self._sent[message.id] = _Sent(message.id)
        if not sent.entered:
            sent.outcome = "pending"
        self._present(key, sent)
        return sent

    def _present(self, key: ReminderKey, sent: _Sent) -> None:
        for schedule_id, occurrence_at in key.reminders:
            self._presented.setdefault(schedule_id, {})[occurrence_at] = sent

    def _take_up(self, start_seq: int) -> Iterator[_Sent]:
        """Yield the message that the turn which begins at a seq takes up."""
        if self._taken_up is not None and self._taken_up[1] == start_seq - 1:
            sent = self._sent.get(self._taken_up[0])
            if sent is not None:
                sent.outcome = "pending"
                yield sent


def _outcome(reason: Reason) -> Outcome:
    """Return what the end of a turn means for the reminder that it was about."""
    match reason:
        case Completed() | MaxTokens():
            return "answered"
        case Failed():
            return "failed"
        case Blocked() | Aborted() if not reason.is_loss:
            return "cancelled"
        case OtherReason(kind="aborted"):
            return "cancelled"
        case _:
            return "interrupted" if reason.is_loss else "unknown"
