"""Asking: the answer of the turn that a text opened, or the error that says why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.agent.scene import on_agent
from tests.program import Program, add, data, passes, reason_kinds
from watchbell import Agent, AgentBusyError, AgentClosedError, Answer, Event, TurnError, TurnRecorder, tool
from watchbell.agent.events import StepPrepare
from watchbell.log.payloads import Aborted, Blocked, Failed
from watchbell.testing import call, fail, hang, say


async def failure_of(asked: asyncio.Task[Answer]) -> TurnError:
    with pytest.raises(TurnError) as caught:
        await asked
    return caught.value


def asking(agent: Agent, text: str = "hello") -> asyncio.Task[Answer]:
    return asyncio.create_task(agent.ask(text))


class Runner:
    """Answers in two steps, each with its usage; "nothing" in none."""

    provider, model, context_window = "runner", "two steps", None

    async def run_turn(self, turn: TurnRecorder) -> None:
        if turn.transcript()[-1].text == "nothing":
            return
        async with turn.answer() as answer:
            answer.text("Adding.")
            answer.call("c", "add", '{"a": 1, "b": 2}')
            answer.usage({"inputTokens": 1})
        await turn.call("c")
        async with turn.answer() as answer:
            answer.text("three")
            answer.usage({"inputTokens": 2})
            answer.hit_limit()


@on_agent(["first", [say("Adding."), call("add", {"a": 1, "b": 2})], "three", "last"], tools=[add])
async def test_an_answer_is_that_of_its_own_turn_from_all_its_steps(agent: Agent) -> None:
    agent.followup("before")
    asked = asking(agent, "1 + 2?")
    await passes(1)
    agent.followup("after")
    answer = await asked
    assert (answer.text, answer.turn, answer.is_cut_short) == ("three", 2, False)
    assert answer.message in agent.transcript()
    assert [block.name for block in answer.tool_calls] == ["add"]
    await agent.when_idle()
    assert agent.transcript()[-1].text == "last"


@on_agent(tools=[add])
async def test_an_answer_has_the_usage_of_its_last_message(program: Program) -> None:
    agent = await program.host.agents.create("r", model=Runner())
    answer = await agent.ask("1 + 2?", source={"kind": "plugin", "plugin": "mine"})
    assert (answer.text, answer.usage, answer.is_cut_short) == ("three", {"inputTokens": 2}, True)
    assert agent.transcript()[0].source == {"kind": "plugin", "plugin": "mine"}
    error = await failure_of(asking(agent, "nothing"))
    assert (error.code, error.turn) == ("EMPTY_ANSWER", 2)


@on_agent([fail("RATE_LIMITED", "too many", 429), "well"])
async def test_a_failed_turn_raises_what_the_log_says(agent: Agent) -> None:
    error = await failure_of(asking(agent))
    assert (error.code, error.turn) == ("RATE_LIMITED", 1)
    assert "too many" in str(error)
    assert isinstance(error.reason, Failed)
    assert error.reason.error.status == 429
    assert (await agent.ask("again")).text == "well"


@on_agent(["never"])
async def test_a_storage_that_does_not_confirm_fails_the_turn(program: Program, agent: Agent) -> None:
    program.store.fail_writes(1)
    assert (await failure_of(asking(agent))).code == "PERSISTENCE_UNCERTAIN"


@on_agent([[say("half"), hang()]])
async def test_a_cancelled_turn_raises_and_so_does_what_was_withdrawn(agent: Agent) -> None:
    running, queued = asking(agent), asking(agent, "next")
    await passes()
    agent.cancel(discard_pending=True)
    error = await failure_of(running)
    assert (error.code, error.turn) == ("ABORTED", 1)
    assert isinstance(error.reason, Aborted)
    error = await failure_of(queued)
    assert (error.code, error.reason, error.turn) == ("DISCARDED", None, None)


@on_agent()
async def test_what_an_observer_withdraws_at_once_was_discarded(agent: Agent) -> None:
    def withdraw(_: Sequence[Event]) -> None:
        stop()
        agent.cancel(discard_pending=True)

    stop = agent.session.observe(withdraw)
    assert (await failure_of(asking(agent))).code == "DISCARDED"


@on_agent()
async def test_a_message_that_hooks_reject_is_blocked(program: Program, agent: Agent) -> None:
    async def reject(event: StepPrepare) -> None:
        for message in event.plan.messages:
            event.plan.reject(message)

    program.host.ctx.on(StepPrepare, reject)
    error = await failure_of(asking(agent))
    assert (error.code, error.reason, error.turn) == ("BLOCKED", Blocked(), 1)


@on_agent(["the answer"], delay_seconds=1)
async def test_a_cancelled_caller_leaves_the_turn_alone(agent: Agent) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await agent.ask("hello")
    await agent.when_idle()
    assert agent.transcript()[-1].text == "the answer"
    assert reason_kinds(agent.session.events) == ["completed"]


@pytest.mark.parametrize("first", ["answered", "hangs"])
@on_agent(lambda request: "yes" if request.messages[-1].text == "answered" else hang())
async def test_a_disposed_agent_raises_for_all_who_wait(agent: Agent, first: str) -> None:
    asked = [asking(agent, text) for text in (first, "hangs", "queued")]
    await passes()
    await agent.aclose()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    kinds = [Answer if first == "answered" else AgentClosedError, AgentClosedError, AgentClosedError]
    assert list(map(type, outcomes)) == kinds
    with pytest.raises(AgentClosedError):
        await agent.ask("too late")


@on_agent([call("ask_again"), "done"])
async def test_a_tool_cannot_wait_for_the_next_turn_of_its_own_agent(agent: Agent) -> None:
    @tool
    async def ask_again() -> str:
        """Ask the agent whose turn it is."""
        with pytest.raises(AgentBusyError, match="followup"):
            await agent.ask("again")
        return "refused"

    agent.tools.register(ask_again, agent.ctx)
    assert (await agent.ask("hello")).text == "done"
    assert len(data(agent.session.events, "turn/start")) == 1
