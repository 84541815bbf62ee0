"""What a log says of deliveries: what each showed, what became of it, and which one a crash tore apart.

A delivery is a message and the dispatches that record it. The message is found by its key (`framing`), its
turn by the message, and the end of that turn says the rest (contract sections 5 and 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.instants import decode_instant, render_instant
from watchbell.log import payloads
from watchbell.log.codec import decode_row
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message
from watchbell.log.projection import (
    WORK_TYPES,
    EnteredMessageRow,
    Projection,
    Reader,
    SplicedRow,
    TakeUpRow,
    TurnEndRow,
    TurnStartRow,
)
from watchbell.reminders.framing import derive_key
from watchbell.reminders.records import (
    CHANGES,
    SCHEDULE_CHANGE,
    Change,
    ChangeRow,
    Create,
    Dispatch,
    EveryRecord,
    Record,
    UnreadableChange,
)
from watchbell.reminders.state import ActiveReminders, ScheduleState
from watchbell.reminders.times import occurrence_at

Outcome: TypeAlias = Literal["answered", "failed", "interrupted", "cancelled", "pending", "unknown"]
"""What became of a delivery.

`pending`: its message waits, or its turn runs. `unknown`: the log holds no message of it.
"""


# --- what a dispatch showed ------------------------------------------------------------------------------


class ReminderPresentation(msgspec.Struct, frozen=True, rename="camel"):
    """The receipt of one dispatch. It says what happened, and never changes which session owns a reminder.

    Attributes:
        schedule_id: The reminder.
        prompt: What it said.
        occurrence_at: The occurrence that was delivered, canonical UTC.
        mode: How it was delivered.
    """

    schedule_id: str
    prompt: str
    occurrence_at: str
    mode: Literal["session-local"] = "session-local"


def schedule_reminder_presentation(
    events: Sequence[Event], dispatch_seq: int, seed_length: int
) -> ReminderPresentation | None:
    """Return the receipt of the dispatch at `dispatch_seq`; for many of one log see `Receipts`.

    The dispatch is paired with the nearest create of its id before it. One that the session owns never
    looks before `seed_length`; an inherited one looks through the inherited events.

    Args:
        events: The session's log.
        dispatch_seq: Seq of a dispatch.
        seed_length: How many of the first events were the parent's; 0 for a session that is no fork.

    Returns:
        The receipt; None when the event is no dispatch, or the events before it do not make it valid.
    """
    log = events if isinstance(events, EventLog) else EventLog(events)
    return Receipts(seed_length).advance(log, dispatch_seq + 1).by_seq.get(dispatch_seq)


class Receipts(Projection[ChangeRow | UnreadableChange]):
    """A projection: the receipt of each dispatch that has one.

    Attributes:
        by_seq: The receipts by the seq of their dispatch.

    Args:
        seed_length: How many of the first events were the parent's; 0 for a session that is no fork.
    """

    reader = CHANGES

    def __init__(self, seed_length: int) -> None:
        super().__init__()
        self.by_seq: dict[int, ReminderPresentation] = {}
        self._seed_length = seed_length
        self._is_owned = seed_length <= 0
        self._reminders = ActiveReminders()

    def fold(self, rows: Sequence[ChangeRow | UnreadableChange], log: EventLog) -> None:
        """Pair the next dispatches with their creates, on either side of where a fork begins."""
        for row in rows:
            is_readable = isinstance(row, ChangeRow)
            if not is_readable or (not self._is_owned and row.seq >= self._seed_length):
                # The fork's dispatches are not the parent's. And of what cannot be read nobody knows which
                # reminder it was about, so nothing is vouched for until its next create.
                self._reminders = ActiveReminders()
                self._is_owned = row.seq >= self._seed_length
            if is_readable:
                self._pair(row.seq, row.data)

    def _pair(self, seq: int, change: Change) -> None:
        if isinstance(change, Create):
            # An id used again, in a fork of a fork, begins another reminder.
            self._reminders.forget(change.id)
        record = self._reminders.find(change.id)
        try:
            self._reminders.apply(change)
        except ScheduleLogError:
            self._reminders.forget(change.id)
            return
        if record is not None and isinstance(change, Dispatch):
            occurrence_at = _occurrence_at(record, change)
            self.by_seq[seq] = ReminderPresentation(record.id, record.prompt, occurrence_at)


def _occurrence_at(record: Record, dispatch: Dispatch) -> str:
    if not isinstance(record, EveryRecord) or dispatch.accepted_at is None:
        return record.scheduled_at
    accepted = decode_instant(dispatch.accepted_at)
    return render_instant(occurrence_at(record.target_ms, record.interval_ms, accepted)[0])


# --- what became of a delivery ---------------------------------------------------------------------------


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


_WorkRow: TypeAlias = SplicedRow | EnteredMessageRow | TakeUpRow | TurnStartRow | TurnEndRow
_Row: TypeAlias = ChangeRow | UnreadableChange | _WorkRow
_WORK = Reader[_WorkRow](WORK_TYPES, msgspec.json.Decoder(_WorkRow))


class _DeliveryReader(Reader[_Row]):
    """Reads changes with the one reader, and messages and turns with the other, in the order of the log."""

    def decode(self, lines: bytes) -> Iterator[Sequence[_Row]]:
        """Decode whole rows, each with its line end."""
        for line in lines[:-1].split(b"\n"):
            is_change = b'"schedule/change"' in line and decode_row(line).type == SCHEDULE_CHANGE
            yield from (CHANGES if is_change else _WORK).decode(line + b"\n")


class _Sent(msgspec.Struct, eq=False):
    """A message of Schedule on its way from the inbox through its turns."""

    message_id: str
    entered: bool = False
    turn: int | None = None
    outcome: Outcome = "pending"


class Deliveries(Projection[_Row]):
    """A projection: the deliveries that have a receipt, and the way of their messages through the log.

    The lists of pending messages are not emptied where a fork begins with none: every position that the
    fork's events name is one among its own messages, which so always stand before what was its parent's.

    Args:
        seed_length: How many of the first events were the parent's; 0 for a session that is no fork.
    """

    reader = _DeliveryReader(WORK_TYPES | CHANGES.types, msgspec.json.Decoder[_Row](_WorkRow))

    def __init__(self, seed_length: int) -> None:
        super().__init__()
        self._seed_length = seed_length
        self._receipts = Receipts(seed_length)
        self._found: list[tuple[ChangeRow, ReminderPresentation, _Sent | None]] = []
        self._pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self._sent: dict[str, _Sent] = {}
        self._presented: dict[str, dict[str, _Sent]] = {}  # by schedule id, then by occurrence
        self._turn: int | None = None
        self._running: list[_Sent] = []
        self._taken_up: tuple[str, int] | None = None  # the message, and the seq of its take-up

    @property
    def deliveries(self) -> list[Delivery]:
        """The deliveries so far, in order."""
        return [
            Delivery(
                row.seq,
                receipt,
                row.time,
                None if sent is None else sent.turn,
                "unknown" if sent is None else sent.outcome,
                inherited=row.seq < self._seed_length,
            )
            for row, receipt, sent in self._found
        ]

    def fold(self, rows: Sequence[_Row], log: EventLog) -> None:
        """Follow Schedule's messages through the next events."""
        for row in rows:
            match row:
                case ChangeRow() | UnreadableChange():
                    self._receipts.fold([row], log)
                    if isinstance(row, ChangeRow):
                        self._change(row)
                case SplicedRow():
                    self._splice(row)
                case EnteredMessageRow():
                    self._enter(row.message)
                case TakeUpRow():
                    self._taken_up = row.data.message_id, row.seq
                case TurnStartRow():
                    self._turn, self._running = row.data.turn, list(self._take_up(row.seq))
                case TurnEndRow():
                    for sent in self._running:
                        sent.outcome = _outcome(row.data.reason)
                    self._turn, self._running = None, []

    def _change(self, row: ChangeRow) -> None:
        change, receipt = row.data, self._receipts.by_seq.get(row.seq)
        if receipt is not None:
            sent = self._presented.get(receipt.schedule_id, {}).get(receipt.occurrence_at)
            self._found.append((row, receipt, sent))
        if isinstance(change, Create):
            # The id of an ancestor's reminder, used again: so may be its occurrence, and its message's id.
            for sent in self._presented.pop(change.id, {}).values():
                self._sent.pop(sent.message_id, None)

    def _splice(self, row: SplicedRow) -> None:
        splice = row.data
        pending = self._pending[splice.target]
        removed = pending[splice.start : splice.start + splice.removed_count]
        pending[splice.start : splice.start + len(removed)] = [message.id for message in splice.inserted]
        if splice.outcome == "canceled":
            for message_id in removed:
                if message_id in self._sent:
                    self._sent[message_id].outcome = "cancelled"
        for message in splice.inserted:
            self._send(message)

    def _enter(self, message: Message) -> None:
        sent = self._send(message)
        if sent is not None and not sent.entered:
            sent.entered, sent.turn = True, self._turn
            self._running.append(sent)

    def _send(self, message: Message) -> _Sent | None:
        """Return what is known of a message, which is Schedule's when it has a key."""
        key = derive_key(message)
        if key is None:
            return None
        sent = self._sent.setdefault(message.id, _Sent(message.id))
        if not sent.entered:
            sent.outcome = "pending"
        for each in key.reminders:
            self._presented.setdefault(each.id, {})[each.occurrence_at] = sent
        return sent

    def _take_up(self, start_seq: int) -> Iterator[_Sent]:
        """Yield the message that the turn which begins at a seq takes up."""
        if self._taken_up is not None and self._taken_up[1] == start_seq - 1:
            sent = self._sent.get(self._taken_up[0])
            if sent is not None:
                sent.outcome = "pending"
                yield sent


def _outcome(reason: payloads.Reason) -> Outcome:
    """Return what the end of a turn means for the reminder that it was about."""
    match reason:
        case payloads.Completed() | payloads.MaxTokens():
            return "answered"
        case payloads.Failed() | payloads.OtherReason(kind="error"):
            return "failed"
        case payloads.Interrupted():
            return "interrupted"
        case payloads.Aborted():
            return "interrupted" if reason.is_loss else "cancelled"
        case payloads.Blocked() | payloads.OtherReason(kind="aborted"):
            return "cancelled"
        case _:
            return "unknown"


# --- what a crash tore apart -----------------------------------------------------------------------------


class _ReminderReader(Reader[EnteredMessageRow]):
    """Reads the messages that may be Schedule's, which name it in their source, and decodes no other."""

    def decode(self, lines: bytes) -> Iterator[Sequence[EnteredMessageRow]]:
        """Decode those of the rows, each with its line end."""
        if b'"schedule"' in lines:
            texts = [line + b"\n" for line in lines[:-1].split(b"\n") if b'"schedule"' in line]
            yield from super().decode(b"".join(texts))


class MissingDispatches(Projection[EnteredMessageRow]):
    """A projection: which occurrences entered the conversation, to find dispatches that are not in the log.

    Args:
        owned_from: Events before this seq are a parent's and prove nothing.
    """

    reader = _ReminderReader(frozenset({"user/message"}), msgspec.json.Decoder(EnteredMessageRow))

    def __init__(self, owned_from: int = 0) -> None:
        super().__init__(owned_from)
        # Of each reminder the latest occurrence, and when it was decided: one dispatch is enough, as it moves
        # the record past every earlier occurrence.
        self._latest: dict[str, tuple[str, str]] = {}

    def fold(self, rows: Sequence[EnteredMessageRow], log: EventLog) -> None:
        """Note what the next messages present."""
        for row in rows:
            self._note(row.message)

    def derive(self, state: ScheduleState, pending: Iterable[Message]) -> list[Dispatch]:
        """Return the dispatches of active reminders whose message entered the conversation or is pending.

        Args:
            state: The fold of the same events.
            pending: The messages in the inbox.
        """
        for message in pending:
            self._note(message)
        missing: list[Dispatch] = []
        for schedule_id, (occurrence, accepted_at) in self._latest.items():
            record = state.find(schedule_id)
            if record is not None and decode_instant(occurrence) >= record.target_ms:
                is_repeating = isinstance(record, EveryRecord)
                missing.append(Dispatch(schedule_id, accepted_at if is_repeating else None))
        return missing

    def _note(self, message: Message) -> None:
        key = derive_key(message)
        if key is None:
            return
        for each in key.reminders:
            # A decision before its own occurrence is no decision of ours, and would spoil the log.
            latest = each.occurrence_at, max(key.accepted_at or "", each.occurrence_at)
            if latest > self._latest.get(each.id, ("", "")):
                self._latest.pop(each.id, None)
                self._latest[each.id] = latest
