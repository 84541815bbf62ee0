"""What a delivery showed, what became of it, and that none is torn, is read from the log alone."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.program import (
    Program,
    ask,
    cut,
    operations,
    quiet,
    run,
    store,
    user_texts,
)
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.agent.inbox import Inbox
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, TextBlock
from watchbell.log.payloads import StepMark, TurnStart
from watchbell.reminders.decision import Batch, OneShot
from watchbell.reminders.deliveries import (
    Deliveries,
    Delivery,
    MissingDispatches,
    Receipts,
    schedule_reminder_presentation,
)
from watchbell.reminders.framing import derive_message_id, render_source, render_text
from watchbell.reminders.records import AtRecord, Create, Dispatch, EveryRecord, draft_change
from watchbell.reminders.state import ScheduleState
from watchbell.storage.base import StoredLog
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import MemoryDisk, SimulatedClock, fail, hang

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
    return [Draft("step/end", StepMark(number, 1)), Draft("turn/end", {"turn": number, "reason": end})]


def taken_up(number: int, attempt: int = 1, record: AtRecord = RECORD) -> list[Draft]:
    mark = {"messageId": message(record).id, "attempt": attempt}
    start = Draft("turn/start", TurnStart(number))
    return [Draft("watchbell/take-up", mark, ignorable=True), start, Draft("step/start", StepMark(number, 1))]


def log_of(*drafts: Draft) -> EventLog:
    return EventLog(draft.at(seq, 1000 + seq) for seq, draft in enumerate(drafts))


def told(found: list[Delivery]) -> list[tuple[str, int | None, str]]:
    return [(delivery.receipt.prompt, delivery.turn, delivery.outcome) for delivery in found]


def deliveries(log: EventLog, seed_length: int = 0) -> list[Delivery]:
    return Deliveries(seed_length).advance(log).deliveries


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
    assert told(deliveries(log)) == [("p", 1, outcome)]


def test_a_message_that_waits_is_pending_and_has_no_turn() -> None:
    (delivery,) = deliveries(log_of(born(), *decided()))
    assert (delivery.turn, delivery.outcome) == (None, "pending")
    assert (delivery.seq, delivery.dispatched_at_ms, delivery.inherited) == (2, 1002, False)
    assert delivery.receipt.occurrence_at == AT


def test_a_dispatch_without_any_message_is_not_guessed_about() -> None:
    assert told(deliveries(log_of(born(), draft_change(Dispatch("schedule-1"))))) == [("p", None, "unknown")]


def test_a_turn_that_took_it_up_has_the_last_word() -> None:
    log = [born(), *decided(), *turn(1, DISPOSED), *taken_up(2)]
    assert told(deliveries(log_of(*log))) == [("p", 1, "pending")]
    log += ended(2, {"kind": "error", "error": {"code": "PERSISTENCE_UNCERTAIN", "message": "m"}})
    assert told(deliveries(log_of(*log))) == [("p", 1, "failed")]
    log += [*taken_up(3, 2), *ended(3, COMPLETED)]
    assert told(deliveries(log_of(*log))) == [("p", 1, "answered")]


def test_a_turn_of_somebody_else_says_nothing_about_it() -> None:
    torn = taken_up(2)[0]
    other = [Draft("turn/start", TurnStart(2)), Draft("step/start", StepMark(2, 1)), *ended(2, COMPLETED)]
    log = [born(), *decided(), *turn(1, DISPOSED), torn, Draft("session/end-seed", {}), *other]
    assert told(deliveries(log_of(*log))) == [("p", 1, "interrupted")]


def test_a_message_that_is_back_from_a_lost_claim_is_pending() -> None:
    lost = [
        Draft("turn/start", TurnStart(1)),
        Draft("agent/inbox/spliced", TAKE),
        Draft("turn/end", {"turn": 1, "reason": INTERRUPTED}),
    ]
    log = [born(), *decided(), *lost, Inbox().insert([message()], "next-turn")]
    assert told(deliveries(log_of(*log))) == [("p", None, "pending")]
    assert told(deliveries(log_of(*log, *turn(2, COMPLETED)))) == [("p", 2, "answered")]


def test_a_message_that_was_withdrawn_is_cancelled() -> None:
    other = Message("m", "user", {"kind": "user"}, (TextBlock("hello"),))
    withdrawn = Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})
    log = [born(), *decided(), Inbox().insert([other], "next-turn", 0)]
    assert told(deliveries(log_of(*log, withdrawn))) == [("p", None, "pending")]
    assert told(deliveries(log_of(*log, withdrawn, withdrawn))) == [("p", None, "cancelled")]


def test_a_message_queued_again_waits_until_it_has_entered() -> None:
    withdrawn = Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})
    again = Inbox().insert([message()], "next-turn")
    log = [born(), *decided(), withdrawn, again]
    assert told(deliveries(log_of(*log))) == [("p", None, "pending")]
    log += [*turn(1, COMPLETED), again, *turn(2, INTERRUPTED)]
    assert told(deliveries(log_of(*log))) == [("p", 1, "answered")]


def test_which_of_several_messages_left_is_told_by_its_place() -> None:
    records = [AtRecord(f"schedule-{n}", f"p{n}", AT) for n in (1, 2, 3)]
    log = [born(record) for record in records]
    for place, record in enumerate(records):
        log += [Inbox().insert([message(record)], "next-turn", place), draft_change(Dispatch(record.id))]
    log.append(Draft("agent/inbox/spliced", {**TAKE, "target": "next-step", "removedCount": 0}))
    log += [*turn(1, COMPLETED, records[0]), Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})]
    assert told(deliveries(log_of(*log))) == [
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
    outcomes = [(d.receipt.schedule_id, d.outcome, d.inherited) for d in deliveries(log, len(seed))]
    assert outcomes == [("schedule-1", "pending", True), ("schedule-2", "pending", True)]


def test_the_dispatches_of_a_batch_share_a_turn() -> None:
    async def main(clock: SimulatedClock) -> None:
        async with Program(clock, plugins=[schedule.plugin()]) as running:
            agent = await running.host.agents.create("s")
            for seconds in (300, 600):
                await ask(agent, "schedule_create", prompt=f"every {seconds}", every_seconds=seconds)
            await asyncio.sleep(601)
            await quiet(agent)
            assert told(deliveries(agent.session.events)) == [
                ("every 300", 1, "answered"),
                ("every 300", 2, "answered"),
                ("every 600", 2, "answered"),
            ]

    run(main)


def test_forks_of_forks_show_each_generations_own_outcome() -> None:
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
            found = deliveries(agent.session.events, header.owned_from)
            assert told(found) == [
                ("great", 1, "failed"),
                ("grand", 2, "answered"),
                ("parent", 3, "cancelled"),
                ("child", 4, "answered"),
            ]
            assert [delivery.inherited for delivery in found] == [True, True, True, False]
            assert {delivery.receipt.schedule_id for delivery in found} == {"schedule-1"}

    run(main)


def test_what_waited_in_a_parent_is_not_the_forks_own() -> None:
    other = AtRecord("schedule-2", "q", AT)
    waiting = [born(), *decided(), born(other)]
    child = [born(), *decided(), *turn(1, COMPLETED)]
    log = log_of(*waiting, Draft("session/end-seed", {}), *child)
    found = deliveries(log, len(waiting))
    assert [(d.turn, d.outcome, d.inherited) for d in found] == [
        (None, "pending", True),
        (1, "answered", False),
    ]


def test_positions_of_a_fork_are_its_own() -> None:
    older = AtRecord("schedule-9", "older", AT)
    withdrawn = Draft("agent/inbox/spliced", {**TAKE, "outcome": "canceled"})
    seed = [born(older), *decided(older)]
    log = log_of(*seed, Draft("session/end-seed", {}), born(), *decided(), withdrawn)
    assert [(d.receipt.prompt, d.outcome) for d in deliveries(log, len(seed))] == [
        ("older", "pending"),
        ("p", "cancelled"),
    ]


def test_a_turn_that_the_fork_had_to_close_is_interrupted() -> None:
    seed = [born(), *decided(), *turn(1)]
    log = log_of(*seed, *ended(1, INTERRUPTED), Draft("session/end-seed", {}))
    (delivery,) = deliveries(log, len(seed))
    assert (delivery.turn, delivery.outcome, delivery.inherited) == (1, "interrupted", True)


def test_a_change_that_cannot_be_read_spoils_no_other_delivery() -> None:
    log = log_of(
        born(), Draft("schedule/change", {"version": 2}), *decided(), born(), *decided(), *turn(1, COMPLETED)
    )
    assert told(deliveries(log)) == [("p", 1, "answered")]


def test_every_cut_of_a_log_tells_what_was_so_by_then() -> None:
    async def main(clock: SimulatedClock) -> list[str]:
        async with Program(clock, plugins=[schedule.plugin()]) as running:
            agent = await running.host.agents.create("s")
            await ask(agent, "schedule_create", prompt="p", after_seconds=60)
            await asyncio.sleep(61)
            await quiet(agent)
        seen: list[str] = []
        for length in range(len(running.disk.events("s")) + 1):
            events = EventLog(cut(running.disk.events("s"), length).events("s"))
            outcomes = [delivery.outcome for delivery in deliveries(events)]
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
def test_messages_of_another_program_are_known_by_their_lines(
    tmp_path: Path, encoding: str, session: str, expected: list[Any]
) -> None:
    shutil.copytree(SAMPLES / encoding, tmp_path / "sessions")

    async def read() -> StoredLog:
        storage = JsonlStorage(tmp_path)
        stored = await storage.read(session)
        await storage.aclose()
        return stored

    stored = asyncio.run(read())
    assert told(deliveries(stored.events, stored.header.owned_from)) == expected


# --- receipts --------------------------------------------------------------------------------------------


def test_the_receipts_of_a_log_are_those_of_each_of_its_dispatches() -> None:
    every = EveryRecord("a", "look", AT, every_seconds=300)
    own = [born(), draft_change(Dispatch("schedule-1")), draft_change(Create(every))]
    own += [
        draft_change(Dispatch("a", at)) for at in ("2026-12-01T00:17:30.000Z", "2026-12-01T00:21:00.000Z")
    ]
    log = log_of(born(AtRecord("schedule-1", "parent", AT)), Draft("turn/start", {}), *own)
    receipts = Receipts(2).advance(log).by_seq
    assert [(seq, receipt.prompt, receipt.occurrence_at) for seq, receipt in receipts.items()] == [
        (3, "p", AT),
        (5, "look", "2026-12-01T00:16:00.000Z"),
        (6, "look", "2026-12-01T00:21:00.000Z"),
    ]
    for events in (log, list(log)):
        shown = {seq: schedule_reminder_presentation(events, seq, 2) for seq in range(-1, len(log) + 1)}
        assert {seq: receipt for seq, receipt in shown.items() if receipt is not None} == receipts


def test_a_damaged_change_leaves_no_receipt_until_the_next_create() -> None:
    damaged = Draft("schedule/change", {"version": 2})
    other = AtRecord("b", "q", AT)
    sent = [draft_change(Dispatch("schedule-1")), born(other), draft_change(Dispatch("b"))]
    assert list(Receipts(0).advance(log_of(born(), damaged, *sent)).by_seq) == [4]


# --- what a crash tears ----------------------------------------------------------------------------------

LATER = "2026-12-01T00:11:00.000Z"
EVERY = EveryRecord("schedule-1", "p", AT, every_seconds=300)


def shown(occurrence: str = AT, schedule_id: str = "schedule-1", **source: Any) -> Message:
    listed = [{"id": schedule_id, "occurrenceAt": occurrence}]
    head = {"kind": "plugin", "plugin": "schedule", "retained": True, "reminders": listed}
    return Message("m", "user", {**head, **source}, (TextBlock("[SCHEDULE REMINDER]"),))


def entered(message: Message) -> Draft:
    return Draft("user/message", message, None, "append")


def missing(*drafts: Draft, pending: Iterable[Message] = (), owned_from: int = 0) -> list[Dispatch]:
    log = log_of(*drafts)
    state = ScheduleState(owned_from).advance(log)
    return MissingDispatches(owned_from).advance(log).derive(state, pending)


@pytest.mark.parametrize(
    ("record", "message", "expected"),
    [
        (RECORD, shown(), [Dispatch("schedule-1")]),
        (RECORD, shown("2026-12-01T00:00:59.999Z"), []),
        (EVERY, shown(), [Dispatch("schedule-1", AT)]),
        (
            EVERY,
            shown(acceptedAt="2026-12-01T00:03:00.000Z"),
            [Dispatch("schedule-1", "2026-12-01T00:03:00.000Z")],
        ),
        (EVERY, shown(acceptedAt="2020-01-01T00:00:00.000Z"), [Dispatch("schedule-1", AT)]),
        (EVERY, shown("2026-11-30T00:00:00.000Z"), []),
        (RECORD, shown(plugin="other"), []),
        (RECORD, shown(schedule_id="b"), []),
    ],
)
def test_a_message_without_its_dispatch_is_found_by_its_key(
    record: AtRecord | EveryRecord, message: Message, expected: list[Dispatch]
) -> None:
    assert missing(draft_change(Create(record)), entered(message)) == expected
    assert missing(draft_change(Create(record)), pending=[message]) == expected


def test_one_dispatch_the_latest_makes_up_for_several_messages() -> None:
    create, messages = draft_change(Create(EVERY)), [shown(at) for at in (AT, LATER, AT)]
    assert missing(create, pending=messages) == [Dispatch("schedule-1", LATER)]
    assert missing(entered(messages[0]), create, entered(messages[1])) == [Dispatch("schedule-1", LATER)]


def test_a_message_of_a_parent_proves_nothing_for_a_fork() -> None:
    assert missing(born(), entered(shown()), born(), owned_from=2) == []


def test_a_message_of_another_program_completes_its_delivery() -> None:
    text = (
        "[SCHEDULE REMINDER]\nIts own words.\n"
        f'schedule_id_json: "schedule-1"\noccurrence_at: {AT}\nreminder_prompt_json: "p"'
    )
    others = Message("m", "user", {"kind": "plugin", "plugin": "schedule"}, (TextBlock(text),))

    async def main(clock: SimulatedClock) -> None:
        clock.step(600)
        disk = MemoryDisk()
        store(disk, born(), Inbox().insert([others], "next-turn"))
        async with Program(clock, disk=disk, plugins=[schedule.plugin()]) as running:
            agent = await running.host.agents.resume("s")
            await quiet(agent)
        assert operations(disk.events("s")) == ["create schedule-1", "dispatch schedule-1"]
        assert user_texts(disk.events("s")) == [text]

    run(main)
