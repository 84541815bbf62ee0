"""4. The tools: order of work, appending and cancelling

What a transaction does between its barriers, and what becomes of one that nobody wants any more.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.live import Live, living
from tests.program import operations, passes
from watchbell.reminders.arguments import Limits, decode_create
from watchbell.schedule.transactions import Transactions
from watchbell.sessions.session import Session
from watchbell.testing import SimulatedClock
from watchbell.tools.definition import AbortSignal, ToolExecution
from watchbell.zones import ZoneTable

CANCELLED = "The call was cancelled."


# --- creating and deleting -------------------------------------------------------------------------------


class CountedClock(SimulatedClock):
    """A clock that notes what it was asked in which state of the log."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.readings: list[int] = []

    def now_ms(self) -> int:
        self.readings.append(len(self.session.events))
        return super().now_ms()


@living(with_schedule=False)
async def test_create_samples_the_clock_once_after_the_first_barrier(at: Live) -> None:
    """A create reads the clock once between its first barrier and its append: what has to be in the future,
    and the target, are counted from that one instant. Another reading, after the last barrier, is for the
    view."""
    request = decode_create('{"prompt":"p","after_seconds":600}', ZoneTable(), Limits())
    counted = CountedClock(at.agent.session)
    transactions = Transactions(at.agent.session, at.program.host.sessions, counted, Limits())
    at.gate.stop()
    call = asyncio.create_task(transactions.create(request, AbortSignal()))
    await at.gate.reached()
    await asyncio.sleep(60)
    assert counted.readings == []
    at.gate.open()
    view: Any = await call
    assert counted.readings == [0, 1]
    assert view.scheduled_at == "2026-12-01T00:11:00.000Z"


@living
async def test_create_counts_from_the_instant_of_its_append(at: Live) -> None:
    """Time that a create spends in the queue and at its first barrier is not taken off its delay."""
    at.gate.stop()
    call = at.create()
    await asyncio.sleep(60)
    at.gate.open()
    assert (await call)["scheduledAt"] == "2026-12-01T00:11:00.000Z"
    assert at.events[0].time == at.clock.now_ms()


@living
async def test_create_takes_its_id_from_the_log_as_it_stands_in_its_turn(at: Live) -> None:
    """A create folds the log and takes its id when its turn has come, so that creates side by side get ids of
    their own."""
    views = await asyncio.gather(*(at.create() for _ in range(3)))
    assert [view["id"] for view in views] == ["schedule-1", "schedule-2", "schedule-3"]


@living
async def test_delete_appends_only_for_an_active_id(at: Live) -> None:
    """A delete folds the log and appends only for an id that is active then."""
    await at.remind()
    calls = [at.begin("delete", id="schedule-1") for _ in range(2)]
    assert [value["deleted"] for value in await asyncio.gather(*calls)] == [True, False]
    assert not (await at.begin("delete", id="schedule-9"))["deleted"]
    assert operations(at.events) == ["create schedule-1", "delete schedule-1"]


@pytest.mark.parametrize("name", ["create", "delete"])
@living
async def test_success_is_told_after_the_last_barrier(at: Live, name: str) -> None:
    """Both answer only after a barrier behind their append."""
    await at.remind()
    held = at.program.store.hold_writes()
    call = at.create() if name == "create" else at.begin("delete", id="schedule-1")
    await held.reached()
    await asyncio.sleep(60)
    assert not call.done()
    held.release()
    await call
    assert operations(at.program.disk.events("s"))[1].startswith(name)


# --- cancelling ------------------------------------------------------------------------------------------


@living
async def test_a_queued_call_leaves_the_queue_at_once(at: Live) -> None:
    """A call that is cancelled while it is queued leaves at once, and keeps nobody behind it waiting."""
    at.gate.stop()
    first, signal = at.create("first"), AbortSignal()
    await at.gate.reached()
    second, third = at.create("second", signal), at.create("third")
    await passes()
    signal.abort()
    assert await second == CANCELLED
    assert not first.done()
    at.gate.open()
    assert [(await call)["prompt"] for call in (first, third)] == ["first", "third"]
    assert operations(at.events) == ["create schedule-1", "create schedule-2"]


@pytest.mark.parametrize("name", ["create", "delete"])
@living
async def test_cancelling_is_looked_at_again_right_before_the_append(at: Live, name: str) -> None:
    """Whether a call is still wanted is asked once more right before its append: one that is cancelled at its
    first barrier appends nothing."""
    await at.remind()
    at.gate.stop()
    signal = AbortSignal()
    call = at.create("x", signal) if name == "create" else at.begin("delete", signal, id="schedule-1")
    await at.gate.reached()
    signal.abort()
    assert await call == CANCELLED
    at.gate.open()
    assert len(await at.list()) == 1
    assert operations(at.events) == ["create schedule-1"]


@living
async def test_a_cancelled_call_gets_the_generic_result(at: Live) -> None:
    """A cancelled call gets the registry's own result for such, which is none of the ten codes."""
    signal = AbortSignal()
    signal.abort()
    execution = ToolExecution(at.agent, "c", signal)
    outcome = await at.agent.tools.execute("schedule_list", "{}", execution)
    assert (outcome.value, outcome.is_error) == (CANCELLED, True)
    assert outcome.error == {"name": "ToolAbortedError", "code": "TOOL_ABORTED"}


@pytest.mark.parametrize("how", ["the signal", "the caller's task", "disposal"])
@living
async def test_what_is_appended_runs_to_its_barrier(at: Live, how: str) -> None:
    """Once appended, a transaction runs to its last barrier in a task of its own, whatever happens to its
    caller; the next one waits for it."""
    at.gate.stop(2)
    signal = AbortSignal()
    call = at.create("kept", signal)
    await at.gate.reached()
    disposal = asyncio.create_task(at.agent.aclose() if how == "disposal" else asyncio.sleep(0))
    if how == "the signal":
        signal.abort()
    elif how == "the caller's task":
        call.cancel()
    await passes()
    listing = None if how == "disposal" else at.begin("list")
    await asyncio.sleep(0 if listing is None else 60)
    assert not (listing or disposal).done()
    assert listing is None or call.done()
    at.gate.open()
    await disposal
    await asyncio.wait([call])
    assert operations(at.program.disk.events("s")) == ["create schedule-1"]
    if listing is not None:
        assert [view["prompt"] for view in await listing] == ["kept"]


@living
async def test_only_its_own_agent_may_run_a_tool(at: Live) -> None:
    """A tool that any agent but its own runs is `internal_error`, and nothing happens."""
    other = await at.program.host.agents.create("other")
    found = at.agent.tools.find("schedule_create")
    assert found is not None
    execution = ToolExecution(other, "c", AbortSignal())
    value: Any = await found.run(execution, '{"prompt":"p","after_seconds":60}')
    assert operations(at.events) == operations(other.session.events) == []
    assert value["code"] == "internal_error"
