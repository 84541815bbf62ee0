"""What a session's reminders are right now, folded from its log (contract sections 2 and 5).

The fold is a projection: throw it away and the log rebuilds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.schedule.protocol import (
    MAX_INSTANT_MS,
    SCHEDULE_CHANGE,
    Change,
    Create,
    Delete,
    Dispatch,
    EveryRecord,
    Record,
    decode_change,
    decode_instant,
    render_instant,
    render_record,
)
from watchbell.schedule.rules import occurrence_at

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


class _Active(msgspec.Struct, frozen=True):
    """An active reminder with its place in create order and its target, decoded once."""

    order: int
    target_ms: int
    record: Record


class _TargetHeap:
    """Targets of one kind of reminder, earliest first, then in create order.

    Entries of ended or moved reminders stay until they come up, or until they outnumber the others.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []

    def add(self, entry: _Active, active: dict[str, _Active]) -> None:
        """Add an entry of `active`, in O(log n) on average."""
        heappush(self._heap, (entry.target_ms, entry.order, entry.record.id))
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


def _is_current(item: tuple[int, int, str], active: dict[str, _Active]) -> bool:
    entry = active.get(item[2])
    return entry is not None and (entry.target_ms, entry.order) == item[:2]


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

    def advance(self, log: EventLog) -> None:
        """Fold what the log gained since the last call.

        Raises:
            ScheduleLogError: The log's Schedule history is invalid.
        """
        self.check()
        try:
            if not 0 <= self._seed_length <= len(log):
                raise ScheduleLogError(
                    f"the fork point {self._seed_length} is not within the {len(log)} events"
                )
            for event in log.select(_TYPES, max(self._watermark, self._seed_length)):
                self.apply(decode_change(event.raw, event.seq), event.seq)
        except ScheduleLogError as error:
            self._failure = error
            raise
        self._watermark = len(log)

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
        record = apply(change, self.find(change.id), seen=change.id in self._seen, seq=seq)
        if record is None:
            del self._active[change.id]
            return
        order = len(self._seen) if isinstance(change, Create) else self._active[record.id].order
        self._seen.add(record.id)
        entry = self._active[record.id] = _Active(order, record.target_ms, record)
        heap = self._repeating if isinstance(record, EveryRecord) else self._one_shots
        heap.add(entry, self._active)

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
        firsts = (heap.first(self._active) for heap in (self._one_shots, self._repeating))
        return min((entry.target_ms for entry in firsts if entry is not None), default=None)

    def earliest_after(self, now_ms: int) -> int | None:
        """Return the earliest target after an instant, epoch milliseconds; None for none. O(n)."""
        targets = (entry.target_ms for entry in self._active.values() if entry.target_ms > now_ms)
        return min(targets, default=None)

    def first_one_shot(self) -> Record | None:
        """Return the one-shot that comes first: earliest target, then create order."""
        entry = self._one_shots.first(self._active)
        return None if entry is None else entry.record

    def overdue_repeating(self, now_ms: int) -> list[EveryRecord]:
        """Return the repeating records whose target is not after `now_ms`, in target, then create order."""
        first = self._repeating.first(self._active)
        if first is None or first.target_ms > now_ms:
            return []
        overdue = [entry for entry in self._active.values() if entry.target_ms <= now_ms]
        overdue.sort(key=lambda entry: (entry.target_ms, entry.order))
        return [entry.record for entry in overdue if isinstance(entry.record, EveryRecord)]


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
            raise ScheduleLogError(f"id {change.id!r} is used again", seq=seq)
        return change.schedule
    if current is None:
        raise ScheduleLogError(f"id {change.id!r} is not active", seq=seq)
    if isinstance(change, Delete):
        return None
    if isinstance(current, EveryRecord):
        return _apply_acceptance(current, change, seq)
    if change.accepted_at is not None:
        raise ScheduleLogError(f"one-shot {change.id!r} is dispatched with acceptedAt", seq=seq)
    return None


def _apply_acceptance(record: EveryRecord, dispatch: Dispatch, seq: int | None) -> EveryRecord | None:
    """Move a repeating reminder past its dispatched occurrence; None when the calendar has no next one."""
    if dispatch.accepted_at is None:
        raise ScheduleLogError(f"repeating {record.id!r} is dispatched without acceptedAt", seq=seq)
    accepted_at_ms = decode_instant(dispatch.accepted_at)
    if accepted_at_ms < record.target_ms:
        raise ScheduleLogError(f"repeating {record.id!r} is dispatched before its target", seq=seq)
    _, next_ms = occurrence_at(record.target_ms, record.interval_ms, accepted_at_ms)
    if next_ms > MAX_INSTANT_MS:
        return None
    return msgspec.structs.replace(record, scheduled_at=render_instant(next_ms))


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
