"""A receipt pairs a dispatch with its create, also across forks that use ids again."""

from __future__ import annotations

import msgspec
import pytest

from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.reminders.receipts import ReminderPresentation, derive_receipts, schedule_reminder_presentation
from watchbell.reminders.records import AtRecord, Change, Create, Delete, Dispatch, EveryRecord, draft_change

AT = "2026-12-01T00:05:00.000Z"


def log_of(*changes: Change | str) -> EventLog:
    drafts = [Draft(item, {}) if isinstance(item, str) else draft_change(item) for item in changes]
    return EventLog(draft.at(seq, 0) for seq, draft in enumerate(drafts))


def create(schedule_id: str, prompt: str) -> Change:
    return Create(AtRecord(schedule_id, prompt, AT))


def receipt(log: EventLog, seq: int, seed_length: int = 0) -> tuple[str, str, str] | None:
    shown = schedule_reminder_presentation(log, seq, seed_length)
    assert schedule_reminder_presentation(list(log), seq, seed_length) == shown
    assert derive_receipts(log, seed_length).get(seq) == shown
    return None if shown is None else (shown.schedule_id, shown.prompt, shown.occurrence_at)


def test_a_receipt_says_what_was_delivered() -> None:
    log = log_of(create("a", "call home"), "turn/start", create("b", "no"), Dispatch("a"))
    assert schedule_reminder_presentation(log, 3, 0) == ReminderPresentation("a", "call home", AT)
    assert msgspec.to_builtins(schedule_reminder_presentation(log, 3, 0)) == {
        "scheduleId": "a",
        "prompt": "call home",
        "occurrenceAt": AT,
        "mode": "session-local",
    }


def test_each_dispatch_of_a_repeating_reminder_shows_its_own_occurrence() -> None:
    log = log_of(
        Create(EveryRecord("a", "look", AT, every_seconds=300)),
        Dispatch("a", "2026-12-01T00:17:30.000Z"),
        create("b", "no"),
        Dispatch("a", "2026-12-01T00:20:00.000Z"),
        Dispatch("a", "2026-12-01T01:00:00.001Z"),
    )
    occurrences = [receipt(log, seq) for seq in (1, 3, 4)]
    assert occurrences == [
        ("a", "look", "2026-12-01T00:15:00.000Z"),
        ("a", "look", "2026-12-01T00:20:00.000Z"),
        ("a", "look", "2026-12-01T01:00:00.000Z"),
    ]


def test_forks_of_forks_show_each_ancestors_receipt() -> None:
    log = log_of(
        create("schedule-1", "grandparent"),
        Dispatch("schedule-1"),
        "session/end-seed",
        create("schedule-1", "parent"),
        Dispatch("schedule-1"),
        "session/end-seed",
        create("schedule-1", "child"),
        "session/end-seed",  # a mere resume
        Dispatch("schedule-1"),
    )
    prompts = [(shown or ("", None))[1] for shown in (receipt(log, seq, 5) for seq in (1, 4, 8))]
    assert prompts == ["grandparent", "parent", "child"]


def test_a_dispatch_that_the_fork_owns_never_looks_into_its_seed() -> None:
    log = log_of(create("a", "parent"), "session/end-seed", Dispatch("a"))
    assert receipt(log, 2, seed_length=1) is None
    assert receipt(log, 2, seed_length=0) == ("a", "parent", AT)


@pytest.mark.parametrize("seq", [-1, 0, 1, 3, 9])
def test_what_is_no_dispatch_has_no_receipt(seq: int) -> None:
    log = log_of(create("a", "p"), "turn/start", Dispatch("a"), Delete("b"))
    assert schedule_reminder_presentation(log, seq, 0) is None


@pytest.mark.parametrize(
    "changes",
    [
        [Dispatch("a")],
        [create("a", "p"), Delete("a"), Dispatch("a")],
        [create("a", "p"), Dispatch("a"), Dispatch("a")],
        [create("a", "p"), Dispatch("a", AT)],
        [Create(EveryRecord("a", "p", AT, every_seconds=300)), Dispatch("a", "2026-12-01T00:04:00.000Z")],
    ],
)
def test_a_dispatch_that_could_not_happen_has_no_receipt(changes: list[Change]) -> None:
    assert receipt(log_of(*changes), len(changes) - 1) is None


def test_a_damaged_change_leaves_no_receipt_until_the_next_create() -> None:
    damaged = Draft("schedule/change", {"version": 2})
    sound = [create("a", "p"), Dispatch("a"), create("b", "q"), Dispatch("b")]
    drafts = [draft_change(change) for change in sound]
    drafts.insert(1, damaged)
    log = EventLog(draft.at(seq, 0) for seq, draft in enumerate(drafts))
    assert [receipt(log, seq) for seq in (1, 2)] == [None, None]
    assert receipt(log, 4) == ("b", "q", AT)
