"""A reminder's turn that was lost before it had an answer is run again; nobody else's is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.scene import on_agent
from tests.program import (
    Program,
    data,
    run,
    store,
    texts,
    types,
)
from watchbell.agent.agent import Agent
from watchbell.agent.events import StepPrepare
from watchbell.agent.inbox import Inbox
from watchbell.host import time_context
from watchbell.log.event import Draft
from watchbell.log.messages import Message, TextBlock
from watchbell.log.payloads import StepMark, TakeUp, TurnStart
from watchbell.sessions.events import FlushSession
from watchbell.testing import MemoryDisk, SimulatedClock

RETAINED: dict[str, Any] = {"kind": "plugin", "plugin": "bells", "retained": True}
INTERRUPTED = {"kind": "interrupted"}


def bell(name: str = "bell") -> Message:
    return Message(name, "user", RETAINED, (TextBlock(name),))


def turn(number: int, *begin: Draft, end: dict[str, Any]) -> list[Draft]:
    """Write a turn that begins so, and its end."""
    ends = [Draft("step/end", StepMark(number, 1)), Draft("turn/end", {"turn": number, "reason": end})]
    return [*begin, *ends]


def opened_by(message: Message, number: int = 1) -> list[Draft]:
    """Write that a turn begins with a message."""
    return [
        Inbox().insert([message], "next-turn"),
        Draft("turn/start", TurnStart(number)),
        Draft("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
        Draft("step/start", StepMark(number, 1)),
        Draft("user/message", message, None, "append"),
    ]


def taken_up(attempt: int, end: dict[str, Any] = INTERRUPTED) -> list[Draft]:
    """Write the turn that took the bell up once more."""
    number = attempt + 1
    begin = Draft("turn/start", TurnStart(number)), Draft("step/start", StepMark(number, 1))
    return turn(number, mark(attempt), *begin, end=end)


def mark(attempt: int) -> Draft:
    return Draft("watchbell/take-up", TakeUp("bell", attempt), ignorable=True)


LOST = turn(1, *opened_by(bell()), end=INTERRUPTED)


def resume(*drafts: Draft) -> list[Any]:
    """Open a log, and return its take-ups once all is quiet."""
    taken: list[Any] = []

    @on_agent(log=drafts)
    async def scene(agent: Agent) -> None:
        await agent.when_idle()
        taken.extend(data(agent.session.events, "watchbell/take-up"))

    scene()
    return taken


@pytest.mark.parametrize(
    "end",
    [
        {"kind": "completed"},
        {"kind": "max-tokens"},
        {"kind": "aborted", "reason": {"kind": "user"}},
        {"kind": "aborted", "reason": {"kind": "parent"}},
        {"kind": "error", "error": {"code": "RATE_LIMITED", "message": "m"}},
    ],
)
def test_a_turn_that_ended_in_any_other_way_is_not(end: dict[str, Any]) -> None:
    assert resume(*turn(1, *opened_by(bell()), end=end)) == []


def test_a_turn_that_a_person_opened_with_a_retained_message_is_not() -> None:
    person = Message("bell", "user", {"kind": "user"}, (TextBlock("bell"),))
    another = Draft("user/message", bell("another"), None, "append")
    assert resume(*turn(1, *opened_by(person), another, end=INTERRUPTED)) == []


def test_a_take_up_torn_off_its_turn_counts_and_is_no_other_turns() -> None:
    log = [*LOST, *taken_up(1), *taken_up(2), mark(3)]
    assert [take_up["attempt"] for take_up in resume(*log)] == [1, 2, 3]
    assert resume(*log, *opened_by(bell("other"), 4))[-1] == {"messageId": "other", "attempt": 1}


@pytest.mark.parametrize("end", [{"kind": "completed"}, {"kind": "aborted", "reason": {"kind": "user"}}])
def test_a_take_up_that_was_answered_or_cancelled_settles_it(end: dict[str, Any]) -> None:
    assert len(resume(*LOST, *taken_up(1, end))) == 1


@on_agent(log=LOST, plugins=[time_context()])
async def test_the_take_up_stands_right_before_its_turn_which_claims_nothing(
    program: Program, agent: Agent
) -> None:
    await agent.when_idle()
    assert len(program.model.requests) == 1
    assert texts(agent) == ["bell", "ok"]
    new = agent.session.events[7:]
    begins = ["watchbell/take-up", "turn/start", "step/start", "request/header"]
    assert types(new)[:5] == ["session/end-seed", *begins]
    assert new[1].ignorable


@on_agent()
async def test_a_storage_that_fails_again_and_again_does_not_use_up_the_take_ups(
    program: Program, agent: Agent
) -> None:
    program.store.fail_writes(2)
    agent.followup(bell())
    for _ in range(10):
        await asyncio.sleep(0.01)
        agent.steer("by the way", wake=False)
    await asyncio.sleep(300)
    await agent.when_idle()
    assert "ok" in texts(agent)
    assert len(data(agent.session.events, "watchbell/take-up")) == 1


@on_agent()
async def test_a_listener_that_failed_once_does_not_hold_a_take_up_back_for_ever(
    program: Program, agent: Agent
) -> None:

    async def failing(_: object) -> bool:
        raise RuntimeError("no luck")

    end = program.host.ctx.on(FlushSession, failing)
    agent.followup(bell())
    await agent.when_idle()
    end()
    agent.followup("anything new?")
    await agent.when_idle()
    assert texts(agent) == ["bell", "ok", "anything new?", "ok"]


def test_cancelling_while_a_take_up_is_prepared_drops_nobodys_message() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, *LOST)
        async with Program(clock, disk=disk) as program:

            async def slow(*_: object) -> None:
                await asyncio.sleep(10)

            program.host.ctx.on(StepPrepare, slow)
            agent = await program.host.agents.resume("s")
            await asyncio.sleep(5)
            agent.followup("hello")
            agent.cancel()
            await agent.when_idle()
            assert texts(agent) == ["bell", "ok", "hello", "ok"]

    run(main)
