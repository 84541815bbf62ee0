"""4. The tools: order of work

What is right in shape goes on as a transaction, from a first barrier to a last one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.live import Gate, Live, live
from tests.program import Program, operations, passes, quiet, run
from watchbell.clock import Clock
from watchbell.log.session import Session, SessionHeader
from watchbell.schedule.rules import CreateRequest, Limits, decode_create
from watchbell.schedule.transactions import Transactions
from watchbell.testing import SimulatedClock, call
from watchbell.tools.definition import AbortSignal, ToolExecution
from watchbell.tools.function import tool
from watchbell.zones import ZoneTable

CANCELLED = "The call was cancelled."
UNCERTAIN = "persistence_uncertain"


@tool
async def work(seconds: int) -> None:
    """Work for a while."""
    await asyncio.sleep(seconds)


def request() -> CreateRequest:
    return decode_create('{"prompt":"p","after_seconds":600}', ZoneTable(), Limits())


# --- one after the other ---------------------------------------------------------------------------------


@pytest.mark.parametrize("barrier", [1, 2])
def test_no_two_transactions_of_an_agent_interleave(barrier: int) -> None:
    """The transactions of an agent run one after the other, each from its first barrier to its last: while one
    stands at either, no other one reads, decides or appends anything."""

    async def body(at: Live) -> None:
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

    live(body)


def test_they_run_in_the_order_in_which_they_came() -> None:
    """First come, first served, whichever tool it is."""

    async def body(at: Live) -> list[str]:
        ended: list[str] = []
        at.gate.stop()
        for name in ("a", "b", "c", "d"):
            call = at.begin("list") if name in "bd" else at.create(name)
            call.add_done_callback(lambda _, name=name: ended.append(name))
        await at.gate.reached()
        at.gate.open()
        await at.until(1)
        return ended

    assert live(body) == ["a", "b", "c", "d"]


def test_agents_do_not_wait_for_each_other() -> None:
    """Each agent has a queue of its own."""

    async def body(at: Live) -> None:
        other = Live(at.clock, at.program, await at.program.host.agents.create("other"))
        held = at.program.store.hold_writes()
        first = at.create()
        await held.reached()
        assert await other.list() == []
        held.release()
        await first

    live(body)


@pytest.mark.parametrize("barrier", [1, 2])
def test_a_due_delivery_waits_for_the_call_that_runs(barrier: int) -> None:
    """Due delivery stands in the same queue: it waits for a call that runs."""

    async def body(at: Live) -> None:
        await at.remind(60)
        at.gate.stop(barrier)
        call = at.create()
        await at.until(120)
        assert at.delivered == []
        at.gate.open()
        await call
        await quiet(at.agent)
        assert at.delivered == ["schedule-1"]

    live(body)


@pytest.mark.parametrize("barrier", [1, 2])
def test_a_call_waits_for_the_delivery_that_runs(barrier: int) -> None:
    """And a call waits for a delivery that runs, at whichever barrier that stands."""

    async def body(at: Live) -> None:
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

    live(body)


def test_nothing_in_the_queue_waits_for_the_agent_to_become_idle() -> None:
    """Nothing in the queue waits for the agent to become idle: an owner that finds it busy leaves the queue, so
    that a call of the running turn gets its answer while a reminder is due."""
    script = [[call("work", {"seconds": 120})], [call("schedule_list")], [call("work", {"seconds": 60})], "done"]

    async def body(at: Live) -> None:
        await at.remind(60)
        at.agent.followup("go")
        await asyncio.sleep(121)
        assert at.agent.phase == "turn"
        assert at.program.model.requests[-1].messages[-1].content[0].content[0].text.startswith('[{"id":"schedule-1"')
        await at.until(60)
        assert at.delivered == ["schedule-1"]

    live(body, script, tools=[work])


def test_a_durable_change_only_asks_the_owner() -> None:
    """A durable change only asks the owner to look again: nothing is delivered inside the transaction that
    announces it, nor before those that came earlier."""

    async def body(at: Live) -> None:
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

    live(body)


# --- the first barrier -----------------------------------------------------------------------------------


def test_each_call_begins_with_a_barrier() -> None:
    """Each call first has everything made durable that is in the log."""

    async def body(at: Live) -> None:
        at.agent.inject("by the way")
        assert len(at.program.disk.headers) == 0
        assert await at.list() == []
        assert [event.type for event in at.program.disk.events("s")] == ["agent/inbox/spliced"]

    live(body)


def test_a_barrier_that_nobody_acknowledges_is_none() -> None:
    """If no durability listener acknowledged, the answer is `persistence_uncertain`."""

    async def main(clock: SimulatedClock) -> Any:
        async with Program(clock) as program:
            session = Session(SessionHeader(id="nobody's", created_at=0, delegation_depth=0), now_ms=clock.now_ms)
            transactions = Transactions(session, program.host.sessions, clock, Limits())
            return [
                await transactions.create(request(), AbortSignal()),
                await transactions.list(AbortSignal()),
                await transactions.delete("a", AbortSignal()),
            ]

    assert [value["code"] for value in run(main)] == [UNCERTAIN] * 3


def test_a_barrier_of_which_one_listener_fails_is_none() -> None:
    """If one listener failed it is `persistence_uncertain` too, although another one acknowledged."""

    async def body(at: Live) -> list[Any]:
        acknowledged = Gate(at.program)
        at.gate.fail(None)
        values = [await at.remind(), await at.list()]
        assert acknowledged.asked == 2
        return values

    assert [value["code"] for value in live(body)] == [UNCERTAIN] * 2


def test_what_is_not_confirmed_is_never_told() -> None:
    """What is in the log but not confirmed is never turned into a list, into "not found" or into a success."""

    async def body(at: Live) -> None:
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

    live(body)


def test_the_id_is_told_when_the_append_was_made() -> None:
    """When the append was made and its barrier failed, the id is told; a create that did not come to its append
    has none."""

    async def body(at: Live) -> list[Any]:
        at.gate.fail(2)
        after = await at.remind()
        at.gate.fail(1)
        return [after.get("id"), (await at.remind()).get("id"), operations(at.events)]

    assert live(body) == ["schedule-1", None, ["create schedule-1"]]


# --- what a durable change sets off ----------------------------------------------------------------------


def test_the_owner_is_asked_after_each_barrier_that_held() -> None:
    """After every first barrier that held, and again after every last one, the owner is asked to look again;
    after one that failed it is not."""

    async def main(clock: SimulatedClock) -> list[int]:
        async with Program(clock) as program:
            gate = Gate(program)
            session = await program.host.sessions.create("s")
            transactions = Transactions(session, program.host.sessions, clock, Limits())
            asked: list[int] = []
            transactions.on_durable_change = lambda: asked.append(gate.asked)
            await transactions.create(request(), AbortSignal())
            await transactions.list(AbortSignal())
            gate.fail(2)
            await transactions.delete("schedule-1", AbortSignal())
            gate.fail(1)
            await transactions.list(AbortSignal())
            return asked

    assert run(main) == [1, 2, 3, 4]


def test_an_uncertain_create_is_armed_by_the_next_list_that_succeeds() -> None:
    """So a reminder whose create answered `persistence_uncertain` is armed by the next list that succeeds, and
    by none that does not."""

    async def body(at: Live) -> None:
        at.gate.fail(2)
        assert (await at.remind(600))["code"] == UNCERTAIN
        at.gate.fail(1)
        assert (await at.list())["code"] == UNCERTAIN
        await at.until(10)
        assert len(await at.list()) == 1
        await at.until(600)
        assert at.delivered == ["schedule-1"]

    live(body)


def test_an_observer_that_raises_undoes_nothing() -> None:
    """An observer that raises does not undo a barrier that held: the call succeeds."""

    async def main(clock: SimulatedClock) -> Any:
        async with Program(clock) as program:
            session = await program.host.sessions.create("s")
            transactions = Transactions(session, program.host.sessions, clock, Limits())

            def fail() -> None:
                raise RuntimeError("no business of the caller's")

            transactions.on_durable_change = fail
            return await transactions.create(request(), AbortSignal())

    assert run(main, logs_errors=True)["id"] == "schedule-1"


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


def test_create_samples_the_clock_once_after_the_first_barrier() -> None:
    """A create reads the clock once between its first barrier and its append: what has to be in the future, and
    the target, are counted from that one instant. Another reading, after the last barrier, is for the view."""

    async def main(clock: SimulatedClock) -> tuple[list[int], Any]:
        async with Program(clock) as program:
            gate = Gate(program)
            session = await program.host.sessions.create("s")
            counted: Clock = CountedClock(session)
            transactions = Transactions(session, program.host.sessions, counted, Limits())
            gate.stop()
            call = asyncio.create_task(transactions.create(request(), AbortSignal()))
            await gate.reached()
            await asyncio.sleep(60)
            assert counted.readings == []
            gate.open()
            return counted.readings, await call

    readings, view = run(main)
    assert readings == [0, 1]
    assert view["scheduledAt"] == "2026-12-01T00:10:00.000Z"  # this clock began to run when it was first read


def test_create_counts_from_the_instant_of_its_append() -> None:
    """Time that a create spends in the queue and at its first barrier is not taken off its delay."""

    async def body(at: Live) -> Any:
        at.gate.stop()
        call = at.create()
        await asyncio.sleep(60)
        at.gate.open()
        return (await call)["scheduledAt"], at.events[0].time - at.clock.now_ms()

    assert live(body) == ("2026-12-01T00:11:00.000Z", 0)


def test_create_takes_its_id_from_the_log_as_it_stands_in_its_turn() -> None:
    """A create folds the log and takes its id when its turn has come, so that creates side by side get ids of
    their own."""

    async def body(at: Live) -> list[Any]:
        return [view["id"] for view in await asyncio.gather(*(at.create() for _ in range(3)))]

    assert live(body) == ["schedule-1", "schedule-2", "schedule-3"]


def test_delete_appends_only_for_an_active_id() -> None:
    """A delete folds the log and appends only for an id that is active then."""

    async def body(at: Live) -> None:
        await at.remind()
        calls = [at.begin("delete", id="schedule-1") for _ in range(2)]
        assert [value["deleted"] for value in await asyncio.gather(*calls)] == [True, False]
        assert not (await at.begin("delete", id="schedule-9"))["deleted"]
        assert operations(at.events) == ["create schedule-1", "delete schedule-1"]

    live(body)


@pytest.mark.parametrize("name", ["create", "delete"])
def test_success_is_told_after_the_last_barrier(name: str) -> None:
    """Both answer only after a barrier behind their append."""

    async def body(at: Live) -> None:
        await at.remind()
        held = at.program.store.hold_writes()
        call = at.create() if name == "create" else at.begin("delete", id="schedule-1")
        await held.reached()
        await asyncio.sleep(60)
        assert not call.done()
        held.release()
        await call
        assert operations(at.program.disk.events("s"))[1].startswith(name)

    live(body)


# --- cancelling ------------------------------------------------------------------------------------------


def test_a_queued_call_leaves_the_queue_at_once() -> None:
    """A call that is cancelled while it is queued leaves at once, and keeps nobody behind it waiting."""

    async def body(at: Live) -> None:
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

    live(body)


@pytest.mark.parametrize("name", ["create", "delete"])
def test_cancelling_is_looked_at_again_right_before_the_append(name: str) -> None:
    """Whether a call is still wanted is asked once more right before its append: one that is cancelled at its
    first barrier appends nothing."""

    async def body(at: Live) -> None:
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

    live(body)


def test_a_cancelled_call_gets_the_generic_result() -> None:
    """A cancelled call gets the registry's own result for such, which is none of the ten codes."""

    async def body(at: Live) -> Any:
        signal = AbortSignal()
        signal.abort()
        execution = ToolExecution(at.agent, "c", signal)
        outcome = await at.agent.tools.execute("schedule_list", "{}", execution)
        return outcome.value, outcome.is_error, outcome.error

    assert live(body) == (CANCELLED, True, {"name": "ToolAbortedError", "code": "TOOL_ABORTED"})


@pytest.mark.parametrize("how", ["the signal", "the caller's task", "disposal"])
def test_what_is_appended_runs_to_its_barrier(how: str) -> None:
    """Once appended, a transaction runs to its last barrier in a task of its own, whatever happens to its
    caller; the next one waits for it."""

    async def body(at: Live) -> None:
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
        if how == "disposal":
            assert not disposal.done()
        else:
            listing = at.begin("list")
            await asyncio.sleep(60)
            assert call.done()
            assert not listing.done()
        at.gate.open()
        await disposal
        await asyncio.wait([call])
        assert operations(at.program.disk.events("s")) == ["create schedule-1"]
        if how != "disposal":
            assert [view["prompt"] for view in await listing] == ["kept"]

    live(body)


def test_only_its_own_agent_may_run_a_tool() -> None:
    """A tool that any agent but its own runs is `internal_error`, and nothing happens."""

    async def body(at: Live) -> Any:
        other = await at.program.host.agents.create("other")
        found = at.agent.tools.find("schedule_create")
        assert found is not None
        execution = ToolExecution(other, "c", AbortSignal())
        value = await found.run(execution, '{"prompt":"p","after_seconds":60}')
        assert operations(at.events) == operations(other.session.events) == []
        return value["code"]

    assert live(body) == "internal_error"
