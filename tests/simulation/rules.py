"""Each rule that the promise rests on, and how to take it out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

from watchbell.agent import _take_ups as take_ups
from watchbell.agent import opening
from watchbell.agent._take_ups import TakeUps
from watchbell.agent.agent import Agent
from watchbell.agent.core import Core, Reservation
from watchbell.agent.inbox import Inbox, Retention
from watchbell.agent.steps import StepAssembler
from watchbell.agent.turn import Turn
from watchbell.instants import Instant
from watchbell.log.header import SessionHeader
from watchbell.log.payloads import Aborted, Interrupted, Reason
from watchbell.reminders.decision import decide, derive_dispatches
from watchbell.reminders.deliveries import MissingDispatches
from watchbell.reminders.records import draft_change
from watchbell.schedule import owner as owner_module
from watchbell.schedule.owner import Owner
from watchbell.schedule.transactions import Transactions
from watchbell.testing.clock import SimulatedClock
from watchbell.testing.disk import SimulatedDisk

__all__ = ["RULES", "Rule"]

Patch = pytest.MonkeyPatch


class Rule(NamedTuple):
    """A rule, the way to take it out, and a seed in which that shows, as what."""

    name: str
    remove: Callable[[Patch], None]
    kind: str
    seed: int


def _set(target: object, name: str, value: object) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(target, name, value)


_closers = _set(opening, "close_open_turn", lambda log: [])
_returned_messages = _set(Inbox, "returned", lambda self, **_: [])
_take_ups = _set(TakeUps, "due", lambda self: None)
_end_of_take_ups = _set(take_ups, "MAX_TAKE_UPS", 99)
# Take up what was cut off in the middle of its answer, too.
_text_settles = _set(take_ups, "_holds_text", lambda event: False)
# Take up what a person cancelled, too.
_cancel_settles = _set(Reason, "is_loss", property(lambda self: isinstance(self, Interrupted | Aborted)))
_take_ups_after_a_failed_barrier = _set(Reason, "is_uncertainty", property(lambda self: False))
_take_ups_after_disposal = _set(Reason, "is_loss", property(lambda self: isinstance(self, Interrupted)))
_retained_messages = _set(Retention, "holds", lambda self, message: False)
_ear_for_idleness = _set(Owner, "on_idle", lambda self: None)
_ear_for_healing = _set(Core, "storage_healed", lambda self: None)
_fork_point = _set(SessionHeader, "owned_from", property(lambda self: 0))


def _keyed_dispatches(patch: Patch) -> None:
    patch.setattr(MissingDispatches, "derive", lambda self, state, pending: [])


def _who_ended_a_turn(patch: Patch) -> None:
    """Say of what a person cancelled that the agent was disposed of."""
    cancel = Turn.cancel

    def cancel_namelessly(self: Turn, kind: str) -> None:
        cancel(self, "disposed")

    patch.setattr(Turn, "cancel", cancel_namelessly)


def _one_batch_for_message_and_dispatch(patch: Patch) -> None:
    append = Owner._append
    is_late: dict[Any, bool] = {}

    async def deliver(self: Owner) -> bool:
        async with self._transactions.slot():
            if self._closed or not await self._transactions.barrier():
                return False
            reservation = self._agent.reserve_turn_admission()
            if reservation is None:
                return False
            with reservation:
                self._transactions.state.advance(self._agent.session.events)
                decision = decide(self._transactions.state, Instant(self._clock.now_ms()))
                if decision is None:
                    return True
                dispatches = [draft_change(change) for change in derive_dispatches(decision)]
                self._agent.session.append_batch(dispatches)
                await self._transactions.barrier()
                append_message(self, decision)
            return True

    def append_message(self: Owner, decision: Any) -> None:
        is_late[self] = True
        append(self, decision)

    patch.setattr(Owner, "_deliver", deliver)
    original = owner_module.derive_dispatches
    patch.setattr(
        owner_module,
        "derive_dispatches",
        lambda decision: () if is_late else original(decision),
    )


def _barrier_before_the_decision(patch: Patch) -> None:
    async def deliver(self: Owner) -> bool:
        async with self._transactions.slot():
            if self._closed or not self._claim_and_append():
                return False
            await self._transactions.barrier()
            return True

    patch.setattr(Owner, "_deliver", deliver)


def _fold_inside_the_claim(patch: Patch) -> None:
    """Decide on what was folded before the slot was reached."""
    is_due = Owner._is_due
    decisions: dict[Owner, Any] = {}

    def decide_early(self: Owner) -> bool:
        due = is_due(self)
        if due:
            decisions[self] = decide(self._transactions.state, Instant(self._clock.now_ms()))
        return due

    def claim(self: Owner) -> bool:
        reservation = None if self._closed else self._agent.reserve_turn_admission()
        if reservation is None:
            return False
        with reservation:
            if decisions.get(self) is not None:
                self._append(decisions.pop(self))
        return True

    patch.setattr(Owner, "_is_due", decide_early)
    patch.setattr(Owner, "_claim_and_append", claim)


def _clock_that_is_read_anew(patch: Patch) -> None:
    """Take what was the time once for the least that it can be."""

    class OnwardClock:
        def __init__(self, clock: Any) -> None:
            self._clock = clock
            self._latest = 0

        def now_ms(self) -> int:
            self._latest = max(self._latest, self._clock.now_ms())
            return self._latest

        def call_at(self, target_ms: int, callback: Callable[[], None]) -> Any:
            return self._clock.call_at(target_ms, callback)

    init = Owner.__init__
    patch.setattr(
        Owner,
        "__init__",
        lambda self, agent, transactions, clock: init(
            self, agent, transactions, cast("Any", OnwardClock(clock))
        ),
    )


def _claim_of_the_idle_agent(patch: Patch) -> None:
    class NoReservation(Reservation):
        def release(self) -> None:
            pass

    patch.setattr(Agent, "reserve_turn_admission", lambda self: NoReservation(self._core))


def _one_queue_for_transactions(patch: Patch) -> None:
    """Give each transaction a queue of its own."""

    class NoLock:
        async def acquire(self) -> None: ...
        def release(self) -> None: ...
        async def __aenter__(self) -> None: ...
        async def __aexit__(self, *_: object) -> None: ...

    init = Transactions.__init__

    def make(self: Transactions, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self._slot = NoLock()  # pyright: ignore[reportAttributeAccessIssue]

    patch.setattr(Transactions, "__init__", make)


def _barrier_before_the_model(patch: Patch) -> None:
    async def confirm(self: Turn) -> None:
        await asyncio.sleep(0)

    patch.setattr(Turn, "confirm", confirm)


def _barrier_before_the_answer(patch: Patch) -> None:
    """Answer a create or delete as soon as it is appended."""
    barrier = Transactions.barrier

    async def preflight(self: Transactions) -> bool:
        is_durable = await barrier(self)
        if is_durable:
            self._announce()
        return is_durable

    async def no_barrier(self: Transactions) -> bool:
        await asyncio.sleep(0)
        return True

    patch.setattr(Transactions, "preflight", preflight)
    patch.setattr(Transactions, "barrier", no_barrier)


def _second_look_at_the_clock(patch: Patch) -> None:
    init = SimulatedClock.__init__

    def make(self: SimulatedClock, start: Any) -> None:
        init(self, start, recheck_seconds=1e9)

    patch.setattr(SimulatedClock, "__init__", make)


def _start_of_the_driver(patch: Patch) -> None:
    """Wait for somebody to type."""

    def open_silently(self: Core) -> None:
        self._is_open = True

    patch.setattr(Core, "open", open_silently)


def _claim_and_entry_in_one(patch: Patch) -> None:
    """Claim the messages before the step is assembled."""
    assemble = StepAssembler.assemble

    async def claim_first(self: StepAssembler, *, opens_turn: bool) -> Any:
        ids = [message.id for message in self.pending(opens_turn=opens_turn)]
        plan = await assemble(self, opens_turn=opens_turn)
        self._core.session.append_batch(self._core.inbox.remove(ids))
        await asyncio.sleep(0)
        return plan

    patch.setattr(StepAssembler, "assemble", claim_first)
    patch.setattr(StepAssembler, "is_current", lambda self, plan: True)


def _sync_before_the_answer(patch: Patch) -> None:
    sync = SimulatedDisk.fsync

    def no_sync(self: SimulatedDisk, descriptor: int) -> None:
        if self._open[descriptor][0].name.startswith("session.jsonl"):
            return
        sync(self, descriptor)

    patch.setattr(SimulatedDisk, "fsync", no_sync)


RULES = [
    Rule("closers of an interrupted turn", _closers, "invalid", 0),
    Rule("messages that come back", _returned_messages, "lost", 66),
    Rule("dispatches found by key", _keyed_dispatches, "doubled", 45),
    Rule("taking up", _take_ups, "silent", 0),
    Rule("three takings-up at most", _end_of_take_ups, "invalid", 77),
    Rule("no taking up of what was answered", _text_settles, "doubled", 5),
    Rule("no taking up of what was cancelled", _cancel_settles, "doubled", 5),
    Rule("taking up after a failed barrier", _take_ups_after_a_failed_barrier, "silent", 6),
    Rule("taking up after disposal", _take_ups_after_disposal, "silent", 1),
    Rule("who ended a turn", _who_ended_a_turn, "invalid", 5),
    Rule("retained messages", _retained_messages, "lost", 0),
    Rule("message and dispatch in one batch", _one_batch_for_message_and_dispatch, "lost", 4),
    Rule("barrier before the decision", _barrier_before_the_decision, "unconfirmed", 5),
    Rule("fold inside the claim", _fold_inside_the_claim, "doubled", 3),
    Rule("clock that is read anew", _clock_that_is_read_anew, "early", 31),
    Rule("claim of the idle agent", _claim_of_the_idle_agent, "invalid", 2),
    Rule("one queue for transactions", _one_queue_for_transactions, "unconfirmed", 249),
    Rule("barrier before the model", _barrier_before_the_model, "unconfirmed", 0),
    Rule("barrier before the answer", _barrier_before_the_answer, "lost", 2),
    Rule("second look at the clock", _second_look_at_the_clock, "late", 9),
    Rule("ear for idleness", _ear_for_idleness, "late", 1),
    Rule("ear for healing", _ear_for_healing, "late", 16),
    Rule("fork point", _fork_point, "doubled", 2),
    Rule("start of the driver", _start_of_the_driver, "silent", 0),
    Rule("claim and entry in one", _claim_and_entry_in_one, "lost", 3),
    Rule("sync before the answer", _sync_before_the_answer, "unconfirmed", 0),
]
