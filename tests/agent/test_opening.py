"""Opening a session for work: what a crash left is repaired in one batch, and nothing else is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.agent.scene import on_agent
from tests.program import Program, cut, inbox, passes, require_valid, run, store, texts, types, user_texts
from watchbell.agent._take_ups import TakeUps
from watchbell.agent.agent import Agent
from watchbell.agent.inbox import Inbox
from watchbell.errors import CorruptLogError
from watchbell.log.codec import encode_rows
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.log.messages import Message, TextBlock
from watchbell.log.payloads import Completed, Interrupted, StepMark, TakeUp, TurnEnd, TurnStart
from watchbell.log.segments import decode_block
from watchbell.log.transcript import TranscriptLength
from watchbell.sessions.events import SessionCreated
from watchbell.sessions.session import SLICE_EVENTS, Session
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


def test_a_long_log_is_folded_like_a_short_one_while_others_go_on() -> None:
    async def main() -> None:
        log = EventLog()
        for first in range(0, 12_000, 400):
            events = [draft.at(first + k, 0) for k, draft in enumerate(unanswered(first))]
            log.extend_rows(decode_block(encode_rows(events), first))
        session = Session(SessionHeader(id="s", created_at=0, delegation_depth=0), log, now_ms=int)
        sliced, sliced_take_ups = Inbox(), TakeUps()
        preparing = asyncio.create_task(session.fold(sliced, sliced_take_ups, TranscriptLength()))
        passed = 0
        while not preparing.done():
            await asyncio.sleep(0)
            passed += 1
        assert passed > len(log) // SLICE_EVENTS - 1
        inbox, take_ups = Inbox().advance(log), TakeUps().advance(log)
        assert sliced.next_step == inbox.next_step
        assert sliced.returned() == inbox.returned()
        assert [message.text for message in inbox.next_step] == ["later"] * 30
        assert sliced_take_ups.due() == take_ups.due() == TakeUp("opens-0", 1)

    asyncio.run(main())


def unanswered(first: int) -> Iterator[Draft]:
    """Yield 400 events: a turn that a reminder opened and a crash ended, and a message for later."""
    opener, later = (
        message(f"opens-{first}", RETAINED),
        Message(f"{first}", "user", PERSON, (TextBlock("later"),)),
    )
    yield Inbox().insert([opener], "next-turn")
    yield Draft("turn/start", TurnStart(first // 400 + 1))
    yield Draft("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []})
    yield Draft("user/message", opener, None, "append")
    for _ in range(394):
        yield Draft("session/title", "title")
    yield Draft("turn/end", TurnEnd(first // 400 + 1, Interrupted()))
    yield Inbox().insert([later], "next-step", 0)


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
            program.host.ctx.on(
                SessionCreated, lambda c: c.session.observe(lambda e: batches.append(types(e)))
            )
            agent = await program.host.agents.resume("s")
            assert batches == [["turn/end", "session/end-seed", "agent/inbox/spliced"]]
            closer = agent.session.events[3]
            assert closer.data == {"turn": 1, "reason": {"kind": "interrupted"}}
            assert closer.time == agent.session.events[2].time
            await agent.when_idle()
            assert texts(agent) == ["hello", "ok"]
        require_valid(disk.events("s"))

    run(main)


@on_agent(log=[*claim("hello", PERSON), Draft("session/end-seed", {})])
async def test_a_log_that_ends_in_the_end_of_a_seed_gets_no_second_one(agent: Agent) -> None:
    await agent.when_idle()
    assert types(agent.session.events).count("session/end-seed") == 1


def test_a_fork_takes_over_the_conversation_and_nothing_that_waits() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        entered = Draft("user/message", message("said", PERSON), None, "append")
        lost = claim("bell", RETAINED, turn=2)
        pending = Inbox().insert([message("later", RETAINED)], "next-turn")
        first = [*claim("said", PERSON), Draft("step/start", StepMark(1, 1)), entered]
        ended = [Draft("step/end", StepMark(1, 1)), Draft("turn/end", TurnEnd(1, Completed()))]
        store(disk, *first, *ended, *lost, pending)
        async with Program(clock, disk=disk) as program:
            fork = await program.host.agents.fork("s", "child")
            await passes()
            assert texts(fork) == ["said"]
            assert (inbox(fork).next_turn, fork.phase) == ((), "idle")
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


def compacted(place: dict[str, Any]) -> Event:
    """A summary that stands in place of messages."""
    summary = Draft("user/message", message("summary", PERSON)).at(2, 1002)
    return msgspec.structs.replace(summary, surface_op=msgspec.Raw(msgspec.json.encode(place)))


@pytest.mark.parametrize(
    "bad",
    [
        Draft("turn/start", []).at(2, 1002),
        Draft("turn/start", {"turn": "1"}).at(2, 1002),
        compacted({"op": "replace", "start": 0, "end": 1}),
    ],
    ids=["no object", "no number", "a summary of messages that are not there"],
)
def test_damage_that_only_the_events_show_is_named_with_its_place(bad: Event) -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, Draft("turn/start", TurnStart(1)), Draft("step/start", StepMark(1, 1)))
        disk.batches["s"].append((bad,))
        before = disk.events("s")
        async with Program(clock, disk=disk) as program:
            with pytest.raises(CorruptLogError, match="event 2") as caught:
                await program.host.agents.resume("s")
            assert caught.value.path == (await program.host.sessions.read("s")).location
            assert program.host.sessions.live == ()
        assert disk.events("s") == before

    run(main)
