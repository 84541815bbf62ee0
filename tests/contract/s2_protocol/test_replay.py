"""2. Durable protocol: replay

Replay accepts a valid history of version 1 and nothing else. What it rejects is a `ScheduleLogError`, code
`corrupt_schedule_log`.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.live import Live, living
from tests.contract.world import (
    CORRUPT,
    SESSION,
    T0,
    World,
    code_of,
    create_row,
    delete_row,
    dispatch_row,
    later,
    record,
    without_ellipses,
)
from tests.program import texts
from watchbell import Host
from watchbell.errors import CorruptLogError
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import SimulatedClock


def text(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


# --- what is rejected ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, True, 1.0, "1", None, ...])
def test_another_version_is_rejected(version: Any) -> None:
    """A `version` that is not the integer 1 is rejected, look-alikes such as `true`, `1.0` and `"1"` too."""
    assert code_of(without_ellipses({**create_row(), "version": version})) == CORRUPT


@pytest.mark.parametrize("operation", ["snooze", "Create", "", None, 1, ...])
def test_an_unknown_operation_is_rejected(operation: Any) -> None:
    """An unknown or missing `operation` is rejected."""
    assert code_of(without_ellipses({**create_row(), "operation": operation})) == CORRUPT


@pytest.mark.parametrize("kind", ['"cron"', '"After"', '""', "null", "1"])
def test_an_unknown_kind_is_rejected(kind: str) -> None:
    """An unknown or missing `kind` is rejected."""
    row = text(create_row("at"))
    assert code_of(row) is None
    assert code_of(row.replace('"kind":"at"', f'"kind":{kind}')) == CORRUPT
    assert code_of(row.replace('"kind":"at",', "")) == CORRUPT


LACKING = [
    *(create_row("after", "a", **{key: ...}) for key in ("prompt", "afterSeconds", "scheduledAt")),
    *(create_row("every", "a", **{key: ...}) for key in ("id", "everySeconds")),
    *({"version": 1, "operation": operation} for operation in ("create", "delete", "dispatch")),
    {},
]


@pytest.mark.parametrize("row", LACKING)
def test_a_missing_key_is_rejected(row: dict[str, Any]) -> None:
    """A missing key is rejected."""
    assert code_of(row) == CORRUPT


@pytest.mark.parametrize("value", [None, 1, "x"])
def test_an_extra_key_is_rejected(value: Any) -> None:
    """An extra key is rejected, in the change and in the record, also one of another kind and one that holds
    null."""
    assert code_of({**create_row(), "zone": value}) == CORRUPT
    assert code_of(create_row(zone=value)) == CORRUPT
    assert code_of(create_row("at", afterSeconds=value)) == CORRUPT
    assert code_of(create_row(), {**delete_row(), "acceptedAt": value}) == CORRUPT
    assert code_of(create_row(), {**dispatch_row(), "acceptedAt": value}) == CORRUPT


@pytest.mark.parametrize("key", ["id", "kind", "prompt", "afterSeconds", "scheduledAt"])
@pytest.mark.parametrize("same", [True, False])
def test_a_repeated_key_is_rejected(key: str, same: bool) -> None:
    """A repeated key is rejected, whether or not the values are equal."""
    member = json.dumps({key: record()[key]})[1:-1]
    first = member if same else json.dumps({key: "schedule-9"})[1:-1]
    assert code_of(text(create_row()).replace('"schedule":{', f'"schedule":{{{first},')) == CORRUPT
    assert code_of(text(create_row()).replace("{", '{"version":1,', 1)) == CORRUPT


@pytest.mark.parametrize("row", ["null", "[]", '"create"', "1", "true", "[" * 200 + "]" * 200])
def test_data_that_is_no_object_is_rejected(row: str) -> None:
    """Data that is not an object is rejected."""
    assert code_of(row) == CORRUPT


def test_a_reused_id_is_rejected() -> None:
    """A create of an id that was used is rejected, whether its reminder is active or ended."""
    assert code_of(create_row(), create_row("at")) == CORRUPT
    assert code_of(create_row(), delete_row(), create_row()) == CORRUPT


def test_ending_what_is_not_active_is_rejected() -> None:
    """A delete or dispatch of an id that is not active is rejected: never created, deleted, or dispatched."""
    for end in (delete_row(), dispatch_row()):
        assert code_of(end) == CORRUPT
        assert code_of(create_row(), delete_row(), end) == CORRUPT
        assert code_of(create_row(), dispatch_row(), end) == CORRUPT


@pytest.mark.parametrize("kind", ["after", "at"])
def test_a_one_shot_dispatch_with_accepted_at_is_rejected(kind: str) -> None:
    """A dispatch of a one-shot that has `acceptedAt` is rejected."""
    assert code_of(create_row(kind), dispatch_row(accepted_at=later(600))) == CORRUPT
    assert code_of(create_row(kind), dispatch_row()) is None


def test_a_repeating_dispatch_without_accepted_at_is_rejected() -> None:
    """A dispatch of a repeating reminder that has no `acceptedAt` is rejected."""
    assert code_of(create_row("every"), dispatch_row()) == CORRUPT


def test_a_repeating_dispatch_before_its_target_is_rejected() -> None:
    """A dispatch of a repeating reminder whose `acceptedAt` is before the record's `scheduledAt` is
    rejected."""
    assert code_of(create_row("every"), dispatch_row(accepted_at=later(599.999))) == CORRUPT
    twice = (dispatch_row(accepted_at=later(600)), dispatch_row(accepted_at=later(1199.999)))
    assert code_of(create_row("every"), *twice) == CORRUPT
    assert code_of(create_row("every"), dispatch_row(accepted_at=later(600))) is None


def test_key_order_white_space_and_escapes_do_not_matter() -> None:
    """The order of keys, white space and the spelling of characters do not matter: another program may
    write them otherwise."""
    row = create_row(prompt="é")
    backwards = dict(reversed({**row, "schedule": dict(reversed(row["schedule"].items()))}.items()))
    for spelling in (json.dumps(backwards, indent=1), json.dumps(backwards, ensure_ascii=True)):
        assert World(spelling).list() == World(row).list()


def test_caps_bind_creation_and_never_replay() -> None:
    """Caps bind creation, never replay: a log that holds longer prompts and more reminders than may be
    created is read."""
    rows = [create_row(schedule_id=str(number), prompt="p" * 20_000) for number in range(1001)]
    world = World(*rows)
    assert len(world.list()) == 1001
    assert world.create(after_seconds=600)["code"] == "invalid_rule"
    assert world.delete("7")["deleted"] is True


@pytest.mark.parametrize("extra", [{"cron": "0 9 * * *"}, {"time_zone": "UTC"}, {"snoozedUntil": T0}])
def test_later_rules_need_a_later_version(extra: dict[str, str]) -> None:
    """A later kind of rule needs a later `version`; a hidden field in version 1 is rejected."""
    assert code_of(create_row("at", **extra)) == CORRUPT
    assert code_of({**create_row("at", **extra), "version": 2}) == CORRUPT


# --- what is folded --------------------------------------------------------------------------------------


def test_a_normal_session_folds_its_whole_log() -> None:
    """A session that is no fork folds its whole log."""
    rows = [create_row(), create_row("every", "schedule-2"), delete_row(), create_row("at", "schedule-3")]
    assert [view["id"] for view in World(*rows).list()] == ["schedule-2", "schedule-3"]


def test_a_fork_inherits_no_reminder() -> None:
    """A fork folds only its own events, those from `seedLength` on: it never inherits its parent's active
    reminders."""
    world = World(create_row(), create_row("at", "schedule-2"), seed_length=2)
    assert world.list() == []
    assert world.live_for(3600) == []


def test_a_fork_may_use_its_parents_ids() -> None:
    """A fork may reuse its parent's ids."""
    world = World(create_row(prompt="the parent's"), seed_length=1)
    assert world.create(prompt="the child's", after_seconds=60)["id"] == "schedule-1"
    assert [view["prompt"] for view in world.list()] == ["the child's"]


def test_a_fork_does_not_judge_its_parents_events() -> None:
    """What stands before `seedLength` is not judged."""
    assert code_of("{}", create_row(), seed_length=1) is None


def test_a_seed_length_outside_the_log_is_corrupt() -> None:
    """A `seedLength` that is not within the log is corrupt."""
    assert code_of(create_row(), seed_length=2) == CORRUPT
    assert code_of(create_row(), seed_length=1) is None


# --- two kinds of damage ---------------------------------------------------------------------------------


def test_a_damaged_row_refuses_to_open_the_session(tmp_path: Path) -> None:
    """A damaged frame, row or envelope refuses to open the session with `CorruptLogError`; nothing on disk is
    changed. `watchbell call` answers `corrupt_schedule_log`."""
    world = World(storage=JsonlStorage(tmp_path, compression="none"))
    for _ in range(3):
        world.create(after_seconds=600)
    (log,) = tmp_path.rglob("session.jsonl")
    lines = log.read_bytes().split(b"\n")
    before = b"\n".join([*lines[:2], lines[2][:-1], *lines[3:]])
    log.write_bytes(before)

    async def body(host: Host, _: SimulatedClock) -> None:
        with pytest.raises(CorruptLogError):
            await host.agents.resume(SESSION)

    world.live(body)
    assert [world.list()["code"], world.create(after_seconds=60)["code"]] == [CORRUPT, CORRUPT]
    assert log.read_bytes() == before


def test_an_invalid_schedule_stream_opens_and_every_tool_says_so() -> None:
    """A sound log whose Schedule stream is invalid opens, and each tool answers `corrupt_schedule_log`."""
    world = World(create_row(), create_row())
    answers = [world.list(), world.create(after_seconds=600), world.delete("schedule-1")]
    assert [answer["code"] for answer in answers] == [CORRUPT] * 3
    assert len(world.changes()) == 2


@living(log=[create_row("at"), create_row()], script=["hello yourself"])
async def test_an_invalid_schedule_stream_silences_the_owner_alone(at: Live) -> None:
    """In such a session the owner stays silent, and the conversation goes on."""
    await asyncio.sleep(3600)
    at.agent.followup("hello")
    await at.agent.when_idle()
    assert texts(at.agent) == ["hello", "hello yourself"]
