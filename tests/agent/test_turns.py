"""A turn: what enters the log in which order, and that it begins, goes on and ends as it should."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.scene import on_agent
from tests.program import (
    Program,
    add,
    cites,
    converse,
    data,
    passes,
    reason_kinds,
    reasons,
    results,
    run,
    texts,
    types,
    user_texts,
)
from watchbell.agent.agent import Agent
from watchbell.errors import InvalidEventError
from watchbell.host import time_context
from watchbell.log.messages import Message, TextBlock
from watchbell.sessions.events import FlushSession
from watchbell.testing import SimulatedClock, call, say, think

OPENING = ["agent/inbox/spliced", "turn/start", "agent/inbox/spliced", "step/start", "user/message"]


def batches_of(agent: Agent) -> list[list[str]]:
    """Collect the types of each batch that enters the log from now on."""
    batches: list[list[str]] = []
    agent.session.observe(lambda events: batches.append(types(events)))
    return batches


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


@on_agent(plugins=[time_context()])
async def test_the_time_stands_before_the_message_that_opens_a_turn(agent: Agent) -> None:
    agent.followup("hello")
    await agent.when_idle()
    assert types(agent.session.events)[:7] == [*OPENING, "user/message", "request/header"]
    assert [text[:14] for text in user_texts(agent.session.events)] == ["[TIME CONTEXT]", "hello"]


@on_agent()
async def test_the_claim_the_step_and_its_messages_are_one_batch(agent: Agent) -> None:
    batches = batches_of(agent)
    agent.followup("hello")
    await agent.when_idle()
    assert batches[:2] == [OPENING[:1], [*OPENING[1:], "request/header", "request/context"]]


@on_agent()
async def test_the_model_is_asked_only_once_the_message_is_durable(program: Program, agent: Agent) -> None:
    held = program.store.hold_writes()
    agent.followup("hello")
    await held.reached()
    await asyncio.sleep(3600)
    assert program.model.requests == []
    assert "s" not in program.disk.batches
    held.release()
    await agent.when_idle()
    assert len(program.model.requests) == 1


@pytest.mark.parametrize("durable_steps", [0, 1])
@on_agent([[call("add", {"a": 1, "b": 1})], "never"], tools=[add])
async def test_a_barrier_that_fails_ends_the_turn_without_asking_the_model(
    program: Program, agent: Agent, durable_steps: int
) -> None:
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


@on_agent()
async def test_a_durability_listener_that_fails_makes_the_barrier_uncertain(
    program: Program, agent: Agent
) -> None:

    async def listener(_: object) -> bool:
        raise RuntimeError("no luck")

    end = program.host.ctx.on(FlushSession, listener)
    agent.followup("hello")
    await agent.when_idle()
    assert program.model.requests == []
    assert reasons(agent.session.events)[0]["error"]["code"] == "PERSISTENCE_UNCERTAIN"
    end()


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


@on_agent(lambda _: call("add", {"a": 0, "b": 0}), tools=[add], max_steps=3)
async def test_a_turn_without_end_is_stopped_at_the_limit_of_steps(program: Program, agent: Agent) -> None:
    agent.followup("go")
    await agent.when_idle()
    assert len(program.model.requests) == len(results(agent.session.events)) == 3
    assert reasons(agent.session.events)[0]["error"]["code"] == "STEP_LIMIT"


def test_messages_open_one_turn_each_in_their_order() -> None:
    events, requests = converse(["one", "two", "three"], "a", "b", "c")
    assert user_texts(events) == ["a", "b", "c"]
    assert data(events, "turn/start") == [{"turn": 1}, {"turn": 2}, {"turn": 3}]
    assert [len(request.messages) for request in requests] == [1, 3, 5]


@on_agent([[call("add", {"a": 5, "b": 5})], "ten", "and so"], tools=[add])
async def test_steering_enters_the_running_turn_at_its_next_step(agent: Agent) -> None:
    agent.followup("go")
    await asyncio.sleep(5)
    agent.followup("later")
    agent.steer("hurry")
    await agent.when_idle()
    assert texts(agent) == ["go", "<add>", "10", "hurry", "ten", "later", "and so"]
    assert [mark["turn"] for mark in data(agent.session.events, "step/start")] == [1, 1, 2]


@on_agent(["first answer", "second"], delay_seconds=1)
async def test_steering_during_the_last_answer_gives_the_turn_one_more_step(agent: Agent) -> None:
    agent.followup("go")
    await asyncio.sleep(2)
    agent.steer("wait")
    await agent.when_idle()
    assert texts(agent) == ["go", "first answer", "wait", "second"]
    assert data(agent.session.events, "turn/start") == [{"turn": 1}]


@on_agent()
async def test_steering_an_idle_agent_opens_a_turn(agent: Agent) -> None:
    agent.steer("hello")
    await agent.when_idle()
    assert texts(agent) == ["hello", "ok"]


@on_agent()
async def test_an_injected_message_waits_for_the_next_step(program: Program, agent: Agent) -> None:
    agent.steer("by the way", wake=False)
    await asyncio.sleep(60)
    assert program.model.requests == []
    assert agent.phase == "idle"
    agent.followup("hello")
    await agent.when_idle()
    assert texts(agent) == ["hello", "by the way", "ok"]


def test_the_header_says_whether_a_request_is_first_resumed_or_changed() -> None:
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


@on_agent()
async def test_a_message_needs_an_id_that_no_pending_one_has(agent: Agent) -> None:
    message = Message("m", "user", {"kind": "user"}, (TextBlock("hello"),))
    agent.followup(message)
    for refused in (message, Message("", "user", {"kind": "user"}, ())):
        with pytest.raises(InvalidEventError):
            agent.steer(refused)
    await agent.when_idle()
    await passes()
    assert texts(agent) == ["hello", "ok"]
