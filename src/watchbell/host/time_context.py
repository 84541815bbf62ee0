"""Tells the model what time it is for the user, at the head of each step that a message opens.

Contract section 8. Schedule never reads this: the model turns "tomorrow at nine" into an explicit `at`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

from watchbell.log.events import Message, TextBlock
from watchbell.log.transcript import surface_message
from watchbell.zones import ZoneTable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from watchbell.agent.agent import Agent
    from watchbell.agent.entry import StepPlan
    from watchbell.context import Context

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

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncGenerator[None]:
        """Add the time until this is left."""

        async def prepare(agent: Agent, plan: StepPlan) -> None:
            if plan.accepted:
                zone = _latest_zone(agent, plan, self._zones) or self._time_zone
                text = render_time_context(ctx.clock.now_ms(), zone, self._zones)
                plan.head.append(Message(agent.new_id(), "user", SOURCE, (TextBlock(text),)))

        stop = ctx.on("step/prepare", prepare)
        try:
            yield
        finally:
            stop()


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


def _latest_zone(agent: Agent, plan: StepPlan, zones: ZoneTable) -> str | None:
    """Return the known zone that a person last gave: in the messages that enter now, else in the log."""
    given = (message.source for message in reversed(plan.accepted) if message.is_from_person)
    for source in chain(given, _sources_in_log(agent)):
        zone = source.get(TIME_ZONE_KEY)
        if isinstance(zone, str) and zones.find(zone) is not None:
            return zone
    return None


def _sources_in_log(agent: Agent) -> Iterator[dict[str, Any]]:
    """Return the sources that may name a zone, newest first."""
    for event in agent.session.events.select_back(_ENTERED):
        if TIME_ZONE_KEY.encode() in bytes(event.raw):
            yield surface_message(event).source
