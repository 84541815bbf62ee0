"""A program with nothing due is forgettable: it logs nothing, stores nothing and only reads the clock."""

from __future__ import annotations

import logging

import pytest

from tests.program import Program, ask, run
from watchbell import schedule
from watchbell.instants import Instant, render_instant
from watchbell.testing import SimulatedClock

SESSIONS, EACH, DAY = 50, 20, 86_400


@pytest.mark.parametrize("start", ["2026-10-31T12:00:00.000Z", "2027-03-13T12:00:00.000Z"])
def test_fifty_sessions_are_silent_for_a_day_over_a_clock_change(
    start: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "watchbell")

    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[schedule.plugin()]) as program:
            agents = [await program.host.agents.create(f"s{number}") for number in range(SESSIONS)]
            for agent in agents:
                for number in range(EACH):
                    value = await ask(agent, "schedule_create", prompt="x", after_seconds=2 * DAY + number)
                    assert value["state"] == "scheduled"
            stored = [len(agent.session.events) for agent in agents]
            armed = len(clock._heap)
            created_ms = clock.now_ms()
            caplog.clear()
            await clock.sleep_until(clock.now_ms() + DAY * 1000)
            assert caplog.records == []
            assert [len(agent.session.events) for agent in agents] == stored
            heap = clock._heap
            assert len(heap) <= armed
            assert sum(timer.is_pending for _, _, timer in heap) == SESSIONS
            listed = await ask(agents[0], "schedule_list")
            assert len(listed) == EACH
            assert all(view["state"] == "scheduled" for view in listed)
            # Delays are absolute: the day of 23 or 25 hours moves no target.
            assert listed[0]["scheduledAt"] == render_instant(Instant(created_ms + 2 * DAY * 1000))

    run(main, start=start)
