"""5. Delivery: so it is exactly once

Each decided occurrence gives exactly one message in the log, and the model gets to see it.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.live import Live, live, living
from tests.contract.world import SESSION, later
from tests.program import Program, ask, cut, data, operations, passes, quiet, reminders, require_valid, run
from watchbell import schedule
from watchbell.agent.events import StepPrepare
from watchbell.errors import SessionLockedError
from watchbell.log.event import Event
from watchbell.testing import MemoryDisk, SimulatedClock

DUE = later(60)


def program(clock: SimulatedClock, disk: MemoryDisk | None = None) -> Program:
    return Program(clock, disk=disk, plugins=[schedule.plugin()])


@pytest.fixture(scope="module")
def whole() -> list[Event]:
    """The log of a one-shot and of a repeater, undisturbed."""

    async def body(at: Live) -> list[Event]:
        await at.remind(60, "once")
        await at.repeat(300, "often")
        await at.until(301)
        await at.agent.aclose()
        return at.program.disk.events("s")

    return live(body)


def test_each_decided_occurrence_gives_one_message_that_the_model_sees(whole: list[Event]) -> None:
    """So each decided occurrence gives exactly one `user/message` in the session's log, at whichever event
    the log was torn, and the model gets to see it."""
    keys = [[("schedule-1", DUE)], [("schedule-2", later(300))]]

    async def main(clock: SimulatedClock) -> None:
        clock.step(400)
        for length in range(2, len(whole) + 1):
            disk = cut(whole, length)
            async with program(clock, disk) as again:
                agent = await again.host.agents.resume("s")
                await quiet(agent)
                assert reminders(agent.session.events) == keys, f"torn at {length}"
                assert operations(agent.session.events)[2:] == ["dispatch schedule-1", "dispatch schedule-2"]
                begun = any("text-delta" in str(chunk) for chunk in data(whole[:length], "assistant/chunk"))
                assert begun or len(again.model.requests) == 2, f"torn at {length}"
            require_valid(disk.events("s"))

    run(main)


@pytest.mark.parametrize("target", [60, 300])
def test_a_kill_at_any_moment_around_the_target_loses_nothing(target: int) -> None:
    """Killing the program at any pass of its loop around a target loses no reminder, doubles none and leaves
    none silent until the user types."""

    async def main(clock: SimulatedClock) -> None:
        start = clock.now_ms()
        for after in range(0, 60, 2):
            clock.step((start - clock.now_ms()) / 1000)
            running = program(clock)
            await running.host.__aenter__()
            agent = await running.host.agents.create(SESSION)
            await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            await ask(agent, "schedule_create", prompt="p", every_seconds=300)
            await clock.sleep_until(start + target * 1000)
            await passes(after)
            await running.kill()
            async with program(clock, running.disk) as again:
                agent = await again.host.agents.resume(SESSION)
                await clock.sleep_until(start + 400_000)
                await quiet(agent)
                told = [keys[0][0] for keys in reminders(agent.session.events)]
                assert told == ["schedule-1", "schedule-2"]

    run(main)


@pytest.mark.parametrize("after", range(0, 24, 2))
@living
async def test_a_cancellation_at_any_moment_loses_nothing(at: Live, after: int) -> None:
    """Cancelling at any pass around a delivery loses none."""
    await at.remind(60)
    await at.clock.sleep_until(at.clock.now_ms() + 60_000)
    await passes(after)
    at.agent.cancel(discard_pending=True)
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@living
async def test_a_confirmed_delete_is_not_decided_again(at: Live) -> None:
    """A reminder that was deleted is not decided again after its delete was confirmed."""
    await at.repeat(300)
    await at.until(301)
    assert (await at.begin("delete", id="schedule-1"))["deleted"]
    await at.until(3600)
    assert at.delivered == ["schedule-1"]


@living
async def test_what_was_queued_before_the_delete_still_comes(at: Live) -> None:
    """A message that was queued before that still comes."""
    await at.repeat(300)
    may_go_on = asyncio.Event()
    at.program.host.ctx.on(StepPrepare, lambda _: may_go_on.wait())
    await asyncio.sleep(301)
    assert (await at.begin("delete", id="schedule-1"))["deleted"]
    may_go_on.set()
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@living
async def test_a_second_program_on_one_session_is_refused(at: Live) -> None:
    """A second program cannot open a session that is open, so that no two of them deliver the same
    reminder."""
    await at.remind(60)
    other = program(at.clock, at.program.disk)
    async with other:
        with pytest.raises(SessionLockedError):
            await other.host.agents.resume("s")
        assert other.host.agents.live == ()
        await at.until(61)
    assert other.model.requests == []
    assert at.delivered == ["schedule-1"]
