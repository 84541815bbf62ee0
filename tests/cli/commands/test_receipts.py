from __future__ import annotations

import json

import pytest

from tests.cli.conftest import FUTURE, PAST, Store, Watchbell, create, create_every
from watchbell.log.event import Draft
from watchbell.log.messages import Message as LogMessage
from watchbell.log.messages import TextBlock
from watchbell.log.payloads import Completed, StepMark, TurnEnd, TurnStart
from watchbell.reminders.records import Dispatch, draft_change

AT = "2020-01-01T00:10:00.000Z"


def sent(schedule_id: str = "schedule-1", occurrence_at: str = PAST) -> LogMessage:
    key = [{"id": schedule_id, "occurrenceAt": occurrence_at}]
    source = {"kind": "plugin", "plugin": "schedule", "retained": True, "reminders": key}
    return LogMessage(f"m-{schedule_id}", "user", source, (TextBlock("[SCHEDULE REMINDER]"),))


def delivered(
    schedule_id: str = "schedule-1", occurrence_at: str = PAST, accepted_at: str | None = None
) -> list[Draft]:
    inserted = {"target": "next-turn", "start": 0, "inserted": [sent(schedule_id, occurrence_at)]}
    return [Draft("agent/inbox/spliced", inserted), draft_change(Dispatch(schedule_id, accepted_at))]


def turn(number: int, message: LogMessage) -> list[Draft]:
    claim = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
    return [
        Draft("turn/start", TurnStart(number)),
        Draft("agent/inbox/spliced", claim),
        Draft("step/start", StepMark(number, 1)),
        Draft("user/message", message, None, "append"),
        Draft("step/end", StepMark(number, 1)),
        Draft("turn/end", TurnEnd(number, Completed())),
    ]


def test_a_receipt_says_what_was_delivered_when_and_what_became_of_it(
    watchbell: Watchbell, store: Store
) -> None:
    store(
        "a",
        create("schedule-1", "stretch"),
        create_every("schedule-2", 600, at=PAST),
        create("schedule-3", at=FUTURE),
        *delivered(),
        *turn(1, sent()),
        *delivered("schedule-2", AT, "2020-01-01T00:19:00.000Z"),
    )
    ran = watchbell("receipts", "a")
    assert (ran.code, ran.err) == (0, "")
    head, *rows = (line.split() for line in ran.out.splitlines())
    assert head == ["ID", "OCCURRENCE", "DISPATCHED", "TURN", "OUTCOME", "PROMPT"]
    assert rows == [
        ["schedule-1", PAST, "2020-09-13T12:26:40.004Z", "1", "answered", "stretch"],
        ["schedule-2", AT, "2020-09-13T12:26:40.012Z", "-", "pending", "look"],
    ]


def test_json_has_all_of_it(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1", "é" * 1000), *delivered())
    assert json.loads(watchbell("receipts", "a", "--json").out) == [
        {
            "id": "schedule-1",
            "prompt": "é" * 1000,
            "occurrenceAt": PAST,
            "deliveryMode": "session-local",
            "dispatchedAt": "2020-09-13T12:26:40.002Z",
            "seq": 2,
            "turn": None,
            "outcome": "pending",
            "inherited": False,
        }
    ]


def test_nothing_delivered_is_said(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1", at=FUTURE))
    assert watchbell("receipts", "a") == (0, "No reminder was delivered.\n", "")
    assert watchbell("receipts", "a", "--json").out == "[]\n"


def test_what_a_fork_has_from_its_parent_is_marked(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1"), *delivered(), seed_length=3)
    (row,) = json.loads(watchbell("receipts", "a", "--json").out)
    assert row["inherited"] is True
    assert "schedule-1 (inherited)" in watchbell("receipts", "a").out


def test_of_an_invalid_history_what_can_be_vouched_for_is_shown(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1", "stretch"), *delivered(), create("schedule-1"))
    ran = watchbell("receipts", "a")
    assert ran.code == 1
    assert "stretch" in ran.out
    assert "session 'a': the schedule history is invalid" in ran.err


@pytest.mark.parametrize("data", [[], "x", {}])
def test_a_malformed_event_is_damage_with_its_file(watchbell: Watchbell, store: Store, data: object) -> None:
    path = store("a", create("schedule-1", "stretch"), *delivered(), Draft("turn/start", data))
    ran = watchbell("receipts", "a")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"watchbell: {path} is damaged: event 3 (turn/start) is malformed\n"


def test_a_session_that_is_not_there_is_named_with_similar_ones(watchbell: Watchbell, store: Store) -> None:
    store("standup", create("schedule-1"))
    ran = watchbell("receipts", "standpu")
    assert ran == (1, "", "watchbell: there is no session 'standpu'; did you mean 'standup'?\n")
