from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from watchbell.log.messages import Finish, FinishReason, ReasoningBlock, TextBlock, ToolCallBlock
from watchbell.models.base import AnswerAssembler, ModelRequest
from watchbell.testing.loop import simulate
from watchbell.testing.model import ScriptedModel, call, fail, hang, say, think

REQUEST = ModelRequest(None, ())


async def answer_of(model: ScriptedModel, request: ModelRequest = REQUEST) -> AnswerAssembler:
    answer = AnswerAssembler()
    async with aclosing(model.stream(request)) as chunks:
        async for chunk in chunks:
            answer.add(chunk)
    return answer


def test_a_script_is_followed_turn_by_turn_and_then_it_says_ok() -> None:
    async def scenario() -> None:
        model = ScriptedModel(
            [[think("Hm."), say("Now."), call("t", {"a": 1}), call("t", id="mine")], "plain"]
        )
        first = await answer_of(model)
        assert first.blocks() == (
            ReasoningBlock("Hm."),
            TextBlock("Now."),
            ToolCallBlock("call-1", "t", '{"a":1}'),
            ToolCallBlock("mine", "t", "{}"),
        )
        assert first.finish == FinishReason("tool-calls")
        assert (await answer_of(model)).blocks() == (TextBlock("plain"),)
        assert (await answer_of(model)).blocks() == (TextBlock("ok"),)
        assert model.requests == [REQUEST] * 3
        assert model.closed == 0

    asyncio.run(scenario())


def test_raw_argument_text_is_streamed_as_it_is() -> None:
    answer = asyncio.run(answer_of(ScriptedModel([call("t", "not json")])))
    assert answer.tool_calls() == (ToolCallBlock("call-1", "t", "not json"),)


def test_a_function_answers_each_request_from_what_is_in_it() -> None:
    async def scenario() -> None:
        async def find(request: ModelRequest) -> str:
            return request.system or "nothing"

        model = ScriptedModel(find)
        assert (await answer_of(model, ModelRequest("s", ()))).blocks() == (TextBlock("s"),)

    asyncio.run(scenario())


def test_a_failure_ends_the_answer_and_keeps_what_came_before() -> None:
    answer = asyncio.run(
        answer_of(ScriptedModel([[say("Half"), fail("RATE_LIMITED", "slow down", 429), say("x")]]))
    )
    assert answer.blocks() == (TextBlock("Half"),)
    failure = {"message": "slow down", "code": "RATE_LIMITED", "status": 429}
    assert answer.finish == Finish(FinishReason("error", failure)).reason


def test_a_hanging_answer_waits_until_it_is_cancelled() -> None:
    async def scenario() -> None:
        model = ScriptedModel([[say("x"), hang()]])
        reader = asyncio.create_task(answer_of(model))
        await asyncio.sleep(1)
        assert not reader.done()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert model.closed == 1

    simulate(lambda _: scenario())


def test_each_chunk_takes_its_time_on_the_loops_own_clock() -> None:
    async def scenario() -> float:
        await answer_of(ScriptedModel(["x"], delay_seconds=2))
        return asyncio.get_running_loop().time()

    # A start, one delta, an end, the usage and the finish.
    assert simulate(lambda _: scenario()) == 10
