"""What a dispatch showed to the user, read back from the log for people (contract section 6).

Receipts say what happened; they never change which session owns a reminder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.instants import decode_instant, render_instant
from watchbell.log.eventlog import EventLog
from watchbell.reminders.records import SCHEDULE_CHANGE, Dispatch, EveryRecord, Record, decode_change
from watchbell.reminders.rules import occurrence_at
from watchbell.reminders.state import apply

if TYPE_CHECKING:
    from watchbell.log.event import Event

__all__ = ["ReminderPresentation", "derive_receipts", "schedule_reminder_presentation"]

_TYPES = frozenset({SCHEDULE_CHANGE})


class ReminderPresentation(msgspec.Struct, frozen=True, rename="camel"):
    """The receipt of one dispatch.

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
    """Return the receipt of the dispatch at `dispatch_seq`; for many of one log see `derive_receipts`.

    The dispatch is paired with the nearest create of its id before it. One that the session owns never
    looks before `seed_length`; an inherited one looks through the inherited events.

    Args:
        events: The session's log.
        dispatch_seq: Seq of a dispatch.
        seed_length: How many of the first events were the parent's; 0 for a session that is no fork.

    Returns:
        The receipt; None when the event is no dispatch, or the events before it do not make it valid.
    """
    start = seed_length if dispatch_seq >= seed_length else 0
    shown = None
    for seq, receipt in _receipts(events, start, dispatch_seq + 1):
        shown = receipt if seq == dispatch_seq else None
    return shown


def derive_receipts(events: Sequence[Event], seed_length: int) -> dict[int, ReminderPresentation]:
    """Return the receipt of each dispatch of a log by its seq, in one pass."""
    inherited = _receipts(events, 0, seed_length)
    owned = _receipts(events, seed_length, len(events))
    return {**dict(inherited), **dict(owned)}


def _receipts(events: Sequence[Event], start: int, stop: int) -> Iterator[tuple[int, ReminderPresentation]]:
    """Yield seq and receipt of the dispatches with `start <= seq < stop`, pairing them within that span."""
    records: dict[str, Record] = {}
    for event in _changes(events, start, stop):
        try:
            change = decode_change(event.raw)
        except ScheduleLogError:
            # Nobody knows which reminder this was about, so nothing is vouched for until its next create.
            records.clear()
            continue
        # A create of an id used again, in a fork of a fork, begins another reminder.
        found = records.pop(change.id, None)
        try:
            left = apply(change, found, seen=False)
        except ScheduleLogError:
            continue
        if left is not None:
            records[change.id] = left
        if isinstance(change, Dispatch) and found is not None:
            yield event.seq, ReminderPresentation(found.id, found.prompt, _occurrence_at(found, change))


def _changes(events: Sequence[Event], start: int, stop: int) -> Iterator[Event]:
    if isinstance(events, EventLog):
        for event in events.select(_TYPES, start):
            if event.seq >= stop:
                return
            yield event
    else:
        yield from (event for event in events[start:stop] if event.type == SCHEDULE_CHANGE)


def _occurrence_at(record: Record, dispatch: Dispatch) -> str:
    if not isinstance(record, EveryRecord) or dispatch.accepted_at is None:
        return record.scheduled_at
    accepted_at_ms = decode_instant(dispatch.accepted_at)
    return render_instant(occurrence_at(record.target_ms, record.interval_ms, accepted_at_ms)[0])
