"""A session: one conversation's event log, growing, and the only place that appends to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from watchbell.errors import CorruptLogError, InvalidEventError, SessionClosedError
from watchbell.listeners import Subscription, Subscriptions
from watchbell.log.checks import MAX_ROW_BYTES, MESSAGE_TYPES, check_place, check_surface, check_values
from watchbell.log.event import OWN_PREFIX, Draft, Event, written_types
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.log.payloads import EndSeed, carried_messages
from watchbell.log.projection import Projection, fold
from watchbell.log.values import MAX_NESTING, check_json, nesting_depth

SLICE_EVENTS = 2_000
"""About how many events are folded before others get their turn: a millisecond or two."""

_MAX_NAME = 256
"""Longest type of an event of our own, in characters."""

Observer = Callable[[Sequence[Event]], None]
"""Called synchronously with each batch right after it entered the log."""


class Guard(Protocol):
    """Checks a batch before it enters the log; raising refuses it whole."""

    def __call__(self, session: Session, drafts: Sequence[Draft], /) -> None:
        """Raise to keep `drafts` out of the log of `session`."""
        ...


class Session:
    """One live event log.

    Appending is synchronous, never waits for a disk and either adds the whole batch or nothing. When the
    log was built from earlier events that do not end in `session/end-seed`, that event is put before the
    first batch appended here, so that opening a session alone changes nothing.

    Args:
        header: The session's header.
        log: The events that exist already (a resumed log, or a fork's seed).
        now_ms: Reads the wall clock, epoch milliseconds.
        report: Told of an observer's exception, which never reaches whoever appended.
    """

    def __init__(
        self,
        header: SessionHeader,
        log: EventLog | None = None,
        *,
        now_ms: Callable[[], int],
        report: Callable[[Exception], None] | None = None,
    ) -> None:
        self.header = header
        self._log = EventLog() if log is None else log
        self._now_ms = now_ms
        self._report = report
        self._observers: Subscriptions = {}
        self._guards: Subscriptions = {}
        self._closed = False
        self._end_seed_due = self._log.last_type not in (None, "session/end-seed")
        self._lead = (Draft("session/end-seed", EndSeed()),) if self._end_seed_due else ()

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {len(self._log)} events)"

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.id

    @property
    def events(self) -> EventLog:
        """All events so far; read only."""
        return self._log

    @property
    def end_seed_due(self) -> bool:
        """Whether the next batch will be preceded by `session/end-seed`."""
        return self._end_seed_due

    @property
    def is_closed(self) -> bool:
        """Whether appending is over."""
        return self._closed

    def append(
        self,
        type: str,  # noqa: A002 - the event's own word for it
        data: Any,
        *,
        source_event_seqs: tuple[int, ...] | None = None,
        surface_op: Literal["append"] | None = None,
    ) -> Event:
        """Append one event and return it. See `append_batch` for what is refused."""
        ignorable = type.startswith(OWN_PREFIX)
        return self.append_batch([Draft(type, data, source_event_seqs, surface_op, ignorable)])[0]

    def append_batch(self, drafts: Sequence[Draft]) -> tuple[Event, ...]:
        """Append events that belong together: contiguous, and one unit for every storage.

        Returns:
            The events, in order, without those that were put before them (`lead`).

        Raises:
            InvalidEventError: One of them is not a valid event, or a guard refused the batch. Nothing was
                appended.
            SessionClosedError: The session was closed.
        """
        if self._closed:
            raise SessionClosedError(f"session {self.id!r} is closed; resume it to go on")
        if not drafts:
            return ()
        lead = self._lead
        if lead and any(draft.type == "session/end-seed" for draft in drafts):
            lead = ()
        if lead:
            drafts = [*lead, *drafts]
        for guard in tuple(self._guards):
            guard.listener(self, drafts)
        now, first = self._now_ms(), len(self._log)
        events = tuple([draft.at(seq, now) for seq, draft in enumerate(drafts, first)])
        for event in events:
            _check(event)
        self._log.extend(events)
        self._end_seed_due, self._lead = False, ()
        self._notify(events)
        return events[len(lead) :] if lead else events

    def lead(self, drafts: Sequence[Draft]) -> None:
        """Put `drafts` before the first batch that is appended, in place of what is due before it by itself.

        They become part of that batch, with any `session/end-seed` that is due among them. A batch that
        brings a `session/end-seed` of its own goes without them.
        """
        self._lead = tuple(drafts)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` after each batch; the function returned ends that."""
        return Subscription(self._observers, observer)

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Ask `guard` before each batch; the function returned ends that."""
        return Subscription(self._guards, guard)

    async def fold(self, *projections: Projection[Any]) -> None:
        """Bring projections up to the end of the log, in one pass with pauses in which others go on.

        Less than a slice is folded without a pause. What the log gains meanwhile is left to the next fold.

        Raises:
            CorruptLogError: An event is malformed, or cannot follow those before it.
        """
        start = min(projection.watermark for projection in projections)
        for number, stop in enumerate(self._log.slices(start, SLICE_EVENTS)):
            if number:
                await asyncio.sleep(0)
            fold(self._log, projections, stop)

    def close(self) -> None:
        """Refuse all further appends; reading goes on."""
        self._closed = True

    def _notify(self, events: Sequence[Event]) -> None:
        for observer in tuple(self._observers):
            try:
                observer.listener(events)
            except Exception as error:  # noqa: BLE001 - the batch is in the log; nobody's fault may hide that
                if self._report is not None:
                    self._report(error)


def _check(event: Event) -> None:
    """Refuse an event that a strict reader would refuse (log-format, "Event envelope" and "Size")."""
    if event.type not in written_types():
        if not (event.type.startswith(OWN_PREFIX) and _is_name(event.type)):
            raise InvalidEventError(f"Watchbell does not write events of type {event.type[:40]!r}")
        if not event.ignorable:
            raise InvalidEventError(f"{event.type!r} must be ignorable")
    raw = bytes(event.raw)
    sources = event.source_event_seqs
    length = len(raw) + (0 if sources is msgspec.UNSET else memoryview(sources).nbytes)
    if length > MAX_ROW_BYTES - 4096:
        raise InvalidEventError(f"{event.type!r} is longer than a row may be ({MAX_ROW_BYTES} bytes)")
    if nesting_depth(raw) >= MAX_NESTING:
        raise InvalidEventError(f"{event.type!r} is nested deeper than {MAX_NESTING}")
    try:
        check_json(raw)
        check_place(event)
        check_values(raw)
        check_surface(event)
        if event.type in MESSAGE_TYPES:
            _check_messages(event)
    except (CorruptLogError, ValueError) as error:
        reason = error.reason if isinstance(error, CorruptLogError) else error
        raise InvalidEventError(f"{event.type!r} is no valid event: {reason}") from error


def _is_name(type_name: str) -> bool:
    return type_name.isprintable() and len(type_name) <= _MAX_NAME


def _check_messages(event: Event) -> None:
    """Refuse a message that nobody could take into a conversation."""
    try:
        messages = carried_messages(event)
    except CorruptLogError as error:
        raise CorruptLogError(f"it holds no message: {error.__cause__}") from error
    if not all(message.id for message in messages):
        raise InvalidEventError(f"{event.type!r} has a message without an id")
