from __future__ import annotations

import json

import pytest

from tests.cli.conftest import FUTURE, PAST, Store, Watchbell, create, create_every


def test_reminders_of_all_sessions_stand_in_the_order_of_their_instants(
    watchbell: Watchbell, store: Store
) -> None:
    store("a", create("schedule-1", at=FUTURE), create("schedule-2", at="2027-01-15T16:00:00.000Z"))
    store("b", create_every("schedule-1", 600, at=PAST))
    rows = json.loads(watchbell("reminders", "--json").out)
    assert [(row["session"], row["id"], row["state"]) for row in rows] == [
        ("b", "schedule-1", "overdue"),
        ("a", "schedule-2", "scheduled"),
        ("a", "schedule-1", "scheduled"),
    ]
    assert [row["session"] for row in json.loads(watchbell("reminders", "b", "--json").out)] == ["b"]


def test_a_time_is_told_in_the_given_zone_with_its_offset_and_as_utc(
    watchbell: Watchbell, store: Store
) -> None:
    store("a", create("schedule-1", at="2027-01-15T16:00:00.000Z"))
    out = watchbell("reminders", "--time-zone", "asia/kolkata").out
    assert "2027-01-15 21:30:00 +05:30 Asia/Kolkata  2027-01-15T16:00:00.000Z" in out


def test_the_computers_zone_is_the_default(
    watchbell: Watchbell, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store("a", create("schedule-1", at="2027-01-15T16:00:00.000Z"))
    monkeypatch.setenv("TZ", "America/Vancouver")
    # Since 2026 Vancouver keeps summer time all year.
    assert "2027-01-15 09:00:00 -07:00 America/Vancouver" in watchbell("reminders").out


def test_nothing_pending_is_said(watchbell: Watchbell) -> None:
    assert watchbell("reminders") == (0, "No reminders pending.\n", "")


def test_a_prompt_is_shown_safely_and_not_at_any_length(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1", "[red]\x1b[2J\n" + "x" * 1000))
    out = watchbell("reminders").out
    assert "[red]\\x1b[2J\\nxxx" in out
    assert len(out.splitlines()) == 2
    assert max(map(len, out.splitlines())) < 320
