"""What is due is decided by arithmetic alone, as far as one message can hold it."""

from __future__ import annotations

from tests.reminders.changes import append, at, every, folded, ms, t
from watchbell.instants import decode_instant, render_instant
from watchbell.log.eventlog import EventLog
from watchbell.log.values import encode_json
from watchbell.reminders.decision import MAX_BATCH_BYTES, Batch, OneShot, decide, derive_dispatches
from watchbell.reminders.framing import render_source, render_text
from watchbell.reminders.records import AfterRecord, Create, Dispatch, EveryRecord
from watchbell.reminders.state import ScheduleState


def test_nothing_is_due_before_its_target() -> None:
    state = folded(Create(at("a", "00:01:00")), Create(every("b", "00:01:00")))
    assert decide(state, ms("00:00:59.999")) is None
    assert decide(folded(), ms("00:00:00")) is None


def test_one_shots_come_alone_and_then_the_repeaters_together() -> None:
    log, state = EventLog(), ScheduleState()
    append(
        log,
        Create(AfterRecord("O1", "one", t("00:20:00"), after_seconds=1200)),
        Create(AfterRecord("O2", "two", t("00:10:00"), after_seconds=600)),
        Create(every("R3", "00:05:00", 300)),
        Create(every("R6", "00:10:00", 600)),
        Create(every("R9", "00:15:00", 900)),
    )
    now, told = ms("01:05:00"), list[list[tuple[str, str]]]()
    while (decision := decide(state.advance(log), now)) is not None:
        match decision:
            case OneShot(record):
                told.append([(record.id, record.scheduled_at)])
            case Batch(items, accepted_at):
                assert accepted_at == now
                told.append([(record.id, render_instant(occurrence)) for record, occurrence in items])
        append(log, *derive_dispatches(decision))
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


def test_a_batch_is_in_target_order_and_holds_only_what_is_overdue() -> None:
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
    assert batch is not None
    assert derive_dispatches(batch) == (Dispatch("early", t("00:10:00")), Dispatch("late", t("00:10:00")))


def test_a_batch_is_what_one_row_holds_and_the_rest_come_next() -> None:
    def long(name: str) -> EveryRecord:
        return EveryRecord(name, '\x01"\\x' * 500_000, t("00:05:00"), every_seconds=300)

    log, state, told = EventLog(), ScheduleState(), list[list[str]]()
    append(log, *(Create(long(name)) for name in "edcba"))
    while (batch := decide(state.advance(log), ms("00:10:00"))) is not None:
        assert isinstance(batch, Batch)
        content = [{"type": "text", "text": render_text(batch)}]
        assert len(encode_json({"source": render_source(batch), "content": content})) < MAX_BATCH_BYTES
        told.append([record.id for record, _ in batch.items])
        append(log, *derive_dispatches(batch))
    assert told == [["e", "d", "c", "b"], ["a"]]


def test_a_reminder_too_long_for_any_batch_is_one_by_itself() -> None:
    huge = EveryRecord("huge", "\x01" * 5_000_000, t("00:05:00"), every_seconds=300)
    batch = decide(folded(Create(huge), Create(every("small", "00:05:00"))), ms("00:10:00"))
    assert isinstance(batch, Batch)
    assert [record.id for record, _ in batch.items] == ["huge"]


def test_a_jump_of_ten_years_gives_one_occurrence() -> None:
    now = decode_instant("2036-12-01T00:00:01.000Z")
    batch = decide(folded(Create(every("a", "00:05:00"))), now)
    assert batch == Batch(((every("a", "00:05:00"), decode_instant("2036-12-01T00:00:00.000Z")),), now)
