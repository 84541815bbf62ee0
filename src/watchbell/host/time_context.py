"""Tells the model what time it is for the user, at the head of each step that a message opens.

Contract section 8. Schedule never reads this: the model turns "tomorrow at nine" into an explicit `at`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from watchbell.agent.events import StepPrepare
from watchbell.clock import Clock
from watchbell.context import Context
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, PersonSource, PluginSource
from watchbell.log.projection import AnyRow, Projection, Reader
from watchbell.sessions.session import Session
from watchbell.zones import ZoneTable

TIME_ZONE_KEY = "timeZone"
"""Where a person's message says in its `source` which IANA zone the person is in."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_context(*, time_zone: str | None = None, zones: ZoneTable | None = None) -> TimeContextPlugin:
    """Return the plugin.

    Args:
        time_zone: The zone of users who do not say theirs; None makes the model ask.
        zones: Where zones are looked up; the tzdata wheel by default.
    """
    return TimeContextPlugin(time_zone, zones or ZoneTable())


class TimeContextPlugin:
    """Adds one message with the current time to each step that a person or a reminder opens."""

    name = "time-context"
    requires = ("agents", "clock")

    def __init__(self, time_zone: str | None, zones: ZoneTable) -> None:
        self._time_zone = time_zone
        self._zones = zones
        self._given: WeakKeyDictionary[Session, _GivenZone] = WeakKeyDictionary()

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncGenerator[None]:
        """Add the time until this is left."""
        clock: Clock = ctx.clock
        source = msgspec.to_builtins(PluginSource(self.name))

        async def prepare(event: StepPrepare) -> None:
            agent, plan = event.agent, event.plan
            if plan.accepted:
                zone = await self._latest_zone(agent.session, plan.accepted) or self._time_zone
                text = render_time_context(clock.now_ms(), zone, self._zones)
                plan.put_first(text, source)

        stop = ctx.on(StepPrepare, prepare)
        try:
            yield
        finally:
            stop()

    async def _latest_zone(self, session: Session, entering: Sequence[Message]) -> str | None:
        """Return the known zone that a person last gave: in the messages that enter now, else in the log."""
        for message in reversed(entering):
            origin = message.origin
            if isinstance(origin, PersonSource) and _find(self._zones, origin.time_zone) is not None:
                return origin.time_zone
        given = self._given.get(session)
        if given is None:
            given = self._given[session] = _GivenZone(self._zones)
        await session.fold(given)
        return given.zone


class _Source(msgspec.Struct, rename={"time_zone": TIME_ZONE_KEY}):
    time_zone: Any = None


class _Entered(msgspec.Struct):
    source: _Source


class _EnteredRow(AnyRow, frozen=True, gc=False):
    data: _Entered


class _GivenZone(Projection[_EnteredRow]):
    """The last known zone that a message of a log names, None while none does."""

    reader = Reader(frozenset({"user/message"}), msgspec.json.Decoder(_EnteredRow))

    def __init__(self, zones: ZoneTable) -> None:
        super().__init__()
        self.zone: str | None = None
        self._zones = zones

    def fold(self, rows: Sequence[_EnteredRow], log: EventLog) -> None:
        """Fold the next messages."""
        for row in rows:
            zone = row.data.source.time_zone
            if isinstance(zone, str) and self._zones.find(zone) is not None:
                self.zone = zone


def render_time_context(now_ms: int, time_zone: str | None, zones: ZoneTable) -> str:
    """Return the message's text: local time with offset and zone, UTC, and the weekday.

    Args:
        now_ms: Wall time, epoch milliseconds.
        time_zone: The user's zone; None, one that is not in `zones`, or one whose local time is outside the
            calendar, makes the text say that it is unknown.
        zones: Where the zone is looked up.
    """
    now = _EPOCH + timedelta(seconds=now_ms // 1000)
    local = _local_time(now, time_zone, zones)
    utc = f"now_utc: {now.replace(tzinfo=None).isoformat()}Z"
    if local is None:
        return "\n".join(
            (
                "[TIME CONTEXT]",
                utc,
                f"weekday: {now:%A} (UTC)",
                "time_zone: unknown; ask the user for it before a local time is meant",
            )
        )
    return "\n".join(
        (
            "[TIME CONTEXT]",
            f"now_local: {local.isoformat(timespec='seconds')}",
            f"time_zone: {time_zone}",
            utc,
            f"weekday: {local:%A}",
        )
    )


def _local_time(now: datetime, time_zone: str | None, zones: ZoneTable) -> datetime | None:
    zone = _find(zones, time_zone)
    try:
        return None if zone is None else now.astimezone(zone)
    except OverflowError:  # in the calendar's first and last hours
        return None


def _find(zones: ZoneTable, name: str | None) -> tzinfo | None:
    return None if name is None else zones.find(name)
