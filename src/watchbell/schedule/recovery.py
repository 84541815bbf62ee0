"""Finding deliveries that a crash tore apart: the message is in the log, its dispatch is not. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.log.transcript import surface_message
from watchbell.schedule.framing import ReminderKey, derive_key
from watchbell.schedule.protocol import Dispatch, EveryRecord, decode_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from watchbell.log.eventlog import EventLog
    from watchbell.log.events import Message
    from watchbell.schedule.state import ScheduleState

__all__ = ["derive_missing_dispatches"]

_ENTERED = frozenset({"user/message"})


def derive_missing_dispatches(
    state: ScheduleState, log: EventLog, pending: Iterable[Message], owned_from: int
) -> list[Dispatch]:
    """Return the dispatches of active records whose message is pending or entered the conversation already.

    Args:
        state: The fold of `log`.
        log: The session's events.
        pending: The messages in its inbox.
        owned_from: Events before this seq are a parent's and prove nothing.
    """
    if len(state) == 0:
        return []
    missing: dict[str, Dispatch] = {}
    for key in _keys(log, pending, owned_from):
        for schedule_id, occurrence_at in key.reminders:
            record = state.find(schedule_id)
            if record is None or decode_instant(occurrence_at) < record.target_ms:
                continue
            accepted_at: str | None = None
            if isinstance(record, EveryRecord):
                # A decision before its own occurrence is no decision of ours, and would spoil the log.
                accepted_at = max(key.accepted_at or "", occurrence_at)
            found = missing.get(schedule_id)
            # One dispatch is enough, the latest: it moves the record past every earlier occurrence.
            if found is None or (accepted_at or "") > (found.accepted_at or ""):
                missing[schedule_id] = Dispatch(id=schedule_id, accepted_at=accepted_at)
    return list(missing.values())


def _keys(log: EventLog, pending: Iterable[Message], owned_from: int) -> Iterator[ReminderKey]:
    for event in log.select(_ENTERED, owned_from):
        if b'"schedule"' in bytes(event.raw):
            message = surface_message(event)
            key = derive_key(message.source, message.text)
            if key is not None:
                yield key
    for message in pending:
        key = derive_key(message.source, message.text)
        if key is not None:
            yield key
