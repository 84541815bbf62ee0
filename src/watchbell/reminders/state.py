"""What a session's reminders are right now, folded from its log (contract sections 2 and 5).

The fold is a projection: throw it away and the log rebuilds it.

Longer than other modules: one fold has two ways in, a change at a time and many, and both have to agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.instants import MAX_INSTANT_MS, decode_instant, render_instant
from watchbell.log.codec import decode_row
from watchbell.log.event import Event
from watchbell.reminders.records import (
    SCHEDULE_CHANGE,
    Change,
    Create,
    CreateLine,
    Delete,
    Delivery,
    Dispatch,
    DispatchLine,
    Ending,
    EveryRecord,
    Record,
    decode_change,
    decode_changes,
    render_record,
)
from watchbell.reminders.rules import occurrence_at

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog

__all__ = [
    "MAX_BATCH_BYTES",
    "Batch",
    "Decision",
    "OneShot",
    "ScheduleState",
    "apply",
    "decide",
    "derive_dispatches",
    "render_view",
]

MAX_BATCH_BYTES = 32 * 1024 * 1024
"""Most bytes that the reminders of one batch take in the row of their message; a row may have twice that."""

_TYPES = frozenset({SCHEDULE_CHANGE})
_MANY_BYTES = 16 * 1024


class OneShot(msgspec.Struct, frozen=True):
    """A decision to deliver one due one-shot reminder; its occurrence is its target."""

    record: Record


class Batch(msgspec.Struct, frozen=True):
    """A decision to deliver the overdue repeating reminders at once.

    Attributes:
        items: Each record with its latest occurrence in epoch milliseconds, in target, then create order;
            the first that fit into `MAX_BATCH_BYTES`, and one at least.
        accepted_at_ms: When it was decided, epoch milliseconds.
    """

    items: tuple[tuple[EveryRecord, int], ...]
    accepted_at_ms: int


Decision: TypeAlias = OneShot | Batch


class _Active(msgspec.Struct, gc=False):
    """An active reminder, with its place in create order.

    A repeating one moves at each dispatch; the text of its target is made when somebody asks for the record.
    """

    order: int
    interval_ms: int  # 0 for a one-shot
    made: Record
    moved_to_ms: int | None = None

    @property
    def target_ms(self) -> int:
        if self.moved_to_ms is None:
            self.moved_to_ms = self.made.target_ms
        return self.moved_to_ms

    @property
    def record(self) -> Record:
        record, target_ms = self.made, self.moved_to_ms
        if target_ms is not None and isinstance(record, EveryRecord) and record.target_ms != target_ms:
            record = self.made = _at(record, target_ms)
        return record


class _TargetHeap:
    """Targets of one kind of reminder, earliest first, then in create order.

    Entries of ended or moved reminders stay until they come up, or until they outnumber the others.
    """

    def __init__(self, entries: Iterable[_Active] = ()) -> None:
        self._heap = [_item(entry) for entry in entries]
        heapify(self._heap)

    def add(self, entry: _Active, active: dict[str, _Active]) -> None:
        """Add an entry of `active`, in O(log n) on average."""
        heappush(self._heap, _item(entry))
        if len(self._heap) > 2 * len(active) + 64:
            self._heap = [item for item in self._heap if _is_current(item, active)]
            heapify(self._heap)

    def first(self, active: dict[str, _Active]) -> _Active | None:
        """Return the entry that comes first, in O(log n) on average."""
        while self._heap:
            if _is_current(self._heap[0], active):
                return active[self._heap[0][2]]
            heappop(self._heap)
        return None


def _item(entry: _Active) -> tuple[int, int, str]:
    return entry.target_ms, entry.order, entry.made.id


def _is_current(item: tuple[int, int, str], active: dict[str, _Active]) -> bool:
    entry = active.get(item[2])
    return entry is not None and _item(entry) == item


class ScheduleState:
    """The reminders of one session, folded from its log as far as `watermark`.

    An invalid event stops the fold for good: it and every later `advance` and `check` raise the same error.

    Args:
        seed_length: Events before this seq belong to the parent of a fork and are not folded.
    """

    def __init__(self, seed_length: int = 0) -> None:
        self._seed_length = seed_length
        self._watermark = 0
        self._active: dict[str, _Active] = {}
        self._seen: set[str] = set()
        self._one_shots = _TargetHeap()
        self._repeating = _TargetHeap()
        self._are_queued = True  # whether the heaps hold all active reminders
        self._failure: ScheduleLogError | None = None

    def __len__(self) -> int:
        return len(self._active)

    @property
    def watermark(self) -> int:
        """How many events of the log have been folded or passed over."""
        return self._watermark

    @property
    def records(self) -> Iterator[Record]:
        """The active records, in create order."""
        return (entry.record for entry in self._active.values())

    @property
    def seen_ids(self) -> frozenset[str]:
        """Every id ever used."""
        return frozenset(self._seen)

    def find(self, schedule_id: str) -> Record | None:
        """Return the active record of that id, None when there is none."""
        entry = self._active.get(schedule_id)
        return None if entry is None else entry.record

    def advance(self, log: EventLog, stop: int | None = None) -> None:
        """Fold what the log gained since the last call, as far as `stop`.

        Raises:
            ScheduleLogError: The log's Schedule history is invalid.
        """
        self.check()
        stop = len(log) if stop is None else min(stop, len(log))
        start = max(self._watermark, self._seed_length)
        if start >= stop and self._watermark:
            return
        try:
            if not 0 <= self._seed_length <= len(log):
                raise ScheduleLogError(
                    f"the fork point {self._seed_length} is not within the {len(log)} events"
                )
            for lines in log.lines(_TYPES, start, stop):
                # Of many changes few remain to wait for, so the heaps are made once, at the end.
                self._are_queued &= len(lines) < _MANY_BYTES
                rows = decode_changes(lines)
                if rows is None:
                    self._apply_each(lines)
                else:
                    for row in rows:
                        self._apply(row.data, row.seq)
        except ScheduleLogError as error:
            self._failure = error
            raise
        self._watermark = max(self._watermark, stop)

    def check(self) -> None:
        """Raise the error that stopped the fold, if one did.

        Raises:
            ScheduleLogError: An event folded earlier was invalid.
        """
        if self._failure is not None:
            raise self._failure

    def apply(self, change: Change, seq: int | None = None) -> None:
        """Fold one change.

        Raises:
            ScheduleLogError: The change cannot follow what was folded; the state is as it was.
        """
        self._apply(change, seq)

    def _apply_each(self, lines: bytes) -> None:
        for line in lines[:-1].split(b"\n"):
            event = decode_row(line)
            if isinstance(event, Event):  # as every row of a change is
                self._apply(decode_change(event.raw, event.seq), event.seq)

    def _apply(self, change: Create | Ending, seq: int | None) -> None:
        active = self._active
        # `isinstance` takes several times as long for a struct's class.
        if type(change) is CreateLine or type(change) is Create:
            record, seen = change.schedule, self._seen
            schedule_id = record.id
            if schedule_id in seen:
                raise _used(schedule_id, seq)
            interval_ms = record.every_seconds * 1000 if type(record) is EveryRecord else 0
            entry = active[schedule_id] = _Active(len(seen), interval_ms, record)
            seen.add(schedule_id)
        else:
            entry = active.get(change.id)
            if entry is None:
                raise _inactive(change.id, seq)
            if not (
                (type(change) is DispatchLine or type(change) is Dispatch) and self._move(entry, change, seq)
            ):
                del active[change.id]
                return
        if self._are_queued:
            (self._repeating if entry.interval_ms else self._one_shots).add(entry, active)

    def _move(self, entry: _Active, dispatch: Delivery, seq: int | None) -> bool:
        """Move a reminder that is dispatched to its next target; returns whether there is one."""
        if not entry.interval_ms and dispatch.accepted_at is None:
            return False
        next_ms = _next_target(dispatch, entry.target_ms, entry.interval_ms, seq)
        if next_ms is None:
            return False
        entry.moved_to_ms = next_ms
        return True

    def check_candidates(self, changes: Iterable[Change]) -> None:
        """Make sure that these changes, in this order, could be appended now; the state stays as it is.

        Raises:
            ScheduleLogError: One of them could not, or the history is invalid already.
        """
        self.check()
        after: dict[str, Record | None] = {}
        for change in changes:
            current = after[change.id] if change.id in after else self.find(change.id)
            seen = change.id in after or change.id in self._seen
            after[change.id] = apply(change, current, seen=seen)

    def next_id(self) -> str:
        """Return the id of the next reminder: `schedule-N`, N the count of ids ever seen + 1, none taken."""
        number = len(self._seen) + 1
        while f"schedule-{number}" in self._seen:
            number += 1
        return f"schedule-{number}"

    def earliest(self) -> int | None:
        """Return the earliest target, epoch milliseconds; None when nothing is active."""
        firsts = (heap.first(self._active) for heap in self._heaps())
        return min((entry.target_ms for entry in firsts if entry is not None), default=None)

    def earliest_after(self, now_ms: int) -> int | None:
        """Return the earliest target after an instant, epoch milliseconds; None for none. O(n)."""
        targets = (entry.target_ms for entry in self._active.values() if entry.target_ms > now_ms)
        return min(targets, default=None)

    def first_one_shot(self) -> Record | None:
        """Return the one-shot that comes first: earliest target, then create order."""
        entry = self._heaps()[0].first(self._active)
        return None if entry is None else entry.record

    def overdue_repeating(self, now_ms: int) -> list[EveryRecord]:
        """Return the repeating records whose target is not after `now_ms`, in target, then create order."""
        first = self._heaps()[1].first(self._active)
        if first is None or first.target_ms > now_ms:
            return []
        overdue = [entry for entry in self._active.values() if entry.target_ms <= now_ms]
        overdue.sort(key=_item)
        records = (entry.record for entry in overdue)
        return [record for record in records if isinstance(record, EveryRecord)]

    def _heaps(self) -> tuple[_TargetHeap, _TargetHeap]:
        """The heap of the one-shots and the one of the repeating reminders."""
        if not self._are_queued:
            self._are_queued = True
            entries = self._active.values()
            self._one_shots = _TargetHeap(entry for entry in entries if not entry.interval_ms)
            self._repeating = _TargetHeap(entry for entry in entries if entry.interval_ms)
        return self._one_shots, self._repeating


def apply(change: Change, current: Record | None, *, seen: bool, seq: int | None = None) -> Record | None:
    """Return what a change makes of the reminder that it names.

    Args:
        change: The change.
        current: The active record of its id, None when there is none.
        seen: Whether that id was ever used.
        seq: The event's place in its log, for the error.

    Returns:
        The record from then on; None when the reminder ends.

    Raises:
        ScheduleLogError: The change cannot follow.
    """
    if isinstance(change, Create):
        if seen:
            raise _used(change.id, seq)
        return change.schedule
    if current is None:
        raise _inactive(change.id, seq)
    if isinstance(change, Delete):
        return None
    if not isinstance(current, EveryRecord):
        _next_target(change, 0, 0, seq)
        return None
    next_ms = _next_target(change, current.target_ms, current.interval_ms, seq)
    return None if next_ms is None else _at(current, next_ms)


def _used(schedule_id: str, seq: int | None) -> ScheduleLogError:
    return ScheduleLogError(f"id {schedule_id!r} is used again", seq=seq)


def _inactive(schedule_id: str, seq: int | None) -> ScheduleLogError:
    return ScheduleLogError(f"id {schedule_id!r} is not active", seq=seq)


def _next_target(dispatch: Delivery, target_ms: int, interval_ms: int, seq: int | None) -> int | None:
    """Return where a dispatch moves an active reminder, epoch milliseconds; None when it ends it.

    Args:
        dispatch: The dispatch.
        target_ms: The target of a repeating reminder.
        interval_ms: The interval of a repeating reminder, 0 for a one-shot.
        seq: The event's place in its log, for the error.

    Raises:
        ScheduleLogError: The dispatch cannot follow.
    """
    if not interval_ms:
        if dispatch.accepted_at is not None:
            raise ScheduleLogError(f"one-shot {dispatch.id!r} is dispatched with acceptedAt", seq=seq)
        return None
    if dispatch.accepted_at is None:
        raise ScheduleLogError(f"repeating {dispatch.id!r} is dispatched without acceptedAt", seq=seq)
    try:
        accepted_at_ms = decode_instant(dispatch.accepted_at)
    except ValueError as error:
        raise ScheduleLogError(f"not a change of version 1: {error}", seq=seq) from error
    if accepted_at_ms < target_ms:
        raise ScheduleLogError(f"repeating {dispatch.id!r} is dispatched before its target", seq=seq)
    _, next_ms = occurrence_at(target_ms, interval_ms, accepted_at_ms)
    # Past the calendar's end there is no next one.
    return None if next_ms > MAX_INSTANT_MS else next_ms


def _at(record: EveryRecord, target_ms: int) -> EveryRecord:
    return msgspec.structs.replace(record, scheduled_at=render_instant(target_ms))


def decide(state: ScheduleState, now_ms: int) -> Decision | None:
    """Return what is to be delivered next, None when nothing is due at `now_ms`.

    Due one-shots go first, one at a time; without one, all overdue repeating reminders go together, as far
    as one row of the log holds them: the rest are still overdue afterwards, and are the next decision.
    """
    one_shot = state.first_one_shot()
    if one_shot is not None and one_shot.target_ms <= now_ms:
        return OneShot(one_shot)
    overdue = _fitting(state.overdue_repeating(now_ms))
    if not overdue:
        return None
    items = ((record, occurrence_at(record.target_ms, record.interval_ms, now_ms)[0]) for record in overdue)
    return Batch(tuple(items), now_ms)


def _fitting(overdue: list[EveryRecord]) -> list[EveryRecord]:
    """Return the first of them that surely fit into `MAX_BATCH_BYTES`, and one at least."""
    length = 0
    for count, record in enumerate(overdue):
        length += _framed_bytes(record)
        if count and length > MAX_BATCH_BYTES:
            return overdue[:count]
    return overdue


def _framed_bytes(record: Record) -> int:
    """Return at least the bytes that a reminder takes in the row of its message.

    There its prompt is a JSON string within a JSON string, and its id stands in the text and in the source.
    """
    prompt, schedule_id = (len(json.dumps(json.dumps(text))) for text in (record.prompt, record.id))
    return prompt + 2 * schedule_id + 256


def derive_dispatches(decision: Decision) -> tuple[Dispatch, ...]:
    """Return the changes that record a delivery, in its order."""
    if isinstance(decision, OneShot):
        return (Dispatch(decision.record.id),)
    accepted_at = render_instant(decision.accepted_at_ms)
    return tuple(Dispatch(record.id, accepted_at) for record, _ in decision.items)


def render_view(record: Record, now_ms: int) -> dict[str, Any]:
    """Return what the tools show of an active record when the clock reads `now_ms`."""
    state = "overdue" if now_ms >= record.target_ms else "scheduled"
    return {**render_record(record), "state": state, "deliveryMode": "session-local"}
