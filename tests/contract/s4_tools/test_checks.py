"""4. The tools: order of checks and caps

What is wrong with a call is found in a fixed order, so that the same call always gets the same code.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.live import Live, live
from tests.contract.world import SESSION, T0, World, answer_of, create_row, later
from tests.program import ask
from watchbell.reminders.arguments import Limits

SELECTOR, PROMPT, RULE, ZONE = "invalid_selector", "invalid_prompt", "invalid_rule", "invalid_time_zone"
RANGE, PAST, UNCERTAIN = "time_out_of_range", "not_future", "persistence_uncertain"

GAP = {"date": "2027-03-28", "time": "02:30:00", "time_zone": "Europe/Berlin"}
NO_DAY = {"date": "2027-02-29", "time": "02:30:00", "time_zone": "Nope/Nope"}
NO_ZONE = {"date": "2027-03-28", "time": "02:30:00", "time_zone": "Nope/Nope"}
OUT_OF_RANGE = {"date": "0001-01-01", "time": "00:00:00", "time_zone": "Asia/Tokyo"}

# Each call has the fault of its code and of every later one that can go with it.
ORDER: list[tuple[str, dict[str, Any], bool]] = [
    (SELECTOR, {"prompt": "", "at": NO_DAY, "colour": "red"}, True),
    (SELECTOR, {"prompt": "", "at": NO_DAY, "after_seconds": -1}, True),
    (PROMPT, {"prompt": "", "at": NO_DAY}, True),
    (RULE, {"prompt": "p", "at": NO_DAY}, True),
    (ZONE, {"prompt": "p", "at": NO_ZONE}, True),
    (RULE, {"prompt": "p", "at": GAP}, True),
    (RANGE, {"prompt": "p", "at": OUT_OF_RANGE}, False),
    (PAST, {"prompt": "p", "at": "2020-01-01T00:00:00Z"}, False),
]


def create(arguments: dict[str, Any] | str, **options: Any) -> str:
    return answer_of(World().call("create", arguments, **options))


def answer_without_storage(tool: str, arguments: dict[str, Any]) -> str:
    """The code that a call gets while the storage confirms nothing and something waits to be confirmed."""

    async def body(at: Live) -> str:
        store = at.program.store
        store.fail_writes(None)
        await at.remind(600)
        begun = store.writes
        code = answer_of(await ask(at.agent, f"schedule_{tool}", **arguments))
        assert (store.writes == begun) is (code != UNCERTAIN), "the storage was touched"
        store.heal()
        return code

    return live(body)


@pytest.mark.parametrize(("code", "arguments", "_"), ORDER)
def test_checks_come_in_a_fixed_order(code: str, arguments: dict[str, Any], _: bool) -> None:
    """The order of checks is: fields and selector, prompt, shape and calendar of the rule, zone, gap, range,
    future. The first that fails gives the answer."""
    assert create(arguments) == code


@pytest.mark.parametrize(("code", "arguments", "by_shape"), ORDER)
def test_what_the_shape_shows_to_be_wrong_touches_no_persistence(
    code: str, arguments: dict[str, Any], by_shape: bool
) -> None:
    """What the call alone shows to be wrong is answered before any persistence is touched. Range and future
    need the clock, and so come after the preflight."""
    assert answer_without_storage("create", arguments) == (code if by_shape else UNCERTAIN)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [("list", {"x": 1}, SELECTOR), ("delete", {"x": 1}, SELECTOR), ("delete", {}, RULE),
     ("delete", {"id": " schedule-1"}, RULE), ("list", {}, UNCERTAIN),
     ("delete", {"id": "schedule-1"}, UNCERTAIN)],
)  # fmt: skip
def test_the_other_tools_check_the_shape_first_too(tool: str, arguments: dict[str, Any], code: str) -> None:
    """So it is with the other two tools."""
    assert answer_without_storage(tool, arguments) == code


def test_a_refusal_appends_nothing() -> None:
    """A refused call appends nothing to the log."""
    world = World(create_row())
    for _, arguments, _ in ORDER:
        world.call("create", arguments)
    assert len(world.disk.events(SESSION)) == 1


# --- fields ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create", {"prompt": "p", "after_seconds": 600, "colour": "red"}),
        ("create", {"prompt": "p", "afterSeconds": 600}),
        ("list", {"id": "schedule-1"}),
        ("delete", {"id": "schedule-1", "force": True}),
    ],
)
def test_an_unknown_argument_is_an_invalid_selector(tool: str, arguments: dict[str, Any]) -> None:
    """An unknown argument of any of the three tools is `invalid_selector`; the message names those that there
    are."""
    value = World(create_row()).call(tool, arguments)
    assert value["code"] == SELECTOR
    assert {"create": "every_seconds", "list": "none", "delete": "id"}[tool] in value["message"]


@pytest.mark.parametrize(
    ("tool", "text", "code"),
    [
        ("create", '{"prompt":"p","after_seconds":600,"after_seconds":600}', SELECTOR),
        ("create", '{"prompt":"p","after_seconds":600,"\\u0061fter_seconds":null}', SELECTOR),
        ("create", '{"prompt":"a","prompt":"a","after_seconds":600}', PROMPT),
        ("list", '{"x":null,"x":null}', SELECTOR),
        ("delete", '{"id":"schedule-1","id":"schedule-1"}', SELECTOR),
    ],
)
def test_a_repeated_argument_is_refused(tool: str, text: str, code: str) -> None:
    """A repeated argument is `invalid_selector`; a repeated `prompt` is `invalid_prompt`."""
    assert World(create_row()).call(tool, text)["code"] == code


NO_OBJECTS = [
    *("[]", '"text"', "600", "true", "{", '{"prompt":"p","after_sec', '{"prompt":"p","after_seconds":6'),
    *('{"prompt":"p","after_seconds":600} x', '{"a":1}{"a":1}', "{'a':1}", "\ufeff{}"),
    *("[" * 100_000, '{"a":' * 100_000),
]


@pytest.mark.parametrize("tool", ["create", "list", "delete"])
@pytest.mark.parametrize("text", NO_OBJECTS, ids=lambda text: text[:24])
def test_text_that_is_not_one_json_object_is_refused(tool: str, text: str) -> None:
    """Argument text that is not one JSON object is `invalid_selector`."""
    world = World(create_row())
    assert world.call(tool, text)["code"] == SELECTOR
    assert len(world.changes()) == 1


@pytest.mark.parametrize("text", ["", " ", "null", " null\n"])
def test_no_text_and_null_are_no_arguments(text: str) -> None:
    """Empty text and null stand for no arguments where none is required; elsewhere they are
    `invalid_selector`."""
    assert World().call("list", text) == []
    assert create(text) == SELECTOR
    assert World().call("delete", text)["code"] == SELECTOR


def test_null_for_an_optional_argument_is_absent() -> None:
    """Null for an optional argument counts as absent; an unknown argument is refused also when it is null."""
    nulls = {"after_seconds": 600, "at": None, "every_seconds": None}
    assert create({"prompt": "p", **nulls}) == later(600)
    assert create({"prompt": "p", **nulls, "after_seconds": None}) == SELECTOR
    assert create({"prompt": "p", **nulls, "colour": None}) == SELECTOR
    assert World().call("list", {"x": None})["code"] == SELECTOR


def test_null_for_a_required_argument_is_a_wrong_value() -> None:
    """Null for `prompt` is `invalid_prompt`, for `id` `invalid_rule`, inside `at` a wrong value."""
    assert create({"prompt": None, "after_seconds": 600}) == PROMPT
    assert World().call("delete", {"id": None})["code"] == RULE
    at = {"date": "2027-06-01", "time": "09:00:00", "time_zone": "UTC"}
    assert create({"prompt": "p", "at": {**at, "date": None}}) == RULE
    assert create({"prompt": "p", "at": {**at, "time_zone": None}}) == ZONE


@pytest.mark.parametrize("given", [("after_seconds", "at"), ("at", "every_seconds")])
def test_the_selectors_given_are_named(given: tuple[str, str]) -> None:
    """When several selectors are given, empty texts and 0 count as given; the message names them and says to
    leave the others out."""
    value = World().call("create", {"prompt": "p", **dict.fromkeys(given, ""), given[0]: 0})
    assert value["code"] == SELECTOR
    assert " and ".join(given) in value["message"]
    assert "leave the others out" in value["message"]


@pytest.mark.parametrize("schedule_id", ["", " ", " a", "a\n", "\ufeffa", 1, True, None, [], {}, "\ud83d"])
def test_a_bad_id_is_an_invalid_rule(schedule_id: Any) -> None:
    """A missing id, one that is no text, that is empty or has white space around it, is `invalid_rule`."""
    world = World(create_row())
    assert world.call("delete", json.dumps({"id": schedule_id}))["code"] == RULE
    assert world.call("delete", {})["code"] == RULE


# --- prompts and caps ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt", ["", " \n", "\ufeff", "\u200b", "\u00ad\u2060", "\u3164", "\U000e0041", ...]
)
def test_a_prompt_that_nobody_could_read_is_blank(prompt: Any) -> None:
    """A prompt is blank, `invalid_prompt`, when nothing is left of it without white space, U+FEFF and
    characters that are ignored by default; a missing one is `invalid_prompt` too."""
    arguments = {"after_seconds": 600} if prompt is ... else {"prompt": prompt, "after_seconds": 600}
    assert create(arguments) == PROMPT


@pytest.mark.parametrize("prompt", ["a\0b", "\ud83d", "x\udc00y"])
def test_what_not_every_storage_holds_is_refused(prompt: str) -> None:
    """U+0000 and half of a surrogate pair are `invalid_prompt` on every storage."""
    assert create({"prompt": prompt, "after_seconds": 600}) == PROMPT


def test_every_other_character_is_kept() -> None:
    """Every other character is kept as it is, other control characters among them."""
    prompt = "".join(map(chr, [*range(1, 9), 14, 27, 127, 0x85, 0x2028, 0x202E, 0xFFFF, 0x1F600]))
    world = World()
    assert world.create(prompt=prompt, after_seconds=600)["prompt"] == prompt
    assert world.list()[0]["prompt"] == prompt


@pytest.mark.parametrize(
    ("prompt", "fits"),
    [
        *(("a" * 16_384, True), ("a" * 16_385, False), ("é" * 8_192, True), ("é" * 8_192 + "a", False)),
        *(("a" * 16_380 + "\U0001f600", True), ("a" * 16_381 + "\U0001f600", False)),
        *((" " * 100_000 + "a", True), ("a" * 10_000_000, False)),
    ],
    ids=lambda value: str(value)[:4],
)
def test_a_prompt_has_at_most_16_kib(prompt: str, fits: bool) -> None:
    """A prompt has at most 16 KiB of UTF-8, counted after trimming; more is `invalid_prompt`."""
    assert create({"prompt": prompt, "after_seconds": 600}) == (later(600) if fits else PROMPT)


def test_a_session_has_at_most_1000_active_reminders() -> None:
    """A session has at most 1,000 active reminders; one more is `invalid_rule`, and the message says so.
    What has ended does not count."""
    world = World(*(create_row(schedule_id=str(number)) for number in range(1000)))
    value = world.create(after_seconds=600)
    assert value["code"] == RULE
    assert "at most 1000" in value["message"]
    assert len(world.changes()) == 1000
    world.delete("7")
    assert world.create(after_seconds=600)["state"] == "scheduled"


def test_the_caps_are_configurable() -> None:
    """Both caps are configurable."""
    limits = Limits(max_prompt_bytes=3, max_active=1)
    assert create({"prompt": "four", "after_seconds": 600}, limits=limits) == PROMPT
    world = World()
    for right in (later(600), RULE):
        assert (
            answer_of(world.call("create", {"prompt": "abc", "after_seconds": 600}, limits=limits)) == right
        )
    assert len(world.list(clock=T0)) == 1
