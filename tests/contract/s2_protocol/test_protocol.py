"""2. Durable protocol, version 1

There is one event type, `schedule/change`. Its data has exactly the shapes that follow.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.world import (
    CORRUPT,
    T0,
    World,
    code_of,
    create_row,
    delete_row,
    dispatch_row,
    later,
)

SAFE = 2**53 - 1


# --- the shapes ------------------------------------------------------------------------------------------


def test_a_create_holds_version_operation_and_the_record() -> None:
    """A create is `version: 1`, `operation: "create"` and `schedule`, the record."""
    world = World()
    world.create(after_seconds=600)
    (row,) = world.changes()
    assert list(row.items())[:2] == [("version", 1), ("operation", "create")]
    assert list(row) == ["version", "operation", "schedule"]


def test_a_delete_holds_version_operation_and_id() -> None:
    """A delete is `version: 1`, `operation: "delete"` and `id`."""
    world = World(create_row())
    world.delete("schedule-1")
    row = world.changes()[-1]
    assert row == {"version": 1, "operation": "delete", "id": "schedule-1"}
    assert list(row) == ["version", "operation", "id"]


def test_a_dispatch_of_a_one_shot_holds_version_operation_and_id() -> None:
    """The dispatch of a one-shot is `version: 1`, `operation: "dispatch"` and `id`."""
    world = World(create_row("at"))
    world.live_for(601)
    row = world.changes()[-1]
    assert row == {"version": 1, "operation": "dispatch", "id": "schedule-1"}
    assert list(row) == ["version", "operation", "id"]


def test_a_dispatch_of_a_repeating_reminder_also_holds_accepted_at() -> None:
    """The dispatch of a repeating reminder also has `acceptedAt`, when it was decided."""
    world = World(create_row("every", everySeconds=3600))
    world.live_for(601)
    row = world.changes()[-1]
    assert row == {"version": 1, "operation": "dispatch", "id": "schedule-1", "acceptedAt": later(600)}
    assert list(row) == ["version", "operation", "id", "acceptedAt"]


@pytest.mark.parametrize(
    ("name", "value", "kind", "own"),
    [("after_seconds", 600, "after", ["afterSeconds"]), ("at", later(600), "at", []),
     ("every_seconds", 600, "every", ["everySeconds"])],
)  # fmt: skip
def test_a_record_has_the_keys_of_its_kind_in_their_order(
    name: str, value: Any, kind: str, own: list[str]
) -> None:
    """A record of kind `after` has the keys `id`, `kind`, `prompt`, `afterSeconds`, `scheduledAt`; of kind
    `at`: `id`, `kind`, `prompt`, `scheduledAt`; of kind `every`: `id`, `kind`, `prompt`, `everySeconds`,
    `scheduledAt`; in this order."""
    world = World()
    world.create(clock=T0, **{name: value})
    written = world.changes()[0]["schedule"]
    assert list(written) == ["id", "kind", "prompt", *own, "scheduledAt"]
    assert written["kind"] == kind


# --- ids -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule_id", ["", " a", "a ", "\ufeffa", "a\u2028", 1, None, True])
def test_an_id_is_text_that_is_not_empty_and_has_no_white_space_around_it(schedule_id: Any) -> None:
    """An id is a text that is not empty and has no white space around it. Else the log is corrupt."""
    assert code_of(create_row(schedule_id=schedule_id)) == CORRUPT


def test_an_id_of_another_program_is_taken_as_it_is() -> None:
    """Any such text is an id, not only those that Watchbell makes."""
    odd = "a b/\u0085\U0001f600"
    world = World(create_row(schedule_id=odd))
    assert world.list()[0]["id"] == odd
    assert world.delete(odd) == {"id": odd, "deleted": True}


@pytest.mark.parametrize("end", [delete_row(), dispatch_row()])
def test_an_id_is_never_used_again(end: dict[str, Any]) -> None:
    """An id is unique in its session, and not used again after its reminder ended."""
    assert code_of(create_row(), create_row()) == CORRUPT
    assert code_of(create_row(), end, create_row()) == CORRUPT
    assert World(create_row(), end).create(after_seconds=1)["id"] == "schedule-2"


def test_our_ids_count_the_ids_ever_seen() -> None:
    """Our ids are `schedule-N`, N being the number of ids ever seen in the session plus 1."""
    world = World(create_row(schedule_id="of another program"), delete_row("of another program"))
    assert [world.create(after_seconds=600)["id"] for _ in range(2)] == ["schedule-2", "schedule-3"]
    world.delete("schedule-3")
    assert world.create(after_seconds=600)["id"] == "schedule-4"


def test_an_id_that_is_taken_is_skipped() -> None:
    """An N that is taken already is skipped."""
    world = World(create_row(schedule_id="schedule-2"))
    assert [world.create(after_seconds=600)["id"] for _ in range(2)] == ["schedule-3", "schedule-4"]


def test_an_uncertain_create_that_a_crash_took_away_frees_its_id() -> None:
    """The id of a create that never became durable is free again after a crash: nobody was told that the
    reminder exists."""
    world = World(create_row())
    world.create(after_seconds=600)
    world.disk.batches["s"].pop()
    assert world.create(after_seconds=60)["id"] == "schedule-2"


# --- prompts ---------------------------------------------------------------------------------------------


def test_a_prompt_is_stored_trimmed() -> None:
    """A prompt is stored without the white space around it."""
    world = World()
    world.create(prompt=" \n a  b\t", after_seconds=600)
    assert world.changes()[0]["schedule"]["prompt"] == "a  b"


@pytest.mark.parametrize("prompt", ["", " ", "\u3000", " a", "a\n", "\ufeffa", None, 1, ["a"]])
def test_a_prompt_in_a_log_is_trimmed_text_and_not_blank(prompt: Any) -> None:
    """A prompt in a log that is blank, or has white space around it, or is no text makes the log corrupt."""
    assert code_of(create_row(prompt=prompt)) == CORRUPT


ECMASCRIPT = "\t\n\v\f\r \u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


@pytest.mark.parametrize("space", ECMASCRIPT)
def test_trimming_takes_ecmascripts_white_space(space: str) -> None:
    """Trimming takes ECMAScript's white space and line ends, and U+FEFF."""
    world = World()
    world.create(prompt=f"{space}a{space}", after_seconds=600)
    assert world.changes()[0]["schedule"]["prompt"] == "a"


@pytest.mark.parametrize("kept", ["\u0085", "\x1c", "\x1d", "\x1e", "\x1f", "\u200b"])
def test_trimming_takes_nothing_else(kept: str) -> None:
    """Trimming takes nothing more: U+0085 and U+001C to U+001F, which Python calls white space, stay."""
    world = World()
    world.create(prompt=f"{kept}a{kept}", after_seconds=600)
    assert world.list()[0]["prompt"] == f"{kept}a{kept}"


# --- instants and numbers --------------------------------------------------------------------------------

INSTANTS = [
    "2027-06-01T09:00:00Z", "2027-06-01T09:00:00.00Z", "2027-06-01T09:00:00.0000Z",
    "2027-06-01T09:00:00.000", "2027-06-01T09:00:00.000+00:00", "2027-06-01T09:00:00.000z",
    "2027-06-01t09:00:00.000Z", "2027-06-01 09:00:00.000Z", "2027-06-01T09:00:00.000Z\n",
    "2027-02-29T00:00:00.000Z", "2027-13-01T00:00:00.000Z", "2027-00-01T00:00:00.000Z",
    "2027-06-00T00:00:00.000Z", "2027-06-01T24:00:00.000Z", "2027-06-01T23:60:00.000Z",
    "2028-12-31T23:59:60.000Z", "0000-01-01T00:00:00.000Z", "10000-01-01T00:00:00.000Z",
    "\uff12\uff10\uff12\uff17-06-01T09:00:00.000Z", "2027-06-01T\u0660\u0669:00:00.000Z", "", None, 0,
]  # fmt: skip


@pytest.mark.parametrize("instant", INSTANTS)
def test_an_instant_in_a_log_is_canonical(instant: Any) -> None:
    """`scheduledAt` and `acceptedAt` are canonical UTC, `YYYY-MM-DDTHH:mm:ss.sssZ`, in ASCII digits, with
    three fraction digits, a real instant of the calendar (no hour 24, no leap second)."""
    assert code_of(create_row("at", scheduledAt=instant)) == CORRUPT
    row = {**dispatch_row(), "acceptedAt": instant}
    assert code_of(create_row("every", scheduledAt="0001-01-01T00:00:00.000Z"), row) == CORRUPT


@pytest.mark.parametrize(
    "instant", ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2028-02-29T23:59:59.001Z"]
)
def test_an_instant_lies_in_the_years_0001_to_9999(instant: str) -> None:
    """Instants lie in the UTC years 0001 to 9999, both included."""
    assert World(create_row("at", scheduledAt=instant)).list()[0]["scheduledAt"] == instant


NO_NUMBERS = ["true", "false", "null", '"600"', "600.0", "6e2", "600.5", "[600]", "1e400", "9" * 5000]


def with_number(kind: str, written: str) -> str:
    """A create whose number is written so."""
    row = json.dumps(create_row(kind))
    assert row.count('Seconds": 600') == 1
    return row.replace('Seconds": 600', f'Seconds": {written}')


@pytest.mark.parametrize("written", [*NO_NUMBERS, "0", "-1", str(SAFE + 1)])
def test_after_seconds_in_a_log_is_a_positive_safe_integer(written: str) -> None:
    """`afterSeconds` is a JSON integer from 1 to 2^53 - 1. `true`, `300.0` and `"1"` are corrupt."""
    assert code_of(with_number("after", written)) == CORRUPT
    assert code_of(create_row(afterSeconds=1)) is code_of(create_row(afterSeconds=SAFE)) is None


@pytest.mark.parametrize("written", [*NO_NUMBERS, "299", "0", "-600", str(SAFE // 1000 + 1), str(SAFE)])
def test_every_seconds_in_a_log_is_a_safe_integer_of_at_least_300(written: str) -> None:
    """`everySeconds` is a JSON integer of at least 300, and 1,000 times it is at most 2^53 - 1."""
    assert code_of(with_number("every", written)) == CORRUPT
    rows = (create_row("every", everySeconds=seconds) for seconds in (300, SAFE // 1000))
    assert [code_of(row) for row in rows] == [None, None]


# --- what a record means ---------------------------------------------------------------------------------


def test_an_at_record_keeps_no_trace_of_how_it_was_said() -> None:
    """An `at` record keeps nothing of the offset, the calendar fields or the zone that it was made from."""
    said = [
        "2027-06-01T09:00:00.5+05:30",
        {"date": "2027-06-01", "time": "09:00:00.500", "time_zone": "Asia/Calcutta"},
        {"date": "2027-06-01", "time": "03:30:00.5", "time_zone": "UTC"},
    ]
    world = World()
    for at in said:
        world.create(at=at)
    for number, row in enumerate(world.changes(), 1):
        assert row == create_row("at", f"schedule-{number}", scheduledAt="2027-06-01T03:30:00.500Z")
    assert len(world.changes()) == len(said)


def test_a_repeating_record_shows_its_earliest_undispatched_occurrence() -> None:
    """The `scheduledAt` of an `every` record is the earliest occurrence, counted from its creation, that has
    not been dispatched."""
    world = World()
    world.create(every_seconds=600)
    rows = world.changes()
    assert rows[0]["schedule"]["scheduledAt"] == later(600)
    dispatched = World(*rows, dispatch_row(accepted_at=later(601)))
    assert dispatched.list(clock=later(601))[0]["scheduledAt"] == later(1200)
    late = World(*rows, dispatch_row(accepted_at=later(6_007)))
    assert late.list(clock=later(6_007))[0]["scheduledAt"] == later(6_600)


# --- every dispatch, by arithmetic alone -----------------------------------------------------------------


YEAR = 86_400 * 365
NEXT = [(0, 600), (599.999, 600), (600, 1200), (1800.001, 2400), (YEAR, YEAR + 600)]


@pytest.mark.parametrize(("late", "following"), NEXT)
def test_the_next_occurrence_follows_by_arithmetic(late: float, following: int) -> None:
    """With target t, interval i and decision time a >= t the occurrence is t + floor((a - t) / i) x i, and
    the next target is that plus i."""
    world = World(create_row("every"), dispatch_row(accepted_at=later(600 + late)))
    assert world.list()[0]["scheduledAt"] == later(600 + following)


def test_the_occurrence_told_is_the_latest_one() -> None:
    """What is delivered late tells of its latest occurrence."""
    (message,) = World(create_row("every")).live_for(1, start=later(600 + 6_007))
    assert f'"occurrence_at":"{later(600 + 6_000)}"' in message.text


def test_missed_occurrences_are_not_enumerated() -> None:
    """Missed occurrences are never counted through, stored or replayed: nine thousand years of them are one
    message and one dispatch."""
    world = World(create_row("every", everySeconds=300, scheduledAt="0001-01-01T00:00:00.000Z"))
    assert len(world.live_for(1, start="9990-01-01T00:00:01.000Z")) == 1
    assert len(world.changes()) == 2
    assert world.list()[0]["scheduledAt"] == "9990-01-01T00:05:00.000Z"


def test_a_dispatch_whose_next_occurrence_passes_year_9999_ends_the_record() -> None:
    """A dispatch after which the next occurrence would pass year 9999 ends the record."""
    last = "9999-12-31T23:59:00.000Z"
    world = World(create_row("every", scheduledAt=last), dispatch_row(accepted_at=last))
    assert world.list(clock=T0) == []
    assert world.delete("schedule-1")["code"] == "schedule_not_found"
