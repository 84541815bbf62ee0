"""8. The model must know the time

A plugin of its own, `time_context`, tells it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.live import Live, live, living
from tests.contract.world import run_watchbell
from tests.logs import read
from tests.program import data, quiet, results, user_texts
from watchbell.host import time_context
from watchbell.testing import call
from watchbell.testing.model import Part

SAID = ["2026-12-02T09:00:00", {"date": "2026-12-02", "time": "09:00:00"}, "2026-12-02T09:00:00+01:00"]
UNKNOWN = "time_zone: unknown; ask the user for it before a local time is meant"


def zones(events: Any) -> list[str]:
    """The zone that each message about the time names."""
    told = "\n".join(text for text in user_texts(events) if text.startswith("[TIME CONTEXT]"))
    return re.findall("^time_zone: (.*)$", told, re.MULTILINE)


def create_at(at: Any) -> Part:
    return call("schedule_create", {"prompt": "p", "at": at})


def person(zone: str | None = None) -> dict[str, Any]:
    return {"kind": "user"} if zone is None else {"kind": "user", "timeZone": zone}


@living(
    script=[call("schedule_create", {"prompt": "p", "after_seconds": 60}), "done", "rang"],
    plugins=[time_context()],
)
async def test_it_adds_one_message_at_the_head_of_each_step_that_somebody_opens(at: Live) -> None:
    """It adds one message at the head of each step that a user or a reminder opens, and none to the steps
    that follow a tool call."""
    at.agent.followup("go", source=person("UTC"))
    await at.until(61)
    heads = [text.partition("\n")[0] for text in user_texts(at.events)]
    assert heads == ["[TIME CONTEXT]", "go", "[TIME CONTEXT]", "[SCHEDULE REMINDER]"]


@living(plugins=[time_context()], after=43_200)
async def test_it_tells_the_local_time_the_zone_the_time_in_utc_and_the_weekday(at: Live) -> None:
    """It holds the current time with its offset and IANA zone, the same in UTC, and the weekday, which is the
    one in that zone."""
    at.agent.followup("go", source=person("Pacific/Auckland"))
    await quiet(at.agent)
    assert user_texts(at.events)[0] == (
        "[TIME CONTEXT]\n"
        "now_local: 2026-12-02T01:00:00+13:00\n"
        "time_zone: Pacific/Auckland\n"
        "now_utc: 2026-12-01T12:00:00Z\n"
        "weekday: Wednesday"
    )


@living(plugins=[time_context()])
async def test_its_source_says_who_it_is_from(at: Live) -> None:
    """Its `source` is `{"kind": "plugin", "plugin": "time-context"}`."""
    at.agent.followup("go")
    await quiet(at.agent)
    assert data(at.events, "user/message")[0]["source"] == {"kind": "plugin", "plugin": "time-context"}


@living(plugins=[time_context(time_zone="UTC")])
async def test_the_zone_is_carried_in_the_users_message(at: Live) -> None:
    """The zone is carried in the `source` of the user's message by whoever sent it; each message may bring
    another one."""
    for zone in ("Europe/Berlin", "Asia/Tokyo"):
        at.agent.followup("go", source=person(zone))
        await quiet(at.agent)
    assert zones(at.events) == ["Europe/Berlin", "Asia/Tokyo"]


@living(plugins=[time_context()])
async def test_a_reminders_step_uses_the_latest_zone_known(at: Live) -> None:
    """A reminder's step uses the latest one that is known, also after a restart."""
    for zone in ("Europe/Berlin", "Asia/Tokyo", None):
        at.agent.followup("go", source=person(zone))
        await quiet(at.agent)
    await at.remind(60)
    await at.reopen()
    await at.until(61)
    assert zones(at.events) == ["Europe/Berlin", "Asia/Tokyo", "Asia/Tokyo", "Asia/Tokyo"]


@living(plugins=[time_context(time_zone="Europe/Berlin")])
async def test_else_it_uses_the_setting(at: Live) -> None:
    """If none is known it uses the setting."""
    await at.remind(60)
    await at.until(61)
    assert zones(at.events) == ["Europe/Berlin"]


@pytest.mark.parametrize("zone", [None, "Nowhere/Else"])
@living(plugins=[time_context()])
async def test_with_none_it_says_so_and_tells_the_model_to_ask(at: Live, zone: str | None) -> None:
    """With none it says so, and tells the model to ask; UTC is told all the same."""
    at.agent.followup("go", source=person(zone))
    await quiet(at.agent)
    assert user_texts(at.events)[0] == (
        f"[TIME CONTEXT]\nnow_utc: 2026-12-01T00:00:00Z\nweekday: Tuesday (UTC)\n{UNKNOWN}"
    )


@living(script=[*map(create_at, SAID), "done"], plugins=[time_context()])
async def test_schedule_never_reads_it(at: Live) -> None:
    """Schedule never reads it: a time without a zone is refused although the user's zone is known. The model
    turns "tomorrow at nine" into an explicit `at`."""
    at.agent.followup("tomorrow at nine", source=person("Europe/Berlin"))
    await quiet(at.agent)
    heads = [text.partition(",")[0] for _, text in results(at.events)]
    assert heads == ['{"code":"invalid_rule"', '{"code":"invalid_rule"', '{"id":"schedule-1"']


def test_it_is_on_by_default_in_the_program_and_opt_in_in_the_library(own_home: Path) -> None:
    """It is on by default in the program, and opt-in in the library."""
    assert run_watchbell("run", "s", "hello", "--model", "offline").exit_code == 0

    stored = user_texts(read(own_home).events)
    assert [text.partition("\n")[0] for text in stored] == ["[TIME CONTEXT]", "hello"]

    async def library(at: Live) -> list[str]:
        at.agent.followup("hello")
        await quiet(at.agent)
        return user_texts(at.events)

    assert live(library) == ["hello"]
