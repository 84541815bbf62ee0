"""How agents come to be and how they end."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.agent.scene import on_agent
from tests.program import Program, inbox, passes, reason_kinds, require_valid, run, store, texts
from watchbell.agent.agent import Agent
from watchbell.agent.events import AgentCreated, AgentDisposed
from watchbell.agent.inbox import Inbox
from watchbell.agent.opening import Begin
from watchbell.errors import (
    AgentClosedError,
    AgentError,
    CorruptLogError,
    PersistenceError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SettingsError,
)
from watchbell.log.event import Draft
from watchbell.sessions.events import SessionClosed
from watchbell.sessions.session import Session
from watchbell.testing import MemoryDisk, SimulatedClock, call, hang
from watchbell.tools.definition import ToolExecution
from watchbell.tools.function import tool


@tool
async def ring() -> str:
    """Ring a bell."""
    return "ding"


@on_agent()
async def test_an_agent_is_created_resumed_and_opened_by_its_sessions_id(program: Program) -> None:
    agents = program.host.agents
    agent = await agents.create("s", cwd="/srv")
    assert agents.get("s") is agent
    assert agents.live == (agent,)
    assert agent.session.header.cwd == "/srv"
    agent.followup("hello")
    await agent.when_idle()
    with pytest.raises(SessionExistsError):
        await agents.create("s")
    with pytest.raises(SessionLockedError):
        await agents.resume("s")
    await agent.aclose()
    assert agents.get("s") is None
    with pytest.raises(SessionNotFoundError):
        await agents.resume("t")
    again = await agents.open("s")
    assert texts(again) == ["hello", "ok"]
    assert (await agents.open("t")).id == "t"


@on_agent()
async def test_nobody_hears_of_a_turn_before_everybody_heard_of_the_agent(program: Program) -> None:
    seen: list[tuple[str, str]] = []

    def created(event: AgentCreated) -> None:
        agent = event.agent
        agent.followup("from the handler")
        assert agent.reserve_turn_admission() is None
        seen.append((agent.id, agent.phase))

    program.host.ctx.on(AgentCreated, created)
    agent = await program.host.agents.create("s")
    assert seen == [("s", "idle")]
    assert agent.phase == "turn"
    await agent.when_idle()
    assert texts(agent) == ["from the handler", "ok"]


@on_agent(logs_errors=True)
async def test_a_part_of_each_agent_is_prepared_before_and_begun_with_it(program: Program) -> None:
    seen: list[str] = []

    async def prepare(session: Session) -> Begin:
        seen.append(f"{session.id} prepared")
        return begin

    async def spare_none(_: Session) -> None:
        seen.append("asked")

    def begin(agent: Agent, inbox: Inbox) -> None:
        seen.append(f"{agent.id} begun, {agent.phase}, {len(inbox.next_turn)} pending")
        raise RuntimeError("the agent lives without this part")

    program.host.ctx.on(AgentCreated, lambda event: seen.append(f"{event.agent.id} created"))
    ends = [program.host.agents.equip(part) for part in (prepare, spare_none)]
    agent = await program.host.agents.create("s")
    agent.followup("hello")
    assert seen == ["s prepared", "asked", "s begun, idle, 0 pending", "s created"]
    for end in ends:
        end()
    await program.host.agents.create("t")
    assert seen[4:] == ["t created"]


@on_agent()
async def test_messages_of_a_plugin_are_retained_when_the_host_says_so(program: Program) -> None:
    program.host.agents.retain("bells")
    agent = await program.host.agents.create("s")
    with agent.reserve_turn_admission() or pytest.fail("the agent is idle"):
        for plugin in ("bells", "whistles"):
            agent.followup(plugin, source={"kind": "plugin", "plugin": plugin})
        agent.cancel(discard_pending=True)
        assert [message.text for message in inbox(agent).next_turn] == ["bells"]


@on_agent([hang()])
async def test_an_agent_ends_its_turn_then_its_scope_then_its_session(program: Program, agent: Agent) -> None:
    order: list[str] = []
    agent.ctx.defer(lambda: order.append(f"scope undone, turn {reason_kinds(agent.session.events)}"))
    program.host.ctx.on(SessionClosed, lambda _: order.append("session closed"))
    program.host.ctx.on(AgentDisposed, lambda _: order.append("agent disposed"))
    agent.tools.register(ring, agent.ctx)
    agent.followup("hello")
    await asyncio.sleep(1)
    await agent.aclose()
    await agent.aclose()
    assert order == ["scope undone, turn ['aborted']", "session closed", "agent disposed"]
    assert agent.tools.tools() == ()
    with pytest.raises(AgentClosedError):
        agent.followup("anybody?")


def test_closing_an_agent_twice_at_once_closes_it_once() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, [hang()]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("hello")
            await asyncio.sleep(1)
            first = asyncio.create_task(agent.aclose())
            await passes(1)
            await program.host.aclose()
            await first
        require_valid(program.disk.events("s"))
        assert reason_kinds(program.disk.events("s")) == ["aborted"]

    run(main)


@on_agent([hang()])
async def test_closing_that_was_cancelled_can_be_done_again(program: Program, agent: Agent) -> None:
    agent.followup("hello")
    await asyncio.sleep(1)
    closing = asyncio.create_task(agent.aclose())
    await passes(1)
    closing.cancel()
    await passes(1)
    await agent.aclose()
    await passes()
    assert program.host.sessions.get("s") is None
    assert (await program.host.agents.resume("s")).session.header.id == "s"


def test_a_tool_can_end_its_own_agent() -> None:
    async def main(clock: SimulatedClock) -> None:
        @tool
        async def leave(execution: ToolExecution) -> None:
            """End the agent."""
            assert isinstance(execution.agent, Agent)
            await execution.agent.aclose()

        async with Program(clock, [call("leave")], tools=[leave]) as program:
            agent = await program.host.agents.create("s")
            agent.followup("go")
            await asyncio.sleep(5)
            assert program.host.agents.live == ()
        assert reason_kinds(program.disk.events("s")) == ["aborted"]
        require_valid(program.disk.events("s"))

    run(main)


@on_agent(lambda _: hang())
async def test_children_have_sessions_of_their_own_and_end_with_their_parent(program: Program) -> None:
    order: list[str] = []
    program.host.ctx.on(AgentDisposed, lambda event: order.append(event.agent.id))
    parent = await program.host.agents.create("p", cwd="/srv")
    child = await program.host.agents.create_child(parent, "c")
    grandchild = await program.host.agents.create_child(child, "g")
    other = await program.host.agents.create("o")
    header = grandchild.session.header
    assert (header.delegation_depth, header.parent_session, header.origin) == (2, "c", "subagent")
    assert (header.cwd, child.session.header.delegation_depth) == ("/srv", 1)
    for agent in (parent, child, grandchild):
        agent.followup("go")
    await asyncio.sleep(1)
    await parent.aclose()
    assert order == ["g", "c", "p"]
    assert program.host.agents.live == (other,)


@on_agent()
async def test_a_child_of_an_agent_that_ended_is_refused(program: Program) -> None:
    parent = await program.host.agents.create("p")
    coming = asyncio.create_task(program.host.agents.create_child(parent, "early"))
    await parent.aclose()
    for child in (coming, program.host.agents.create_child(parent, "late")):
        with pytest.raises(AgentClosedError):
            await child
    assert program.host.agents.live == ()
    assert program.host.sessions.live == ()


@on_agent()
async def test_a_child_that_cannot_be_stored_keeps_nobody_else_from_ending(program: Program) -> None:
    parent = await program.host.agents.create("p")
    children = [await program.host.agents.create_child(parent, name) for name in "ab"]
    program.store.fail_writes(2)
    for child in children:
        child.steer("by the way", wake=False)
    with pytest.raises(PersistenceError):
        await parent.aclose()
    assert program.host.agents.live == ()
    assert program.host.sessions.live == ()


@pytest.mark.parametrize(
    "draft",
    [
        Draft("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
        Draft("turn/end", {"turn": 1}),
    ],
)
def test_a_log_that_cannot_be_opened_leaves_nothing_open(draft: Draft) -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, draft)
        async with Program(clock, disk=disk) as program:
            for _ in range(2):
                with pytest.raises((CorruptLogError, KeyError)):
                    await program.host.agents.resume("s")
            assert program.host.agents.live == ()
            assert program.host.sessions.live == ()
        assert len(disk.events("s")) == 1

    run(main)


@on_agent(["one", "two", "other two"])
async def test_a_fork_goes_on_with_the_conversation_up_to_a_point(program: Program) -> None:
    parent = await program.host.agents.create("p")
    parent.followup("first")
    await parent.when_idle()
    length = len(parent.session.events)
    parent.followup("second")
    await parent.when_idle()
    fork = await program.host.agents.fork(parent, "f", at=length)
    fork.followup("another second")
    await fork.when_idle()
    assert texts(fork) == ["first", "one", "another second", "other two"]
    assert texts(parent) == ["first", "one", "second", "two"]
    assert fork.session.header.seed_length == length
    with pytest.raises(ValueError, match="cannot fork at event 999"):
        await program.host.agents.fork(parent, at=999)


def test_a_host_ends_its_agents_newest_first() -> None:
    async def main(clock: SimulatedClock) -> None:
        order: list[str] = []
        async with Program(clock) as program:
            program.host.ctx.on(AgentDisposed, lambda event: order.append(event.agent.id))
            for name in "abc":
                await program.host.agents.create(name)
        assert order == ["c", "b", "a"]

    run(main)


def test_a_host_that_cannot_store_one_session_still_ends_all() -> None:
    async def main(clock: SimulatedClock) -> None:
        program = Program(clock)
        await program.host.__aenter__()
        agents = [await program.host.agents.create(name) for name in "abc"]
        for agent in agents:
            agent.steer("by the way", wake=False)
        program.store.fail_writes(1)
        with pytest.raises(PersistenceError):
            await program.host.aclose()
        assert all(agent.phase == "closed" and agent.session.is_closed for agent in agents)
        assert sorted(program.disk.batches) == ["a", "b"]

    run(main)


def test_who_opens_a_session_at_the_same_time_gets_the_same_agent() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            opened = await asyncio.gather(*(program.host.agents.open("s") for _ in range(3)))
            assert len(set(opened)) == 1
            assert await program.host.agents.open("s") is opened[0]
            await opened[0].aclose()
            assert await program.host.agents.open("s") is not opened[0]

    run(main)


def test_an_opening_that_fails_leaves_the_session_to_the_next() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            results = await asyncio.gather(
                *(program.host.agents.open("s", cwd=cwd) for cwd in ("not absolute", "/x")),
                return_exceptions=True,
            )
            assert isinstance(results[0], SettingsError)
            assert isinstance(results[1], Agent)

    run(main)


def test_a_call_from_another_thread_is_refused_at_once() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as program:
            agent = await program.host.agents.create("s")
            for call in (
                lambda: agent.followup("hello"),
                lambda: agent.steer("hello"),
                agent.cancel,
                agent.reserve_turn_admission,
            ):
                with ThreadPoolExecutor(1) as pool, pytest.raises(AgentError, match="call_soon_threadsafe"):
                    pool.submit(call).result()
            assert len(agent.session.events) == 0
            assert agent.phase == "idle"

    run(main)
