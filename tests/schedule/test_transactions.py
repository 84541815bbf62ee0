"""The queue of an agent's reminders: first come, first served, and nothing claimed that is not durable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.program import Program, ask, operations, passes, quiet, reminders, run, store, texts
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.errors import ToolAbortedError
from watchbell.log.event import Draft
from watchbell.reminders.arguments import Limits, decode_create
from watchbell.reminders.times import CreateRequest
from watchbell.schedule.transactions import Transactions
from watchbell.sessions.events import FlushSession
from watchbell.testing import MemoryDisk, SimulatedClock
from watchbell.tools.definition import AbortSignal, ToolExecution
from watchbell.zones import ZoneTable

ABORTED = "The call was cancelled."


def program(clock: SimulatedClock, **options: Any) -> Program:
    return Program(clock, plugins=[schedule.plugin()], **options)


def create(agent: Agent, prompt: str = "p", signal: AbortSignal | None = None, seconds: int = 600) -> Any:
    return asyncio.create_task(ask(agent, "schedule_create", signal, prompt=prompt, after_seconds=seconds))


def prompts(agent: Agent) -> list[str]:
    changes = [event.data for event in agent.session.events if event.type == "schedule/change"]
    return [change["schedule"]["prompt"] for change in changes if change["operation"] == "create"]


class FailingListener:
    """A durability listener that fails after some barriers, until told otherwise; the storage is well."""

    def __init__(self, program: Program) -> None:
        self.passing: int | None = None  # how many barriers still pass; None: all
        program.host.ctx.on(FlushSession, self.flush)

    async def flush(self, _: object) -> bool:
        if self.passing == 0:
            raise OSError("/secret/path is full")
        if self.passing is not None:
            self.passing -= 1
        return True


def test_calls_side_by_side_get_ids_of_their_own_in_their_order() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            views = await asyncio.gather(*(create(agent) for _ in range(3)))
            assert [view["id"] for view in views] == ["schedule-1", "schedule-2", "schedule-3"]
            assert [view["id"] for view in await ask(agent, "schedule_list")] == [v["id"] for v in views]

    run(main)


@pytest.mark.parametrize("stage", ["preflight", "after the append"])
def test_nothing_comes_between_a_transactions_preflight_and_its_last_barrier(stage: str) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            if stage == "preflight":
                agent.inject("something to write")
            held = running.store.hold_writes()
            first = create(agent, "first")
            await held.reached()
            others = [create(agent, "second"), asyncio.create_task(ask(agent, "schedule_list"))]
            removal = asyncio.create_task(ask(agent, "schedule_delete", id="schedule-2"))
            await asyncio.sleep(60)
            assert prompts(agent) == ([] if stage == "preflight" else ["first"])
            assert not any(call.done() for call in (first, *others, removal))
            held.release()
            assert [view["id"] for view in await others[1]] == ["schedule-1", "schedule-2"]
            assert await removal == {"id": "schedule-2", "deleted": True}
            assert operations(agent.session.events) == [
                "create schedule-1",
                "create schedule-2",
                "delete schedule-2",
            ]

    run(main)


@pytest.mark.parametrize("point", ["queued", "in the preflight", "after the append"])
def test_a_call_that_is_cancelled_before_its_append_appends_nothing(point: str) -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            if point != "after the append":
                agent.inject("something to write")
            held = running.store.hold_writes()
            others = [create(agent, "other")] if point == "queued" else []
            signal = AbortSignal()
            call = create(agent, "cancelled", signal)
            await held.reached()
            await passes()
            signal.abort()
            assert await call == ABORTED
            others.append(create(agent, "next"))
            held.release()
            assert [view["prompt"] for view in await asyncio.gather(*others)][-1] == "next"
            assert ("cancelled" in prompts(agent)) == (point == "after the append")
            listed = await ask(agent, "schedule_list")
            assert [view["prompt"] for view in listed] == prompts(agent)
            assert [view["id"] for view in listed] == [f"schedule-{n + 1}" for n in range(len(listed))]

    run(main)


def test_a_queued_call_leaves_the_queue_at_once_and_keeps_nobody_waiting() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            held = running.store.hold_writes()
            signals = [AbortSignal() for _ in range(5)]
            calls = [create(agent, f"p{n}", signal) for n, signal in enumerate(signals)]
            await held.reached()
            for signal in signals[1:4]:
                signal.abort()
            assert await asyncio.gather(*calls[1:4]) == [ABORTED] * 3
            held.release()
            await asyncio.gather(calls[0], calls[4])
            assert prompts(agent) == ["p0", "p4"]

    run(main)


def test_an_uncertain_answer_names_the_operation_and_the_id_when_one_is_known() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            running.store.fail_writes(None)
            after_append = await create(agent)
            before_append = await create(agent)
            listed = await ask(agent, "schedule_list")
            removed = await ask(agent, "schedule_delete", id="schedule-1")
            running.store.heal()
            for value in (after_append, before_append, listed, removed):
                assert value["code"] == "persistence_uncertain"
                assert "made to fail" not in value["message"]
            tails = [list(value.items())[2:] for value in (after_append, before_append, listed, removed)]
            assert tails == [
                [("operation", "create"), ("id", "schedule-1")],
                [("operation", "create")],
                [("operation", "list")],
                [("operation", "delete"), ("id", "schedule-1")],
            ]
            assert operations(agent.session.events) == ["create schedule-1"]
            assert [view["id"] for view in await ask(agent, "schedule_list")] == ["schedule-1"]

    run(main)


def test_a_reminder_of_an_uncertain_create_is_armed_by_the_next_list_that_succeeds() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            listener = FailingListener(running)
            listener.passing = 1
            assert (await create(agent, seconds=60))["code"] == "persistence_uncertain"
            assert (await ask(agent, "schedule_list"))["code"] == "persistence_uncertain"
            await asyncio.sleep(90)
            listener.passing = None
            await asyncio.sleep(3600)
            assert reminders(agent.session.events) == []
            assert len(await ask(agent, "schedule_list")) == 1
            await quiet(agent)
            assert reminders(agent.session.events) == [[("schedule-1", "2026-12-01T00:01:00.000Z")]]

    run(main)


def test_a_healed_storage_delivers_what_fell_due_meanwhile() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await create(agent, seconds=60)
            running.store.fail_writes(None)
            agent.inject("something to write")
            await asyncio.sleep(3600)
            assert reminders(agent.session.events) == []
            running.store.heal()
            await asyncio.sleep(61)
            await agent.when_idle()
            assert reminders(agent.session.events) == [[("schedule-1", "2026-12-01T00:01:00.000Z")]]

    run(main)


def test_a_view_says_whether_it_is_overdue_when_it_is_given() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            held = running.store.hold_writes()
            call = create(agent, seconds=60)
            await held.reached()
            await asyncio.sleep(60)
            held.release()
            assert (await call)["state"] == "overdue"

    run(main)


def test_only_an_active_reminder_can_be_deleted() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            await create(agent)
            missing = {"deleted": False, "code": "schedule_not_found"}
            assert await ask(agent, "schedule_delete", id="x") == {"id": "x", **missing}
            assert (await ask(agent, "schedule_delete", id="schedule-1"))["deleted"]
            assert await ask(agent, "schedule_delete", id="schedule-1") == {"id": "schedule-1", **missing}
            assert operations(agent.session.events) == ["create schedule-1", "delete schedule-1"]

    run(main)


def test_what_the_shape_shows_to_be_wrong_touches_no_storage() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")
            agent.inject("something to write")
            held = running.store.hold_writes()
            assert (await ask(agent, "schedule_create", prompt="p"))["code"] == "invalid_selector"
            assert (await ask(agent, "schedule_delete", id=" "))["code"] == "invalid_rule"
            assert (await ask(agent, "schedule_list", all=True))["code"] == "invalid_selector"
            past = asyncio.create_task(ask(agent, "schedule_create", prompt="p", at="2020-01-01T00:00:00Z"))
            await held.reached()
            assert not past.done()
            held.release()
            assert (await past)["code"] == "not_future"
            assert operations(agent.session.events) == []

    run(main)


def test_a_spoilt_schedule_history_silences_reminders_and_nothing_else() -> None:
    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        record = {"id": "a", "kind": "at", "prompt": "p", "scheduledAt": "2020-01-01T00:00:00.000Z"}
        change = {"version": 1, "operation": "create", "schedule": record}
        store(disk, *[Draft("schedule/change", change)] * 2)
        async with program(clock, disk=disk) as running:
            agent = await running.host.agents.resume("s")
            for name, arguments in (
                ("schedule_list", {}),
                ("schedule_create", {"prompt": "p", "after_seconds": 60}),
                ("schedule_delete", {"id": "a"}),
            ):
                assert (await ask(agent, name, **arguments))["code"] == "corrupt_schedule_log"
            agent.followup("hello")
            await asyncio.sleep(600)
            assert texts(agent) == ["hello", "ok"]
            assert operations(agent.session.events) == ["create a", "create a"]

    run(main)


def test_a_tool_run_by_another_agent_is_refused() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            own, other = [await running.host.agents.create(name) for name in "ab"]
            tool = own.tools.find("schedule_list")
            assert tool is not None
            value = await tool.run(ToolExecution(other, "c", AbortSignal()), "{}")
            assert value["code"] == "internal_error"

    run(main)


def test_an_append_that_is_refused_is_an_internal_error_that_shows_nothing() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with program(clock) as running:
            agent = await running.host.agents.create("s")

            def refuse(*_: object) -> None:
                raise RuntimeError("secret")

            end = agent.session.guard(refuse)
            value = await create(agent)
            end()
            assert value["code"] == "internal_error"
            assert "secret" not in str(value)
            assert (await create(agent))["id"] == "schedule-1"

    run(main, logs_errors=True)


def request() -> CreateRequest:
    return decode_create('{"prompt":"p","after_seconds":60}', ZoneTable(), Limits())


def test_durable_changes_are_announced_after_the_preflight_and_after_the_last_barrier() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as running:
            session = await running.host.sessions.create("s")
            transactions = Transactions(session, running.host.sessions, clock, Limits())
            seen: list[int] = []

            def observe() -> None:
                seen.append(len(session.events))
                raise RuntimeError("no business of the caller's")

            transactions.on_durable_change = observe
            view = await transactions.create(request(), AbortSignal())
            assert view["id"] == "schedule-1"
            assert seen == [0, 1]
            await transactions.list(AbortSignal())
            await transactions.delete("nobody", AbortSignal())
            assert seen == [0, 1, 1, 1]
            running.store.fail_writes(None)
            await transactions.delete("schedule-1", AbortSignal())
            assert seen == [0, 1, 1, 1, 1]
            running.store.heal()

    run(main, logs_errors=True)


def test_closing_waits_for_the_call_in_flight_and_takes_up_no_other() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock) as running:
            session = await running.host.sessions.create("s")
            transactions = Transactions(session, running.host.sessions, clock, Limits())
            held = running.store.hold_writes()
            first, second = (
                asyncio.create_task(transactions.create(request(), AbortSignal())) for _ in range(2)
            )
            await held.reached()
            closing = asyncio.create_task(transactions.aclose())
            await passes()
            assert not closing.done()
            held.release()
            await closing
            assert first.done() or (await first)["id"] == "schedule-1"
            with pytest.raises(ToolAbortedError):
                await second
            assert len(session.events) == 1

    run(main)
