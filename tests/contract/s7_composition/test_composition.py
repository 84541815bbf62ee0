"""7. Composition and invariants

How Schedule comes into a program, and what keeps bad history out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.live import Live, live, living
from tests.contract.world import create_row, delete_row, dispatch_row, later
from tests.program import ask, operations, passes, quiet, texts
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.context import Context
from watchbell.errors import CompositionError, ScheduleLogError
from watchbell.log.event import Draft
from watchbell.tools.function import tool

NAMES = ["schedule_create", "schedule_delete", "schedule_list"]
SERVICES = ["sessions", "agents", "tools", "session_persistence"]


@tool
async def schedule_list() -> str:
    """List the trains."""
    return "no trains"


def names(agent: Agent) -> list[str]:
    return [tool.name for tool in agent.tools.tools()]


def change(row: dict[str, Any]) -> Draft:
    return Draft("schedule/change", row)


# --- the plugin ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", SERVICES)
@living(with_schedule=False)
async def test_a_missing_service_is_named_when_it_loads(at: Live, missing: str) -> None:
    """The plugin requires `sessions`, `agents`, `tools` and `session_persistence`; if one is missing, loading
    it raises `CompositionError`, which names it."""
    async with Context() as ctx:
        for name in SERVICES:
            if name != missing:
                ctx.provide(name, object())
        with pytest.raises(CompositionError, match=f"'schedule' requires {missing},"):
            await ctx.load(schedule.plugin())


@living(with_schedule=False)
async def test_it_adopts_no_agent_that_lives_already(at: Live) -> None:
    """It sees only the agents that are announced after it has loaded; it adopts none that lives already."""
    await at.program.host.ctx.load(schedule.plugin())
    assert (names(at.agent), names(await at.agents.create("after"))) == ([], NAMES)


@living
async def test_it_gives_nothing_to_child_agents(at: Live) -> None:
    """It gives nothing to child agents: they have no tools of it and no owner."""
    child = await at.program.host.agents.create_child(at.agent, "child")
    assert (names(at.agent), names(child)) == (NAMES, [])
    child.session.append_batch([change(create_row("at", scheduledAt=later(60)))])
    child.followup("hello")
    await quiet(child)
    await asyncio.sleep(600)
    assert operations(child.session.events) == ["create schedule-1"]
    assert operations(at.program.disk.events("child")) == ["create schedule-1"]


@living
async def test_its_tools_are_registered_through_that_agents_context(at: Live) -> None:
    """It registers its tools through that exact agent's context: they are seen there alone, and vanish with
    the agent, all three together."""
    assert at.program.host.ctx.tools.tools() == ()
    await at.agent.aclose()
    assert names(at.agent) == []


@living(with_schedule=False)
async def test_its_tools_vanish_with_the_plugin(at: Live) -> None:
    """They vanish with the plugin too, all three together, and its owner with them; the agent lives on."""
    scope = at.program.host.ctx.child()
    await scope.load(schedule.plugin())
    at.agent = await at.agents.create("later")
    await at.remind(60)
    assert names(at.agent) == NAMES
    await scope.aclose()
    assert names(at.agent) == []
    at.agent.followup("hello")
    await asyncio.sleep(600)
    assert texts(at.agent) == ["hello", "ok"]
    assert operations(at.events) == ["create schedule-1"]


@living(tools=[schedule_list], logs_errors=True)
async def test_a_name_that_is_taken_rolls_the_others_back(at: Live) -> None:
    """A conflict over the name of one tool rolls the others back: an agent has all three or none."""
    assert names(at.agent) == ["schedule_list"]
    at.agent.followup("hello")
    await quiet(at.agent)
    assert texts(at.agent) == ["hello", "ok"]


# --- the invariant companion -----------------------------------------------------------------------------

BAD: dict[str, list[dict[str, Any]]] = {
    "an id that is not active": [delete_row("b")],
    "an id again": [create_row("at")],
    "an id again in one batch": [create_row("at", "b"), create_row("at", "b")],
    "a one-shot with acceptedAt": [dispatch_row("schedule-1", later(600))],
    "an unknown operation": [{"version": 1, "operation": "snooze", "id": "schedule-1"}],
    "another version": [{"version": 2, "operation": "delete", "id": "schedule-1"}],
    "an extra key": [{"version": 1, "operation": "delete", "id": "schedule-1", "why": "x"}],
}


@living
async def test_it_is_a_plugin_of_its_own_and_opt_in(at: Live) -> None:
    """The invariant companion is a plugin of its own, and opt-in: without it the log takes what it is
    given."""
    at.agent.session.append_batch([change(delete_row("nobody"))])
    assert (await at.list())["code"] == "corrupt_schedule_log"


def test_it_checks_every_stored_log_when_it_loads() -> None:
    """It checks every existing log when it loads, and does not load over one that is invalid."""
    options: dict[str, Any] = {"plugins": [schedule.invariant()], "with_schedule": False}
    live(lambda _: passes(), log=[create_row("at"), delete_row()], **options)
    with pytest.raises(ScheduleLogError, match="at event 1"):
        live(lambda _: passes(), log=[create_row("at"), create_row("at")], **options)


@living(with_schedule=False)
async def test_it_checks_every_session_that_lives_already(at: Live) -> None:
    """It checks the sessions that live already, from then on."""
    at.agent.session.append_batch([change(create_row("at"))])
    await at.program.host.ctx.load(schedule.invariant())
    with pytest.raises(ScheduleLogError):
        at.agent.session.append_batch([change(create_row("at"))])


@pytest.mark.parametrize("how", ["created", "resumed", "forked"])
@living(log=[create_row("at")], plugins=[schedule.invariant()], with_schedule=False)
async def test_it_checks_every_session_that_comes_later(at: Live, how: str) -> None:
    """It checks every session that is created later, resumed ones and forks among them."""
    sessions = at.program.host.sessions
    match how:
        case "created":
            session = await sessions.create("new")
        case "resumed":
            session = at.agent.session
        case _:
            session = await sessions.fork(at.agent.session, "fork")
    with pytest.raises(ScheduleLogError):
        session.append_batch([change(delete_row("b"))])
    assert operations(session.events) == ([] if how == "created" else ["create schedule-1"])


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
@living(plugins=[schedule.invariant()])
async def test_a_bad_candidate_is_refused_before_it_is_in_the_log(
    at: Live, bad: list[dict[str, Any]]
) -> None:
    """Every candidate `schedule/change` is checked before it is appended; a bad one is refused before it is
    in the log, and with it the whole batch."""
    await at.remind(600)
    length = len(at.events)
    with pytest.raises(ScheduleLogError):
        at.agent.session.append_batch([change(create_row("at", "good")), *map(change, bad)])
    assert len(at.events) == length
    assert len(await at.list()) == 1


@living(plugins=[schedule.invariant()])
async def test_it_is_the_same_fold(at: Live) -> None:
    """It is the same fold: what Schedule itself appends passes, and a fork is folded from its own first event
    on."""
    await at.remind(60)
    await at.repeat(300)
    await at.until(700)
    assert at.delivered == ["schedule-1", "schedule-2", "schedule-2"]
    await at.begin("delete", id="schedule-2")
    fork = await at.program.host.agents.fork(at.agent, "fork")
    assert (await ask(fork, "schedule_create", prompt="p", after_seconds=60))["id"] == "schedule-1"
