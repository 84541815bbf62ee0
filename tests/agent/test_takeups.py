"""A reminder's turn that was lost before it had an answer is run again; nobody else's is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.program import (
    Program,
    data,
    reason_kinds,
    require_valid,
    run,
    store,
    texts,
    types,
    user_texts,
)
from watchbell.agent.events import StepPrepare
from watchbell.agent.inbox import Inbox
from watchbell.host import time_context
from watchbell.log.event import Draft
from watchbell.log.messages import Message, ReasoningBlock, TextBlock, TextDelta
from watchbell.log.payloads import AssistantMessage, ChunkEvent, StepMark, TakeUp, TurnEnd, TurnStart
from watchbell.sessions.events import FlushSession
from watchbell.testing import MemoryDisk, SimulatedClock, call, hang, say, think
from watchbell.testing.model import Part
from watchbell.tools.function import tool

PERSON: dict[str, Any] = {"kind": "user"}
RETAINED: dict[str, Any] = {"kind": "plugin", "plugin": "bells", "retained": True}
INTERRUPTED = {"kind": "interrupted"}
DISPOSED = {"kind": "aborted", "reason": {"kind": "disposed"}}
UNCERTAIN = {"kind": "error", "error": {"code": "PERSISTENCE_UNCERTAIN", "message": "m"}}


def bell(name: str = "bell") -> Message:
    return Message(name, "user", RETAINED, (TextBlock(name),))


def lost_turn(
    number: int = 1,
    *,
    end: dict[str, Any] | None = INTERRUPTED,
    answer: tuple[Draft, ...] = (),
    by: Any = RETAINED,
) -> list[Draft]:
    """Write a turn that a message opened, as far as its answer, and its end when it has one."""
    opener = Message("bell", "user", by, (TextBlock("bell"),))
    drafts = [
        Inbox().insert([opener], "next-turn"),
        Draft("turn/start", TurnStart(number)),
        Draft("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
        Draft("step/start", StepMark(number, 1)),
        Draft("user/message", opener, None, "append"),
        *answer,
    ]
    if end is None:
        return drafts
    return [*drafts, Draft("step/end", StepMark(number, 1)), Draft("turn/end", TurnEnd(number, end))]


def taken_up(number: int, *, attempt: int, end: dict[str, Any] | None = INTERRUPTED) -> list[Draft]:
    """Write a turn that took the message up once more."""
    drafts = [
        Draft("watchbell/take-up", TakeUp("bell", attempt), ignorable=True),
        Draft("turn/start", TurnStart(number)),
        Draft("step/start", StepMark(number, 1)),
    ]
    if end is None:
        return drafts
    return [*drafts, Draft("step/end", StepMark(number, 1)), Draft("turn/end", TurnEnd(number, end))]


def resume(*drafts: Draft, say_then: str | None = None) -> tuple[list[Any], list[str], list[str]]:
    """Open a log, and return its take-ups, why its turns ended, and its user messages, once all is quiet."""

    async def main(clock: SimulatedClock) -> tuple[list[Any], list[str], list[str]]:
        disk = MemoryDisk()
        store(disk, *drafts)
        async with Program(clock, disk=disk) as program:
            agent = await program.host.agents.resume("s")
            if say_then is not None:
                agent.followup(say_then)
            await agent.when_idle()
        events = disk.events("s")
        require_valid(events)
        return data(events, "watchbell/take-up"), reason_kinds(events), user_texts(events)

    return run(main)


@pytest.mark.parametrize("end", [None, INTERRUPTED, DISPOSED, UNCERTAIN])
def test_an_unanswered_turn_of_a_reminder_is_taken_up(end: dict[str, Any] | None) -> None:
    take_ups, kinds, said = resume(*lost_turn(end=end))
    assert take_ups == [{"messageId": "bell", "attempt": 1}]
    assert kinds[-1] == "completed"
    assert said == ["bell"]


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
    assert resume(*lost_turn(end=end))[0] == []


def test_a_turn_that_a_person_opened_is_not() -> None:
    assert resume(*lost_turn(by=PERSON))[0] == []


def test_a_turn_that_a_person_opened_is_not_although_a_retained_message_came_with_it() -> None:
    log = lost_turn(by=PERSON)
    log.insert(5, Draft("user/message", bell("another"), None, "append"))
    assert resume(*log)[0] == []


def test_a_turn_that_holds_some_text_of_an_answer_is_not() -> None:
    chunk = Draft("assistant/chunk", ChunkEvent(1, 1, TextDelta(0, "Str")))
    assert resume(*lost_turn(end=None, answer=(chunk,)))[0] == []
    model = {"kind": "model", "provider": "p", "model": "m"}
    message = Message("m", "assistant", model, (TextBlock("Stretch"),))
    answer = Draft("assistant/message", AssistantMessage(1, 1, message), (), "append")
    assert resume(*lost_turn(answer=(answer,)))[0] == []


def test_a_thought_is_no_answer() -> None:
    model = {"kind": "model", "provider": "p", "model": "m"}
    message = Message("m", "assistant", model, (ReasoningBlock("hm"),))
    answer = Draft("assistant/message", AssistantMessage(1, 1, message), (), "append")
    assert len(resume(*lost_turn(answer=(answer,)))[0]) == 1


def test_a_message_is_taken_up_three_times_and_no_more() -> None:
    log = lost_turn()
    for attempt in (1, 2):
        log += taken_up(attempt + 1, attempt=attempt)
    assert resume(*log)[0][-1] == {"messageId": "bell", "attempt": 3}
    assert len(resume(*log, *taken_up(4, attempt=3))[0]) == 3


def test_a_take_up_torn_off_its_turn_counts_and_is_no_other_turns() -> None:
    log = lost_turn()
    for attempt in (1, 2):
        log += taken_up(attempt + 1, attempt=attempt)
    torn = Draft("watchbell/take-up", TakeUp("bell", 3), ignorable=True)
    assert [take_up["attempt"] for take_up in resume(*log, torn)[0]] == [1, 2, 3]
    other = Message("other", "user", RETAINED, (TextBlock("other"),))
    lost = [
        Inbox().insert([other], "next-turn"),
        Draft("turn/start", TurnStart(4)),
        Draft("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
        Draft("step/start", StepMark(4, 1)),
        Draft("user/message", other, None, "append"),
    ]
    assert resume(*log, torn, *lost)[0][-1] == {"messageId": "other", "attempt": 1}


def test_a_take_up_that_was_answered_or_cancelled_settles_it() -> None:
    cancelled = {"kind": "aborted", "reason": {"kind": "user"}}
    for end in ({"kind": "completed"}, cancelled):
        assert len(resume(*lost_turn(), *taken_up(2, attempt=1, end=end))[0]) == 1


def test_the_take_up_stands_right_before_its_turn_which_claims_nothing() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, *lost_turn())
        async with Program(clock, disk=disk, plugins=[time_context()]) as program:
            agent = await program.host.agents.resume("s")
            await agent.when_idle()
            assert len(program.model.requests) == 1
            assert texts(agent) == ["bell", "ok"]
        new = disk.events("s")[7:]
        assert types(new)[:5] == [
            "session/end-seed",
            "watchbell/take-up",
            "turn/start",
            "step/start",
            "request/header",
        ]
        assert new[1].ignorable

    run(main)


def test_take_ups_come_before_what_is_pending() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, Inbox().insert([bell("pending")], "next-turn"), *_shifted(lost_turn()))
        async with Program(clock, ["about the bell", "about the other"], disk=disk) as program:
            agent = await program.host.agents.resume("s")
            await agent.when_idle()
            assert texts(agent) == ["bell", "about the bell", "pending", "about the other"]

    run(main)


def _shifted(drafts: list[Draft]) -> list[Draft]:
    """Let a lost turn's message stand behind another one, which it leaves where it is."""
    claim = {"target": "next-turn", "start": 1, "removedCount": 1, "inserted": []}
    first = Draft("agent/inbox/spliced", {**_splice(drafts[0]), "start": 1})
    return [first, drafts[1], Draft("agent/inbox/spliced", claim), *drafts[3:]]


def _splice(draft: Draft) -> dict[str, Any]:
    return {"target": "next-turn", "start": 0, "inserted": list(draft.data.inserted)}


def test_a_fork_takes_nothing_up() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, *lost_turn(end=None))
        async with Program(clock, disk=disk) as program:
            fork = await program.host.agents.fork("s", "child")
            await fork.when_idle()
            assert program.model.requests == []
        assert data(disk.events("child"), "watchbell/take-up") == []

    run(main)


@pytest.mark.parametrize("parts", [[hang()], [think("hm"), hang()], [call("endless")]])
def test_disposal_in_the_middle_of_a_reminders_turn_is_made_good_on_resume(parts: list[Part]) -> None:
    @tool
    async def endless() -> None:
        """Never end."""
        await asyncio.get_running_loop().create_future()

    async def main(clock: SimulatedClock) -> None:
        first = Program(clock, [parts], tools=[endless])
        async with first:
            agent = await first.host.agents.create("s")
            agent.followup(bell())
            await asyncio.sleep(5)
        async with Program(clock, ["ding"], disk=first.disk) as second:
            agent = await second.host.agents.resume("s")
            await agent.when_idle()
            assert texts(agent)[0] == "bell"
            assert texts(agent)[-1] == "ding"
            assert user_texts(agent.session.events) == ["bell"]
            assert reason_kinds(agent.session.events) == ["aborted", "completed"]
        require_valid(first.disk.events("s"))

    run(main)


def test_disposal_after_some_text_is_not() -> None:
    async def main(clock: SimulatedClock) -> None:
        first = Program(clock, [[say("Di"), hang()]])
        async with first:
            agent = await first.host.agents.create("s")
            agent.followup(bell())
            await asyncio.sleep(5)
        async with Program(clock, disk=first.disk) as second:
            agent = await second.host.agents.resume("s")
            await agent.when_idle()
            assert second.model.requests == []

    run(main)


def test_after_a_failed_barrier_it_is_taken_up_only_once_the_storage_answers() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            program.store.fail_writes(None)
            agent.followup(bell())
            await agent.when_idle()
            await asyncio.sleep(600)
            assert program.model.requests == []
            assert data(agent.session.events, "watchbell/take-up") == []
            assert agent.phase == "idle"
            program.store.heal()
            await asyncio.sleep(61)
            await agent.when_idle()
            assert texts(agent) == ["bell", "ok"]
            assert data(agent.session.events, "watchbell/take-up") == [{"messageId": "bell", "attempt": 1}]
        require_valid(program.disk.events("s"))

    run(main)


def test_a_storage_that_fails_again_and_again_does_not_use_up_the_take_ups() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            program.store.fail_writes(2)
            agent.followup(bell())
            for _ in range(10):
                await asyncio.sleep(0.01)
                agent.inject("by the way")
            await asyncio.sleep(300)
            await agent.when_idle()
            assert "ok" in texts(agent)
            assert len(data(agent.session.events, "watchbell/take-up")) == 1

    run(main)


def test_a_listener_that_failed_once_does_not_hold_a_take_up_back_for_ever() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")

            async def failing(_: object) -> bool:
                raise RuntimeError("no luck")

            end = program.host.ctx.on(FlushSession, failing)
            agent.followup(bell())
            await agent.when_idle()
            end()
            agent.followup("anything new?")
            await agent.when_idle()
            assert texts(agent) == ["bell", "ok", "anything new?", "ok"]

    run(main)


def test_cancelling_while_a_take_up_is_prepared_drops_nobodys_message() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, *lost_turn())
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
