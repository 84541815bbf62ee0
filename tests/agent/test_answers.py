"""A model's answers and the calls in them: each call has one result, and whatever fails, the turn ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.scene import on_agent
from tests.program import (
    Program,
    add,
    cites,
    converse,
    data,
    reason_kinds,
    reasons,
    require_valid,
    results,
    run,
    texts,
)
from watchbell.agent.agent import Agent
from watchbell.errors import ModelError
from watchbell.log.messages import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishReason,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from watchbell.models.base import ModelRequest
from watchbell.testing import SimulatedClock, call, fail, say
from watchbell.tools.function import tool


@tool
async def broken() -> None:
    """Always fail."""
    raise RuntimeError("secret of the inside")


@on_agent([[call("add", {"a": n, "b": 0}, id=f"c{n}") for n in (30, 10, 20)], "done"], tools=[add])
async def test_calls_run_side_by_side_and_results_enter_in_their_order(
    clock: SimulatedClock, agent: Agent
) -> None:
    agent.followup("go")
    await agent.when_idle()
    assert clock.iso() == "2026-12-01T00:00:30.000Z"
    events = agent.session.events
    assert results(events) == [("c30", "30"), ("c10", "10"), ("c20", "20")]
    cited = {
        event.data["message"]["source"]["callId"]: event for event in events if event.type == "tool/result"
    }
    for started in (event for event in events if event.type == "tool/call"):
        assert cites(cited[started.data["callId"]]) == [started.seq]


def test_an_id_that_a_model_uses_twice_is_made_its_own() -> None:
    twice = [call("add", {"a": n, "b": 0}, id="same") for n in (1, 2)]
    events, requests = converse(
        [twice, [call("add", {"a": 3, "b": 0}, id="same")], "done"], "go", tools=[add]
    )
    assert results(events) == [("same", "1"), ("same-2", "2"), ("same-3", "3")]
    ids = [block.id for block in requests[1].messages[1].content]
    assert ids == ["same", "same-2"]


def test_an_unknown_tool_gets_a_result_that_names_the_known_ones() -> None:
    events, _ = converse([[call("subtract", {})], "sorry"], "go", tools=[add])
    assert results(events) == [("call-1", "There is no tool named 'subtract'. Tools: add.")]
    (result,) = data(events, "tool/result")
    assert result["error"]["code"] == "TOOL_NOT_FOUND"
    assert result["message"]["content"][0]["isError"] is True
    assert reason_kinds(events) == ["completed"]


def test_a_tool_that_raises_gives_a_result_and_the_turn_goes_on() -> None:
    calls = [call("broken"), call("add", {"a": 1, "b": 1})]
    events, requests = converse([calls, "sorry"], "go", tools=[add, broken], logs_errors=True)
    (first, failure), second = results(events)
    assert (first, second) == ("call-1", ("call-2", "2"))
    assert "RuntimeError" in failure
    assert "secret" not in failure
    assert len(requests) == 2


def test_arguments_that_are_no_json_stay_as_the_model_wrote_them() -> None:
    events, _ = converse([[call("add", '{"a":')], "sorry"], "go", tools=[add])
    assert data(events, "tool/call")[0]["arguments"] == '{"a":'
    assert "invalid_arguments" in results(events)[0][1]


@pytest.mark.parametrize("text", ["", "half an answer"])
@pytest.mark.parametrize("raised", [False, True])
def test_a_model_that_fails_ends_the_turn_and_keeps_what_had_come(text: str, raised: bool) -> None:
    async def main(clock: SimulatedClock) -> None:
        parts = [say(text)] if text else []
        async with Program(clock, [[*parts, fail("RATE_LIMITED", "too fast", 429)], "fine"]) as program:
            agent = await program.host.agents.create("s")
            if raised:
                _raise_instead_of_finishing(program)
            agent.followup("hello")
            await agent.when_idle()
            (reason,) = reasons(agent.session.events)
            error = {"message": "too fast", "code": "RATE_LIMITED", "status": 429}
            assert reason == {"kind": "error", "error": error}
            answers = data(agent.session.events, "assistant/message")
            assert [answer["interrupted"] for answer in answers] == ([True] if text else [])
            agent.followup("again")
            await agent.when_idle()
            assert texts(agent) == ["hello", *([text] if text else []), "again", "fine"]
        require_valid(program.disk.events("s"))

    run(main)


def _raise_instead_of_finishing(program: Program) -> None:
    stream = program.model.stream

    async def raising(request: ModelRequest) -> Any:
        async for chunk in stream(request):
            if isinstance(chunk, Finish) and chunk.reason.kind == "error":
                raise ModelError("too fast", code="RATE_LIMITED", status=429)
            yield chunk

    program.model.stream = raising  # pyright: ignore[reportAttributeAccessIssue]


def test_calls_of_an_answer_that_failed_do_not_stand_in_the_conversation() -> None:
    events, _ = converse([[say("I will"), call("add", {"a": 1, "b": 1}), fail()]], "go", tools=[add])
    (answer,) = data(events, "assistant/message")
    assert answer["message"]["content"] == [{"type": "text", "text": "I will"}]
    assert data(events, "tool/call") == []
    assert reason_kinds(events) == ["error"]


@pytest.mark.parametrize("whole", [True, False])
@on_agent(tools=[add])
async def test_an_answer_cut_at_its_length_runs_only_calls_that_came_whole(
    program: Program, agent: Agent, whole: bool
) -> None:
    async def cut(_: ModelRequest) -> Any:
        yield BlockStart(0, "text")
        yield TextDelta(0, "so")
        yield BlockEnd(0, TextBlock("so"))
        yield ToolCallDelta(index=1, id="c", name="add", arguments_delta='{"a":6,"b":0}')
        if whole:
            yield BlockEnd(1, ToolCallBlock("c", "add", '{"a":6,"b":0}'))
        yield Finish(FinishReason("max-tokens"))

    stream, program.model.stream = program.model.stream, cut  # pyright: ignore[reportAttributeAccessIssue]
    agent.followup("go")
    await asyncio.sleep(1)
    program.model.stream = stream
    await agent.when_idle()
    assert results(agent.session.events) == ([("c", "6")] if whole else [])
    assert reason_kinds(agent.session.events) == (["completed"] if whole else ["max-tokens"])


@on_agent()
async def test_a_stream_that_ends_without_saying_why_is_an_error(program: Program, agent: Agent) -> None:
    async def cut(_: ModelRequest) -> Any:
        yield TextDelta(0, "so")

    program.model.stream = cut  # pyright: ignore[reportAttributeAccessIssue]
    agent.followup("go")
    await agent.when_idle()
    assert reasons(agent.session.events)[0]["error"]["code"] == "CUT_STREAM"
    assert texts(agent) == ["go", "so"]


def test_an_empty_answer_completes_the_turn() -> None:
    events, _ = converse([[], "fine"], "hello", "again")
    assert reason_kinds(events) == ["completed", "completed"]
    first, _ = (event for event in events if event.type == "assistant/message")
    assert first.data["message"]["content"] == []


@on_agent(logs_errors=True)
async def test_a_failure_inside_ends_the_turn_and_the_next_one_works(program: Program, agent: Agent) -> None:
    async def odd(_: ModelRequest) -> Any:
        yield TextDelta(0, "so")
        raise ZeroDivisionError

    stream, program.model.stream = program.model.stream, odd  # pyright: ignore[reportAttributeAccessIssue]
    agent.followup("go")
    await agent.when_idle()
    assert reasons(agent.session.events)[0]["error"]["code"] == "INTERNAL_ERROR"
    program.model.stream = stream
    agent.followup("again")
    await agent.when_idle()
    assert texts(agent)[-1] == "ok"
