"""1. What Schedule is

Durable reminders for the agents of a program.
"""

from __future__ import annotations

import asyncio
import contextlib

from tests.contract.live import Live, living
from tests.contract.world import SESSION, World, create_row, later
from tests.program import results
from watchbell import Host
from watchbell.errors import PersistenceError
from watchbell.testing import SimulatedClock, call

CREATE = call("schedule_create", {"prompt": "p", "after_seconds": 600})
TOOLS = ["schedule_create", "schedule_delete", "schedule_list"]


@living
async def test_every_future_root_agent_gets_the_three_tools(at: Live) -> None:
    """Every root agent that begins to live while Schedule is loaded has the tools `schedule_create`,
    `schedule_list` and `schedule_delete`."""
    for agent in (await at.agents.create("one"), await at.agents.create("two")):
        assert [spec.name for spec in agent.tools.specs()] == TOOLS


@living(script=[CREATE, "done", call("schedule_list"), "done"])
async def test_the_tools_know_the_reminders_of_their_own_session_alone(at: Live) -> None:
    """The tools of an agent manage the reminders of that agent's session and of no other."""
    for agent in (await at.agents.create("one"), await at.agents.create("two")):
        agent.followup("go on")
        await agent.when_idle()
    ((_, text),) = results(agent.session.events)
    assert text == "[]"


def test_the_log_is_the_only_authority() -> None:
    """What the session's event log says about reminders is so, whoever wrote it, and nothing else is
    asked."""
    world = World(create_row("at", "an id of another program", prompt="from elsewhere"))
    assert [view["prompt"] for view in world.list()] == ["from elsewhere"]


def test_a_reminder_is_one_event_in_the_log_and_nothing_else_is_stored() -> None:
    """A confirmed reminder is one `schedule/change` event of its session; there is no second place that
    holds it."""
    world = World()
    world.create(after_seconds=600)
    assert [event.type for event in world.disk.events(SESSION)] == ["schedule/change"]
    assert list(world.disk.headers) == [SESSION]


def test_all_that_is_not_the_log_can_be_thrown_away() -> None:
    """Timers, tool values and follow-ups are made from the log: a program that dies with all of them loses
    nothing, and the next one rebuilds them by replay."""
    world = World()

    async def create_and_die(host: Host, _: SimulatedClock) -> None:
        agent = await host.agents.open(SESSION)
        agent.followup("remind me")
        await agent.when_idle()
        world.disk.crash()

    with contextlib.suppress(PersistenceError):  # a dead program cannot store its last events
        world.live(create_and_die, script=[CREATE, "ok"])
    assert [view["id"] for view in world.list()] == ["schedule-1"]
    assert len(world.live_for(700, start=later(60))) == 1


@living(log=[create_row("at")])
async def test_a_reminder_comes_on_time_while_its_session_is_live(at: Live) -> None:
    """While its session is live, a reminder comes at its time."""
    await asyncio.sleep(599)
    assert at.delivered == []
    await asyncio.sleep(2)
    assert at.delivered == ["schedule-1"]


def test_a_session_that_is_not_live_does_nothing() -> None:
    """Nothing happens by itself in a session that is not live, although its program runs and the target
    passes."""
    world = World(create_row("at"))

    async def body(host: Host, _: SimulatedClock) -> None:
        await host.agents.open("another")
        await asyncio.sleep(86_400)

    world.live(body)
    assert len(world.disk.events(SESSION)) == 1


def test_what_fell_due_meanwhile_is_overdue_and_comes_on_resumption() -> None:
    """What fell due while its session was not live is overdue, and is delivered when the session is
    resumed."""
    world = World(create_row("at", scheduledAt=later(600)))
    assert [view["state"] for view in world.list(clock=later(86_400))] == ["overdue"]
    assert len(world.live_for(2, start=later(86_400))) == 1
