"""What a live session still has to come, and waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import tzinfo

from watchbell.agent.agent import Agent
from watchbell.agent.events import AgentIdle
from watchbell.cli.console.times import render_moment
from watchbell.errors import ScheduleLogError
from watchbell.instants import Instant
from watchbell.reminders.records import EveryRecord, Record
from watchbell.reminders.state import ScheduleState
from watchbell.reminders.views import derive_view, render_view

OVERDUE_SECONDS = 10.0
"""How long a command waits for overdue reminders before it goes on without them."""


class PendingReminders:
    """A view of a live agent's reminders, folded from its log whenever it is asked.

    Args:
        agent: The agent; its clock says what is overdue.
        zone: The zone that times are told in; None for this computer's.
    """

    def __init__(self, agent: Agent, zone: tzinfo | None) -> None:
        self._agent = agent
        self._clock = agent.ctx.clock
        self._zone = zone
        self._state = ScheduleState(agent.session.header.owned_from)

    def records(self) -> list[Record]:
        """Return the active records, earliest target first.

        Raises:
            ScheduleLogError: The session's Schedule history is invalid.
        """
        self._state.advance(self._agent.session.events)
        return sorted(self._state.records, key=lambda record: record.target_ms)

    def views(self) -> list[dict[str, str | int]]:
        """Return what the tools would show of `records`."""
        now = Instant(self._clock.now_ms())
        return [render_view(derive_view(record, now)) for record in self.records()]

    def describe(self) -> str:
        """Say in one line how many reminders stay, when the next one fires, and what that needs."""
        try:
            records = self.records()
        except ScheduleLogError as error:
            return f"Reminders: {error}."
        if not records:
            return "No reminders pending."
        first = records[0]
        count = "1 reminder" if len(records) == 1 else f"{len(records)} reminders"
        verb = "was due" if first.target_ms <= self._clock.now_ms() else "fires"
        return (
            f"{count} pending; the next, {first.id}, {verb} {render_moment(first.target_ms, self._zone)}. "
            "Reminders fire while the session is open; a missed one comes as soon as it is opened again."
        )

    async def overdue_delivered(self) -> bool:
        """Wait until what is overdue now was delivered and answered; False when it takes too long.

        An invalid Schedule history has nothing to wait for.
        """
        now_ms = self._clock.now_ms()
        try:
            async with asyncio.timeout(OVERDUE_SECONDS):
                await self._settled(lambda: all(record.target_ms > now_ms for record in self.records()))
        except TimeoutError:
            return False
        except ScheduleLogError:
            pass
        return True

    async def one_shots_delivered(self) -> None:
        """Wait until no one-shot reminder is active and the agent is idle.

        Raises:
            ScheduleLogError: The session's Schedule history is invalid.
        """
        await self._settled(lambda: all(isinstance(record, EveryRecord) for record in self.records()))

    async def _settled(self, is_done: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        stops = [
            self._agent.session.observe(lambda _: changed.set()),
            self._agent.ctx.on(AgentIdle, lambda _: changed.set()),
        ]
        try:
            while True:
                await self._agent.when_idle()
                changed.clear()
                if is_done() and self._agent.phase == "idle":
                    return
                await changed.wait()
        finally:
            for stop in stops:
                stop()
