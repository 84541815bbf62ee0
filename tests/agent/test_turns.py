"""A turn: what enters the log in which order, and that each turn ends whatever happens in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.program import (
    Program,
    cites,
    data,
    passes,
    reason_kinds,
    reasons,
    require_valid,
    results,
    run,
    texts,
    types,
    user_texts,
)
from watchbell.agent.agent import Agent
from watchbell.agent.entry import StepPlan
from watchbell.errors import InvalidEventError, ModelError
from watchbell.host import time_context
from watchbell.log.events import (
    BlockEnd,
    BlockStart,
    Event,
    Finish,
    FinishReason,
    Message,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from watchbell.models.base import ModelRequest
from watchbell.testing import SimulatedClock, call, fail, say, think
from watchbell.testing.model import Answer
from watchbell.tools.definition import Tool
from watchbell.tools.function import tool

OPENING = ["agent/inbox/spliced", "turn/start", "agent/inbox/spliced", "step/start", "user/message"]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers, the greater sum the later."""
    await asyncio.sleep(a + b)
    return a + b


@tool
async def broken() -> None:
    """Always fail."""
    raise RuntimeError("secret of the inside")


def batches_of(agent: Agent) -> list[list[str]]:
    """Collect the types of each batch that enters the log from now on."""
    batches: list[list[str]] = []
    agent.session.observe(lambda events: batches.append(types(events)))
    return batches


def converse(script: Sequence[Answer], *said: str, tools: Sequence[Tool] = (), logs_errors: bool = False) -> Any:
    """Have one conversation, and return its durable events with what the model was asked."""

    async def main(clock: SimulatedClock) -> tuple[list[Event], list[ModelRequest]]:
        program = Program(clock, script, tools=tools)
        async with program:
            agent = await program.host.agents.create("s")
            for text in said:
                agent.followup(text)
            await agent.when_idle()
        return program.disk.events("s"), program.model.requests

    events, requests = run(main, logs_errors=logs_errors)
    require_valid(events)
    return events, requests


def test_a_turn_enters_the_log_in_the_order_of_the_format() -> None:
    events, _ = converse([[call("add", {"a": 1, "b": 2})], "three"], "1 + 2?", tools=[add])
    assert types(events) == [
        *OPENING,
        "request/header",
        "request/context",
        "assistant/message",
        "tool/call",
        "tool/result",
        "step/end",
        "step/start",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    assert [event.seq for event in events] == list(range(len(events)))
    assert data(events, "turn/start") == [{"turn": 1}]
    assert data(events, "step/end") == [{"turn": 1, "step": 1}, {"turn": 1, "step": 2}]
    assert data(events, "turn/end") == [{"turn": 1, "reason": {"kind": "completed"}}]


def test_the_time_stands_before_the_message_that_opens_a_turn() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[time_context()]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("hello")
            await agent.when_idle()
            assert types(agent.session.events)[:7] == [*OPENING, "user/message", "request/header"]
            assert [text[:14] for text in user_texts(agent.session.events)] == ["[TIME CONTEXT]", "hello"]

    run(main)


def test_the_claim_the_step_and_its_messages_are_one_batch() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            batches = batches_of(agent)
            agent.followup("hello")
            await agent.when_idle()
            assert batches[:2] == [OPENING[:1], [*OPENING[1:], "request/header", "request/context"]]

    run(main)


def test_the_model_is_asked_only_once_the_message_is_durable() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            held = program.store.hold_writes()
            agent.followup("hello")
            await held.reached()
            await asyncio.sleep(3600)
            assert program.model.requests == []
            assert "s" not in program.disk.batches
            held.release()
            await agent.when_idle()
            assert len(program.model.requests) == 1

    run(main)


@pytest.mark.parametrize("durable_steps", [0, 1])
def test_a_barrier_that_fails_ends_the_turn_without_asking_the_model(durable_steps: int) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [[call("add", {"a": 1, "b": 1})], "never"], tools=[add]) as program:
            agent = await program.host.agents.create("s")
            if durable_steps == 0:
                program.store.fail_writes(None)
            agent.followup("hello")
            await asyncio.sleep(1)
            program.store.fail_writes(None)
            await agent.when_idle()
            assert len(program.model.requests) == durable_steps
            (reason,) = reasons(agent.session.events)
            assert (reason["kind"], reason["error"]["code"]) == ("error", "PERSISTENCE_UNCERTAIN")
            program.store.heal()
            agent.followup("again")
            await agent.when_idle()
            assert reason_kinds(agent.session.events) == ["error", "completed"]
        require_valid(program.disk.events("s"))

    run(main)


def test_a_durability_listener_that_fails_makes_the_barrier_uncertain() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")

            async def listener(_: object) -> bool:
                raise RuntimeError("no luck")

            end = program.host.ctx.on("session/flush", listener)
            agent.followup("hello")
            await agent.when_idle()
            assert program.model.requests == []
            assert reasons(agent.session.events)[0]["error"]["code"] == "PERSISTENCE_UNCERTAIN"
            end()

    run(main)


def test_each_chunk_is_an_event_and_the_answer_cites_them_all() -> None:
    events, _ = converse([[think("hm"), say("a longer answer")]], "hello")
    chunks = [event.seq for event in events if event.type == "assistant/chunk"]
    (answer,) = (event for event in events if event.type == "assistant/message")
    assert cites(answer) == chunks
    assert [chunk["chunk"]["type"] for chunk in data(events, "assistant/chunk")] == [
        *["block-start", "reasoning-delta", "block-end"],
        *["block-start", "text-delta", "text-delta", "block-end", "usage", "finish"],
    ]
    assert answer.data["usage"] == {"inputTokens": 100, "outputTokens": 10}
    assert "interrupted" not in answer.data
    assert [block["type"] for block in answer.data["message"]["content"]] == ["reasoning", "text"]
    source = {"kind": "model", "provider": "scripted", "model": "scripted-1"}
    assert answer.data["message"]["source"] == source


def test_calls_run_side_by_side_and_their_results_enter_in_the_order_of_the_calls() -> None:
    calls = [call("add", {"a": n, "b": 0}, id=f"c{n}") for n in (30, 10, 20)]

    async def main(clock: SimulatedClock) -> list[Event]:
        async with Program(clock, [calls, "done"], tools=[add]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("go")
            await agent.when_idle()
            assert clock.iso() == "2026-12-01T00:00:30.000Z"
            return list(agent.session.events)

    events = run(main)
    assert results(events) == [("c30", "30"), ("c10", "10"), ("c20", "20")]
    cited = {event.data["message"]["source"]["callId"]: event for event in events if event.type == "tool/result"}
    for started in (event for event in events if event.type == "tool/call"):
        assert cites(cited[started.data["callId"]]) == [started.seq]


def test_an_id_that_a_model_uses_twice_is_made_its_own() -> None:
    twice = [call("add", {"a": n, "b": 0}, id="same") for n in (1, 2)]
    events, requests = converse([twice, [call("add", {"a": 3, "b": 0}, id="same")], "done"], "go", tools=[add])
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

    program.model.stream = raising  # type: ignore[method-assign]


def test_calls_of_an_answer_that_failed_do_not_stand_in_the_conversation() -> None:
    events, _ = converse([[say("I will"), call("add", {"a": 1, "b": 1}), fail()]], "go", tools=[add])
    (answer,) = data(events, "assistant/message")
    assert answer["message"]["content"] == [{"type": "text", "text": "I will"}]
    assert data(events, "tool/call") == []
    assert reason_kinds(events) == ["error"]


@pytest.mark.parametrize("whole", [True, False])
def test_an_answer_cut_at_its_length_runs_only_calls_that_came_whole(whole: bool) -> None:
    async def cut(_: ModelRequest) -> Any:
        yield BlockStart(0, "text")
        yield TextDelta(0, "so")
        yield BlockEnd(0, TextBlock("so"))
        yield ToolCallDelta(index=1, id="c", name="add", arguments_delta='{"a":6,"b":0}')
        if whole:
            yield BlockEnd(1, ToolCallBlock("c", "add", '{"a":6,"b":0}'))
        yield Finish(FinishReason("max-tokens"))

    async def main(clock: SimulatedClock) -> list[Event]:
        async with Program(clock, tools=[add]) as program:
            agent = await program.host.agents.create("s")
            stream, program.model.stream = program.model.stream, cut  # type: ignore[method-assign]
            agent.followup("go")
            await asyncio.sleep(1)
            program.model.stream = stream  # type: ignore[method-assign]
            await agent.when_idle()
            return list(agent.session.events)

    events = run(main)
    require_valid(events)
    assert results(events) == ([("c", "6")] if whole else [])
    assert reason_kinds(events) == (["completed"] if whole else ["max-tokens"])


def test_a_stream_that_ends_without_saying_why_is_an_error() -> None:
    async def cut(_: ModelRequest) -> Any:
        yield TextDelta(0, "so")

    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            program.model.stream = cut  # type: ignore[method-assign]
            agent.followup("go")
            await agent.when_idle()
            assert reasons(agent.session.events)[0]["error"]["code"] == "CUT_STREAM"
            assert texts(agent) == ["go", "so"]

    run(main)


def test_an_empty_answer_completes_the_turn() -> None:
    events, _ = converse([[], "fine"], "hello", "again")
    assert reason_kinds(events) == ["completed", "completed"]
    first, _ = (event for event in events if event.type == "assistant/message")
    assert first.data["message"]["content"] == []


def test_a_failure_inside_the_program_ends_the_turn_and_the_next_one_works() -> None:
    async def odd(_: ModelRequest) -> Any:
        yield TextDelta(0, "so")
        raise ZeroDivisionError

    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            stream, program.model.stream = program.model.stream, odd  # type: ignore[method-assign]
            agent.followup("go")
            await agent.when_idle()
            assert reasons(agent.session.events)[0]["error"]["code"] == "INTERNAL_ERROR"
            program.model.stream = stream  # type: ignore[method-assign]
            agent.followup("again")
            await agent.when_idle()
            assert texts(agent)[-1] == "ok"

    run(main, logs_errors=True)


def test_a_turn_without_end_is_stopped_at_the_limit_of_steps() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, lambda _: call("add", {"a": 0, "b": 0}), tools=[add]) as program:
            agent = await program.host.agents.create("s")
            agent.max_steps = 3
            agent.followup("go")
            await agent.when_idle()
            assert len(program.model.requests) == len(results(agent.session.events)) == 3
            assert reasons(agent.session.events)[0]["error"]["code"] == "STEP_LIMIT"
        require_valid(program.disk.events("s"))

    run(main)


def test_messages_open_one_turn_each_in_their_order() -> None:
    events, requests = converse(["one", "two", "three"], "a", "b", "c")
    assert user_texts(events) == ["a", "b", "c"]
    assert data(events, "turn/start") == [{"turn": 1}, {"turn": 2}, {"turn": 3}]
    assert [len(request.messages) for request in requests] == [1, 3, 5]


def test_steering_enters_the_running_turn_at_its_next_step() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [[call("add", {"a": 5, "b": 5})], "ten", "and so"], tools=[add]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("go")
            await asyncio.sleep(5)
            agent.followup("later")
            agent.steer("hurry")
            await agent.when_idle()
            assert texts(agent) == ["go", "<add>", "10", "hurry", "ten", "later", "and so"]
            assert [mark["turn"] for mark in data(agent.session.events, "step/start")] == [1, 1, 2]
        require_valid(program.disk.events("s"))

    run(main)


def test_steering_during_the_last_answer_gives_the_turn_one_more_step() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, ["first answer", "second"], delay_seconds=1) as program:
            agent = await program.host.agents.create("s")
            agent.followup("go")
            await asyncio.sleep(2)
            agent.steer("wait")
            await agent.when_idle()
            assert texts(agent) == ["go", "first answer", "wait", "second"]
            assert data(agent.session.events, "turn/start") == [{"turn": 1}]

    run(main)


def test_steering_an_idle_agent_opens_a_turn() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            agent.steer("hello")
            await agent.when_idle()
            assert texts(agent) == ["hello", "ok"]

    run(main)


def test_an_injected_message_waits_for_the_next_step() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            agent.inject("by the way")
            await asyncio.sleep(60)
            assert program.model.requests == []
            assert agent.phase == "idle"
            agent.followup("hello")
            await agent.when_idle()
            assert texts(agent) == ["hello", "by the way", "ok"]

    run(main)


def test_the_header_says_whether_a_request_is_the_first_a_resumed_or_a_changed_one() -> None:
    async def main(clock: SimulatedClock) -> None:
        first = Program(clock, system="Be kind.")
        async with first:
            agent = await first.host.agents.create("s")
            for _ in range(2):
                agent.followup("hello")
                await agent.when_idle()
            agent.tools.register(add, agent.ctx)
            agent.followup("hello")
            await agent.when_idle()
        async with Program(clock, disk=first.disk) as second:
            agent = await second.host.agents.resume("s")
            agent.followup("hello")
            await agent.when_idle()
            headers = data(agent.session.events, "request/header")
            assert [header["reason"] for header in headers] == ["initial", "change", "resume"]
            assert headers[0]["header"]["system"] == "Be kind."
            assert [spec["name"] for spec in headers[1]["header"]["tools"]] == ["add"]
            context = {"provider": "scripted", "model": "scripted-1"}
            assert data(agent.session.events, "request/context") == [context]

    run(main)


def test_a_message_is_assembled_again_when_another_one_comes_meanwhile() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            seen: list[list[str]] = []

            async def slow(_: Agent, plan: StepPlan) -> None:
                seen.append([message.text for message in plan.messages])
                await asyncio.sleep(10)

            program.host.ctx.on("step/prepare", slow)
            agent.followup("first")
            await asyncio.sleep(5)
            agent.steer("second")
            await agent.when_idle()
            assert seen == [["first"], ["first", "second"]]
            assert texts(agent) == ["first", "second", "ok"]

    run(main)


def test_a_message_needs_an_id_that_no_pending_one_has() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            message = Message("m", "user", {"kind": "user"}, (TextBlock("hello"),))
            agent.followup(message)
            for refused in (message, Message("", "user", {"kind": "user"}, ())):
                with pytest.raises(InvalidEventError):
                    agent.steer(refused)
            await agent.when_idle()
            await passes()
            assert texts(agent) == ["hello", "ok"]

    run(main)
