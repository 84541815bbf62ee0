from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest

from watchbell.errors import ToolError
from watchbell.tools.definition import AbortSignal, ErrorValue, Tool, ToolExecution
from watchbell.tools.function import tool


class Place(msgspec.Struct, tag="place", frozen=True):
    name: str


class Point(msgspec.Struct, tag="point", frozen=True):
    north: float
    discriminator: str = ""


class Tree(msgspec.Struct):
    branches: list[Tree]


@dataclass
class Forecast:
    city: str
    days: int


@tool
async def weather(city: Annotated[str, msgspec.Meta(description="A city.")], days: int = 1) -> Forecast:
    """The forecast for a city."""
    return Forecast(city, days)


def run(called: Tool, text: str) -> Any:
    async def main() -> Any:
        return await called.run(ToolExecution(object(), "call-1", AbortSignal()), text)

    return asyncio.run(main())


def test_a_typed_function_becomes_a_tool_with_inlined_schemas() -> None:
    assert weather.name == "weather"
    assert weather.description == "The forecast for a city."
    assert weather.parameters == {
        "type": "object",
        "properties": {
            "city": {"description": "A city.", "type": "string"},
            "days": {"type": "integer", "default": 1},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert weather.output == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    }


def test_its_arguments_are_decoded_and_its_result_is_plain_json() -> None:
    assert run(weather, '{"city": "Köln"}') == {"city": "Köln", "days": 1}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"city": 1}', "Expected `str`, got `int` - at `$.city`"),
        ("{}", "missing required field `city`"),
        ('{"city": "x", "days": "2"}', "Expected `int`, got `str`"),
        ('{"city": "x", "days": true}', "Expected `int`, got `bool`"),
        ('{"city": "x", "day": 2}', "unknown field `day`"),
        ('{"city": "x", "days": ' + "9" * 5_000 + "}", "out of range"),
        ("[" * 100_000, "Expected `object`"),
        ("null", "Expected `object`"),
        ("", "Expecting value"),
        ("not json", "Expecting value"),
    ],
)
def test_wrong_arguments_never_reach_it_and_the_model_is_told_why(text: str, complaint: str) -> None:
    value = run(weather, text)
    assert isinstance(value, ErrorValue)
    assert isinstance(value.value, dict)
    assert value.value["code"] == "invalid_arguments"
    assert complaint in value.value["message"]


@pytest.mark.parametrize("text", ["", " null ", "{}"])
def test_nothing_counts_as_no_arguments_where_none_is_required(text: str) -> None:
    @tool
    def ping(times: int = 1) -> str:
        """Answers."""
        return "pong" * times

    assert run(ping, text) == "pong"


def test_a_lone_surrogate_in_an_argument_reaches_the_function() -> None:
    @tool
    def size(text: str) -> int:
        """Counts."""
        return len(text)

    assert run(size, r'{"text": "\ud83d"}') == 1


def test_a_first_parameter_for_the_execution_gets_it_and_is_no_argument() -> None:
    @tool(name="who", description="Says who calls.")
    async def whoever(execution: ToolExecution, *, loud: bool = False) -> str:
        return execution.call_id.upper() if loud else execution.call_id

    assert whoever.name == "who"
    assert whoever.description == "Says who calls."
    assert list(whoever.parameters["properties"]) == ["loud"]
    assert run(whoever, '{"loud": true}') == "CALL-1"


def test_an_error_value_stays_one_and_its_value_becomes_plain_json() -> None:
    @tool
    def fails() -> Any:
        """Fails."""
        return ErrorValue(Forecast("x", 1))

    assert fails.output is None
    assert run(fails, "{}") == ErrorValue({"city": "x", "days": 1})


def test_unions_of_structs_need_no_references() -> None:
    @tool
    def go(to: Place | Point, how: Literal["b", "a"] = "a") -> None:
        """Goes."""

    text = msgspec.json.encode(go.parameters).decode()
    assert "$ref" not in text
    assert "mapping" not in text
    assert [choice["title"] for choice in go.parameters["properties"]["to"]["anyOf"]] == ["Place", "Point"]
    assert "discriminator" in go.parameters["properties"]["to"]["anyOf"][1]["properties"]
    assert run(go, '{"to": {"type": "point", "north": 1}}') is None


def test_what_cannot_become_a_tool_is_refused_with_the_reason() -> None:
    def untyped(city) -> None:
        """Doc."""

    def spread(*cities: str) -> None:
        """Doc."""

    def unknown(city: Nowhere) -> None:  # noqa: F821 # pyright: ignore[reportUndefinedVariable] - that is the point
        """Doc."""

    def endless(tree: Tree) -> None:
        """Doc."""

    def no_schema(thing: object) -> None:
        """Doc."""

    def shared(numbers: list[int] = [1]) -> None:  # noqa: B006 - that is the point
        """Doc."""

    def silent() -> None: ...

    for function, reason in (
        (untyped, "needs a type hint"),
        (spread, "passed by name"),
        (unknown, "Nowhere"),
        (endless, "holds itself"),
        (no_schema, "no_schema"),
        (shared, "shared"),
        (silent, "description"),
        (lambda: None, "name"),
    ):
        with pytest.raises(ToolError, match=reason):
            tool(function)


def test_a_value_of_a_class_of_its_own_is_given_as_the_plain_one() -> None:
    class Text(str):
        __slots__ = ()

    @tool
    async def give() -> dict[str, list[str]]:
        """Give something."""
        return {Text("key"): [Text("value")]}

    assert run(give, "{}") == {"key": ["value"]}
