from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import date
from typing import Any, Literal, cast

import msgspec
import pytest

from watchbell.log.payloads import ToolSpec
from watchbell.models.openai._dialects import project_tool
from watchbell.models.openai.providers import DIALECTS, Dialect, find_provider
from watchbell.tools.schema import derive_schema

NARROW = {"type", "format", "description", "nullable", "enum", "properties", "items", "required", "anyOf"}


class Part(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    size: int | None = None


class Everything(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    count: msgspec.UnsetType | int = msgspec.UNSET
    level: Literal["low", "high"] | None = None
    rank: Literal[1, 2]
    day: date
    parts: list[Part]
    either: str | Part | None = None
    bounded: msgspec.UnsetType | int = msgspec.field(default=msgspec.UNSET)


def spec(parameters: dict[str, Any]) -> ToolSpec:
    return ToolSpec("ring", "Rings.", parameters)


def schedule_specs() -> list[ToolSpec]:
    from watchbell.reminders.arguments import CreateArguments, DeleteArguments, ListArguments

    shapes = {
        "schedule_create": CreateArguments,
        "schedule_list": ListArguments,
        "schedule_delete": DeleteArguments,
    }
    return [
        ToolSpec(name, "Does it.", derive_schema(name, shape, docstrings=False))
        for name, shape in shapes.items()
    ]


SPECS = [spec(derive_schema("ring", Everything)), *schedule_specs()]


def function(tool: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    return project_tool(tool, dialect)["function"]


def schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all in it."""
    yield schema
    for part in [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]:
        yield from schemas(part)
    if "items" in schema:
        yield from schemas(schema["items"])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("tool", SPECS, ids=lambda tool: tool.name)
def test_a_projection_keeps_the_definition_and_no_root_is_a_union(tool: ToolSpec, dialect: Dialect) -> None:
    before = copy.deepcopy(tool.parameters)
    projected = function(tool, dialect)
    assert tool.parameters == before
    assert (projected["name"], projected["description"]) == (tool.name, tool.description)
    root = projected.get("parameters", {"type": "object"})
    assert root["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf", "enum", "not"} & root.keys()


@pytest.mark.parametrize("tool", SPECS, ids=lambda tool: tool.name)
def test_full_is_the_definition_itself(tool: ToolSpec) -> None:
    assert function(tool, "full")["parameters"] == tool.parameters
    assert "strict" not in function(tool, "full")


@pytest.mark.parametrize("tool", SPECS, ids=lambda tool: tool.name)
def test_strict_closes_every_object_and_requires_every_property(tool: ToolSpec) -> None:
    projected = function(tool, "strict")
    assert projected["strict"] is True
    for schema in schemas(projected["parameters"]):
        assert schema.keys() <= {
            "type",
            "description",
            "enum",
            "properties",
            "required",
            "items",
            "anyOf",
            "additionalProperties",
        }
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])


def test_strict_lets_what_may_be_left_out_be_null() -> None:
    create = function(SPECS[1], "strict")["parameters"]["properties"]
    assert create["prompt"]["type"] == "string"
    assert create["after_seconds"]["type"] == ["integer", "null"]
    assert create["at"]["anyOf"][-1] == {"type": "null"}
    everything = function(SPECS[0], "strict")["parameters"]["properties"]
    assert {"type": "null"} in everything["level"].get("anyOf", []) or None in everything["level"]["enum"]


def test_strict_tells_in_words_what_it_has_no_keyword_for() -> None:
    text = function(SPECS[1], "strict")["parameters"]["properties"]["every_seconds"]["description"]
    assert text.startswith("Again and again")
    assert "At least 300." in text


@pytest.mark.parametrize(
    "parameters",
    [
        {
            "type": "object",
            "properties": {"map": {"type": "object", "additionalProperties": {"type": "integer"}}},
        },
        {"type": "object", "properties": {"anything": {}}},
        {"type": "object", "properties": {"x": {"type": "string", "not": {"enum": ["a"]}}}},
        {"type": "object", "properties": {"list": {"type": "array"}}},
        {"type": "object"},
    ],
)
def test_a_tool_that_strict_cannot_express_is_sent_in_full(parameters: dict[str, Any]) -> None:
    projected = function(spec(parameters), "strict")
    assert projected["parameters"] == parameters
    assert "strict" not in projected


@pytest.mark.parametrize("tool", SPECS, ids=lambda tool: tool.name)
def test_narrow_uses_its_few_keywords_and_unions_stand_alone(tool: ToolSpec) -> None:
    for schema in schemas(function(tool, "narrow").get("parameters", {"type": "object"})):
        assert schema.keys() <= NARROW
        assert isinstance(schema.get("type", ""), str)
        assert "anyOf" not in schema or schema.keys() == {"anyOf"}
        assert all(isinstance(word, str) for word in schema.get("enum", []))
        assert "anyOf" in schema or schema["type"] != "null"
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()


def test_narrow_keeps_meaning_where_it_has_no_keyword() -> None:
    everything = function(SPECS[0], "narrow")["parameters"]["properties"]
    assert everything["level"] == {"type": "string", "enum": ["high", "low"], "nullable": True}
    assert everything["rank"]["type"] == "integer"
    assert "date" in everything["day"]["description"]
    assert all(choice["nullable"] for choice in everything["either"]["anyOf"])
    at = function(SPECS[1], "narrow")["parameters"]["properties"]["at"]["anyOf"]
    assert all(choice["description"] for choice in at)


def test_narrow_sends_no_parameters_of_a_tool_without_any() -> None:
    assert "parameters" not in function(SPECS[2], "narrow")


@pytest.mark.parametrize(
    ("base_url", "dialect"),
    [
        (None, "strict"),
        ("https://api.openai.com/v1/", "strict"),
        ("https://api.deepseek.com", "full"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "narrow"),
        ("http://localhost:11434/v1", "full"),
        ("https://api.openai.com.evil.example/v1", "full"),
    ],
)
def test_the_host_says_which_dialect_is_the_default(base_url: str | None, dialect: str) -> None:
    assert find_provider("m", base_url).dialect == dialect
    assert dialect in cast("tuple[str, ...]", DIALECTS)
