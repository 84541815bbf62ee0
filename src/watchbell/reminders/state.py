"""What a session's reminders are right now, folded from its log (contract sections 2 and 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Self

import msgspec

from watchbell.errors import ScheduleLogError
from watchbell.instants import MAX_INSTANT_MS, Duration, Instant, decode_instant, render_instant
from watchbell.log.eventlog import EventLog
from watchbell.log.projection import Projection
from watchbell.reminders.records import (
    CHANGES,
    Change,
    ChangeRow,
    Create,
    CreateLine,
    Dispatch,
    DispatchLine,
    EveryRecord,
    Record,
    UnreadableChange,
)
from watchbell.reminders.times import occurrence_at

_MANY_ROWS = 100
_NO_INTERVAL = Duration(0)


class ActiveReminder(msgspec.Struct, gc=False):
    """An active reminder, with its place in create order.

    A repeating one moves at each dispatch; the text of its target is made when somebody asks for the record.
    """

    order: int
    interval: Duration  # 0 for a one-shot
    made: Record
    moved_to: Instant | None = None

    @property
    def target(self) -> Instant:
        """When it falls due next."""
        if self.moved_to is None:
            self.moved_to = self.made.target_ms
        return self.moved_to

    @property
    def record(self) -> Record:
        """Its record as it is now."""
        record, target = self.made, self.moved_to
        if target is not None and isinstance(record, EveryRecord) and record.target_ms != target:
            record = self.made = msgspec.structs.replace(record, scheduled_at=render_instant(target))
        return record


class ActiveReminders:
    """The active reminders by id, in create order, and every id ever used.

    What a change does to them is said in `apply` and nowhere else.
    """

    def __init__(self) -> None:
        self.active: dict[str, ActiveReminder] = {}
        self.seen: set[str] = set()

    def find(self, schedule_id: str) -> Record | None:
        """Return the active record of that id, None when there is none."""
        reminder = self.active.get(schedule_id)
        return None if reminder is None else reminder.record

    def apply(self, change: Change, seq: int | None = None) -> ActiveReminder | None:
        """Apply one change.

        Args:
            change: The change.
            seq: The event's place in its log, for the error.

        Returns:
            The reminder that it made or moved; None when it ended one.

        Raises:
            ScheduleLogError: The change cannot follow those before it; nothing has changed.
        """
        # Logs hold many changes, and `isinstance` takes several times as long for a struct's class.
        if type(change) is CreateLine or type(change) is Create:
            record, seen = change.schedule, self.seen
            if record.id in seen:
                raise ScheduleLogError(f"id {record.id!r} is used again", seq=seq)
            interval = record.interval_ms if type(record) is EveryRecord else _NO_INTERVAL
            reminder = ActiveReminder(len(seen), interval, record)
            self.active[record.id] = reminder
            seen.add(record.id)
            return reminder
        reminder = self.active.get(change.id)
        if reminder is None:
            raise ScheduleLogError(f"id {change.id!r} is not active", seq=seq)
        if type(change) is DispatchLine or type(change) is Dispatch:
            following = _following(reminder, change, seq)
            if following is not None:
                reminder.moved_to = following
                return reminder
        del self.active[change.id]
        return None

    def forget(self, schedule_id: str) -> None:
        """Let an id be as if it had never been used."""
        self.active.pop(schedule_id, None)
        self.seen.discard(schedule_id)

    def check(self, changes: Sequence[Change]) -> None:
        """Make sure that these changes, in this order, could be applied now; nothing changes.

        Raises:
            ScheduleLogError: One of them could not.
        """
        trial = ActiveReminders()
        for schedule_id in {change.id for change in changes}:
            if schedule_id in self.active:
                trial.active[schedule_id] = msgspec.structs.replace(self.active[schedule_id])
            if schedule_id in self.seen:
                trial.seen.add(schedule_id)
        for change in changes:
            trial.apply(change)


def _following(reminder: ActiveReminder, dispatch: Dispatch, seq: int | None) -> Instant | None:
    """Return where a dispatch moves an active reminder; None when it ends it.

    Raises:
        ScheduleLogError: The dispatch cannot follow.
    """
    interval, accepted_at = reminder.interval, dispatch.accepted_at
    if not interval:
        if accepted_at is not None:
            raise ScheduleLogError(f"one-shot {dispatch.id!r} is dispatched with acceptedAt", seq=seq)
        return None
    if accepted_at is None:
        raise ScheduleLogError(f"repeating {dispatch.id!r} is dispatched without acceptedAt", seq=seq)
    try:
        accepted = decode_instant(accepted_at)
    except ValueError as error:
        raise ScheduleLogError(f"not a change of version 1: {error}", seq=seq) from error
    target = reminder.target
    if accepted < target:
        raise ScheduleLogError(f"repeating {dispatch.id!r} is dispatched before its target", seq=seq)
    _, following = occurrence_at(target, interval, accepted)
    # Past the calendar's end there is no next one.
    return None if following > MAX_INSTANT_MS else following


class ScheduleState(Projection[ChangeRow | UnreadableChange]):
    """A projection: the reminders of one session, and which of them come first.

    An invalid event stops the fold for good: it and everything that asks later raise the same error.

    Attributes:
        reminders: The active ones, and every id ever used.

    Args:
        owned_from: Events before this seq belong to the parent of a fork and are not folded.
    """

    reader = CHANGES

    def __init__(self, owned_from: int = 0) -> None:
        super().__init__(owned_from)
        self._owned_from = owned_from
        self.reminders = ActiveReminders()
        self._one_shots = _TargetHeap()
        self._repeating = _TargetHeap()
        self._are_queued = True  # whether the heaps hold all active reminders
        self._failure: ScheduleLogError | None = None

    def __len__(self) -> int:
        return len(self.reminders.active)

    @property
    def records(self) -> Iterator[Record]:
        """The active records, in create order."""
        return (reminder.record for reminder in self.reminders.active.values())

    def find(self, schedule_id: str) -> Record | None:
        """Return the active record of that id, None when there is none."""
        return self.reminders.find(schedule_id)

    def advance(self, log: EventLog, stop: int | None = None) -> Self:
        """Fold what the log gained since the last call, as far as `stop`, and return itself.

        Raises:
            ScheduleLogError: The log's Schedule history is invalid.
        """
        self.check()
        if not 0 <= self._owned_from <= len(log):
            reason = f"the fork point {self._owned_from} is not within the {len(log)} events"
            self._failure = ScheduleLogError(reason)
            raise self._failure
        return super().advance(log, stop)

    def fold(self, rows: Sequence[ChangeRow | UnreadableChange], log: EventLog) -> None:
        """Fold the next changes.

        Raises:
            ScheduleLogError: One of them cannot be read or cannot follow, or one did before.
        """
        self.check()
        # Of many changes few remain to wait for, so the heaps are made once, at the end.
        self._are_queued &= len(rows) < _MANY_ROWS
        are_queued, apply = self._are_queued, self.reminders.apply
        try:
            for row in rows:
                if type(row) is UnreadableChange:
                    raise ScheduleLogError(row.reason, seq=row.seq)
                reminder = apply(row.data, row.seq)
                if are_queued and reminder is not None:
                    heap = self._repeating if reminder.interval else self._one_shots
                    heap.add(reminder, self.reminders.active)
        except ScheduleLogError as error:
            self._failure = error
            raise

    def check(self) -> None:
        """Raise the error that stopped the fold, if one did.

        Raises:
            ScheduleLogError: An event folded earlier was invalid.
        """
        if self._failure is not None:
            raise self._failure

    def check_candidates(self, changes: Sequence[Change]) -> None:
        """Make sure that these changes, in this order, could be appended now; the state stays as it is.

        Raises:
            ScheduleLogError: One of them could not, or the history is invalid already.
        """
        self.check()
        self.reminders.check(changes)

    def next_id(self) -> str:
        """Return the id of the next reminder: `schedule-N`, N the count of ids ever seen + 1, none taken."""
        seen = self.reminders.seen
        number = len(seen) + 1
        while f"schedule-{number}" in seen:
            number += 1
        return f"schedule-{number}"

    def earliest(self) -> Instant | None:
        """Return the earliest target; None when nothing is active."""
        firsts = (heap.first(self.reminders.active) for heap in self._heaps())
        return min((reminder.target for reminder in firsts if reminder is not None), default=None)

    def earliest_after(self, now: Instant) -> Instant | None:
        """Return the earliest target after an instant; None for none. O(n)."""
        targets = (reminder.target for reminder in self.reminders.active.values())
        return min((target for target in targets if target > now), default=None)

    def first_one_shot(self) -> Record | None:
        """Return the one-shot that comes first: earliest target, then create order."""
        reminder = self._heaps()[0].first(self.reminders.active)
        return None if reminder is None else reminder.record

    def overdue_repeating(self, now: Instant) -> list[EveryRecord]:
        """Return the repeating records whose target is not after `now`, in target, then create order."""
        first = self._heaps()[1].first(self.reminders.active)
        if first is None or first.target > now:
            return []
        overdue = [reminder for reminder in self.reminders.active.values() if reminder.target <= now]
        overdue.sort(key=_item)
        records = (reminder.record for reminder in overdue)
        return [record for record in records if isinstance(record, EveryRecord)]

    def _heaps(self) -> tuple[_TargetHeap, _TargetHeap]:
        """The heap of the one-shots and the one of the repeating reminders."""
        if not self._are_queued:
            self._are_queued = True
            reminders = self.reminders.active.values()
            self._one_shots = _TargetHeap(reminder for reminder in reminders if not reminder.interval)
            self._repeating = _TargetHeap(reminder for reminder in reminders if reminder.interval)
        return self._one_shots, self._repeating


class _TargetHeap:
    """Targets of one kind of reminder, earliest first, then in create order.

    Entries of ended or moved reminders stay until they come up, or until they outnumber the others.
    """

    def __init__(self, reminders: Iterable[ActiveReminder] = ()) -> None:
        self._heap = [_item(reminder) for reminder in reminders]
        heapify(self._heap)

    def add(self, reminder: ActiveReminder, active: dict[str, ActiveReminder]) -> None:
        """Add a reminder of `active`, in O(log n) on average."""
        heappush(self._heap, _item(reminder))
        if len(self._heap) > 2 * len(active) + 64:
            self._heap = [item for item in self._heap if _is_current(item, active)]
            heapify(self._heap)

    def first(self, active: dict[str, ActiveReminder]) -> ActiveReminder | None:
        """Return the reminder that comes first, in O(log n) on average."""
        while self._heap:
            if _is_current(self._heap[0], active):
                return active[self._heap[0][2]]
            heappop(self._heap)
        return None


def _item(reminder: ActiveReminder) -> tuple[Instant, int, str]:
    return reminder.target, reminder.order, reminder.made.id


def _is_current(item: tuple[Instant, int, str], active: dict[str, ActiveReminder]) -> bool:
    reminder = active.get(item[2])
    return reminder is not None and _item(reminder) == item
