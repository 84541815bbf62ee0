"""5. Delivery

One owner for each live root agent sees to it that what is due comes into the conversation.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.live import Live, living
from tests.contract.world import create_row, later
from tests.program import data, operations, passes, quiet, reason_kinds
from watchbell.errors import AgentBusyError
from watchbell.instants import render_instant
from watchbell.sessions.events import SessionHealed
from watchbell.testing import call, hang
from watchbell.tools.function import tool


@tool
async def work(seconds: int) -> None:
    """Work for a while."""
    await asyncio.sleep(seconds)


# --- waiting for the target ------------------------------------------------------------------------------


@living(
    log=[create_row("at", "elsewhere", scheduledAt=later(60)), create_row("every", scheduledAt=later(90))]
)
async def test_it_holds_nothing_that_replay_does_not_give(at: Live) -> None:
    """The owner holds no state of its own beyond what replay gives: what another one wrote to the log it
    delivers like its own."""
    await at.until(100)
    assert at.delivered == ["elsewhere", "schedule-1"]


@living
async def test_the_clock_wakes_it_at_the_earliest_target(at: Live) -> None:
    """It takes the earliest target and has the clock wake it then, whatever was created first."""
    for seconds in (300, 60, 180):
        await at.remind(seconds)
    await at.until(301)
    dispatched = [event.time for event in at.events if event.type == "schedule/change"][3:]
    assert [render_instant(ms) for ms in dispatched] == [later(60), later(180), later(300)]


@living
async def test_a_clock_set_back_never_fires_early(at: Live) -> None:
    """While anything is armed the clock rereads wall time at least every 500 ms: a clock that is set back
    never fires early."""
    await at.remind(600)
    at.clock.step(-1800)
    await at.until(2399)
    assert at.delivered == []
    await at.until(1)
    assert at.delivered == ["schedule-1"]


@living
async def test_a_clock_set_forward_makes_a_record_overdue(at: Live) -> None:
    """A clock that is set forward makes the record overdue, and it is delivered within that time."""
    await at.remind(3600)
    at.clock.step(86_400)
    await asyncio.sleep(0.5)
    await passes(40)
    assert at.delivered == ["schedule-1"]


@living
async def test_a_machine_that_slept_over_the_target_is_noticed(at: Live) -> None:
    """So does a machine that slept, whose timers stood still meanwhile."""
    await at.remind(3600)
    await asyncio.sleep(600)
    at.clock.freeze_monotonic(wall_seconds=10_200)
    await asyncio.sleep(0.5)
    await passes(40)
    assert at.delivered == ["schedule-1"]
    (message,) = data(at.events, "user/message")
    assert message["source"]["reminders"][0]["occurrenceAt"] == later(3600)


@pytest.mark.parametrize(
    "last", ["the target", "the machine running again", "the agent idle", "storage healthy"]
)
@living(script=[hang()])
async def test_it_is_decided_within_a_second(at: Live, last: str) -> None:
    """It is decided within 1 s of the latest of: the target, the machine running again, the agent idle, the
    storage healthy."""
    await at.remind(60)
    match last:
        case "the target":
            await asyncio.sleep(60)
        case "the machine running again":
            at.clock.freeze_monotonic(wall_seconds=600)
        case "the agent idle":
            at.agent.followup("go")
            await asyncio.sleep(600)
            at.agent.cancel()
        case _:
            at.program.store.fail_writes(None)
            at.agent.steer("by the way", wake=False)
            await asyncio.sleep(90)
            at.program.store.heal()
            healed = asyncio.Event()
            at.agent.ctx.on(SessionHealed, lambda _: healed.set())
            await healed.wait()
    assert operations(at.events) == ["create schedule-1"]
    await asyncio.sleep(1)
    assert operations(at.events) == ["create schedule-1", "dispatch schedule-1"]


# --- the barrier before it -------------------------------------------------------------------------------


@living
async def test_what_is_due_first_passes_a_barrier(at: Live) -> None:
    """When something is due, a barrier comes first, and nothing is decided before it holds."""
    await at.remind(60)
    at.gate.stop()
    await at.until(90)
    assert operations(at.events) == ["create schedule-1"]
    at.gate.open()
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@living
async def test_if_that_barrier_fails_the_record_stays_and_no_timer_tries_again(at: Live) -> None:
    """If that barrier fails the record stays active, and Schedule starts no timer of its own to try again."""
    await at.remind(60)
    at.gate.fail()
    asked = at.gate.asked
    await at.until(86_400)
    assert at.gate.asked == asked + 1
    assert operations(at.events) == ["create schedule-1"]
    assert [view["state"] for view in await at.list()] == ["overdue"]


@pytest.mark.parametrize("occasion", ["the agent is idle again", "a call's first barrier holds"])
@living
async def test_it_is_tried_again_on_the_next_occasion(at: Live, occasion: str) -> None:
    """It is tried again when the agent next becomes idle, and when the first barrier of a call holds."""
    await at.remind(60)
    at.gate.fail()
    await at.until(600)
    assert at.delivered == []
    if occasion == "the agent is idle again":
        at.agent.followup("hello")
    else:
        await at.list()
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@living
async def test_it_is_tried_again_when_the_storage_has_healed(at: Live) -> None:
    """And it is tried again when the storage reports that it has healed, `session/healed`."""
    await at.remind(60)
    at.program.store.fail_writes(None)
    at.agent.steer("by the way", wake=False)
    await at.until(600)
    at.program.store.heal()
    assert at.delivered == []
    await at.until(61)  # the storage's own pause
    assert at.delivered == ["schedule-1"]


# --- claiming the idle agent -----------------------------------------------------------------------------


@living(script=[hang()])
async def test_an_idle_agent_can_be_reserved_by_one_at_a_time(at: Live) -> None:
    """`reserve_turn_admission()` gives the idle agent to one at a time. It is None when a turn or another
    task owns the agent, or when input is queued for a turn."""
    with at.agent.reserve_turn_admission() or pytest.fail("it is idle"):
        assert at.agent.reserve_turn_admission() is None
    at.agent.followup("go")
    assert at.agent.reserve_turn_admission() is None
    await asyncio.sleep(1)
    assert at.agent.phase == "turn"
    assert at.agent.reserve_turn_admission() is None
    at.agent.cancel()


@living
async def test_input_that_comes_meanwhile_starts_a_turn_on_release(at: Live) -> None:
    """Input that wakes the agent while it is reserved is kept, and starts a turn on release."""
    with at.agent.reserve_turn_admission() or pytest.fail("it is idle"):
        at.agent.followup("hello")
        await asyncio.sleep(60)
        assert data(at.events, "turn/start") == []
    await quiet(at.agent)
    assert reason_kinds(at.events) == ["completed"]


@pytest.mark.parametrize("fails", [False, True])
@living
async def test_maintenance_runs_a_task_on_the_idle_agent_and_gives_it_back(at: Live, fails: bool) -> None:
    """`run_maintenance(task)` is built on it: it runs the task and releases the agent in any case."""

    async def task() -> str:
        assert at.agent.phase == "maintenance"
        return str(1 // (not fails))

    results = await asyncio.gather(at.agent.run_maintenance(task), return_exceptions=True)
    assert at.agent.phase == "idle"
    assert type(results[0]) is (ZeroDivisionError if fails else str)


@living(script=[hang()])
async def test_maintenance_of_a_busy_agent_is_refused_at_once(at: Live) -> None:
    """It raises `AgentBusyError` at once when it cannot reserve, and does not call the task."""
    at.agent.followup("go")
    with pytest.raises(AgentBusyError):
        await at.agent.run_maintenance(lambda: pytest.fail("called"))
    at.agent.cancel()


@pytest.mark.parametrize("busy", ["a turn", "maintenance", "queued input"])
@living(script=[hang()])
async def test_a_busy_agent_is_left_alone_until_it_is_idle(at: Live, busy: str) -> None:
    """An owner that finds the agent busy leaves, waits until it is idle and tries again."""
    await at.remind(60)
    reservation = at.agent.reserve_turn_admission() if busy != "a turn" else None
    if busy != "maintenance":
        at.agent.followup("go")
    await asyncio.sleep(600)
    assert operations(at.events) == ["create schedule-1"]
    if reservation is not None:
        reservation.release()
    await asyncio.sleep(1)
    at.agent.cancel()  # the turn that hangs: the person's, or the reminder's own
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@living(
    script=[[call("work", {"seconds": 300}), call("work", {"seconds": 30})], "worked", "sure", "rang"],
    tools=[work],
)
async def test_a_running_turn_is_never_interrupted_or_steered(at: Live) -> None:
    """Nothing ever interrupts or steers a running turn: each of its calls gets its result, and the reminder
    comes after it and after what the user had queued."""
    await at.remind(60)
    at.agent.followup("go")
    await asyncio.sleep(120)
    at.agent.followup("and then?")
    await quiet(at.agent)
    assert reason_kinds(at.events) == ["completed"] * 3
    said = [message.text for message in at.agent.transcript() if message.text]
    assert said[:4] == ["go", "worked", "and then?", "sure"]
    assert said[4].startswith("[SCHEDULE REMINDER]\n")
    assert said[5] == "rang"
