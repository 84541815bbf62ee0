from __future__ import annotations

import asyncio
from typing import Any

import pytest

from watchbell.errors import ToolAbortedError, ToolError
from watchbell.tools.definition import AbortSignal, Tool, ToolExecution

EMPTY = {"type": "object", "properties": {}}


async def answer(execution: ToolExecution, text: str) -> str:
    return text


def make(**changes: Any) -> Tool:
    fields = {
        "name": "echo",
        "description": "Says it again.",
        "parameters": EMPTY,
        "output": None,
        "run": answer,
    }
    return Tool(**{**fields, **changes})


@pytest.mark.parametrize("name", ["", "a b", "ä", "a" * 65, "a.b", "a\n"])
def test_a_name_that_a_provider_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="name"):
        make(name=name)


@pytest.mark.parametrize("word", ["oneOf", "anyOf", "allOf", "enum", "not", "$ref"])
def test_a_root_keyword_that_providers_refuse_is_refused(word: str) -> None:
    with pytest.raises(ToolError, match=f"{word.strip('$')} at the root"):
        make(parameters={**EMPTY, word: []})


@pytest.mark.parametrize("parameters", [{}, {"type": "array"}, {"type": ["object", "null"]}])
def test_parameters_are_an_object_at_the_root(parameters: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="type object"):
        make(parameters=parameters)


def test_a_schema_that_is_not_json_is_refused() -> None:
    with pytest.raises(ToolError, match="not a JSON value"):
        make(output={"type": object})


def test_a_tool_needs_a_description() -> None:
    with pytest.raises(ToolError, match="description"):
        make(description=" \n")


def test_a_schema_that_is_changed_later_does_not_change_the_tool() -> None:
    parameters = {"type": "object", "properties": {}}
    tool = make(parameters=parameters)
    parameters["oneOf"] = []
    assert tool.parameters == EMPTY


def test_a_signal_wakes_its_waiters_and_stays_aborted() -> None:
    async def scenario() -> None:
        signal = AbortSignal()
        signal.raise_if_aborted()
        waiter = asyncio.create_task(signal.wait())
        await asyncio.sleep(0)
        assert not waiter.done()
        signal.abort()
        signal.abort()
        await waiter
        assert signal.aborted
        with pytest.raises(ToolAbortedError):
            signal.raise_if_aborted()

    asyncio.run(scenario())


def test_abort_callbacks_run_once_in_order_and_a_failure_stops_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called: list[str] = []
    signal = AbortSignal()
    signal.on_abort(lambda: called.append("first"))
    signal.on_abort(lambda: 1 / 0)
    withdraw = signal.on_abort(lambda: called.append("withdrawn"))
    signal.on_abort(lambda: called.append("last"))
    withdraw()
    withdraw()
    signal.abort()
    signal.abort()
    assert called == ["first", "last"]
    assert "callback of an abort signal failed" in caplog.text


def test_a_callback_on_an_aborted_signal_is_called_at_once() -> None:
    called: list[str] = []
    signal = AbortSignal()
    signal.abort()
    signal.on_abort(lambda: called.append("late"))()
    assert called == ["late"]
