"""The active reminders are a strict, incremental fold of the log, and due ones are decided by arithmetic."""

from __future__ import annotations

import msgspec
import pytest

from watchbell.errors import ScheduleLogError
from watchbell.instants import decode_instant, render_instant
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog
from watchbell.log.values import encode_json
from watchbell.reminders.framing import render_source, render_text
from watchbell.reminders.records import (
    AfterRecord,
    AtRecord,
    Change,
    Create,
    Delete,
    Dispatch,
    EveryRecord,
    Record,
    draft_change,
)
from watchbell.reminders.state import (
    MAX_BATCH_BYTES,
    Batch,
    OneShot,
    ScheduleState,
    decide,
    derive_dispatches,
    render_view,
)


def t(clock: str) -> str:
    """Return an instant of 1 December 2026 from its time of day."""
    return f"2026-12-01T{clock}.000Z" if len(clock) == 8 else f"2026-12-01T{clock}Z"


def ms(clock: str) -> int:
    return decode_instant(t(clock))


def at(schedule_id: str, clock: str) -> Record:
    return AtRecord(schedule_id, f"do {schedule_id}", t(clock))


def every(schedule_id: str, clock: str, seconds: int = 300) -> EveryRecord:
    return EveryRecord(schedule_id, f"look at {schedule_id}", t(clock), every_seconds=seconds)


def append(log: EventLog, *changes: Change | str) -> None:
    """Append changes; a text is an event of another type, which Schedule must not read."""
    for change in changes:
        draft = Draft(change, msgspec.Raw(b"not JSON")) if isinstance(change, str) else draft_change(change)
        log.extend([draft.at(len(log), 0)])


def folded(*changes: Change | str, seed_length: int = 0) -> ScheduleState:
    log = EventLog()
    append(log, *changes)
    state = ScheduleState(seed_length)
    state.advance(log)
    return state


def ids(state: ScheduleState) -> list[str]:
    return [record.id for record in state.records]


# --- the fold --------------------------------------------------------------------------------------------


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
    assert state.seen_ids == {"a", "b", "c"}


def test_only_what_the_log_gained_is_folded() -> None:
    log = EventLog()
    append(log, "turn/start", Create(at("a", "00:01:00")))
    state = ScheduleState()
    state.advance(log)
    assert state.watermark == 2
    state.advance(log)
    append(log, Delete("a"), "turn/end", Create(at("b", "00:01:00")))
    state.advance(log)
    assert (ids(state), state.watermark) == (["b"], 5)


def test_a_fork_folds_only_its_own_events_and_may_reuse_ids() -> None:
    log = EventLog()
    append(
        log, Create(at("schedule-1", "00:01:00")), "session/end-seed", Create(at("schedule-1", "00:02:00"))
    )
    state = ScheduleState(seed_length=1)
    state.advance(log)
    assert list(state.records) == [at("schedule-1", "00:02:00")]
    assert state.next_id() == "schedule-2"
    assert ids(folded(Create(at("x", "00:01:00")), "turn/start", seed_length=2)) == []
    with pytest.raises(ScheduleLogError, match="'x' is not active"):
        folded(Create(at("x", "00:01:00")), Delete("x"), seed_length=1)


@pytest.mark.parametrize("seed_length", [-1, 3])
def test_a_fork_point_outside_the_log_is_invalid(seed_length: int) -> None:
    with pytest.raises(ScheduleLogError, match="fork point") as caught:
        folded("turn/start", "turn/end", seed_length=seed_length)
    assert caught.value.seq is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([Create(at("a", "00:01:00")), Create(at("a", "00:02:00"))], "used again"),
        ([Create(at("a", "00:01:00")), Delete("a"), Create(at("a", "00:02:00"))], "used again"),
        ([Delete("a")], "not active"),
        ([Dispatch("a")], "not active"),
        ([Create(at("a", "00:01:00")), Delete("a"), Delete("a")], "not active"),
        ([Create(at("a", "00:01:00")), Dispatch("a"), Dispatch("a")], "not active"),
        ([Create(at("a", "00:01:00")), Dispatch("a", t("00:01:00"))], "with acceptedAt"),
        ([Create(every("a", "00:05:00")), Dispatch("a")], "without acceptedAt"),
        ([Create(every("a", "00:05:00")), Dispatch("a", t("00:04:59.999"))], "before its target"),
        (
            [
                Create(every("a", "00:05:00")),
                Dispatch("a", t("00:05:00")),
                Dispatch("a", t("00:05:01")),
            ],
            "before its target",
        ),
    ],
)
def test_a_change_that_cannot_follow_stops_the_fold(changes: list[Change], reason: str) -> None:
    with pytest.raises(ScheduleLogError, match=reason) as caught:
        folded("turn/start", *changes)
    assert caught.value.seq == len(changes)


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


# --- what is due -----------------------------------------------------------------------------------------


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
        state.advance(log)
        assert state.earliest() == (None if clock is None else ms(clock))


def test_the_earliest_target_after_an_instant_is_told_past_those_that_are_due() -> None:
    state = folded(Create(at("a", "00:01:00")), Create(every("b", "00:05:00")), Create(at("c", "00:09:00")))
    for now, after in (("00:00:00", "00:01:00"), ("00:01:00", "00:05:00"), ("00:08:59", "00:09:00")):
        assert state.earliest_after(ms(now)) == ms(after)
    assert state.earliest_after(ms("00:09:00")) is None


def test_nothing_is_due_before_its_target() -> None:
    state = folded(Create(at("a", "00:01:00")), Create(every("b", "00:01:00")))
    assert decide(state, ms("00:00:59.999")) is None
    assert decide(folded(), ms("00:00:00")) is None


def test_after_days_off_each_one_shot_comes_alone_and_the_repeaters_come_together() -> None:
    log, state = EventLog(), ScheduleState()
    append(
        log,
        Create(AfterRecord("O1", "one", t("00:20:00"), after_seconds=1200)),
        Create(AfterRecord("O2", "two", t("00:10:00"), after_seconds=600)),
        Create(every("R3", "00:05:00", 300)),
        Create(every("R6", "00:10:00", 600)),
        Create(every("R9", "00:15:00", 900)),
    )
    now = ms("01:05:00")
    told: list[list[tuple[str, str]]] = []
    state.advance(log)
    while (decision := decide(state, now)) is not None:
        match decision:
            case OneShot(record):
                told.append([(record.id, record.scheduled_at)])
            case Batch(items, accepted_at_ms):
                assert accepted_at_ms == now
                told.append([(record.id, render_instant(occurrence)) for record, occurrence in items])
        append(log, *derive_dispatches(decision))
        state.advance(log)
    assert told == [
        [("O2", t("00:10:00"))],
        [("O1", t("00:20:00"))],
        [("R3", t("01:05:00")), ("R6", t("01:00:00")), ("R9", t("01:00:00"))],
    ]
    assert [record.scheduled_at for record in state.records] == [t("01:10:00"), t("01:10:00"), t("01:15:00")]


def test_equal_targets_go_in_create_order() -> None:
    state = folded(*(Create(at(name, "00:01:00")) for name in ("z", "b", "a")))
    assert decide(state, ms("00:01:00")) == OneShot(at("z", "00:01:00"))
    batch = decide(folded(*(Create(every(name, "00:05:00")) for name in ("z", "b", "a"))), ms("00:05:00"))
    assert isinstance(batch, Batch)
    assert [record.id for record, _ in batch.items] == ["z", "b", "a"]


def test_a_batch_is_in_target_order_first_and_holds_only_what_is_overdue() -> None:
    state = folded(
        Create(every("late", "00:10:00", 3600)),
        Create(every("early", "00:05:00", 3600)),
        Create(every("future", "00:30:00")),
        Create(at("later", "00:20:00")),
    )
    batch = decide(state, ms("00:10:00"))
    assert batch == Batch(
        (
            (every("early", "00:05:00", 3600), ms("00:05:00")),
            (every("late", "00:10:00", 3600), ms("00:10:00")),
        ),
        ms("00:10:00"),
    )
    assert derive_dispatches(batch) == (Dispatch("early", t("00:10:00")), Dispatch("late", t("00:10:00")))


def test_a_batch_holds_no_more_than_one_row_can_and_the_rest_are_the_next_decision() -> None:
    def long(name: str) -> EveryRecord:
        return EveryRecord(name, '\x01"\\x' * 500_000, t("00:05:00"), every_seconds=300)

    state, told = folded(*(Create(long(name)) for name in "edcba")), list[list[str]]()
    while (batch := decide(state, ms("00:10:00"))) is not None:
        assert isinstance(batch, Batch)
        content = [{"type": "text", "text": render_text(batch)}]
        assert len(encode_json({"source": render_source(batch), "content": content})) < MAX_BATCH_BYTES
        told.append([record.id for record, _ in batch.items])
        for dispatch in derive_dispatches(batch):
            state.apply(dispatch)
    assert told == [["e", "d", "c", "b"], ["a"]]


def test_a_reminder_that_is_too_long_for_any_batch_is_one_by_itself() -> None:
    huge = EveryRecord("huge", "\x01" * 5_000_000, t("00:05:00"), every_seconds=300)
    state = folded(Create(huge), Create(every("small", "00:05:00")))
    batch = decide(state, ms("00:10:00"))
    assert isinstance(batch, Batch)
    assert [record.id for record, _ in batch.items] == ["huge"]


def test_a_jump_of_ten_years_gives_one_occurrence() -> None:
    state = folded(Create(every("a", "00:05:00")))
    now = decode_instant("2036-12-01T00:00:01.000Z")
    batch = decide(state, now)
    assert batch == Batch(((every("a", "00:05:00"), now - 1000),), now)
    for dispatch in derive_dispatches(batch):
        state.apply(dispatch)
    assert [record.scheduled_at for record in state.records] == ["2036-12-01T00:05:00.000Z"]


def test_a_next_occurrence_in_the_calendars_last_millisecond_is_one() -> None:
    last = EveryRecord("a", "p", "9999-12-31T23:54:59.999Z", every_seconds=300)
    state = folded(Create(last), Dispatch("a", "9999-12-31T23:54:59.999Z"))
    assert state.earliest() == decode_instant("9999-12-31T23:59:59.999Z")


def test_a_dispatch_whose_next_occurrence_the_calendar_lacks_ends_the_reminder() -> None:
    last = EveryRecord("a", "p", "9999-12-31T23:50:00.000Z", every_seconds=300)
    state = folded(Create(last), Dispatch("a", "9999-12-31T23:54:59.999Z"))
    assert state.earliest() == decode_instant("9999-12-31T23:55:00.000Z")
    state.apply(Dispatch("a", "9999-12-31T23:55:00.000Z"))
    assert (len(state), state.earliest()) == (0, None)
    with pytest.raises(ScheduleLogError, match="not active"):
        state.apply(Delete("a"))


def test_a_history_of_many_ended_reminders_leaves_little_behind() -> None:
    state = ScheduleState()
    state.apply(Create(at("last", "23:59:59")))
    for number in range(1000):
        state.apply(Create(at(f"x{number}", "12:00:00")))
        state.apply(Delete(f"x{number}"))
    assert state.earliest() == ms("23:59:59")
    assert decide(state, ms("23:59:58")) is None


def test_a_view_is_the_record_with_its_state() -> None:
    record = AfterRecord("schedule-1", "p", t("00:10:00"), after_seconds=600)
    view = render_view(record, ms("00:09:59.999"))
    assert list(view.items()) == [
        ("id", "schedule-1"),
        ("kind", "after"),
        ("prompt", "p"),
        ("afterSeconds", 600),
        ("scheduledAt", t("00:10:00")),
        ("state", "scheduled"),
        ("deliveryMode", "session-local"),
    ]
    assert render_view(record, ms("00:10:00"))["state"] == "overdue"
