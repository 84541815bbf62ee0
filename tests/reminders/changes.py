"""Records of 1 December 2026, and logs of their changes."""

from __future__ import annotations

import msgspec

from watchbell.instants import Instant, decode_instant
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.reminders.records import AtRecord, Change, EveryRecord, draft_change
from watchbell.reminders.state import ScheduleState


def t(clock: str) -> str:
    """Return an instant of that day from its time of day."""
    return f"2026-12-01T{clock}.000Z" if len(clock) == 8 else f"2026-12-01T{clock}Z"


def ms(clock: str) -> Instant:
    return decode_instant(t(clock))


def at(schedule_id: str, clock: str) -> AtRecord:
    return AtRecord(schedule_id, f"do {schedule_id}", t(clock))


def every(schedule_id: str, clock: str, seconds: int = 300) -> EveryRecord:
    return EveryRecord(schedule_id, f"look at {schedule_id}", t(clock), every_seconds=seconds)


def append(log: EventLog, *changes: Change | str) -> None:
    """Append changes; a text is an event of another type, which Schedule must not read."""
    for change in changes:
        draft = Draft(change, msgspec.Raw(b"not JSON")) if isinstance(change, str) else draft_change(change)
        log.extend([draft.at(len(log), 0)])


def folded(*changes: Change | str, owned_from: int = 0) -> ScheduleState:
    log = EventLog()
    append(log, *changes)
    return ScheduleState(owned_from).advance(log)


def ids(state: ScheduleState) -> list[str]:
    return [record.id for record in state.records]
