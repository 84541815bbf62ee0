"""Opening a session for work: what a crash left is repaired in one batch, and nothing else is written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.program import Program, cut, passes, require_valid, run, store, texts, types, user_texts
from watchbell.agent.inbox import Inbox
from watchbell.log.events import Draft, Event, Message, StepMark, TextBlock, TurnEnd, TurnStart
from watchbell.testing import MemoryDisk, SimulatedClock, call, say
from watchbell.tools.function import tool

PERSON: dict[str, Any] = {"kind": "user"}
RETAINED: dict[str, Any] = {"kind": "plugin", "plugin": "bells", "retained": True}


@tool
async def ring() -> str:
    """Ring a bell."""
    return "ding"


def message(name: str, source: dict[str, Any]) -> Message:
    return Message(name, "user", source, (TextBlock(name),))


def claim(name: str, source: dict[str, Any], *, turn: int = 1) -> list[Draft]:
    """Write what a program does that claims a message and enters it by and by."""
    return [
        Inbox().insert([message(name, source)], "next-turn"),
        Draft("turn/start", TurnStart(turn)),
        Draft("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
    ]


async def sample(clock: SimulatedClock) -> list[Event]:
    """Hold a conversation of two turns with two calls of tools in it."""
    script = [[say("let me see"), call("ring"), call("ring")], "it rang", "bye"]
    program = Program(clock, script, tools=[ring])
    async with program:
        agent = await program.host.agents.create("s")
        agent.followup("ring twice")
        agent.followup("thanks")
        await agent.when_idle()
    return program.disk.events("s")


def test_opening_alone_writes_nothing() -> None:
    async def main(clock: SimulatedClock) -> None:
        events = await sample(clock)
        disk = cut(events, len(events))
        async with Program(clock, disk=disk) as program:
            await program.host.agents.resume("s")
            await passes()
        assert disk.events("s") == events

    run(main)


def test_the_end_of_the_seed_is_written_with_the_first_other_event() -> None:
    async def main(clock: SimulatedClock) -> None:
        events = await sample(clock)
        disk = cut(events, len(events))
        for _ in range(2):
            async with Program(clock, disk=disk) as program:
                agent = await program.host.agents.resume("s")
                agent.followup("hello")
                await agent.when_idle()
        assert types(disk.batches["s"][1])[:2] == ["session/end-seed", "agent/inbox/spliced"]
        assert types(disk.events("s")).count("session/end-seed") == 2

    run(main)


def test_an_interrupted_turn_is_closed_before_anything_else() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, *claim("hello", PERSON))
        batches: list[list[str]] = []
        async with Program(clock, disk=disk) as program:
            program.host.ctx.on("session/created", lambda s: s.observe(lambda e: batches.append(types(e))))
            agent = await program.host.agents.resume("s")
            assert batches == [["turn/end", "session/end-seed", "agent/inbox/spliced"]]
            closer = agent.session.events[3]
            assert closer.data == {"turn": 1, "reason": {"kind": "interrupted"}}
            assert closer.time == agent.session.events[2].time
            await agent.when_idle()
            assert texts(agent) == ["hello", "ok"]
        require_valid(disk.events("s"))

    run(main)


def test_a_log_that_ends_in_the_end_of_a_seed_gets_no_second_one() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, *claim("hello", PERSON), Draft("session/end-seed", {}))
        async with Program(clock, disk=disk) as program:
            agent = await program.host.agents.resume("s")
            await agent.when_idle()
        assert types(disk.events("s")).count("session/end-seed") == 1

    run(main)


def test_only_of_the_last_turn_does_what_people_said_come_back() -> None:
    interrupted = Draft("turn/end", TurnEnd(1, {"kind": "interrupted"}))
    disposed = {"kind": "aborted", "reason": {"kind": "disposed"}}

    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(
            disk,
            *claim("old", PERSON),
            interrupted,
            *claim("bell", RETAINED, turn=2),
            Draft("turn/end", TurnEnd(2, disposed)),
            *claim("new", PERSON, turn=3),
        )
        async with Program(clock, disk=disk) as program:
            agent = await program.host.agents.resume("s")
            await agent.when_idle()
            assert user_texts(agent.session.events) == ["bell", "new"]

    run(main)


def test_a_fork_takes_over_the_conversation_and_nothing_that_waits() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        entered = Draft("user/message", message("said", PERSON), None, "append")
        lost = claim("bell", RETAINED, turn=2)
        pending = Inbox().insert([message("later", RETAINED)], "next-turn")
        first = [*claim("said", PERSON), Draft("step/start", StepMark(1, 1)), entered]
        ended = [Draft("step/end", StepMark(1, 1)), Draft("turn/end", TurnEnd(1, {"kind": "completed"}))]
        store(disk, *first, *ended, *lost, pending)
        async with Program(clock, disk=disk) as program:
            fork = await program.host.agents.fork("s", "child")
            await passes()
            assert texts(fork) == ["said"]
            assert (fork.inbox.next_turn, fork.phase) == ((), "idle")
            fork.followup("hello")
            await fork.when_idle()
            assert texts(fork) == ["said", "hello", "ok"]
        require_valid(disk.events("child"))
        assert types(disk.events("child"))[11:13] == ["turn/end", "session/end-seed"]
        assert len(disk.events("s")) == 11

    run(main)


@pytest.mark.parametrize("torn", [False, True])
def test_a_session_cut_anywhere_opens_and_goes_on(torn: bool) -> None:
    async def main(clock: SimulatedClock) -> None:
        events = await sample(clock)
        for length in range(1, len(events) + 1):
            if torn:  # the crash struck again, while the repair was being written
                repaired = cut(events, length)
                async with Program(clock, disk=repaired) as program:
                    agent = await program.host.agents.resume("s")
                    await agent.when_idle()
                disk = cut(repaired.events("s"), min(length + 1, len(repaired.events("s"))))
            else:
                disk = cut(events, length)
            async with Program(clock, disk=disk, tools=[ring]) as program:
                agent = await program.host.agents.resume("s")
                agent.followup("still there?")
                await agent.when_idle()
                said = user_texts(agent.session.events)
                assert said.count("ring twice") == 1
                assert said[-1] == "still there?"
                assert texts(agent)[-1] == "ok"
                assert agent.phase == "idle"
            require_valid(disk.events("s"))

    run(main)
