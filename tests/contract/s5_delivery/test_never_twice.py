"""5. Delivery: never lost, never twice

What a message is known by, and how it enters a turn.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.contract.live import Live, live, living
from tests.contract.world import create_row, later
from tests.program import Program, cut, data, inbox, operations, quiet, run, store, types
from watchbell import schedule
from watchbell.agent.events import StepPlan, StepPrepare
from watchbell.agent.inbox import Inbox
from watchbell.log.event import Draft
from watchbell.log.messages import Message, TextBlock
from watchbell.reminders.framing import Occurrence, derive_key
from watchbell.testing import MemoryDisk, SimulatedClock, hang

DUE = later(60)


def program(clock: SimulatedClock, disk: MemoryDisk | None = None, script: Any = ()) -> Program:
    return Program(clock, script, disk=disk, plugins=[schedule.plugin()])


def presented(events: Any) -> list[Any]:
    messages = data(events, "user/message")
    return [message for message in messages if message["source"].get("plugin") == "schedule"]


# --- the key ---------------------------------------------------------------------------------------------


@living
async def test_the_source_names_the_reminders_and_their_occurrences(at: Live) -> None:
    """The `source` of the message is `{"kind": "plugin", "plugin": "schedule", "retained": true, "reminders":
    [{"id", "occurrenceAt"}, …]}`; a batch's has `acceptedAt` besides."""
    await at.remind(60)
    await at.repeat(300)
    await at.until(301)
    one, batch = [list(message["source"].items()) for message in presented(at.events)]
    head = [("kind", "plugin"), ("plugin", "schedule"), ("retained", True)]
    assert one == [*head, ("reminders", [{"id": "schedule-1", "occurrenceAt": DUE}])]
    listed = ("reminders", [{"id": "schedule-2", "occurrenceAt": later(300)}])
    assert batch == [*head, listed, ("acceptedAt", later(300))]


def test_the_messages_id_is_a_digest_of_that_list() -> None:
    """The message's `id` is a stable digest of that list: the same reminders and occurrences have the same id
    in every program, other ones have another."""

    async def ids_until(at: Live, seconds: int, prompt: str) -> list[str]:
        await at.remind(60, prompt)
        await at.repeat(300)
        await at.until(seconds)
        return [message["id"] for message in presented(at.events)]

    ids = live(lambda at: ids_until(at, 601, "prompts do not count"))
    assert len(set(ids)) == 3
    assert live(lambda at: ids_until(at, 61, "another prompt")) == ids[:1]


@pytest.mark.parametrize("tail", [1, 2])
def test_recovery_looks_for_the_key(tail: int) -> None:
    """A batch that was torn, as another program or a plain log may leave it, is made whole by that key: what
    is queued is not decided again."""
    rows = [create_row("at", scheduledAt=DUE), create_row("at", "b", scheduledAt=DUE)]

    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        store(disk, *(Draft("schedule/change", row) for row in rows))
        clock.step(90)
        async with program(clock, disk, [hang()]) as running:
            await running.host.agents.resume("s")
            await asyncio.sleep(1)
        whole = disk.events("s")
        dispatch = next(i for i, event in enumerate(whole) if event.type == "schedule/change" and i > 1)
        torn = cut(whole, dispatch + tail - 1)
        async with program(clock, torn) as running:
            agent = await running.host.agents.resume("s")
            await quiet(agent)
            assert operations(agent.session.events)[2:] == ["dispatch schedule-1", "dispatch b"]
            assert len(presented(agent.session.events)) == 2

    run(main)


def test_the_key_of_other_programs_messages_is_read_from_the_framing() -> None:
    """The key of messages that dsh wrote is read from their framing lines, whatever words stand around
    these."""
    source = {"kind": "plugin", "plugin": "schedule"}
    head = "[SCHEDULE REMINDER]\nOther words.\n"
    one = f'{head}schedule_id_json: "a"\noccurrence_at: {DUE}\nreminder_prompt_json: "p"'
    item = f'{{"schedule_id":"a","occurrence_at":"{DUE}","reminder_prompt":"p"}}'
    for text in (one, f"[SCHEDULE REMINDER BATCH]\nOther words.\nreminders_json: [{item}]"):
        key = derive_key(Message("m", "user", source, (TextBlock(text),)))
        assert key is not None
        assert key.reminders == (Occurrence("a", DUE),)


# --- entering a turn -------------------------------------------------------------------------------------


@living
async def test_a_step_is_prepared_before_its_messages_are_claimed(at: Live) -> None:
    """A step's prompt is assembled and its hooks have run before its messages are claimed: while a hook
    stands, the message waits in the inbox."""
    may_go_on = asyncio.Event()
    at.program.host.ctx.on(StepPrepare, lambda _: may_go_on.wait())
    await at.remind(60)
    await asyncio.sleep(120)
    assert [message.source["plugin"] for message in inbox(at.agent).next_turn] == ["schedule"]
    assert "turn/start" not in types(at.events)
    may_go_on.set()
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@living
async def test_it_is_assembled_again_when_the_inbox_changed_meanwhile(at: Live) -> None:
    """If the inbox changed meanwhile, it is assembled again: the hooks see what will enter."""
    seen: list[list[str]] = []

    async def hook(event: StepPrepare) -> None:
        seen.append([message.source["kind"] for message in event.plan.messages])
        await asyncio.sleep(10)

    at.program.host.ctx.on(StepPrepare, hook)
    await at.remind(60)
    await asyncio.sleep(65)
    at.agent.steer("by the way", wake=False)
    await quiet(at.agent)
    assert seen == [["plugin"], ["plugin", "user"]]


@living
async def test_the_claim_the_step_and_the_messages_are_one_batch(at: Live) -> None:
    """The claim, `step/start` and the `user/message` events enter the log as one batch."""
    batches: list[list[str]] = []
    at.agent.session.observe(lambda events: batches.append(types(events)))
    await at.remind(60)
    await at.until(61)
    assert [batch[:4] for batch in batches if "turn/start" in batch] == [
        ["turn/start", "agent/inbox/spliced", "step/start", "user/message"]
    ]


@pytest.mark.parametrize("how", ["cancelled", "disposed", "failed"])
def test_what_ends_before_that_leaves_the_reminder_pending(how: str) -> None:
    """Cancelling, disposing or failing before that leaves the reminder pending, and the driver tries
    again."""

    async def body(at: Live) -> None:
        fault: list[Exception] = [RuntimeError("a hook failed")] if how == "failed" else []

        async def hook(*_: object) -> None:
            await asyncio.sleep(10)
            if fault:
                raise fault.pop()

        at.program.host.ctx.on(StepPrepare, hook)
        await at.remind(60)
        await asyncio.sleep(65)
        if how == "cancelled":
            at.agent.cancel(discard_pending=True)
        elif how == "disposed":
            await at.agent.aclose()
            assert Inbox().advance(at.events).next_turn[0].source["plugin"] == "schedule"
            at.agent = await at.program.host.agents.resume("s")
        assert at.delivered == []
        await at.until(30)
        assert at.delivered == ["schedule-1"]

    live(body, logs_errors=how == "failed")


@living(logs_errors=True)
async def test_the_pause_after_a_failure_grows_from_one_second_to_a_minute(at: Live) -> None:
    """After a failure the driver pauses, first for 1 s, then twice as long each time, up to 60 s."""
    tried: list[int] = []

    async def hook(*_: object) -> None:
        tried.append(at.clock.now_ms() // 1000)
        if len(tried) < 10:
            raise RuntimeError("a hook failed")

    at.program.host.ctx.on(StepPrepare, hook)
    await at.remind(60)
    await at.until(600)
    assert at.delivered == ["schedule-1"]
    assert [after - before for before, after in pairwise(tried)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@living
async def test_hooks_cannot_reject_what_is_retained(at: Live) -> None:
    """A hook cannot reject a message whose source says `retained: true`, as those of reminders do; it is a
    flag that the inbox honours whoever sets it."""
    answers: list[bool] = []
    at.program.host.ctx.on(StepPrepare, lambda event: _reject(event.plan, answers))
    await at.remind(60)
    await at.until(61)
    for source in ({"kind": "plugin", "plugin": "bells", "retained": True}, {"kind": "user"}):
        at.agent.followup(Message(str(source), "user", source, (TextBlock("hello"),)))
        await quiet(at.agent)
    assert at.delivered == ["schedule-1"]
    assert answers == [False, False, True]


async def _reject(plan: StepPlan, answers: list[bool]) -> None:
    answers.extend(plan.reject(message) for message in plan.messages)


@living(script=["ok", [hang()]])
async def test_cancelling_cannot_discard_what_is_retained(at: Live) -> None:
    """Nor can `cancel()` discard one; what people queued it can."""
    await at.remind(60)
    with at.agent.reserve_turn_admission() or pytest.fail("it is idle"):
        at.agent.followup("forget it")
        retained = Message(
            "m", "user", {"kind": "plugin", "plugin": "b", "retained": True}, (TextBlock("b"),)
        )
        at.agent.followup(retained)
        at.agent.cancel(discard_pending=True)
        assert [message.id for message in inbox(at.agent).next_turn] == ["m"]
    await quiet(at.agent)
    at.agent.followup("go")
    await asyncio.sleep(90)
    at.agent.cancel(discard_pending=True)
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]
