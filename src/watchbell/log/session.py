"""A session: one conversation's event log, growing, and the only place that appends to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from watchbell.errors import CorruptLogError, InvalidEventError, SessionClosedError
from watchbell.log.checks import MAX_ROW_BYTES, MESSAGE_TYPES, check_place, check_surface, check_values
from watchbell.log.eventlog import EventLog
from watchbell.log.events import OWN_PREFIX, SURFACE_TYPES, WRITTEN_TYPES, Draft, EndSeed, Event, Message
from watchbell.log.subscription import Subscription, Subscriptions
from watchbell.log.surface import MALFORMED
from watchbell.log.values import MAX_NESTING, check_json, decode_typed, nesting_depth

__all__ = [
    "FORMAT_VERSION",
    "MAX_ROW_BYTES",
    "Guard",
    "Observer",
    "Session",
    "SessionHeader",
]

FORMAT_VERSION = 0
"""Version of the log format that is read and written."""

_MAX_NAME = 256
"""Longest type of an event of our own, in characters."""

Observer = Callable[[Sequence[Event]], None]
"""Called synchronously with each batch right after it entered the log."""


class Guard(Protocol):
    """Checks a batch before it enters the log; raising refuses it whole."""

    def __call__(self, session: Session, drafts: Sequence[Draft], /) -> None:
        """Raise to keep `drafts` out of the log of `session`."""
        ...


class SessionHeader(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """What stands in a log before its events; fixed for the life of the session.

    Attributes:
        id: Non-empty, unique in its home.
        created_at: Epoch milliseconds.
        cwd: Absolute path of the project that the session belongs to, None for none.
        parent_session: The session that this one was forked from.
        seed_length: How many of its first events were the parent's.
        origin: `subagent` for the session of a child agent.
        delegation_depth: 0 for a root session, parent's + 1 for a child agent's.
        agent_preset: Carried for other programs.
    """

    id: str
    created_at: int
    cwd: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None
    origin: Literal["subagent"] | None = None
    delegation_depth: int
    agent_preset: Any = None

    @property
    def owned_from(self) -> int:
        """Seq of the first event that is the session's own rather than its parent's."""
        return self.seed_length or 0


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

    def seed(self, length: int | None = None) -> EventLog:
        """Return what a fork at `length` events starts from (all events when None).

        Raises:
            ValueError: `length` is not within the log.
        """
        length = len(self._log) if length is None else length
        if not 0 <= length <= len(self._log):
            raise ValueError(f"cannot fork at event {length}: the log has {len(self._log)}")
        return self._log.prefix(length)

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


class _Holder(msgspec.Struct, gc=False):
    message: Message


class _Inserted(msgspec.Struct, gc=False):
    inserted: list[Message]


def _check(event: Event) -> None:
    """Refuse an event that a strict reader would refuse (log-format, "Event envelope" and "Size")."""
    if event.type not in WRITTEN_TYPES:
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
    except (CorruptLogError, *MALFORMED) as error:
        reason = error.reason if isinstance(error, CorruptLogError) else error
        raise InvalidEventError(f"{event.type!r} is no valid event: {reason}") from error


def _is_name(type_name: str) -> bool:
    return type_name.isprintable() and len(type_name) <= _MAX_NAME


def _check_messages(event: Event) -> None:
    """Refuse a message that nobody could take into a conversation."""
    try:
        if event.type == "user/message":
            messages = [decode_typed(event.raw, Message)]
        elif event.type in SURFACE_TYPES:
            messages = [decode_typed(event.raw, _Holder).message]
        else:
            messages = decode_typed(event.raw, _Inserted).inserted
    except ValueError as error:
        raise CorruptLogError(f"it holds no message: {error}") from error
    if not all(message.id for message in messages):
        raise InvalidEventError(f"{event.type!r} has a message without an id")
