"""The model is told what time it is for the user whenever a message opens a step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.program import Program, ask, data, quiet, run, user_texts
from watchbell import schedule
from watchbell.host import time_context
from watchbell.host.time_context import render_time_context
from watchbell.instants import decode_instant
from watchbell.testing import SimulatedClock, call
from watchbell.tools.function import tool
from watchbell.zones import ZoneTable

BERLIN: dict[str, Any] = {"kind": "user", "timeZone": "Europe/Berlin"}
SUMMER_MS = 1811840400_000  # 2027-06-01T09:00:00Z, a Tuesday


def test_it_gives_local_time_with_offset_and_zone_utc_and_the_weekday() -> None:
    assert render_time_context(SUMMER_MS + 1999, "Europe/Berlin", ZoneTable()).split("\n") == [
        "[TIME CONTEXT]",
        "now_local: 2027-06-01T11:00:01+02:00",
        "time_zone: Europe/Berlin",
        "now_utc: 2027-06-01T09:00:01Z",
        "weekday: Tuesday",
    ]


def test_the_weekday_is_the_users() -> None:
    text = render_time_context(SUMMER_MS, "Pacific/Kiritimati", ZoneTable())
    assert "now_local: 2027-06-01T23:00:00+14:00" in text
    assert "weekday: Wednesday" in render_time_context(
        SUMMER_MS + 3_600_000, "Pacific/Kiritimati", ZoneTable()
    )


@pytest.mark.parametrize("zone", [None, "Mars/Olympus", ""])
def test_without_a_zone_it_tells_the_model_to_ask(zone: str | None) -> None:
    text = render_time_context(SUMMER_MS, zone, ZoneTable())
    assert "time_zone: unknown; ask the user" in text
    assert "now_utc: 2027-06-01T09:00:00Z" in text
    assert "now_local" not in text


@pytest.mark.parametrize(
    ("instant", "zone"),
    [("9999-12-31T23:30:00.000Z", "Asia/Tokyo"), ("0001-01-01T00:30:00.000Z", "America/New_York")],
)
def test_a_local_time_outside_the_calendar_is_unknown(instant: str, zone: str) -> None:
    text = render_time_context(decode_instant(instant), zone, ZoneTable())
    assert "time_zone: unknown" in text
    assert f"now_utc: {instant[:19]}Z" in text


def test_a_year_has_four_digits() -> None:
    text = render_time_context(decode_instant("0999-06-01T00:00:00.000Z"), "UTC", ZoneTable())
    assert "now_local: 0999-06-01T00:00:00+00:00" in text
    assert "now_utc: 0999-06-01T00:00:00Z" in text


def test_an_unknown_zone_gives_way_to_the_one_before_then_to_the_setting() -> None:
    async def main(clock: SimulatedClock) -> None:
        plugins = [time_context(time_zone="Europe/Berlin")]
        async with Program(clock, ["ok"] * 4, plugins=plugins) as program:
            agent = await program.host.agents.create("s")
            for zone in ("Nope/X", "Asia/Tokyo", "Nope/X", None):
                agent.followup("hi", source={"kind": "user", **({"timeZone": zone} if zone else {})})
                await agent.when_idle()
            told = [text for text in user_texts(agent.session.events) if text.startswith("[TIME CONTEXT]")]
            zones = [line for text in told for line in text.split("\n") if line.startswith("time_zone")]
            assert zones == ["time_zone: Europe/Berlin", *["time_zone: Asia/Tokyo"] * 3]

    run(main)


def test_it_stands_before_each_message_that_opens_a_step_and_nowhere_else() -> None:
    @tool
    async def work() -> None:
        """Work for a minute."""
        await asyncio.sleep(60)

    async def main(clock: SimulatedClock) -> None:
        plugins = [time_context(time_zone="Europe/Berlin")]
        script = [[call("work")], [call("work")], "done"]
        async with Program(clock, script, tools=[work], plugins=plugins) as program:
            agent = await program.host.agents.create("s")
            agent.followup("go", source={"kind": "user"})
            await asyncio.sleep(90)
            agent.steer("hurry")
            await agent.when_idle()
            said = user_texts(agent.session.events)
            assert [text.split("\n")[0] for text in said] == [
                "[TIME CONTEXT]",
                "go",
                "[TIME CONTEXT]",
                "hurry",
            ]
            assert "now_utc: 2026-12-01T00:00:00Z" in said[0]
            assert "now_utc: 2026-12-01T00:02:00Z" in said[2]
            source = data(agent.session.events, "user/message")[0]["source"]
            assert source == {"kind": "plugin", "plugin": "time-context"}

    run(main)


def test_a_reminder_comes_with_the_zone_given_last_also_after_a_restart() -> None:
    async def main(clock: SimulatedClock) -> None:
        plugins = [schedule.plugin(), time_context(time_zone="UTC")]
        first = Program(clock, plugins=plugins)
        async with first:
            agent = await first.host.agents.create("s")
            agent.followup("hello", source={"kind": "user", "timeZone": "Asia/Tokyo"})
            agent.followup("moved", source=BERLIN)
            agent.followup("no zone here")
            await agent.when_idle()
            await ask(agent, "schedule_create", prompt="p", after_seconds=600)
        plugins = [schedule.plugin(), time_context(time_zone="UTC")]
        async with Program(clock, disk=first.disk, plugins=plugins) as second:
            agent = await second.host.agents.resume("s")
            await asyncio.sleep(700)
            await quiet(agent)
            contexts = [t for t in user_texts(agent.session.events) if t.startswith("[TIME CONTEXT]")]
            zones = [line for text in contexts for line in text.split("\n") if line.startswith("time_zone")]
            assert zones == ["time_zone: Asia/Tokyo", *["time_zone: Europe/Berlin"] * 3]
            assert "now_local: 2026-12-01T01:10:00+01:00" in contexts[-1]

    run(main)
