"""Cancelling: the turn ends, every call has its result, and nothing that must stay is lost."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.agent.scene import on_agent
from tests.program import (
    Program,
    data,
    inbox,
    passes,
    reason_kinds,
    reasons,
    require_valid,
    results,
    run,
    texts,
    user_texts,
)
from watchbell.agent.agent import Agent
from watchbell.agent.events import StepPrepare
from watchbell.log.event import Event
from watchbell.log.messages import Message, TextBlock
from watchbell.models.base import ModelRequest
from watchbell.testing import SimulatedClock, call, hang, say
from watchbell.testing.model import Answer
from watchbell.tools.function import tool

CALLS = [call("wait", {"seconds": 1}), call("wait", {"seconds": 99}), call("stubborn")]
USER = {"kind": "aborted", "reason": {"kind": "user"}}


def retained(name: str) -> Message:
    return Message(name, "user", {"kind": "plugin", "plugin": "bells", "retained": True}, (TextBlock(name),))


@tool
async def wait(seconds: int) -> str:
    """Wait for some time."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


@tool
async def stubborn() -> None:
    """Do not stop when told to."""
    for _ in range(3):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
        return


@on_agent([[say("half"), hang()], "fine"])
async def test_a_cancelled_answer_keeps_the_text_that_had_come(program: Program, agent: Agent) -> None:
    agent.followup("hello")
    await asyncio.sleep(5)
    agent.cancel()
    await agent.when_idle()
    assert reasons(agent.session.events) == [USER]
    (answer,) = data(agent.session.events, "assistant/message")
    assert answer["interrupted"] is True
    assert program.model.closed == 1
    agent.followup("go on")
    await agent.when_idle()
    assert texts(agent) == ["hello", "half", "go on", "fine"]


@pytest.mark.parametrize("kind", ["block-start", "text-delta", "usage", "finish"])
@on_agent(["never mind", "fine"])
async def test_a_cancel_from_within_the_answer_ends_its_turn_and_no_other_one(
    agent: Agent, kind: str
) -> None:

    def cancel_once(events: Sequence[Event]) -> None:
        chunk = events[0].data.get("chunk", {})
        if chunk.get("type") == kind:
            end()
            agent.cancel()

    end = agent.session.observe(cancel_once)
    agent.followup("hello")
    agent.followup("go on")
    await agent.when_idle()
    assert reasons(agent.session.events) == [USER, {"kind": "completed"}]
    assert texts(agent)[-2:] == ["go on", "fine"]


@on_agent([hang()])
async def test_an_answer_cancelled_before_any_text_leaves_no_message(agent: Agent) -> None:
    agent.followup("hello")
    await asyncio.sleep(5)
    agent.cancel(kind="parent")
    await agent.when_idle()
    assert reasons(agent.session.events) == [{"kind": "aborted", "reason": {"kind": "parent"}}]
    assert texts(agent) == ["hello"]


@on_agent([CALLS, "fine"], tools=[wait, stubborn])
async def test_every_call_of_a_cancelled_turn_gets_its_result(clock: SimulatedClock, agent: Agent) -> None:
    agent.followup("go")
    await asyncio.sleep(5)
    agent.cancel()
    await agent.when_idle()
    assert clock.iso() == "2026-12-01T00:00:05.000Z"
    aborted = "The call was cancelled."
    assert results(agent.session.events) == [
        *[("call-1", "waited 1"), ("call-2", aborted), ("call-3", aborted)]
    ]
    assert reasons(agent.session.events) == [USER]
    agent.followup("and now?")
    await agent.when_idle()
    assert texts(agent)[-2:] == ["and now?", "fine"]
    await asyncio.sleep(600)


def answer(request: ModelRequest) -> Answer:
    return [say("a"), call("wait", {"seconds": 1})] if request.messages[-1].text == "go" else "ok"


@pytest.mark.parametrize("after", range(12))
@on_agent(answer, tools=[wait])
async def test_a_turn_can_be_cancelled_at_any_pass_of_the_loop(agent: Agent, after: int) -> None:
    agent.followup("go")
    await passes(after)
    agent.cancel()
    agent.steer("and now?")
    await agent.when_idle()
    assert texts(agent)[-2:] == ["and now?", "ok"]
    assert reason_kinds(agent.session.events) in (["completed"], ["aborted", "completed"])
    assert agent.phase == "idle"


@on_agent()
async def test_cancelling_before_the_message_is_durable_asks_no_model(program: Program, agent: Agent) -> None:
    held = program.store.hold_writes()
    agent.followup("hello")
    await held.reached()
    agent.cancel()
    await agent.when_idle()
    held.release()
    assert reasons(agent.session.events) == [USER]
    assert program.model.requests == []


@on_agent()
async def test_cancelling_while_hooks_run_drops_what_people_queued_for_that_turn(
    clock: SimulatedClock, program: Program, agent: Agent
) -> None:

    async def slow(_: StepPrepare) -> None:
        await asyncio.sleep(10)

    program.host.ctx.on(StepPrepare, slow)
    agent.followup("never mind")
    agent.followup("but this")
    await asyncio.sleep(5)
    agent.cancel()
    await agent.when_idle()
    assert user_texts(agent.session.events) == ["but this"]
    assert clock.iso() == "2026-12-01T00:00:15.000Z"
    assert reason_kinds(agent.session.events) == ["completed"]


@pytest.mark.parametrize("after", range(10))
@on_agent()
async def test_a_cancel_before_a_retained_message_was_claimed_ends_no_turn(
    program: Program, agent: Agent, after: int
) -> None:

    async def hook(_: StepPrepare) -> None:
        await passes(3)

    program.host.ctx.on(StepPrepare, hook)
    agent.followup(retained("bell"))
    await passes(after)
    is_claimed = data(agent.session.events, "turn/start") != []
    agent.cancel()
    await agent.when_idle()
    assert user_texts(agent.session.events) == ["bell"]
    assert reason_kinds(agent.session.events) == (["aborted"] if is_claimed else ["completed"])


@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("discard_pending", [False, True])
@on_agent([hang(), "fine"])
async def test_a_message_sent_right_after_a_cancel_is_never_dropped(
    program: Program, agent: Agent, after: int, discard_pending: bool
) -> None:

    async def hook(_: StepPrepare) -> None:
        await passes(3)

    program.host.ctx.on(StepPrepare, hook)
    agent.followup("old")
    await passes(after)
    agent.cancel(discard_pending=discard_pending)
    agent.followup("new")
    await passes(60)
    agent.cancel()
    await agent.when_idle()
    assert "new" in user_texts(agent.session.events)
    discarded = [s for s in data(agent.session.events, "agent/inbox/spliced") if "outcome" in s]
    assert len(discarded) + user_texts(agent.session.events).count("old") == 1


@on_agent(logs_errors=True)
async def test_cancelling_drops_a_message_whose_turn_cannot_begin(program: Program, agent: Agent) -> None:

    async def refuse(event: StepPrepare) -> None:
        if event.plan.messages[0].text == "poison":
            raise RuntimeError("not this one")

    program.host.ctx.on(StepPrepare, refuse)
    agent.followup("poison")
    await asyncio.sleep(100)
    agent.cancel()
    agent.followup("hello")
    await agent.when_idle()
    assert user_texts(agent.session.events) == ["hello"]


@on_agent([hang()])
async def test_discarding_what_is_pending_keeps_what_is_retained(agent: Agent) -> None:
    agent.followup("go")
    await asyncio.sleep(1)
    agent.followup("later")
    agent.followup(retained("bell"))
    agent.steer("hurry")
    agent.steer(retained("whisper"), wake=False)
    agent.cancel(discard_pending=True)
    await agent.when_idle()
    assert user_texts(agent.session.events) == ["go", "bell", "whisper"]
    canceled = [s for s in data(agent.session.events, "agent/inbox/spliced") if "outcome" in s]
    assert [(s["target"], s["start"], s["removedCount"]) for s in canceled] == [
        ("next-turn", 0, 1),
        ("next-step", 0, 1),
    ]


@on_agent()
async def test_hooks_can_reject_what_people_said_but_nothing_retained(program: Program, agent: Agent) -> None:

    async def reject(event: StepPrepare) -> None:
        assert [event.plan.reject(message) for message in event.plan.messages] == [
            not message.retained for message in event.plan.messages
        ]

    program.host.ctx.on(StepPrepare, reject)
    agent.followup("rude")
    agent.followup(retained("bell"))
    await agent.when_idle()
    assert user_texts(agent.session.events) == ["bell"]
    assert reason_kinds(agent.session.events) == ["blocked", "completed"]
    assert len(program.model.requests) == 1


@on_agent(["first answer"], delay_seconds=1)
async def test_steering_that_hooks_reject_gives_the_turn_no_further_step(
    program: Program, agent: Agent
) -> None:

    async def reject(event: StepPrepare) -> None:
        for message in event.plan.messages:
            if message.text == "rude":
                event.plan.reject(message)

    program.host.ctx.on(StepPrepare, reject)
    agent.followup("go")
    await asyncio.sleep(2)
    agent.steer("rude")
    await agent.when_idle()
    assert texts(agent) == ["go", "first answer"]
    assert len(program.model.requests) == 1
    assert inbox(agent).next_step == ()


def test_cancelling_an_idle_agent_does_nothing() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            agent.cancel()
            agent.cancel(discard_pending=True)
            assert len(agent.session.events) == 0
            agent.followup("hello")
            await agent.when_idle()
            length = len(agent.session.events)
            agent.cancel()
            await passes()
            assert len(agent.session.events) == length
        agent.cancel(discard_pending=True)

    run(main)


@on_agent()
async def test_a_hook_that_always_cancels_is_tried_again_after_growing_pauses(
    clock: SimulatedClock, program: Program, agent: Agent
) -> None:
    tries: list[int] = []

    async def refuse(_: StepPrepare) -> None:
        tries.append(clock.now_ms() // 1000)
        if len(tries) < 10:
            agent.cancel(kind="hook")

    program.host.ctx.on(StepPrepare, refuse)
    agent.followup(retained("bell"))
    await agent.when_idle()
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert user_texts(agent.session.events) == ["bell"]
    assert reason_kinds(agent.session.events) == ["completed"]


@pytest.mark.parametrize("hooks", [1, 2])
def test_a_hook_can_dispose_of_its_own_agent(hooks: int) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")

            async def end(_: StepPrepare) -> None:
                await agent.aclose()

            for _ in range(hooks):
                program.host.ctx.on(StepPrepare, end)
            agent.followup(retained("bell"))
            await passes(60)
            assert agent.phase == "closed"
            await agent.aclose()
            assert program.host.agents.live == ()
        async with Program(clock, disk=program.disk) as second:
            agent = await second.host.agents.resume("s")
            await agent.when_idle()
            assert user_texts(agent.session.events) == ["bell"]
        require_valid(second.disk.events("s"))

    run(main)


def test_cancelling_all_that_waits_for_its_next_try_makes_it_idle() -> None:
    async def main(clock: SimulatedClock) -> float:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")

            async def refuse(_: StepPrepare) -> None:
                raise RuntimeError("made to fail")

            program.host.ctx.on(StepPrepare, refuse)
            agent.followup("hello")
            await asyncio.sleep(40)  # in the middle of a long pause
            agent.cancel(discard_pending=True)
            begun = asyncio.get_running_loop().time()
            await agent.when_idle()
            return asyncio.get_running_loop().time() - begun

    assert run(main, logs_errors=True) == 0


def test_a_wait_for_idleness_that_is_given_up_leaves_nothing_behind() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [hang()]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("hello")
            await asyncio.sleep(1)
            before = len(asyncio.all_tasks()), futures()
            for _ in range(50):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(agent.when_idle(), 0.01)
            assert (len(asyncio.all_tasks()), futures()) == before

    def futures() -> int:
        gc.collect()
        return sum(isinstance(found, asyncio.Future) for found in gc.get_objects())

    run(main)
