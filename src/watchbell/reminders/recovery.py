"""Finding deliveries that a crash tore apart: the message is in the log, its dispatch is not. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.instants import decode_instant
from watchbell.log.codec import decode_row
from watchbell.log.event import Event
from watchbell.log.payloads import surface_message
from watchbell.reminders.framing import derive_key
from watchbell.reminders.records import Dispatch, EveryRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchbell.log.eventlog import EventLog
    from watchbell.log.messages import Message
    from watchbell.reminders.state import ScheduleState

__all__ = ["MissingDispatches", "derive_missing_dispatches"]

_ENTERED = frozenset({"user/message"})
_SCHEDULE = b'"schedule"'  # which a message of Schedule's names in its source


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
    return MissingDispatches(state, owned_from).advance(log).derive(pending)


class MissingDispatches:
    """A projection: the deliveries that a log shows of reminders that are active at its end.

    Args:
        state: The fold of the whole log.
        owned_from: Events before this seq are a parent's and prove nothing.
    """

    def __init__(self, state: ScheduleState, owned_from: int) -> None:
        self._state = state
        self._watermark = owned_from
        self._spots: list[tuple[int, int]] = []
        self._found: dict[str, Dispatch] = {}

    def advance(self, log: EventLog, stop: int | None = None) -> MissingDispatches:
        """Look at the events that came since the last call, as far as `stop`, and return itself."""
        self.survey(log, len(log) if stop is None else min(stop, len(log)))
        for start, end in self.take_spots():
            self.look(log, start, end)
        return self

    def survey(self, log: EventLog, stop: int) -> None:
        """Find out where to `look`; that needs no state yet, so both folds can share what they read."""
        start, self._watermark = self._watermark, max(self._watermark, stop)
        if any(_SCHEDULE in lines for lines in log.lines(_ENTERED, start, stop)):
            self._spots.append((start, stop))

    def take_spots(self) -> list[tuple[int, int]]:
        """Return the stretches to look at, as seqs, each only once."""
        spots, self._spots = self._spots, []
        return spots

    def look(self, log: EventLog, start: int, stop: int) -> None:
        """Look at the events `start <= seq < stop`, all of which the state has folded."""
        if len(self._state) == 0:
            return
        for lines in log.lines(_ENTERED, start, stop):
            for line in lines[:-1].split(b"\n"):
                if _SCHEDULE in line:
                    event = decode_row(line)
                    if isinstance(event, Event):  # as every row of a message is
                        self._look_at(surface_message(event))

    def derive(self, pending: Iterable[Message]) -> list[Dispatch]:
        """Return what is missing, also of what is pending, for reminders that are active still."""
        for message in pending:
            self._look_at(message)
        return [dispatch for dispatch in self._found.values() if self._state.find(dispatch.id) is not None]

    def _look_at(self, message: Message) -> None:
        key = derive_key(message.source, message.text)
        if key is None:
            return
        for schedule_id, occurrence_at in key.reminders:
            record = self._state.find(schedule_id)
            if record is None or decode_instant(occurrence_at) < record.target_ms:
                continue
            accepted_at: str | None = None
            if isinstance(record, EveryRecord):
                # A decision before its own occurrence is no decision of ours, and would spoil the log.
                accepted_at = max(key.accepted_at or "", occurrence_at)
            found = self._found.get(schedule_id)
            # One dispatch is enough, the latest: it moves the record past every earlier occurrence.
            if found is None or (accepted_at or "") > (found.accepted_at or ""):
                self._found[schedule_id] = Dispatch(id=schedule_id, accepted_at=accepted_at)
