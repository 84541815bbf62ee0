from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import FUTURE, Store, Watchbell, create
from watchbell.log.event import Draft


def test_a_home_that_is_not_there_has_no_sessions_and_is_not_made(
    watchbell: Watchbell, tmp_path: Path
) -> None:
    ran = watchbell("sessions", "--home", str(tmp_path / "none"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("No sessions yet")
    assert watchbell("sessions", "--json", "--home", str(tmp_path / "none")).out == "[]\n"
    assert not (tmp_path / "none").exists()


def test_each_session_is_told_with_its_events_and_reminders(watchbell: Watchbell, store: Store) -> None:
    store("early", create("schedule-1"), create("schedule-2", at=FUTURE), cwd="/srv/x")
    store("wide 日本", create("schedule-1", at=FUTURE), create("b", at=FUTURE), create("c", at=FUTURE))
    ran = watchbell("sessions")
    assert ran.code == 0
    rows = [line.split("  ") for line in ran.out.splitlines()]
    assert [row[0].strip() for row in rows] == ["SESSION", "early", "wide 日本"]
    assert "2 (1 overdue)" in ran.out
    assert "/srv/x" in ran.out
    first, second = json.loads(watchbell("sessions", "--json").out)
    assert (first["id"], first["events"], first["reminders"]) == ("early", 2, {"active": 2, "overdue": 1})
    assert first["updatedAt"] == "2020-09-13T12:26:40.001Z"
    assert (second["id"], second["cwd"]) == ("wide 日本", None)


def test_an_invalid_schedule_history_is_told(watchbell: Watchbell, store: Store) -> None:
    store("odd", create("schedule-1"), create("schedule-1"))
    assert "invalid" in watchbell("sessions").out
    assert watchbell("sessions").code == 1
    assert "used again" in json.loads(watchbell("sessions", "--json").out)[0]["failure"]


def test_hostile_names_do_nothing_to_the_terminal(watchbell: Watchbell, store: Store) -> None:
    store("\x1b]0;x\x07[red]", Draft("turn/start", {"turn": 1}))
    out = watchbell("sessions").out
    assert "\x1b" not in out
    assert "\\x1b]0;x\\x07[red]" in out
