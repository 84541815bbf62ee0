"""A turn that a crash left open is closed so that every reader finds a whole one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.program import Program, cites, data, require_valid, run
from watchbell.agent.inbox import Inbox
from watchbell.agent.opening import plan_opening
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.log.turns import close_open_turn, last_turn
from watchbell.sessions.session import Session
from watchbell.testing import SimulatedClock, call, say, think
from watchbell.tools.function import tool


@tool
async def slow(seconds: int) -> int:
    """Take some time."""
    await asyncio.sleep(seconds)
    return seconds


@pytest.fixture(scope="module")
def sample() -> list[Event]:
    """Two turns; the first has two steps, and two calls side by side in one of them."""

    async def main(clock: SimulatedClock) -> list[Event]:
        calls = [think("hm"), say("wait"), call("slow", {"seconds": 2}), call("slow", {"seconds": 1})]
        program = Program(clock, [calls, "done", "bye"], tools=[slow])
        async with program:
            agent = await program.host.agents.create("s")
            agent.followup("go")
            agent.followup("thanks")
            await agent.when_idle()
        return program.disk.events("s")

    return run(main)


def closed(events: list[Event]) -> tuple[EventLog, list[Event]]:
    """Return a log as it is after its opening, and what that appended."""
    session = Session(
        SessionHeader(id="s", created_at=0, delegation_depth=0), EventLog(events), now_ms=lambda: 9_999
    )
    session.append_batch(plan_opening(session, Inbox()))
    return session.events, session.events[len(events) :]


def test_a_log_cut_anywhere_is_valid_once_opened(sample: list[Event]) -> None:
    for length in range(len(sample) + 1):
        log, appended = closed(sample[:length])
        require_valid(list(log))
        inside = len(data(sample[:length], "turn/start")) > len(data(sample[:length], "turn/end"))
        assert bool(appended) == inside
        assert close_open_turn(log) == []


def test_opening_what_was_opened_changes_nothing(sample: list[Event]) -> None:
    for length in range(len(sample) + 1):
        log, _ = closed(sample[:length])
        assert closed(list(log))[1] == []


def test_the_repair_itself_can_be_cut_anywhere(sample: list[Event]) -> None:
    for length in range(len(sample)):
        log, appended = closed(sample[:length])
        for kept in range(len(appended)):
            again, _ = closed(list(log)[: length + kept])
            require_valid(list(again))


def test_what_closes_a_turn_has_the_time_of_its_last_event(sample: list[Event]) -> None:
    length = next(event.seq for event in sample if event.type == "tool/result")
    _, appended = closed(sample[:length])
    closers = [event for event in appended if event.type != "session/end-seed"]
    assert [event.type for event in closers] == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert {event.time for event in closers} == {sample[length - 1].time}
    assert closers[-1].data == {"turn": 1, "reason": {"kind": "interrupted"}}


def test_a_call_that_was_not_started_is_told_from_one_that_was(sample: list[Event]) -> None:
    first = next(event.seq for event in sample if event.type == "tool/call")
    _, appended = closed(sample[: first + 1])
    started, unstarted = (event for event in appended if event.type == "tool/result")
    assert cites(started) == [first]
    assert unstarted.source_event_seqs is msgspec.UNSET
    assert started.data["error"] == {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
    assert unstarted.data["error"] == {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    for event, call_id in ((started, "call-1"), (unstarted, "call-2")):
        message: dict[str, Any] = event.data["message"]
        assert (message["role"], message["source"]) == ("user", {"kind": "tool", "callId": call_id})
        (block,) = message["content"]
        assert (block["toolCallId"], block["isError"]) == (call_id, True)
        assert (event.data["turn"], event.data["step"]) == (1, 1)


def test_a_call_that_has_its_result_gets_no_second_one(sample: list[Event]) -> None:
    first = next(event.seq for event in sample if event.type == "tool/result")
    _, appended = closed(sample[: first + 1])
    results = [event.data["message"]["source"]["callId"] for event in appended if event.type == "tool/result"]
    assert results == ["call-2"]


def test_the_last_turn_is_found_from_the_end(sample: list[Event]) -> None:
    starts = [event.seq for event in sample if event.type == "turn/start"]
    ends = [event.seq for event in sample if event.type == "turn/end"]
    assert last_turn(EventLog(sample)) == (starts[1], ends[1])
    assert last_turn(EventLog(sample[: ends[1]])) == (starts[1], None)
    assert last_turn(EventLog(sample[: starts[1]])) == (starts[0], ends[0])
    assert last_turn(EventLog()) is None
