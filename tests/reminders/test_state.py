"""The active reminders are a strict, incremental fold of the log."""

from __future__ import annotations

import msgspec
import pytest

from tests.reminders.changes import append, at, every, folded, ids, ms, t
from watchbell.errors import ScheduleLogError
from watchbell.instants import decode_instant
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.reminders.decision import decide
from watchbell.reminders.records import Change, Create, Delete, Dispatch, EveryRecord
from watchbell.reminders.state import ScheduleState


def test_active_records_stay_in_create_order() -> None:
    state = folded(
        Create(every("b", "00:05:00")),
        "turn/start",
        Create(at("a", "00:01:00")),
        Create(at("c", "00:03:00")),
        Dispatch("b", t("00:06:00")),
        Delete("a"),
    )
    assert ids(state) == ["b", "c"]
    assert len(state) == 2
    assert state.find("a") is None
    assert state.find("b") == every("b", "00:10:00")
    assert state.reminders.seen == {"a", "b", "c"}


def test_only_what_the_log_gained_is_folded() -> None:
    log = EventLog()
    append(log, "turn/start", Create(at("a", "00:01:00")))
    state = ScheduleState()
    assert state.advance(log).watermark == 2
    state.advance(log)
    append(log, Delete("a"), "turn/end", Create(at("b", "00:01:00")))
    state.advance(log)
    assert (ids(state), state.watermark) == (["b"], 5)


@pytest.mark.parametrize("owned_from", [-1, 3])
def test_a_fork_point_outside_the_log_is_invalid(owned_from: int) -> None:
    with pytest.raises(ScheduleLogError, match="fork point") as caught:
        folded("turn/start", "turn/end", owned_from=owned_from)
    assert caught.value.seq is None


AT, EVERY = Create(at("a", "00:01:00")), Create(every("a", "00:05:00"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([AT, AT], "id 'a' is used again"),
        ([AT, Delete("a"), AT], "id 'a' is used again"),
        ([Delete("a")], "id 'a' is not active"),
        ([AT, Dispatch("a"), Dispatch("a")], "id 'a' is not active"),
        ([AT, Dispatch("a", t("00:01:00"))], "one-shot 'a' is dispatched with acceptedAt"),
        ([EVERY, Dispatch("a")], "repeating 'a' is dispatched without acceptedAt"),
        ([EVERY, Dispatch("a", t("00:04:59.999"))], "repeating 'a' is dispatched before its target"),
        (
            [EVERY, Dispatch("a", t("00:05:00")), Dispatch("a", t("00:05:01"))],
            "repeating 'a' is dispatched before its target",
        ),
    ],
)
def test_a_change_that_cannot_follow_is_told_of_with_its_seq(changes: list[Change], why: str) -> None:
    with pytest.raises(ScheduleLogError) as caught:
        folded("turn/start", *changes)
    assert caught.value.seq == len(changes)
    assert str(caught.value) == f"the schedule history is invalid at event {len(changes)}: {why}"


def test_an_invalid_event_is_reported_each_time_from_then_on() -> None:
    log = EventLog()
    append(log, Create(at("a", "00:01:00")), Delete("b"), Create(at("c", "00:01:00")))
    state = ScheduleState()
    for _ in range(2):
        with pytest.raises(ScheduleLogError, match="at event 1") as caught:
            state.advance(log)
        assert caught.value.seq == 1
    with pytest.raises(ScheduleLogError, match="at event 1"):
        state.check()
    with pytest.raises(ScheduleLogError, match="at event 1"):
        state.check_candidates([])


def test_a_payload_that_is_no_change_stops_the_fold() -> None:
    log = EventLog([Event("schedule/change", 0, 0, msgspec.Raw(b'{"version":2}'))])
    with pytest.raises(ScheduleLogError, match="at event 0"):
        ScheduleState().advance(log)


def test_ids_are_counted_and_taken_ones_skipped() -> None:
    assert folded().next_id() == "schedule-1"
    one = Create(at("schedule-1", "00:01:00"))
    assert folded(one, Delete("schedule-1")).next_id() == "schedule-2"
    assert folded(Create(at("schedule-2", "00:01:00"))).next_id() == "schedule-3"
    assert folded(Create(at("x", "00:01:00")), Create(at("schedule-3", "00:01:00"))).next_id() == "schedule-4"


def test_candidates_are_checked_together_and_change_nothing() -> None:
    state = folded(Create(every("a", "00:05:00")))
    state.check_candidates([Dispatch("a", t("00:05:00")), Dispatch("a", t("00:10:00")), Delete("a")])
    state.check_candidates([Create(at("b", "00:01:00")), Dispatch("b")])
    assert (ids(state), state.earliest()) == (["a"], ms("00:05:00"))
    for refused in (
        [Delete("a"), Delete("a")],
        [Delete("a"), Create(at("a", "00:01:00"))],
        [Create(at("b", "00:01:00")), Create(at("b", "00:01:00"))],
        [Create(at("b", "00:01:00")), Dispatch("b"), Dispatch("b")],
        [Dispatch("a", t("00:05:00")), Dispatch("a", t("00:05:01"))],
    ):
        with pytest.raises(ScheduleLogError):
            state.check_candidates(refused)


def test_the_earliest_target_follows_every_change() -> None:
    log, state = EventLog(), ScheduleState()
    assert state.earliest() is None
    steps: list[tuple[Change, str | None]] = [
        (Create(at("a", "00:09:00")), "00:09:00"),
        (Create(every("b", "00:05:00")), "00:05:00"),
        (Create(at("c", "00:01:00")), "00:01:00"),
        (Delete("c"), "00:05:00"),
        (Dispatch("b", t("00:06:00")), "00:09:00"),
        (Dispatch("a"), "00:10:00"),
        (Delete("b"), None),
    ]
    for change, clock in steps:
        append(log, change)
        assert state.advance(log).earliest() == (None if clock is None else ms(clock))


def test_the_earliest_target_after_an_instant_is_told() -> None:
    state = folded(Create(at("a", "00:01:00")), Create(every("b", "00:05:00")), Create(at("c", "00:09:00")))
    for now, after in (("00:00:00", "00:01:00"), ("00:01:00", "00:05:00"), ("00:08:59", "00:09:00")):
        assert state.earliest_after(ms(now)) == ms(after)
    assert state.earliest_after(ms("00:09:00")) is None


def test_the_calendars_end_is_the_last_occurrence() -> None:
    last = EveryRecord("a", "p", "9999-12-31T23:54:59.999Z", every_seconds=300)
    state = folded(Create(last), Dispatch("a", last.scheduled_at))
    assert state.earliest() == decode_instant("9999-12-31T23:59:59.999Z")
    late = EveryRecord("a", "p", "9999-12-31T23:55:00.000Z", every_seconds=300)
    state = folded(Create(late), Dispatch("a", late.scheduled_at))
    assert (len(state), state.earliest()) == (0, None)


@pytest.mark.parametrize("at_once", [False, True])
def test_many_ended_reminders_leave_little_behind(at_once: bool) -> None:
    log, state = EventLog(), ScheduleState()
    append(log, Create(at("last", "23:59:59")))
    for number in range(1000):
        append(log, Create(at(f"x{number}", "12:00:00")), Delete(f"x{number}"))
        if not at_once:
            state.advance(log)
    assert state.advance(log).earliest() == ms("23:59:59")
    assert decide(state, ms("23:59:58")) is None
