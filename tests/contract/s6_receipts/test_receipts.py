"""6. Receipts

What a dispatch showed to the user, read back from the log; it changes nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contract.live import Live, live, living
from tests.contract.world import create_row, delete_row, dispatch_row, later, run_watchbell
from tests.program import ask, quiet
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.schedule import schedule_reminder_presentation
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import fail

SEED_END = "session/end-seed"


def log_of(*rows: Any) -> EventLog:
    """A log of these changes, and of other events where a type's name stands."""
    drafts = [Draft(row, {}) if isinstance(row, str) else Draft("schedule/change", row) for row in rows]
    return EventLog(draft.at(seq, 0) for seq, draft in enumerate(drafts))


def receipt(rows: list[Any], seq: int, seed_length: int = 0) -> tuple[str, str] | None:
    """Prompt and occurrence of the dispatch at a seq."""
    shown = schedule_reminder_presentation(log_of(*rows), seq, seed_length)
    return None if shown is None else (shown.prompt, shown.occurrence_at)


def one(prompt: str, **changes: Any) -> dict[str, Any]:
    """A create of `schedule-1`."""
    return create_row("at", prompt=prompt, **changes)


def test_it_is_pure() -> None:
    """`schedule_reminder_presentation(events, dispatch_seq, seed_length)` is pure: any sequence of events
    will do, and it gives the same each time."""
    log = log_of(one("p"), dispatch_row())
    shown = [schedule_reminder_presentation(events, 1, 0) for events in (log, list(log), log)]
    assert shown[0] == shown[1] == shown[2]


def test_a_receipt_has_the_id_the_prompt_the_occurrence_and_the_mode() -> None:
    """For a dispatch it gives the schedule's id, the prompt, the occurrence in UTC and the mode,
    `session-local`."""
    shown = schedule_reminder_presentation(log_of(one("call home"), dispatch_row()), 1, 0)
    assert msgspec.to_builtins(shown) == {
        "scheduleId": "schedule-1",
        "prompt": "call home",
        "occurrenceAt": later(600),
        "mode": "session-local",
    }


@pytest.mark.parametrize("seq", [0, 1, 3, 4, 99, -1])
def test_what_is_no_dispatch_has_none(seq: int) -> None:
    """For anything else it gives None."""
    assert receipt([one("p"), "turn/start", dispatch_row(), one("q", id="b"), delete_row("b")], seq) is None


def test_a_dispatch_is_paired_with_the_nearest_create_of_its_id_before_it() -> None:
    """It pairs the dispatch with the nearest create of that id before it."""
    rows = [one("first"), dispatch_row(), SEED_END]
    rows += [one("second"), one("x", id="b"), dispatch_row(), one("third")]
    assert receipt(rows, 5, seed_length=3) == ("second", later(600))
    assert receipt(rows, 1, seed_length=3) == ("first", later(600))


def test_the_dispatches_between_are_folded() -> None:
    """It folds the dispatches between, so that each one of a repeater shows its own occurrence."""
    accepted = [later(1290), later(1800), later(86_399)]
    rows = [create_row("every"), *(dispatch_row("schedule-1", at) for at in accepted)]
    assert [receipt(rows, seq) for seq in (1, 2, 3)] == [
        ("p", later(1200)), ("p", later(1800)), ("p", later(85_800))
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [
        [dispatch_row()],
        [one("p"), delete_row(), dispatch_row()],
        [one("p"), dispatch_row(), dispatch_row()],
        [one("p"), dispatch_row("schedule-1", later(600))],
        [create_row("every"), dispatch_row("schedule-1", later(599))],
        [create_row("every"), dispatch_row()],
    ],
)
def test_a_dispatch_that_could_not_be_has_no_receipt(rows: list[Any]) -> None:
    """Nothing is made up for a dispatch that the events before it do not allow."""
    assert receipt(rows, len(rows) - 1) is None


def test_a_dispatch_of_the_fork_never_looks_before_the_seeds_end() -> None:
    """A dispatch that the fork owns never looks before `seed_length`."""
    rows = [one("parent"), SEED_END, dispatch_row()]
    assert receipt(rows, 2, seed_length=2) is None
    assert receipt(rows, 2, seed_length=0) == ("parent", later(600))


def test_an_inherited_dispatch_searches_the_inherited_events() -> None:
    """An inherited one searches the inherited events, so that forks of forks which use ids again show the
    receipts of each of their ancestors."""
    rows = [
        one("great"), dispatch_row(), SEED_END, one("grand"), dispatch_row(), SEED_END,
        one("parent"), dispatch_row(), SEED_END, one("child"), dispatch_row(),
    ]  # fmt: skip
    shown = [receipt(rows, seq, seed_length=9) for seq in (1, 4, 7, 10)]
    assert [found and found[0] for found in shown] == ["great", "grand", "parent", "child"]


def test_a_mere_resume_hides_nothing() -> None:
    """A `session/end-seed` that a mere resume wrote hides nothing."""
    rows = [one("p"), SEED_END, dispatch_row()]
    assert receipt(rows, 2) == ("p", later(600))
    inherited = [one("p"), SEED_END, dispatch_row(), SEED_END]
    assert receipt(inherited, 2, seed_length=4) == ("p", later(600))


@living
async def test_it_never_changes_who_owns_what(at: Live) -> None:
    """It never changes who owns what: the fork shows its parent's receipts and has none of its reminders."""
    await at.remind(60, "parent's")
    await at.repeat(300)
    await at.until(61)
    fork = await at.agents.fork(at.agent, "fork")
    events = fork.session.events
    dispatch = max(event.seq for event in events if event.type == "schedule/change")
    shown = schedule_reminder_presentation(events, dispatch, fork.session.header.owned_from)
    assert shown is not None
    assert shown.prompt == "parent's"
    assert await ask(fork, "schedule_list") == []


# --- for people ------------------------------------------------------------------------------------------


def test_watchbell_receipts_says_what_became_of_each(tmp_path: Path) -> None:
    """`watchbell receipts SESSION` tells of each dispatch its id, prompt and occurrence, when it was
    dispatched, the turn that it opened, and what became of it: answered, failed, interrupted, cancelled or
    pending; those of a parent are marked."""

    async def body(at: Live) -> None:
        storage = JsonlStorage(tmp_path)
        await at.remind(60, "first")
        await at.until(61)
        at.agent = await at.program.host.agents.fork(at.agent, "fork")
        await at.remind(60, "second")
        await at.until(61)
        await quiet(at.agent)
        writer = await storage.create(at.agent.session.header, list(at.events))
        await writer.close()
        await storage.aclose()

    live(body, [fail(), "ok"])
    printed = run_watchbell("receipts", "fork", "--json", "--home", str(tmp_path))
    assert printed.exit_code == 0
    keys = ["id", "prompt", "occurrenceAt", "dispatchedAt", "turn", "outcome", "inherited"]
    assert [[row[key] for key in keys] for row in json.loads(printed.stdout)] == [
        ["schedule-1", "first", later(60), later(60), 1, "failed", True],
        ["schedule-1", "second", later(121), later(121), 2, "answered", False],
    ]
