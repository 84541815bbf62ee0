"""Another loop answers the turns: its log is as valid as ours, whatever the loop does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.program import data, passes, reason_kinds, reasons, require_valid, results, run, types
from watchbell import (
    AgentError,
    Host,
    ModelError,
    PersistenceError,
    TurnRecorder,
    WatchbellError,
    schedule,
    tool,
)
from watchbell.agent.agent import Agent
from watchbell.agent.answers import AnswerRecorder
from watchbell.host import time_context
from watchbell.log.event import Event
from watchbell.testing import FaultyPersistence, MemoryDisk, MemoryStorage, SimulatedClock

Loop = Callable[[TurnRecorder], Awaitable[None]]


class Runner:
    """A loop that is given as a function."""

    provider = "elsewhere"
    model = "loop-1"
    context_window: int | None = None

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def run_turn(self, turn: TurnRecorder) -> None:
        await self._loop(turn)


@tool
async def wait(seconds: int) -> str:
    """Wait for some time."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


async def say(turn: TurnRecorder, *pieces: str) -> None:
    """Answer with text."""
    async with turn.answer() as answer:
        for piece in pieces:
            answer.text(piece)
            await asyncio.sleep(0)


async def ask_for(turn: TurnRecorder, *calls: tuple[str, str]) -> None:
    """Answer with calls of `wait`: their ids and arguments."""
    async with turn.answer() as answer:
        for call_id, arguments in calls:
            answer.call(call_id, "wait", arguments)


def converse(
    loop: Loop,
    during: Callable[[Agent], Awaitable[None]] | None = None,
    *,
    logs_errors: bool = False,
    store: Callable[[MemoryDisk], Any] = MemoryStorage,
    **options: Any,
) -> list[Event]:
    """Have `loop` answer one message, and return what is durable then."""
    disk = MemoryDisk()

    async def main(clock: SimulatedClock) -> None:
        async with Host(
            storage=store(disk), model=Runner(loop), tools=[wait], clock=clock, max_steps=5, **options
        ) as host:
            agent = await host.agents.create("s")
            agent.followup("hello")
            if during is not None:
                await during(agent)
            await agent.when_idle()

    run(main, logs_errors=logs_errors)
    events = disk.events("s")
    require_valid(events)
    return events


def answers(events: list[Event]) -> list[str]:
    """Read the text of each answer; one that was cut off ends in `…`."""
    found = data(events, "assistant/message")
    return [
        "".join(block.get("text", "") for block in one["message"]["content"])
        + ("…" if one.get("interrupted") else "")
        for one in found
    ]


def test_an_answer_of_another_loop_stands_in_the_log_like_one_of_ours() -> None:
    async def loop(turn: TurnRecorder) -> None:
        assert (turn.number, turn.system, turn.transcript()[-1].text) == (1, "Be brief.", "hello")
        assert [tool.name for tool in turn.tools] == ["wait"]
        async with turn.answer() as answer:
            answer.reasoning("Hm.")
            answer.text("Good ")
            answer.text("day")
            answer.usage({"outputTokens": 2})

    events = converse(loop, system="Be brief.")
    assert types(events)[-5:] == [
        "request/header",
        "request/context",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    (message,) = data(events, "assistant/message")
    assert message["message"]["source"] == {"kind": "model", "provider": "elsewhere", "model": "loop-1"}
    assert message["message"]["content"] == [
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "Good day"},
    ]
    assert message["usage"] == {"outputTokens": 2}
    assert [chunk["chunk"]["type"] for chunk in data(events, "assistant/chunk")] == [
        "block-start", "reasoning-delta", "block-end", "block-start", "text-delta", "text-delta", "block-end",
        "usage", "finish",
    ]  # fmt: skip
    assert reason_kinds(events) == ["completed"]


def test_calls_run_side_by_side_and_results_enter_in_their_order() -> None:
    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", '{"seconds": 9}'), ("b", '{"seconds": 1}'))
        outcomes = await asyncio.gather(turn.call("b"), turn.call("a"))
        assert [outcome.text for outcome in outcomes] == ["waited 1", "waited 9"]
        await say(turn, "done")

    events = converse(loop)
    assert results(events) == [("a", "waited 9"), ("b", "waited 1")]
    assert [mark["step"] for mark in data(events, "step/start")] == [1, 2]


def test_a_tool_of_the_other_loop_is_recorded_too() -> None:
    async def loop(turn: TurnRecorder) -> None:
        async def value() -> dict[str, int]:
            return {"n": 1}

        async def odd() -> object:
            return range(3)

        async def broken() -> None:
            raise KeyError("secret")

        await ask_for(turn, ("a", "{}"), ("b", "{}"), ("c", "{}"))
        assert await turn.watch("a", value) == {"n": 1}
        assert await turn.watch("b", odd) == range(3)
        with pytest.raises(KeyError):
            await turn.watch("c", broken)
        await say(turn, "done")

    events = converse(loop)
    texts = [text for _, text in results(events)]
    assert texts[:2] == ['{"n":1}', "range(0, 3)"]
    assert "KeyError" in texts[2]
    assert "secret" not in texts[2]


def test_a_call_that_the_loop_leaves_alone_gets_a_result_all_the_same() -> None:
    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", "{}"))
        await say(turn, "I thought better of it.")

    events = converse(loop)
    assert results(events) == [("a", "This call was not run.")]
    assert data(events, "tool/result")[0]["error"]["code"] == "TOOL_NOT_STARTED"
    assert data(events, "tool/call") == []


def test_a_call_that_the_loop_does_not_wait_for_has_an_unknown_outcome() -> None:
    left: list[asyncio.Task[Any]] = []

    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", '{"seconds": 5}'))
        left.append(asyncio.create_task(turn.call("a")))
        await passes()

    async def during(_: Agent) -> None:
        await asyncio.sleep(6)

    events = converse(loop, during)
    assert data(events, "tool/result")[0]["error"]["code"] == "TOOL_OUTCOME_UNKNOWN"
    assert left[0].done()


def test_a_repeated_call_id_is_made_unique_in_the_log_and_still_found() -> None:
    async def loop(turn: TurnRecorder) -> None:
        for seconds in (1, 2):
            await ask_for(turn, ("same", f'{{"seconds": {seconds}}}'))
            await turn.call("same")
        await say(turn, "done")

    assert results(converse(loop)) == [("same", "waited 1"), ("same-2", "waited 2")]


def test_what_is_steered_in_reaches_the_loop_with_its_next_answer() -> None:
    entered: list[list[str]] = []

    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", '{"seconds": 5}'))
        await turn.call("a")
        async with turn.answer() as answer:
            entered.append([message.text for message in answer.entered])
            answer.text("done")

    async def during(agent: Agent) -> None:
        await asyncio.sleep(1)
        agent.steer("hurry")

    events = converse(loop, during)
    assert entered == [["hurry"]]
    assert len(data(events, "turn/start")) == 1


def test_what_is_steered_in_after_the_last_answer_calls_the_loop_again() -> None:
    heard: list[str] = []

    async def loop(turn: TurnRecorder) -> None:
        heard.append(turn.transcript()[-1].text)
        await say(turn, "yes")
        if len(heard) == 1:
            turn.agent.steer("and this?")

    events = converse(loop)
    assert heard == ["hello", "and this?"]
    assert len(data(events, "turn/start")) == 1
    assert [mark["step"] for mark in data(events, "step/start")] == [1, 2]


def test_hooks_see_each_step_of_another_loop() -> None:
    async def loop(turn: TurnRecorder) -> None:
        assert turn.transcript()[-2].text.startswith("[TIME CONTEXT]")
        await say(turn, "noon")

    converse(loop, plugins=[time_context(time_zone="Europe/Berlin")])


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_cancelled_turn_keeps_the_text_that_had_come(stubborn: bool) -> None:
    async def loop(turn: TurnRecorder) -> None:
        async with turn.answer() as answer:
            answer.text("half")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not stubborn:
                    raise
                raise RuntimeError("what some frameworks make of it") from None

    async def during(agent: Agent) -> None:
        await asyncio.sleep(1)
        agent.cancel()

    events = converse(loop, during)
    assert answers(events) == ["half…"]
    assert reasons(events) == [{"kind": "aborted", "reason": {"kind": "user"}}]


def test_a_cancelled_call_gets_its_result() -> None:
    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", '{"seconds": 60}'), ("b", "{}"))
        await turn.call("a")

    async def during(agent: Agent) -> None:
        await asyncio.sleep(1)
        agent.cancel()

    events = converse(loop, during)
    codes = [result["error"]["code"] for result in data(events, "tool/result")]
    assert codes == ["TOOL_ABORTED", "TOOL_NOT_STARTED"]
    assert reason_kinds(events) == ["aborted"]


def test_a_loop_that_goes_on_after_the_cancelling_can_record_nothing_more() -> None:
    refused: list[str] = []

    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", '{"seconds": 60}'))
        try:
            await turn.call("a")
        except asyncio.CancelledError:
            try:
                await say(turn, "never mind")
            except WatchbellError as error:
                refused.append(type(error).__name__)

    async def during(agent: Agent) -> None:
        await asyncio.sleep(1)
        agent.cancel()

    assert answers(converse(loop, during)) == [""]
    assert refused == ["TurnAbortedError"]


def test_a_call_that_the_loop_cancels_is_aborted_and_the_turn_goes_on() -> None:
    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", '{"seconds": 60}'))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(turn.call("a"), 1)
        await say(turn, "too slow")

    events = converse(loop)
    assert data(events, "tool/result")[0]["error"]["code"] == "TOOL_ABORTED"
    assert reason_kinds(events) == ["completed"]


def test_a_loop_that_swallows_a_failed_barrier_asks_its_model_nothing() -> None:
    stores: list[FaultyPersistence] = []
    asked: list[str] = []

    def store(disk: MemoryDisk) -> FaultyPersistence:
        stores.append(FaultyPersistence(MemoryStorage(disk)))
        return stores[0]

    async def loop(turn: TurnRecorder) -> None:
        await ask_for(turn, ("a", '{"seconds": 1}'))
        await turn.call("a")
        stores[0].fail_writes(1)
        for _ in range(2):
            try:
                async with turn.answer():
                    asked.append("the model")
            except PersistenceError:
                continue

    events = converse(loop, store=store)
    assert asked == []
    assert reasons(events)[0]["error"]["code"] == "PERSISTENCE_UNCERTAIN"


def test_the_loop_is_not_called_before_its_message_is_durable() -> None:
    def store(disk: MemoryDisk) -> FaultyPersistence:
        faulty = FaultyPersistence(MemoryStorage(disk))
        faulty.fail_writes(1)
        return faulty

    async def loop(_: TurnRecorder) -> None:
        raise AssertionError

    events = converse(loop, store=store)
    assert reasons(events)[0]["error"]["code"] == "PERSISTENCE_UNCERTAIN"


def test_a_loop_that_never_ends_meets_the_limit_of_steps() -> None:
    async def loop(turn: TurnRecorder) -> None:
        while True:
            try:
                await say(turn, "again")
            except ModelError:
                return

    events = converse(loop)
    assert answers(events) == ["again"] * 5
    assert reasons(events)[0]["error"]["code"] == "STEP_LIMIT"


def test_a_model_error_of_the_loop_ends_the_turn_with_its_code() -> None:
    async def loop(turn: TurnRecorder) -> None:
        async with turn.answer() as answer:
            answer.text("half")
            raise ModelError("slow down", code="RATE_LIMITED", status=429)

    events = converse(loop)
    assert answers(events) == ["half…"]
    assert reasons(events)[0]["error"] == {"message": "slow down", "code": "RATE_LIMITED", "status": 429}


def test_any_other_error_of_the_loop_ends_the_turn_and_is_logged() -> None:
    async def loop(_: TurnRecorder) -> None:
        raise ZeroDivisionError

    assert reasons(converse(loop, logs_errors=True))[0]["error"]["code"] == "INTERNAL_ERROR"


def test_a_loop_that_cancels_itself_ends_the_turn_and_no_more() -> None:
    async def loop(turn: TurnRecorder) -> None:
        if turn.number == 1:
            raise asyncio.CancelledError
        await say(turn, "better")

    async def during(agent: Agent) -> None:
        agent.followup("again")

    events = converse(loop, during)
    assert reason_kinds(events) == ["error", "completed"]


def test_a_loop_without_an_answer_is_an_empty_answer() -> None:
    async def loop(_: TurnRecorder) -> None:
        return

    assert reasons(converse(loop))[0]["error"]["code"] == "EMPTY_ANSWER"


def test_an_answer_that_hit_a_length_limit_ends_the_turn_so() -> None:
    async def loop(turn: TurnRecorder) -> None:
        async with turn.answer() as answer:
            answer.text("and then")
            answer.hit_limit()

    assert reason_kinds(converse(loop)) == ["max-tokens"]


def test_what_is_recorded_at_the_wrong_time_is_refused() -> None:
    kept: list[tuple[TurnRecorder, AnswerRecorder]] = []

    async def loop(turn: TurnRecorder) -> None:
        async with turn.answer() as answer:
            answer.text("one")
            with pytest.raises(AgentError, match="open already"):
                await say(turn, "two")
        with pytest.raises(AgentError, match=r"no call .unheard-of."):
            await turn.call("unheard-of")
        with pytest.raises(AgentError, match="has ended"):
            answer.text("late")
        kept.append((turn, answer))

    async def during(agent: Agent) -> None:
        await agent.when_idle()
        with pytest.raises(AgentError, match="turn 1 has ended"):
            await say(kept[0][0], "much too late")

    assert answers(converse(loop, during)) == ["one"]


def test_an_answer_that_outlives_its_loop_is_cut_off() -> None:
    left: list[asyncio.Task[None]] = []

    async def loop(turn: TurnRecorder) -> None:
        async def forgotten() -> None:
            async with turn.answer() as answer:
                answer.text("half")
                await asyncio.sleep(5)

        left.append(asyncio.create_task(forgotten()))
        await passes()

    async def during(_: Agent) -> None:
        await asyncio.sleep(6)

    events = converse(loop, during)
    assert answers(events) == ["half…"]
    assert reasons(events)[0]["error"]["code"] == "EMPTY_ANSWER"
    assert left[0].done()


def test_a_reminder_that_another_loop_left_unanswered_is_taken_up() -> None:
    disk = MemoryDisk()

    async def create(turn: TurnRecorder) -> None:
        if turn.number > 1:
            await asyncio.sleep(3600)
        async with turn.answer() as answer:
            answer.call("a", "schedule_create", '{"prompt": "stretch", "after_seconds": 60}')
        await turn.call("a")
        await say(turn, "noted")

    async def present(turn: TurnRecorder) -> None:
        await say(turn, "stretch!")

    async def main(clock: SimulatedClock) -> None:
        for loop in (create, present):
            runner, plugins = Runner(loop), [schedule.plugin()]
            async with Host(storage=MemoryStorage(disk), model=runner, plugins=plugins, clock=clock) as host:
                agent = await host.agents.open("s")
                if loop is create:
                    agent.followup("remind me in a minute")
                await asyncio.sleep(100)

    run(main)
    events = disk.events("s")
    require_valid(events)
    assert reason_kinds(events) == ["completed", "aborted", "completed"]
    assert data(events, "watchbell/take-up")[0]["attempt"] == 1
    assert answers(events)[-1] == "stretch!"
