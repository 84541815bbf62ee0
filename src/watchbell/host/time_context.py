"""Tells the model what time it is for the user, at the head of each step that a message opens.

Contract section 8. Schedule never reads this: the model turns "tomorrow at nine" into an explicit `at`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from watchbell.agent.events import StepPrepare
from watchbell.log.codec import decode_row
from watchbell.log.event import Event
from watchbell.log.messages import Message
from watchbell.log.surface import surface_message
from watchbell.zones import ZoneTable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from watchbell.agent.agent import Agent
    from watchbell.agent.events import StepPlan
    from watchbell.clock import Clock
    from watchbell.context import Context
    from watchbell.sessions.session import Session

__all__ = ["TIME_ZONE_KEY", "TimeContextPlugin", "render_time_context", "time_context"]

TIME_ZONE_KEY = "timeZone"
"""Where a person's message says in its `source` which IANA zone the person is in."""

SOURCE: dict[str, Any] = {"kind": "plugin", "plugin": "time-context"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENTERED = frozenset({"user/message"})


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
        # What each log said last, and how far it was read: a long one is looked through once.
        self._given: WeakKeyDictionary[Session, tuple[int, str | None]] = WeakKeyDictionary()

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncGenerator[None]:
        """Add the time until this is left."""
        clock: Clock = ctx.clock

        async def prepare(event: StepPrepare) -> None:
            agent, plan = event.agent, event.plan
            if plan.accepted:
                zone = self._latest_zone(agent, plan) or self._time_zone
                text = render_time_context(clock.now_ms(), zone, self._zones)
                plan.put_first(text, SOURCE)

        stop = ctx.on(StepPrepare, prepare)
        try:
            yield
        finally:
            stop()

    def _latest_zone(self, agent: Agent, plan: StepPlan) -> str | None:
        """Return the known zone that a person last gave: in the messages that enter now, else in the log."""
        for message in reversed(plan.accepted):
            if message.is_from_person and (zone := self._zone_in(message)) is not None:
                return zone
        log = agent.session.events
        start, given = self._given.get(agent.session, (0, None))
        for lines in log.lines(_ENTERED, start):
            for line in lines[:-1].split(b"\n"):
                if TIME_ZONE_KEY.encode() in line:
                    event = decode_row(line)
                    zone = self._zone_in(surface_message(event)) if isinstance(event, Event) else None
                    given = zone or given
        self._given[agent.session] = (len(log), given)
        return given

    def _zone_in(self, message: Message) -> str | None:
        """Return the zone that a message names, None when it names none or one that is not known."""
        zone = message.source.get(TIME_ZONE_KEY)
        return zone if isinstance(zone, str) and self._zones.find(zone) is not None else None


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
    zone = None if time_zone is None else zones.find(time_zone)
    try:
        return None if zone is None else now.astimezone(zone)
    except OverflowError:  # in the calendar's first and last hours
        return None
