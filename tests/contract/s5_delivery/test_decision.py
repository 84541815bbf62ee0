"""5. Delivery: deciding

What an owner does with the idle agent in its hand.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.live import Live, live, living, refuse_dispatches
from tests.contract.world import later
from tests.program import data, inbox, operations, passes, quiet, reason_kinds, types
from watchbell.agent.events import StepPrepare
from watchbell.testing import fail, hang

# --- one decision ----------------------------------------------------------------------------------------


@living
async def test_the_log_is_folded_again_inside_the_claim(at: Live) -> None:
    """Inside the claim the log is folded again: a reminder that was deleted while the owner stood at its
    barrier does not come."""
    await at.remind(60)
    at.gate.stop()
    await at.gate.reached()
    at.agent.session.append("schedule/change", {"version": 1, "operation": "delete", "id": "schedule-1"})
    at.gate.open()
    await at.until(600)
    assert at.delivered == []


@living
async def test_the_clock_is_read_again_inside_the_claim(at: Live) -> None:
    """Inside the claim the clock is read again, once: when it was set back behind the target meanwhile,
    nothing is decided, and the reminder comes at its time."""
    await at.remind(60)
    at.gate.stop()
    await at.gate.reached()
    at.clock.step(-30)
    at.gate.open()
    await at.until(29)
    assert at.delivered == []
    await at.until(1)
    assert at.delivered == ["schedule-1"]


@living
async def test_one_instant_decides_about_a_whole_batch(at: Live) -> None:
    """All that is decided in one claim is decided for one instant, that of the claim and not of the wake."""
    await at.repeat(300)
    await at.repeat(600)
    at.gate.stop()
    await at.gate.reached()
    at.clock.step(700)
    at.gate.open()
    await quiet(at.agent)
    dispatched = [change for change in data(at.events, "schedule/change") if "acceptedAt" in change]
    assert [change["acceptedAt"] for change in dispatched] == [later(1000)] * 2


async def keep_busy(at: Live, seconds: float) -> None:
    """Have the agent in a turn for a while, so that reminders pile up."""
    at.agent.followup("go")
    await asyncio.sleep(seconds)
    at.agent.cancel()
    await quiet(at.agent)


@living(script=[hang()])
async def test_due_one_shots_go_first_one_turn_each(at: Live) -> None:
    """Due one-shots go first, the earliest target first, then in create order, each with a follow-up turn of
    its own."""
    await at.repeat(300)
    for seconds in (120, 60, 120):
        await at.remind(seconds)
    await keep_busy(at, 400)
    assert at.delivered == ["schedule-3", "schedule-2", "schedule-4", "schedule-1"]
    assert reason_kinds(at.events) == ["aborted", *["completed"] * 4]


@living(script=[hang(), hang()])
async def test_a_one_shot_that_falls_due_meanwhile_goes_before_the_repeaters(at: Live) -> None:
    """As long as a one-shot is due no repeater is decided about."""
    await at.repeat(300)
    await at.remind(299)
    await at.remind(301)
    at.agent.followup("go")
    await asyncio.sleep(300)
    at.agent.cancel()
    await asyncio.sleep(5)  # the first reminder's turn, while the second one falls due
    at.agent.cancel()
    await quiet(at.agent)
    assert at.delivered == ["schedule-2", "schedule-3", "schedule-1"]


@living(script=[hang()])
async def test_all_overdue_repeaters_form_one_batch(at: Live) -> None:
    """When no one-shot is due, all overdue repeaters form one batch, in the order of their targets, then of
    their creation, each with its latest occurrence, all with the same `acceptedAt`."""
    for seconds in (900, 300, 600, 600):
        await at.repeat(seconds)
    await keep_busy(at, 3900)
    (source,) = [m["source"] for m in data(at.events, "user/message") if m["source"]["kind"] == "plugin"]
    assert [(item["id"], item["occurrenceAt"]) for item in source["reminders"]] == [
        ("schedule-2", later(3900)),
        ("schedule-3", later(3600)),
        ("schedule-4", later(3600)),
        ("schedule-1", later(3600)),
    ]
    assert source["acceptedAt"] == later(3900)
    dispatched = [change for change in data(at.events, "schedule/change") if "acceptedAt" in change]
    assert [change["id"] for change in dispatched] == [item["id"] for item in source["reminders"]]
    assert {change["acceptedAt"] for change in dispatched} == {later(3900)}
    assert [view["scheduledAt"] for view in await at.list()] == [
        later(4500), later(4200), later(4200), later(4200)
    ]  # fmt: skip


# --- one append ------------------------------------------------------------------------------------------


@living
async def test_the_message_and_its_dispatches_are_one_batch(at: Live) -> None:
    """The insertion of the message into the inbox, as `followup()` writes it, and the dispatch or dispatches
    are one batch, in that order, and are never split over two batches of the storage."""
    await at.remind(600)
    await at.repeat(300)
    await at.repeat(300)
    await at.until(601)
    by_hand = at.agent.followup("hello")
    await quiet(at.agent)
    stored = [types(batch) for batch in at.program.disk.batches["s"]]
    for dispatches in ("schedule/change", "schedule/change schedule/change"):
        assert any(f"agent/inbox/spliced {dispatches}" in " ".join(batch) for batch in stored)
    splices = data(at.events, "agent/inbox/spliced")
    (own,) = [splice for splice in splices if [m["id"] for m in splice["inserted"]] == [by_hand.id]]
    queued = [splice for splice in splices if splice["inserted"]]
    assert {tuple(splice) for splice in queued} == {tuple(own)}
    assert all(splice["target"] == "next-turn" for splice in queued)


@living
async def test_the_agent_is_released_before_the_last_barrier(at: Live) -> None:
    """Then the agent is released, and only then comes the barrier: the turn may begin, the model is not asked
    before that."""
    await at.remind(60)
    at.gate.stop(2)
    await at.gate.reached()
    await passes()
    assert operations(at.events) == ["create schedule-1", "dispatch schedule-1"]
    assert at.agent.phase == "turn"
    assert at.program.model.requests == []
    at.gate.open()


@living(logs_errors=True)
async def test_what_fails_before_the_append_leaves_everything_as_it_was(
    at: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the text cannot be built nothing is appended, and the record stays active."""
    await at.remind(60)
    with monkeypatch.context() as broken:
        broken.setattr("watchbell.schedule.owner.render_text", lambda _: 1 / 0)
        await at.until(600)
    assert operations(at.events) == ["create schedule-1"]
    assert inbox(at.agent).next_turn == ()
    assert at.agent.phase == "idle"
    await at.list()
    await quiet(at.agent)
    assert at.delivered == ["schedule-1"]


@living(logs_errors=True)
async def test_an_append_that_fails_queues_nothing(at: Live) -> None:
    """If the append fails nothing is queued, the record stays active, and the owner tries again by itself,
    after a pause that grows from 1 to 60 s."""
    await at.remind(60)
    tried = refuse_dispatches(at.agent, times=1)
    await asyncio.sleep(60.9)
    assert [draft.type for draft in tried] == ["agent/inbox/spliced", "schedule/change"]
    assert operations(at.events) == ["create schedule-1"]
    assert inbox(at.agent).next_turn == ()
    await at.until(1)
    assert at.delivered == ["schedule-1"]
    assert operations(at.events) == ["create schedule-1", "dispatch schedule-1"]


@living
async def test_a_last_barrier_that_fails_leaves_the_dispatch_to_the_next_flush(at: Live) -> None:
    """A last barrier that fails leaves the dispatch pending for the next ordinary flush: it is not decided
    again."""
    await at.remind(60)
    await asyncio.sleep(59.9)
    at.program.store.fail_writes(None)
    await asyncio.sleep(600)
    assert operations(at.events) == ["create schedule-1", "dispatch schedule-1"]
    assert operations(at.program.disk.events("s")) == ["create schedule-1"]
    at.program.store.heal()
    await at.until(61)
    assert operations(at.program.disk.events("s")) == ["create schedule-1", "dispatch schedule-1"]
    assert at.delivered == ["schedule-1"]


# --- afterwards ------------------------------------------------------------------------------------------


@living(script=["Stretch!"])
async def test_the_follow_up_is_one_real_message_that_opens_an_ordinary_turn(at: Live) -> None:
    """The follow-up becomes one real user message, which opens an ordinary turn of its own."""
    await at.remind(60)
    await at.until(61)
    (message,) = data(at.events, "user/message")
    assert message["role"] == "user"
    start = types(at.events).index("turn/start")
    assert types(at.events)[start : start + 4] == [
        "turn/start", "agent/inbox/spliced", "step/start", "user/message"
    ]  # fmt: skip
    assert reason_kinds(at.events) == ["completed"]
    assert at.agent.transcript()[-1].text == "Stretch!"


@living(script=[fail()])
async def test_a_model_that_fails_later_undoes_no_dispatch(at: Live) -> None:
    """A failure of the model afterwards undoes no dispatch."""
    await at.remind(60)
    await at.until(3600)
    assert reason_kinds(at.events) == ["error"]
    assert operations(at.events) == ["create schedule-1", "dispatch schedule-1"]
    assert await at.list() == []


# --- disposal --------------------------------------------------------------------------------------------


@living
async def test_disposal_cancels_the_timer_and_starts_nothing_new(at: Live) -> None:
    """Disposal cancels the timer, and nothing new is started."""
    await at.remind(60)
    await at.agent.aclose()
    asked = at.gate.asked
    await asyncio.sleep(600)
    assert at.gate.asked == asked
    assert operations(at.program.disk.events("s")) == ["create schedule-1"]


@pytest.mark.parametrize("barrier", [1, 2])
@living
async def test_disposal_waits_for_what_is_in_flight(at: Live, barrier: int) -> None:
    """It waits for the delivery that is in flight, at whichever barrier that stands: one that was not decided
    then is not decided any more."""
    await at.remind(60)
    at.gate.stop(barrier)
    await at.gate.reached()
    disposal = asyncio.create_task(at.agent.aclose())
    await asyncio.sleep(60)
    assert not disposal.done()
    at.gate.open()
    await disposal
    assert len(operations(at.program.disk.events("s"))) == barrier


@pytest.mark.parametrize("due", [False, True])
@living
async def test_disposal_writes_no_deletes(at: Live, due: bool) -> None:
    """It never writes deletes: what is active stays so, in the log."""
    await at.remind(600)
    await at.repeat(300)
    at.gate.fail()
    await asyncio.sleep(300 if due else 10)
    await at.agent.aclose()
    assert operations(at.program.disk.events("s")) == ["create schedule-1", "create schedule-2"]


@pytest.mark.parametrize("await_point", ["barrier 1", "barrier 2", "hook", "barrier 3", "model"])
def test_whenever_an_agent_is_disposed_of_the_next_one_makes_it_good(await_point: str) -> None:
    """At whichever await a delivery or its turn stands when its agent is disposed of, the session's next
    agent makes it good: one user message, and the model sees it."""

    async def body(at: Live) -> None:
        await at.remind(60)
        stands = asyncio.Event()

        async def hook(*_: object) -> None:
            stands.set()
            await asyncio.Event().wait()

        withdraw = at.program.host.ctx.on(StepPrepare, hook) if await_point == "hook" else None
        if await_point.startswith("barrier"):
            # The third one is the turn's; the second stands in the same instant.
            at.gate.stop(min(2, int(await_point[-1])))
            await at.gate.reached()
            await passes(20 if await_point == "barrier 3" else 0)
        elif await_point == "hook":
            await stands.wait()
        else:
            await asyncio.sleep(61)
        disposal = asyncio.create_task(at.agent.aclose())
        await passes()
        at.gate.open()
        await disposal
        if withdraw is not None:
            withdraw()
        at.agent = await at.agents.resume("s")
        await at.until(10)
        assert at.delivered == ["schedule-1"]
        assert operations(at.events) == ["create schedule-1", "dispatch schedule-1"]
        last = at.program.model.requests[-1].messages
        assert any(message.text.startswith("[SCHEDULE REMINDER]") for message in last)

    live(body, [hang()] if await_point == "model" else [])


@living
async def test_a_session_that_is_not_live_is_nobodys_business(at: Live) -> None:
    """An agent that is not live has no owner."""
    await at.remind(60)
    await at.agent.aclose()
    await asyncio.sleep(600)
    assert at.program.model.requests == []
