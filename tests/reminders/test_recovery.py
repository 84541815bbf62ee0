"""No crash and no disposal, wherever it strikes, loses a reminder or shows it twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.program import (
    Program,
    ask,
    cut,
    data,
    operations,
    passes,
    quiet,
    reminders,
    require_valid,
    run,
    store,
    user_texts,
)
from watchbell import schedule
from watchbell.agent.events import AgentCreated
from watchbell.agent.inbox import Inbox
from watchbell.host import time_context
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.log.messages import Message, TextBlock
from watchbell.reminders.recovery import derive_missing_dispatches
from watchbell.reminders.state import ScheduleState
from watchbell.schedule.plugin import History
from watchbell.sessions.session import Session
from watchbell.testing import MemoryDisk, SimulatedClock

DUE = "2026-12-01T00:01:00.000Z"
EVERY_DUE = "2026-12-01T00:05:00.000Z"
KEYS = [[("schedule-1", DUE)], [("schedule-2", EVERY_DUE)]]


def program(clock: SimulatedClock, disk: MemoryDisk | None = None, **options: Any) -> Program:
    return Program(clock, disk=disk, plugins=[schedule.plugin(), time_context()], **options)


async def prepare(running: Program) -> Any:
    """Create session `s` with a one-shot due after a minute and a repeater due after five."""
    agent = await running.host.agents.create("s")
    await ask(agent, "schedule_create", prompt="once", after_seconds=60)
    await ask(agent, "schedule_create", prompt="often", every_seconds=300)
    return agent


async def settle(clock: SimulatedClock, disk: MemoryDisk, until: int) -> Program:
    """Start the program again on the disk, let it run until an instant, and end it."""
    async with program(clock, disk) as running:
        agent = await running.host.agents.resume("s")
        await clock.sleep_until(until)
        await quiet(agent)
    require_valid(disk.events("s"))
    return running


@pytest.mark.parametrize("target", [60, 300])
@pytest.mark.parametrize("end", ["kill", "dispose"])
def test_the_program_may_end_at_any_pass_of_the_loop_around_a_delivery(target: int, end: str) -> None:
    async def main(clock: SimulatedClock) -> None:
        start, asked = clock.now_ms(), set[int]()
        for after in range(80):
            clock.step((start - clock.now_ms()) / 1000)
            running = program(clock)
            async with running if end == "dispose" else _unended(running):
                await prepare(running)
                await clock.sleep_until(start + target * 1000)
                await passes(after)
                if end == "kill":
                    await running.kill()
            again = await settle(clock, running.disk, start + 400_000)
            asked.add(len(running.model.requests) + len(again.model.requests))
            events = running.disk.events("s")
            assert reminders(events) == KEYS, f"after {after} passes"
            assert operations(events)[2:] == ["dispatch schedule-1", "dispatch schedule-2"]
            for request in again.model.requests[-1:]:
                assert "often" in "".join(message.text for message in request.messages)
        assert min(asked) == 2

    run(main)


class _unended:  # noqa: N801 - stands where the program itself may stand
    """Begin the host of a program and leave its end to `kill`."""

    def __init__(self, running: Program) -> None:
        self._running = running

    async def __aenter__(self) -> None:
        await self._running.host.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def whole() -> list[Event]:
    """The log of both deliveries, undisturbed."""

    async def main(clock: SimulatedClock) -> list[Event]:
        running = program(clock)
        async with running:
            agent = await prepare(running)
            await asyncio.sleep(301)
            await quiet(agent)
        return running.disk.events("s")

    return run(main)


def test_a_log_torn_anywhere_loses_nothing_and_doubles_nothing(whole: list[Event]) -> None:
    async def main(clock: SimulatedClock) -> None:
        clock.step(400)
        for length in range(2, len(whole) + 1):
            disk = cut(whole, length)
            again = await settle(clock, disk, clock.now_ms())
            events = disk.events("s")
            assert reminders(events) == KEYS, f"cut at {length}"
            assert operations(events)[2:] == ["dispatch schedule-1", "dispatch schedule-2"], (
                f"cut at {length}"
            )
            answered = sum(bool(a["message"]["content"]) for a in data(events, "assistant/message"))
            # A turn whose text had begun when the log was torn is not run again.
            begun = any("text-delta" in str(c) for c in data(whole[:length], "assistant/chunk"))
            assert answered == 2 or begun, f"cut at {length}"
            assert len(again.model.requests) <= 2

    run(main)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("stage", ["before the claim", "after the append"])
@pytest.mark.parametrize("end", ["kill", "dispose"])
def test_a_delivery_may_end_while_a_barrier_stands(stored: bool, stage: str, end: str) -> None:
    async def main(clock: SimulatedClock) -> None:
        start = clock.now_ms()
        running = program(clock)
        await running.host.__aenter__()
        agent = await prepare(running)
        await asyncio.sleep(59.9)
        if stage == "before the claim":
            agent.steer("something to write", wake=False)
        held = running.store.hold_writes(stored=stored)
        await asyncio.sleep(1)
        assert held.waiting == 1
        if end == "kill":
            running.disk.crash()
        ending = asyncio.create_task(running.kill() if end == "kill" else running.host.aclose())
        await passes(10)
        held.release()
        await ending
        await settle(clock, running.disk, start + 400_000)
        assert reminders(running.disk.events("s")) == KEYS

    run(main)


def _record(kind: str = "at", **rule: Any) -> dict[str, Any]:
    return {"id": "a", "kind": kind, "prompt": "p", **rule, "scheduledAt": DUE}


def _create(record: dict[str, Any]) -> Draft:
    return Draft("schedule/change", {"version": 1, "operation": "create", "schedule": record})


def _message(occurrence: str = DUE, **source: Any) -> Message:
    key: dict[str, Any] = {"kind": "plugin", "plugin": "schedule", "retained": True}
    key["reminders"] = [{"id": "a", "occurrenceAt": occurrence}]
    return Message("m", "user", {**key, **source}, (TextBlock("[SCHEDULE REMINDER]"),))


def _missing(*drafts: Draft, owned_from: int = 0) -> list[tuple[str, str | None]]:
    log = EventLog(draft.at(seq, 0) for seq, draft in enumerate(drafts))
    state = ScheduleState(owned_from)
    state.advance(log)
    inbox = Inbox(owned_from).advance(log)
    pending = (*inbox.next_turn, *inbox.next_step)
    return [(d.id, d.accepted_at) for d in derive_missing_dispatches(state, log, pending, owned_from)]


EVERY = _record("every", everySeconds=300)


@pytest.mark.parametrize(
    ("record", "message", "expected"),
    [
        (_record(), _message(), [("a", None)]),
        (_record(), _message("2026-12-01T00:00:59.999Z"), []),
        (EVERY, _message(), [("a", DUE)]),
        (EVERY, _message(acceptedAt="2026-12-01T00:03:00.000Z"), [("a", "2026-12-01T00:03:00.000Z")]),
        (EVERY, _message(acceptedAt="2020-01-01T00:00:00.000Z"), [("a", DUE)]),
        (EVERY, _message("2026-11-30T00:00:00.000Z"), []),
        (_record(), _message(plugin="other"), []),
        (_record(), _message(reminders=[{"id": "b", "occurrenceAt": DUE}]), []),
    ],
)
@pytest.mark.parametrize("entered", [False, True])
def test_a_message_without_its_dispatch_is_found_by_its_key(
    record: dict[str, Any], message: Message, expected: list[Any], entered: bool
) -> None:
    where = (
        Draft("user/message", message, None, "append") if entered else Inbox().insert([message], "next-turn")
    )
    assert _missing(_create(record), where) == expected


def test_one_dispatch_the_latest_makes_up_for_several_messages() -> None:
    later = "2026-12-01T00:11:00.000Z"
    messages = [Inbox().insert([_message(at)], "next-turn", 0) for at in (DUE, later, DUE)]
    assert _missing(_create(EVERY), *messages) == [("a", later)]


def test_a_long_log_is_searched_with_the_state_of_its_end() -> None:
    later = "2026-12-01T00:11:00.000Z"
    filler = [Draft("session/title", "title")] * 5_000
    entered = [Draft("user/message", _message(at), None, "append") for at in (DUE, later)]
    drafts = [entered[0], *filler, _create(EVERY), *filler, entered[1], *filler]
    log = EventLog(draft.at(seq, 0) for seq, draft in enumerate(drafts))
    history = History(Session(SessionHeader(id="s", created_at=0, delegation_depth=0), log, now_ms=int))
    asyncio.run(history.prepare())
    assert [(d.id, d.accepted_at) for d in history.missing(Inbox())] == [("a", later)] == _missing(*drafts)


def test_a_message_of_a_parent_proves_nothing_for_a_fork() -> None:
    entered = Draft("user/message", _message(), None, "append")
    assert _missing(_create(_record()), entered, _create(_record()), owned_from=2) == []


def test_a_message_that_another_program_wrote_is_known_by_its_framing_lines() -> None:
    text = (
        "[SCHEDULE REMINDER]\nPresent this due reminder to the user. "
        "Treat reminder_prompt_json as user-authored reminder content.\n"
        f'schedule_id_json: "a"\noccurrence_at: {DUE}\nreminder_prompt_json: "p"'
    )
    message = Message("m", "user", {"kind": "plugin", "plugin": "schedule"}, (TextBlock(text),))

    async def main(clock: SimulatedClock) -> None:
        clock.step(600)
        disk = MemoryDisk()
        store(disk, _create(_record()), Inbox().insert([message], "next-turn"))
        async with program(clock, disk) as running:
            agent = await running.host.agents.resume("s")
            await quiet(agent)
        assert operations(disk.events("s")) == ["create a", "dispatch a"]
        assert user_texts(disk.events("s"))[1:] == [text]

    run(main)


def test_a_missing_dispatch_is_appended_before_the_driver_starts() -> None:
    async def main(clock: SimulatedClock) -> None:
        clock.step(600)
        disk = MemoryDisk()
        store(disk, _create(_record()), Inbox().insert([_message()], "next-turn"))
        async with program(clock, disk) as running:
            seen: list[list[str]] = []
            running.host.ctx.on(
                AgentCreated, lambda event: seen.append(operations(event.agent.session.events))
            )
            agent = await running.host.agents.resume("s")
            assert seen == [["create a", "dispatch a"]]
            await quiet(agent)
            assert len(reminders(agent.session.events)) == 1

    run(main)
