"""4. The tools

What a model can call, and what it gets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tests.contract.live import Live, living
from tests.contract.world import T0, World, create_row, dispatch_row, later, run_watchbell
from watchbell.reminders.arguments import CreateArguments, DeleteArguments, ListArguments
from watchbell.reminders.records import AfterRecord, AtRecord, EveryRecord
from watchbell.reminders.views import AfterView, AtView, Deletion, ErrorCode, EveryView, Failure
from watchbell.schedule.tools import catalog_tools
from watchbell.testing import FaultyPersistence, call

ROOT = Path(__file__).parents[3]
TOOLS = {tool.name: tool for tool in catalog_tools()}
REFUSED_AT_THE_ROOT = {"oneOf", "anyOf", "allOf", "enum", "not"}
CATALOG = "from watchbell.cli.main import main; main(['tools', '--json'])"


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of a schema."""
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from nodes(part)


# --- what they are told ----------------------------------------------------------------------------------


def test_create_takes_a_prompt_and_a_selector() -> None:
    """`schedule_create` takes `prompt` and one of `after_seconds`, `at` and `every_seconds`."""
    schema = TOOLS["schedule_create"].parameters
    assert list(schema["properties"]) == ["prompt", "after_seconds", "at", "every_seconds"]
    assert schema["required"] == ["prompt"]


def test_list_takes_nothing() -> None:
    """`schedule_list` takes nothing."""
    assert TOOLS["schedule_list"].parameters["properties"] == {}


def test_delete_takes_an_id() -> None:
    """`schedule_delete` takes `id`."""
    schema = TOOLS["schedule_delete"].parameters
    assert list(schema["properties"]) == schema["required"] == ["id"]


def test_keys_are_snake_case_going_in_and_camel_case_coming_out() -> None:
    """Keys of arguments are snake_case, keys of results camelCase."""
    for tool in TOOLS.values():
        going_in = {key for node in nodes(tool.parameters) for key in node.get("properties", {})}
        coming_out = {key for node in nodes(tool.output) for key in node.get("properties", {})}
        assert all(key == key.lower() for key in going_in)
        assert not any("_" in key for key in coming_out)
    assert "afterSeconds" in World().create(after_seconds=600)


@pytest.mark.parametrize("name", TOOLS)
def test_parameters_are_an_object_without_combinators_at_the_root(name: str) -> None:
    """The parameters of each tool are an object at the root, with no `oneOf`, `anyOf`, `allOf`, `enum` or
    `not` there, nothing referred to, and nothing allowed beyond what is named."""
    schema = TOOLS[name].parameters
    assert schema["type"] == "object"
    assert not REFUSED_AT_THE_ROOT & set(schema)
    assert not any({"$ref", "$defs"} & set(node) for node in nodes(schema))
    assert schema["additionalProperties"] is False


def test_that_exactly_one_selector_is_given_stands_in_the_description() -> None:
    """That exactly one selector is to be given is said in the description, as no schema may say it."""
    assert "exactly one of after_seconds, at and every_seconds" in TOOLS["schedule_create"].description


@pytest.mark.parametrize("options", [["-R"], ["-OO"]])
def test_the_schemas_are_the_same_bytes_in_every_process(options: list[str]) -> None:
    """The schemas are the same bytes in every process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, *options, "-c", CATALOG], capture_output=True, check=True, env=environment
    )
    assert done.stdout == run_watchbell("tools", "--json").stdout_bytes


def test_the_schemas_are_those_that_were_reviewed() -> None:
    """They change only by decision: their bytes are kept under review, the same on every version of
    Python."""
    kept = Path(__file__).with_name("catalog.json")
    assert run_watchbell("tools", "--json").stdout_bytes == kept.read_bytes()


@living
async def test_the_schemas_come_from_one_catalog(at: Live) -> None:
    """They come from one generated tool catalog, which `watchbell tools --json` prints and which the model is
    sent."""
    sent = [(spec.name, spec.description, spec.parameters) for spec in at.agent.tools.specs()]
    printed = json.loads(run_watchbell("tools", "--json").stdout)
    ours = [entry for entry in printed if entry["name"] in TOOLS]
    assert sent == [(entry["name"], entry["description"], entry["parameters"]) for entry in ours]


def test_the_page_of_the_catalog_is_fresh() -> None:
    """The page `docs/tool-catalog.md` is the same catalog."""
    page = ROOT / "docs" / "tool-catalog.md"
    assert page.read_text(encoding="utf-8") == run_watchbell("tools", "--markdown").stdout


@pytest.mark.parametrize(
    ("name", "shape"), [("create", CreateArguments), ("list", ListArguments), ("delete", DeleteArguments)]
)
def test_the_schemas_are_derived_from_the_shapes_that_calls_are_read_by(
    name: str, shape: type[msgspec.Struct]
) -> None:
    """Each shape is defined once: the schemas are derived from the definitions that calls and records are
    read by."""
    schema = TOOLS[f"schedule_{name}"].parameters
    assert tuple(schema["properties"]) == shape.__struct_fields__
    stranger = dict.fromkeys([*shape.__struct_fields__, "stranger"], "x")
    message = World().call(name, stranger)["message"]
    assert message.endswith(f"are: {', '.join(sorted(shape.__struct_fields__)) or 'none'}.")


# --- views -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "view", "shape"),
    [
        ({"after_seconds": 600}, AfterView, AfterRecord),
        ({"at": later(600)}, AtView, AtRecord),
        ({"every_seconds": 600}, EveryView, EveryRecord),
    ],
)
def test_a_view_is_the_record_its_state_and_how_it_is_delivered(
    selector: dict[str, Any], view: type[msgspec.Struct], shape: type[msgspec.Struct]
) -> None:
    """A view is the record, then `state` and then `deliveryMode: "session-local"`."""
    world = World()
    value = world.create(**selector)
    assert list(value) == [*world.changes()[0]["schedule"], "state", "deliveryMode"]
    assert value == {**world.changes()[0]["schedule"], "state": "scheduled", "deliveryMode": "session-local"}
    assert isinstance(msgspec.convert(value, view), shape)


@pytest.mark.parametrize(("seconds", "state"), [(599.999, "scheduled"), (600, "overdue"), (601, "overdue")])
def test_a_reminder_is_overdue_when_now_is_its_target_or_later(seconds: float, state: str) -> None:
    """The state is `overdue` when now is the target or later, else `scheduled`."""
    assert World(create_row()).list(clock=later(seconds))[0]["state"] == state


@living
async def test_the_clock_is_read_for_the_state_after_the_barrier(at: Live) -> None:
    """The state is read after the barrier: a create whose barrier outlasts its delay is answered as
    overdue."""
    held = at.program.store.hold_writes()
    at.clock.call_at(at.clock.now_ms() + 5_000, held.release)
    assert (await at.remind(1))["state"] == "overdue"


# --- what succeeds ---------------------------------------------------------------------------------------


def test_create_answers_the_view() -> None:
    """`schedule_create` answers the view."""
    world = World()
    assert [world.create(after_seconds=600)] == world.list()


def test_list_answers_all_active_records_in_create_order() -> None:
    """`schedule_list` answers an array of the views of every active record, in create order."""
    rows = [
        create_row("at", "c", scheduledAt=later(300)),
        create_row("every", "a"),
        create_row("after", "b"),
        dispatch_row("c"),
        create_row("at", "d", scheduledAt=later(1)),
        dispatch_row("a", later(600)),
    ]
    assert [view["id"] for view in World(*rows).list()] == ["a", "b", "d"]
    assert World().list() == []


def test_delete_answers_that_it_deleted() -> None:
    """`schedule_delete` answers `{"id", "deleted": true}`."""
    value = World(create_row()).delete("schedule-1")
    assert list(value.items()) == [("id", "schedule-1"), ("deleted", True)]
    assert msgspec.convert(value, Deletion)


@pytest.mark.parametrize("rows", [(), (create_row(), dispatch_row())])
def test_delete_of_an_unknown_or_ended_id_is_no_error(rows: tuple[dict[str, Any], ...]) -> None:
    """For an unknown or ended id it answers `{"id", "deleted": false, "code": "schedule_not_found"}`."""
    world = World(*rows)
    expected = [("id", "schedule-1"), ("deleted", False), ("code", "schedule_not_found")]
    assert list(world.delete("schedule-1").items()) == expected
    assert len(world.changes()) == len(rows)


# --- what fails ------------------------------------------------------------------------------------------

REFUSALS: list[tuple[str, str, dict[str, Any] | str]] = [
    ("invalid_prompt", "create", {"prompt": " ", "after_seconds": 1}),
    ("invalid_selector", "create", {"prompt": "p"}),
    ("invalid_rule", "create", {"prompt": "p", "after_seconds": 0}),
    ("invalid_time_zone", "create",
     {"prompt": "p", "at": {"date": "2027-06-01", "time": "09:00:00", "time_zone": "EST"}}),
    ("not_future", "create", {"prompt": "p", "at": T0}),
    ("time_out_of_range", "create", {"prompt": "p", "at": "9999-12-31T23:59:59-00:01"}),
    ("frequency_too_high", "create", {"prompt": "p", "every_seconds": 1}),
    ("invalid_selector", "list", {"x": 1}),
    ("invalid_selector", "delete", {"id": "a", "x": 1}),
    ("invalid_rule", "delete", {}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "tool", "arguments"), REFUSALS)
def test_an_error_is_a_value_of_a_code_and_a_message(code: str, tool: str, arguments: dict[str, Any]) -> None:
    """Errors are values, `{"code", "message"}`. A message is stable and tells how to repair the call; it
    never shows a back end's exception, a path or a stack."""
    value = World().call(tool, arguments)
    assert list(value) == ["code", "message"]
    assert value["code"] == code
    assert value == World().call(tool, arguments)
    assert value["message"].endswith(".")
    assert not any(trace in value["message"] for trace in ("Error", "Traceback", "File ", "/work", "$."))


def test_the_codes_are_a_closed_set_of_ten() -> None:
    """The codes are `invalid_prompt`, `invalid_selector`, `invalid_rule`, `invalid_time_zone`, `not_future`,
    `time_out_of_range`, `frequency_too_high`, `corrupt_schedule_log`, `persistence_uncertain`,
    `internal_error`, and no other."""
    rest = {"corrupt_schedule_log", "persistence_uncertain", "internal_error"}
    assert set(get_args(ErrorCode)) == {code for code, _, _ in REFUSALS} | rest
    for tool in TOOLS.values():
        shapes = [node.get("properties", {}) for node in nodes(tool.output)]
        codes = [set(shape["code"]["enum"]) for shape in shapes if "message" in shape]
        assert codes == [set(get_args(ErrorCode))]


def test_a_corrupt_log_is_a_value_of_its_own() -> None:
    """An invalid Schedule stream is `corrupt_schedule_log`."""
    value = World(create_row(), create_row()).list()
    assert list(value) == ["code", "message"]
    assert value["code"] == "corrupt_schedule_log"


def test_a_failure_inside_the_program_is_a_value_too() -> None:
    """What fails inside the program is `internal_error`, and nothing of the failure is shown."""

    class Broken:
        def find(self, name: str) -> None:
            raise OSError(f"/usr/share/{name} is broken")

    at = {"date": "2027-06-01", "time": "09:00:00", "time_zone": "Europe/Berlin"}
    value = World().call("create", {"prompt": "p", "at": at}, zones=Broken())
    assert list(value) == ["code", "message"]
    assert value["code"] == "internal_error"
    assert "broken" not in value["message"]


@pytest.mark.parametrize("operation", ["create", "delete"])
def test_an_uncertain_outcome_names_the_operation_and_the_id(operation: str) -> None:
    """`persistence_uncertain` has besides `operation`, which is `create`, `list` or `delete`, and the `id`
    when one is known."""
    world = World(create_row())
    store = world.storage = FaultyPersistence(world.storage)
    store.fail_writes(None)
    value = world.create(after_seconds=1) if operation == "create" else world.delete("schedule-1")
    assert list(value) == ["code", "message", "operation", "id"]
    assert value["code"] == "persistence_uncertain"
    assert value["operation"] == operation
    assert value["id"] == {"create": "schedule-2", "delete": "schedule-1"}[operation]
    assert msgspec.convert(value, Failure)


@living
async def test_an_uncertain_list_knows_no_id(at: Live) -> None:
    """A list has no id to name, nor has a create whose preflight failed."""
    at.program.store.fail_writes(None)
    await at.remind(600)
    for value in (await at.list(), await at.remind(600)):
        assert list(value) == ["code", "message", "operation"]
    at.program.store.heal()


def test_not_future_states_the_clocks_time() -> None:
    """`not_future` states the clock's UTC time."""
    assert T0 in World().create(at="2025-01-01T09:00:00Z")["message"]


# --- what the model sees ---------------------------------------------------------------------------------


async def result_of_a_turn(at: Live) -> str:
    """What the model sees of the one call that it makes in a turn."""
    at.agent.followup("go on")
    await at.agent.when_idle()
    return at.agent.transcript()[2].content[0].content[0].text


@living(script=[call("schedule_create", {"prompt": "é\u2028\U0001f600", "after_seconds": 600}), "done"])
async def test_the_model_sees_compact_json_in_key_order(at: Live) -> None:
    """The text that the model sees is compact JSON of the value, keys in the order given here, non-ASCII
    left as it is."""
    assert await result_of_a_turn(at) == (
        '{"id":"schedule-1","kind":"after","prompt":"é\u2028\U0001f600","afterSeconds":600,'
        f'"scheduledAt":"{later(600)}","state":"scheduled","deliveryMode":"session-local"}}'
    )


@living(
    log=[create_row(schedule_id=str(number), prompt="p" * 1000) for number in range(100)],
    script=[call("schedule_list"), "done"],
)
async def test_a_long_result_is_cut_for_the_model_and_stays_whole_as_a_value(at: Live) -> None:
    """A result of more than 64 KiB is cut for the model, with a note of how much; the value stays whole."""
    text = await result_of_a_turn(at)
    assert len(text.encode()) <= 64 * 1024
    assert "bytes are shown" in text
    assert len(await at.list()) == 100
    assert at.delivered == []
