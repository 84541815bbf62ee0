"""What became of a delivery is read from the log: its message, that message's turn, and how it ended."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.program import Program, ask, cut, quiet, run
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.agent.inbox import Inbox
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, TextBlock
from watchbell.log.payloads import StepMark, TurnEnd, TurnStart
from watchbell.reminders.framing import derive_message_id, render_source, render_text
from watchbell.reminders.outcomes import Delivery, derive_deliveries
from watchbell.reminders.records import AtRecord, Create, Dispatch, EveryRecord, draft_change
from watchbell.reminders.state import Batch, OneShot
from watchbell.storage.base import StoredLog
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import SimulatedClock, fail, hang

AT = "2026-12-01T00:01:00.000Z"
SAMPLES = Path(os.environ.get("WATCHBELL_SAMPLES", "/nonexistent"))
RECORD = AtRecord("schedule-1", "p", AT)
TAKE = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}


def message(record: AtRecord = RECORD) -> Message:
    decision = OneShot(record)
    return Message(
        derive_message_id(decision), "user", render_source(decision), (TextBlock(render_text(decision)),)
    )


def born(record: AtRecord = RECORD) -> Draft:
    return draft_change(Create(record))


def decided(record: AtRecord = RECORD) -> list[Draft]:
    return [Inbox().insert([message(record)], "next-turn"), draft_change(Dispatch(record.id))]


def turn(number: int, end: dict[str, Any] | None = None, record: AtRecord = RECORD) -> list[Draft]:
    """Write the turn that a message opens, as far as its end."""
    drafts = [
        Draft("turn/start", TurnStart(number)),
        Draft("agent/inbox/spliced", TAKE),
        Draft("step/start", StepMark(number, 1)),
        Draft("user/message", message(record), None, "append"),
    ]
    return drafts if end is None else [*drafts, *ended(number, end)]


def ended(number: int, end: dict[str, Any]) -> list[Draft]:
    return [Draft("step/end", StepMark(number, 1)), Draft("turn/end", TurnEnd(number, end))]


def taken_up(number: int, attempt: int = 1, record: AtRecord = RECORD) -> list[Draft]:
    mark = {"messageId": message(record).id, "attempt": attempt}
    start = Draft("turn/start", TurnStart(number))
    return [Draft("watchbell/take-up", mark, ignorable=True), start, Draft("step/start", StepMark(number, 1))]


def log_of(*drafts: Draft) -> EventLog:
    return EventLog(draft.at(seq, 1000 + seq) for seq, draft in enumerate(drafts))


def told(deliveries: list[Delivery]) -> list[tuple[str, int | None, str]]:
    return [(delivery.receipt.prompt, delivery.turn, delivery.outcome) for delivery in deliveries]


COMPLETED = {"kind": "completed"}
INTERRUPTED = {"kind": "interrupted"}
DISPOSED = {"kind": "aborted", "reason": {"kind": "disposed"}}


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (None, "pending"),
        (COMPLETED, "answered"),
        ({"kind": "max-tokens"}, "answered"),
        ({"kind": "error", "error": {"code": "RATE_LIMITED", "message": "m"}}, "failed"),
        (INTERRUPTED, "interrupted"),
        (DISPOSED, "interrupted"),
        ({"kind": "aborted", "reason": {"kind": "user"}}, "cancelled"),
        ({"kind": "aborted", "reason": {"kind": "hook"}}, "cancelled"),
        ({"kind": "blocked"}, "cancelled"),
        ({"kind": "of a later version"}, "unknown"),
    ],
)
def test_the_end_of_the_turn_says_what_became_of_it(end: dict[str, Any] | None, outcome: str) -> None:
    log = log_of(born(), *decided(), *turn(1, end))
    assert told(derive_deliveries(log, 0)) == [("p", 1, outcome)]


def test_a_message_that_waits_is_pending_and_has_no_turn() -> None:
    (delivery,) = derive_deliveries(log_of(born(), *decided()), 0)
    assert (delivery.turn, delivery.outcome) == (None, "pending")
    assert (delivery.seq, delivery.dispatched_at_ms, delivery.inherited) == (2, 1002, False)
    assert delivery.receipt.occurrence_at == AT


def test_a_dispatch_without_any_message_is_not_guessed_about() -> None:
    assert told(derive_deliveries(log_of(born(), draft_change(Dispatch("schedule-1"))), 0)) == [
        ("p", None, "unknown")
    ]


def test_a_turn_that_took_it_up_has_the_last_word_and_the_first_turn_is_the_one_it_opened() -> None:
    log = [born(), *decided(), *turn(1, DISPOSED), *taken_up(2)]
    assert told(derive_deliveries(log_of(*log), 0)) == [("p", 1, "pending")]
    log += ended(2, {"kind": "error", "error": {"code": "PERSISTENCE_UNCERTAIN", "message": "m"}})
    assert told(derive_deliveries(log_of(*log), 0)) == [("p", 1, "failed")]
    log += [*taken_up(3, 2), *ended(3, COMPLETED)]
    assert told(derive_deliveries(log_of(*log), 0)) == [("p", 1, "answered")]


def test_a_turn_of_somebody_else_says_nothing_about_it() -> None:
    torn = taken_up(2)[0]
    other = [Draft("turn/start", TurnStart(2)), Draft("step/start", StepMark(2, 1)), *ended(2, COMPLETED)]
    log = [born(), *decided(), *turn(1, DISPOSED), torn, Draft("session/end-seed", {}), *other]
    assert told(derive_deliveries(log_of(*log), 0)) == [("p", 1, "interrupted")]


def test_a_message_that_was_claimed_and_never_entered_is_pending_when_it_is_back() -> None:
    lost = [
        Draft("turn/start", TurnStart(1)),
        Draft("agent/inbox/spliced", TAKE),
        Draft("turn/end", TurnEnd(1, INTERRUPTED)),
    ]
    log = [born(), *decided(), *lost, Inbox().insert([message()], "next-turn")]
    assert told(derive_deliveries(log_of(*log), 0)) == [("p", None, "pending")]
    assert told(derive_deliveries(log_of(*log, *turn(2, COMPLETED)), 0)) == [("p", 2, "answered")]


def test_a_message_that_was_withdrawn_is_cancelled() -> None:
    other = Message("m", "user", {"kind": "user"}, (TextBlock("hello"),))
    withdrawn = Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})
    log = [born(), *decided(), Inbox().insert([other], "next-turn", 0)]
    assert told(derive_deliveries(log_of(*log, withdrawn), 0)) == [("p", None, "pending")]
    assert told(derive_deliveries(log_of(*log, withdrawn, withdrawn), 0)) == [("p", None, "cancelled")]


def test_a_message_that_is_queued_again_waits_until_it_has_entered_and_never_again() -> None:
    withdrawn = Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})
    again = Inbox().insert([message()], "next-turn")
    log = [born(), *decided(), withdrawn, again]
    assert told(derive_deliveries(log_of(*log), 0)) == [("p", None, "pending")]
    log += [*turn(1, COMPLETED), again, *turn(2, INTERRUPTED)]
    assert told(derive_deliveries(log_of(*log), 0)) == [("p", 1, "answered")]


def test_which_of_several_messages_left_is_told_by_its_place() -> None:
    records = [AtRecord(f"schedule-{n}", f"p{n}", AT) for n in (1, 2, 3)]
    log = [born(record) for record in records]
    for place, record in enumerate(records):
        log += [Inbox().insert([message(record)], "next-turn", place), draft_change(Dispatch(record.id))]
    log.append(Draft("agent/inbox/spliced", {**TAKE, "target": "next-step", "removedCount": 0}))
    log += [*turn(1, COMPLETED, records[0]), Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})]
    assert told(derive_deliveries(log_of(*log), 0)) == [
        ("p1", 1, "answered"),
        ("p2", None, "cancelled"),
        ("p3", None, "pending"),
    ]


def test_a_fork_may_use_all_ids_of_its_parents_batch_again() -> None:
    records = [EveryRecord(f"schedule-{n}", "p", AT, every_seconds=300) for n in (1, 2)]
    decision = Batch(tuple((record, record.target_ms) for record in records), records[0].target_ms)
    parents = Message(derive_message_id(decision), "user", render_source(decision), (TextBlock("p"),))
    seed = [*(draft_change(Create(record)) for record in records), Inbox().insert([parents], "next-turn")]
    seed += [draft_change(Dispatch(record.id, AT)) for record in records]
    own = [draft_change(Create(record)) for record in records]
    own.append(Inbox().insert([Message("m", "user", {"kind": "user"}, ())], "next-turn"))
    log = log_of(*seed, Draft("session/end-seed", {}), *own, *decided(), *turn(1, COMPLETED))
    outcomes = [(d.receipt.schedule_id, d.outcome, d.inherited) for d in derive_deliveries(log, len(seed))]
    assert outcomes == [("schedule-1", "pending", True), ("schedule-2", "pending", True)]


def test_the_dispatches_of_a_batch_share_a_turn() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[schedule.plugin()]) as running:
            agent = await running.host.agents.create("s")
            for seconds in (300, 600):
                await ask(agent, "schedule_create", prompt=f"every {seconds}", every_seconds=seconds)
            await asyncio.sleep(601)
            await quiet(agent)
            assert told(derive_deliveries(agent.session.events, 0)) == [
                ("every 300", 1, "answered"),
                ("every 300", 2, "answered"),
                ("every 600", 2, "answered"),
            ]

    run(main)


async def deliver(agent: Agent, prompt: str) -> None:
    """Make a reminder and let it come."""
    await ask(agent, "schedule_create", prompt=prompt, at="2026-12-01T00:01:00Z")
    await asyncio.sleep(61)
    await quiet(agent)


def test_forks_that_use_ids_again_three_generations_deep_show_each_generations_own_outcome() -> None:
    async def main(clock: SimulatedClock) -> None:
        script = [fail(), "two", [hang()], "four"]
        async with Program(clock, script, plugins=[schedule.plugin()]) as running:
            agent: Agent | None = None
            start = clock.now_ms()
            for name in ("great", "grand", "parent", "child"):
                clock.step((start - clock.now_ms()) / 1000)
                create, fork = running.host.agents.create, running.host.agents.fork
                agent = await create(name) if agent is None else await fork(agent, name)
                await ask(agent, "schedule_create", prompt=name, at="2026-12-01T00:01:00Z")
                await asyncio.sleep(61)
                if name == "parent":
                    agent.cancel()
                await quiet(agent)
                assert len({m.id for m in agent.transcript() if m.source.get("plugin") == "schedule"}) == 1
            assert agent is not None
            header = agent.session.header
            deliveries = derive_deliveries(agent.session.events, header.owned_from)
            assert told(deliveries) == [
                ("great", 1, "failed"),
                ("grand", 2, "answered"),
                ("parent", 3, "cancelled"),
                ("child", 4, "answered"),
            ]
            assert [delivery.inherited for delivery in deliveries] == [True, True, True, False]
            assert {delivery.receipt.schedule_id for delivery in deliveries} == {"schedule-1"}

    run(main)


def test_what_waited_in_a_parent_is_not_taken_for_the_forks_own() -> None:
    other = AtRecord("schedule-2", "q", AT)
    waiting = [born(), *decided(), born(other)]
    child = [born(), *decided(), *turn(1, COMPLETED)]
    log = log_of(*waiting, Draft("session/end-seed", {}), *child)
    deliveries = derive_deliveries(log, len(waiting))
    assert [(d.turn, d.outcome, d.inherited) for d in deliveries] == [
        (None, "pending", True),
        (1, "answered", False),
    ]


def test_positions_of_a_fork_are_its_own_although_its_parents_messages_never_left() -> None:
    older = AtRecord("schedule-9", "older", AT)
    withdrawn = Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})
    seed = [born(older), *decided(older)]
    log = log_of(*seed, Draft("session/end-seed", {}), born(), *decided(), withdrawn)
    assert [(d.receipt.prompt, d.outcome) for d in derive_deliveries(log, len(seed))] == [
        ("older", "pending"),
        ("p", "cancelled"),
    ]


def test_a_turn_that_the_fork_had_to_close_is_interrupted() -> None:
    seed = [born(), *decided(), *turn(1)]
    log = log_of(*seed, *ended(1, INTERRUPTED), Draft("session/end-seed", {}))
    (delivery,) = derive_deliveries(log, len(seed))
    assert (delivery.turn, delivery.outcome, delivery.inherited) == (1, "interrupted", True)


def test_a_change_that_cannot_be_read_has_no_delivery_and_spoils_no_other() -> None:
    log = log_of(
        born(), Draft("schedule/change", {"version": 2}), *decided(), born(), *decided(), *turn(1, COMPLETED)
    )
    assert told(derive_deliveries(log, 0)) == [("p", 1, "answered")]


def test_every_cut_of_a_log_tells_what_was_so_by_then() -> None:
    async def main(clock: SimulatedClock) -> list[str]:
        async with Program(clock, plugins=[schedule.plugin()]) as running:
            agent = await running.host.agents.create("s")
            await deliver(agent, "p")
        seen: list[str] = []
        for length in range(len(running.disk.events("s")) + 1):
            events = EventLog(cut(running.disk.events("s"), length).events("s"))
            outcomes = [delivery.outcome for delivery in derive_deliveries(events, 0)]
            seen += outcomes if outcomes and seen[-1:] != outcomes else []
        return seen

    assert run(main) == ["pending", "answered"]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="WATCHBELL_SAMPLES does not name the sample logs")
@pytest.mark.parametrize("encoding", ["none", "zstd"])
@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ("one-shot", [("check the deploy", 2, "answered")]),
        ("every-batch", [("job schedule-2", 1, "answered"), ("job schedule-1", 1, "answered")]),
        ("interrupted", []),
        ("tools", []),
        ("fork-of-fork", [("child work", None, "unknown")]),
    ],
)
def test_messages_of_another_program_are_known_by_their_framing_lines(
    tmp_path: Path, encoding: str, session: str, expected: list[Any]
) -> None:
    shutil.copytree(SAMPLES / encoding, tmp_path / "sessions")

    async def read() -> StoredLog:
        storage = JsonlStorage(tmp_path)
        stored = await storage.read(session)
        await storage.aclose()
        return stored

    stored = asyncio.run(read())
    assert told(derive_deliveries(stored.events, stored.header.owned_from)) == expected
