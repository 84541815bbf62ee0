"""What the queue of an agent's reminders does when something goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.program import Program, ask, passes, run
from watchbell import schedule
from watchbell.errors import ToolAbortedError
from watchbell.reminders.arguments import Limits, decode_create
from watchbell.schedule.transactions import Transactions
from watchbell.sessions.events import FlushSession
from watchbell.testing import SimulatedClock
from watchbell.tools.definition import AbortSignal
from watchbell.zones import ZoneTable

REQUEST = decode_create('{"prompt":"p","after_seconds":60}', ZoneTable(), Limits())


@pytest.mark.parametrize("failing", ["append", "barrier"])
def test_a_failure_is_told_of_without_its_words(failing: str) -> None:
    async def refuse(_: object) -> bool:
        raise OSError("/secret/path is full")

    def refuse_append(*_: object) -> None:
        raise RuntimeError("secret")

    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[schedule.plugin()]) as running:
            agent = await running.host.agents.create("s")
            end: Callable[[], object]
            if failing == "append":
                end, code = agent.session.guard(refuse_append), "internal_error"
            else:
                end, code = running.host.ctx.on(FlushSession, refuse), "persistence_uncertain"
            value = await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            end()
            assert value["code"] == code
            assert "secret" not in str(value)
            assert (await ask(agent, "schedule_create", prompt="p", after_seconds=60))["id"] == "schedule-1"

    run(main, logs_errors=failing == "append")


def test_closing_waits_for_the_call_in_flight_and_takes_up_no_other() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as running:
            session = await running.host.sessions.create("s")
            transactions = Transactions(session, running.host.sessions, clock, Limits())
            held = running.store.hold_writes()
            first, second = (
                asyncio.create_task(transactions.create(REQUEST, AbortSignal())) for _ in range(2)
            )
            await held.reached()
            closing = asyncio.create_task(transactions.aclose())
            await passes()
            assert not closing.done()
            held.release()
            await closing
            assert (await first).id == "schedule-1"
            with pytest.raises(ToolAbortedError):
                await second
            assert len(session.events) == 1

    run(main)
