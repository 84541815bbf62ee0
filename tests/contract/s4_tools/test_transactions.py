"""4. The tools: order of work

What is right in shape goes on as a transaction, from a first barrier to a last one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.live import Gate, Live, living
from tests.program import operations, quiet, results
from watchbell.log.header import SessionHeader
from watchbell.reminders.arguments import Limits, decode_create
from watchbell.reminders.times import CreateRequest
from watchbell.schedule.transactions import Transactions
from watchbell.sessions.session import Session
from watchbell.testing import call
from watchbell.tools.definition import AbortSignal
from watchbell.tools.function import tool
from watchbell.zones import ZoneTable

UNCERTAIN = "persistence_uncertain"


@tool
async def work(seconds: int) -> None:
    """Work for a while."""
    await asyncio.sleep(seconds)


def request() -> CreateRequest:
    return decode_create('{"prompt":"p","after_seconds":600}', ZoneTable(), Limits())


def transactions_of(at: Live, session: Session | None = None) -> Transactions:
    return Transactions(session or at.agent.session, at.program.host.sessions, at.clock, Limits())


# --- one after the other ---------------------------------------------------------------------------------


@pytest.mark.parametrize("barrier", [1, 2])
@living
async def test_no_two_transactions_of_an_agent_interleave(at: Live, barrier: int) -> None:
    """The transactions of an agent run one after the other, each from its first barrier to its last: while
    one stands at either, no other one reads, decides or appends anything."""
    at.gate.stop(barrier)
    calls = [at.create("first"), at.create("second"), at.begin("list"), at.begin("delete", id="schedule-2")]
    await at.gate.reached()
    await asyncio.sleep(60)
    assert at.gate.asked == barrier
    assert operations(at.events) == ["create schedule-1"][: barrier - 1]
    assert not any(call.done() for call in calls)
    at.gate.open()
    values = await asyncio.gather(*calls)
    assert [view["id"] for view in values[2]] == ["schedule-1", "schedule-2"]
    assert operations(at.events) == ["create schedule-1", "create schedule-2", "delete schedule-2"]


@living
async def test_they_run_in_the_order_in_which_they_came(at: Live) -> None:
    """First come, first served, whichever tool it is."""
    ended: list[str] = []
    at.gate.stop()
    for name in ("a", "b", "c", "d"):
        call = at.begin("list") if name in "bd" else at.create(name)
        call.add_done_callback(lambda _, name=name: ended.append(name))
    await at.gate.reached()
    at.gate.open()
    await at.until(1)
    assert ended == ["a", "b", "c", "d"]


@living
async def test_agents_do_not_wait_for_each_other(at: Live) -> None:
    """Each agent has a queue of its own."""
    other = Live(at.clock, at.program, await at.program.host.agents.create("other"))
    held = at.program.store.hold_writes()
    first = at.create()
    await held.reached()
    assert await other.list() == []
    held.release()
    await first


@pytest.mark.parametrize("barrier", [1, 2])
@living
async def test_a_due_delivery_waits_for_the_call_that_runs(at: Live, barrier: int) -> None:
    """Due delivery stands in the same queue: it waits for a call that runs."""
    await at.remind(60)
    at.gate.stop(barrier)
    call = at.create()
    await asyncio.sleep(120)
    assert at.delivered == []
    at.gate.open()
    await call
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@pytest.mark.parametrize("barrier", [1, 2])
@living
async def test_a_call_waits_for_the_delivery_that_runs(at: Live, barrier: int) -> None:
    """And a call waits for a delivery that runs, at whichever barrier that stands."""
    await at.remind(60)
    at.gate.stop(barrier)
    await at.gate.reached()
    asked = at.gate.asked
    call = at.begin("list")
    await asyncio.sleep(60)
    assert not call.done()
    assert at.gate.asked - asked <= (barrier == 2)  # the turn's own barrier, once it is decided
    at.gate.open()
    assert await call == []


@living(
    script=[call("work", {"seconds": 120}), call("schedule_list"), call("work", {"seconds": 60}), "done"],
    tools=[work],
)
async def test_nothing_in_the_queue_waits_for_the_agent_to_become_idle(at: Live) -> None:
    """Nothing in the queue waits for the agent to become idle: an owner that finds it busy leaves the queue,
    so that a call of the running turn gets its answer while a reminder is due."""
    await at.remind(60)
    at.agent.followup("go")
    await asyncio.sleep(121)
    assert at.agent.phase == "turn"
    assert results(at.events)[-1][1].startswith('[{"id":"schedule-1"')
    await at.until(60)
    assert at.delivered == ["schedule-1"]


@living
async def test_a_durable_change_only_asks_the_owner(at: Live) -> None:
    """A durable change only asks the owner to look again: nothing is delivered inside the transaction that
    announces it, nor before those that came earlier."""
    await at.remind(60)
    at.gate.fail()
    await asyncio.sleep(90)
    at.gate.stop()
    first, second = at.begin("list"), at.begin("list")
    await at.gate.reached()
    at.gate.open()
    assert [view["state"] for view in await first] == ["overdue"]
    assert [view["state"] for view in await second] == ["overdue"]
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


# --- the first barrier -----------------------------------------------------------------------------------


@living
async def test_each_call_begins_with_a_barrier(at: Live) -> None:
    """Each call first has everything made durable that is in the log."""
    at.agent.steer("by the way", wake=False)
    assert len(at.program.disk.headers) == 0
    assert await at.list() == []
    assert [event.type for event in at.program.disk.events("s")] == ["agent/inbox/spliced"]


@living(with_schedule=False)
async def test_a_barrier_that_nobody_acknowledges_is_none(at: Live) -> None:
    """If no durability listener acknowledged, the answer is `persistence_uncertain`."""
    at.gate.withdraw()
    header = SessionHeader(id="nobody's", created_at=0, delegation_depth=0)
    transactions = transactions_of(at, Session(header, now_ms=at.clock.now_ms))
    values: list[Any] = [
        await transactions.create(request(), AbortSignal()),
        await transactions.list(AbortSignal()),
        await transactions.delete("a", AbortSignal()),
    ]
    assert [value.code for value in values] == [UNCERTAIN] * 3


@living
async def test_a_barrier_of_which_one_listener_fails_is_none(at: Live) -> None:
    """If one listener failed it is `persistence_uncertain` too, although another one acknowledged."""
    acknowledged = Gate(at.program)
    at.gate.fail(None)
    values = [await at.remind(), await at.list()]
    assert acknowledged.asked == 2
    assert [value["code"] for value in values] == [UNCERTAIN] * 2


@living
async def test_what_is_not_confirmed_is_never_told(at: Live) -> None:
    """What is in the log but not confirmed is never turned into a list, into "not found" or into a
    success."""
    await at.remind()
    at.program.store.fail_writes(None)
    assert (await at.begin("delete", id="schedule-1"))["code"] == UNCERTAIN
    assert (await at.list())["code"] == UNCERTAIN
    assert (await at.begin("delete", id="schedule-1"))["code"] == UNCERTAIN
    assert (await at.begin("delete", id="nobody"))["code"] == UNCERTAIN
    assert (await at.remind())["code"] == UNCERTAIN
    assert operations(at.events) == ["create schedule-1", "delete schedule-1"]
    at.program.store.heal()
    assert await at.list() == []


@living
async def test_the_id_is_told_when_the_append_was_made(at: Live) -> None:
    """When the append was made and its barrier failed, the id is told; a create that did not come to its
    append has none."""
    at.gate.fail(2)
    after = await at.remind()
    at.gate.fail(1)
    assert after["id"] == "schedule-1"
    assert "id" not in await at.remind()
    assert operations(at.events) == ["create schedule-1"]


# --- what a durable change sets off ----------------------------------------------------------------------


@living(with_schedule=False)
async def test_the_owner_is_asked_after_each_barrier_that_held(at: Live) -> None:
    """After every first barrier that held, and again after every last one, the owner is asked to look again;
    after one that failed it is not."""
    transactions = transactions_of(at)
    asked: list[int] = []
    transactions.on_durable_change = lambda: asked.append(at.gate.asked)
    await transactions.create(request(), AbortSignal())
    await transactions.list(AbortSignal())
    at.gate.fail(2)
    await transactions.delete("schedule-1", AbortSignal())
    at.gate.fail(1)
    await transactions.list(AbortSignal())
    assert asked == [1, 2, 3, 4]


@living
async def test_an_uncertain_create_is_armed_by_the_next_list_that_succeeds(at: Live) -> None:
    """So a reminder whose create answered `persistence_uncertain` is armed by the next list that succeeds,
    and by none that does not."""
    at.gate.fail(2)
    assert (await at.remind(600))["code"] == UNCERTAIN
    at.gate.fail(1)
    assert (await at.list())["code"] == UNCERTAIN
    await at.until(10)
    assert len(await at.list()) == 1
    await at.until(600)
    assert at.delivered == ["schedule-1"]


@living(with_schedule=False, logs_errors=True)
async def test_an_observer_that_raises_undoes_nothing(at: Live) -> None:
    """An observer that raises does not undo a barrier that held: the call succeeds."""

    def fail() -> None:
        raise RuntimeError("no business of the caller's")

    transactions = transactions_of(at)
    transactions.on_durable_change = fail
    view: Any = await transactions.create(request(), AbortSignal())
    assert view.id == "schedule-1"
