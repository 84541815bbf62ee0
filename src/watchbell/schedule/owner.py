"""The owner of an agent's reminders: it waits for the next target and delivers what is due."""

from __future__ import annotations

import asyncio
import logging

from watchbell.agent.agent import Agent
from watchbell.backoff import pause_seconds
from watchbell.clock import Clock, Timer
from watchbell.errors import ScheduleLogError
from watchbell.instants import Instant
from watchbell.log.messages import Message, TextBlock
from watchbell.reminders.decision import Decision, decide, derive_dispatches
from watchbell.reminders.framing import derive_message_id, render_source, render_text
from watchbell.reminders.records import draft_change
from watchbell.schedule.transactions import Transactions

_logger = logging.getLogger("watchbell.schedule")


class Owner:
    """Delivers one agent's reminders. It holds no state beyond what replay gives.

    It looks again whenever it is asked to: by its timer at the earliest target, when the agent has become
    idle, after a durable change, when the storage has healed. After a barrier that failed it never retries by
    a timer of its own (contract 5.2), but the next target wakes it as always. After a message that could not
    be built or appended, which nothing else may ever put right, it does, with a growing pause.
    """

    def __init__(self, agent: Agent, transactions: Transactions, clock: Clock) -> None:
        self._agent = agent
        self._transactions = transactions
        self._clock = clock
        self._timer: Timer | None = None
        # Length of the log when the timer was last set to its earliest target, -1 when it waits for another.
        self._looked_until = -1
        self._look: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._failures = 0  # deliveries that could not be built or appended, in a row
        self._asked = False
        self._claiming = False
        self._closed = False
        agent.ctx.agents.hold_idle(agent, self._owes)
        transactions.on_durable_change = self.request

    def request(self) -> None:
        """Look at the schedule again, soon and outside the caller's transaction."""
        if self._closed or self._waits_rightly():
            return
        self._asked = True
        if self._task is None and self._look is None:
            self._look = asyncio.get_running_loop().call_soon(self._begin)

    async def aclose(self) -> None:
        """Start nothing new, and wait for what is in flight."""
        self._closed = True
        self._disarm()
        if self._look is not None:
            self._look.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _owes(self) -> bool:
        """Whether something may be due, and is about to be looked at or delivered."""
        if self._closed:
            return False
        timer = self._timer
        is_late = timer is not None and timer.is_pending and timer.target_ms <= self._now()
        return is_late or self._look is not None or self._task is not None

    def _waits_rightly(self) -> bool:
        """Whether the timer waits for the earliest target of the log as it is now."""
        timer = self._timer
        if timer is None or not timer.is_pending or timer.target_ms <= self._now():
            return False
        return self._transactions.state.watermark == self._looked_until == len(self._agent.session.events)

    def _begin(self) -> None:
        """Look, and deliver in a task of its own when something is due."""
        self._look = None
        self._asked = False
        try:
            is_due = self._is_due()
        except Exception:  # the reminders stay active
            _logger.exception("session %s: the schedule could not be looked at", self._agent.id)
            self._try_again_later()
            is_due = False
        if is_due:
            self._task = asyncio.create_task(self._run(), name=f"watchbell owner {self._agent.id}")
        else:
            self._agent.ctx.agents.recheck_idle(self._agent)

    async def _run(self) -> None:
        try:
            while await self._deliver() or self._asked:
                self._asked = False
                if not self._is_due():
                    break
        except Exception:  # the reminders stay active
            _logger.exception("session %s: a reminder could not be delivered", self._agent.id)
            self._try_again_later()
        finally:
            self._task = None
            self._agent.ctx.agents.recheck_idle(self._agent)

    def _try_again_later(self) -> None:
        self._failures += 1
        self._arm_again(Instant(self._now() + round(pause_seconds(self._failures) * 1000)))

    def _is_due(self) -> bool:
        """Whether a target has passed; when none has, have the timer wait for the earliest."""
        if self._closed:
            return False
        try:
            self._transactions.state.advance(self._agent.session.events)
        except ScheduleLogError:
            self._disarm()
            return False
        self._looked_until = self._transactions.state.watermark
        earliest = self._transactions.state.earliest()
        if earliest is not None and earliest <= self._now():
            self._disarm()
            return True
        timer = self._timer
        if timer is None or not timer.is_pending or timer.target_ms != earliest:
            self._disarm()
            self._timer = None if earliest is None else self._clock.call_at(earliest, self.request)
        return False

    async def _deliver(self) -> bool:
        """Deliver one decision. Returns whether to go on at once; if not, a later occasion asks again."""
        async with self._transactions.slot():
            if self._closed:
                return False
            if not await self._transactions.barrier():
                self._arm_again()
                return False
            if not self._claim_and_append():
                return False
            self._failures = 0
            # Failing here leaves the dispatch, with its message, to the next ordinary flush.
            await self._transactions.barrier()
            return True

    def _claim_and_append(self) -> bool:
        """Claim the idle agent and put the next decision into its log; False when it is busy."""
        reservation = None if self._closed else self._agent.reserve_turn_admission()
        if reservation is None:
            return False
        self._claiming = True
        try:
            self._transactions.state.advance(self._agent.session.events)
            decision = decide(self._transactions.state, self._now())
            if decision is not None:
                self._append(decision)
            return True
        finally:
            reservation.release()
            self._claiming = False

    def _append(self, decision: Decision) -> None:
        """Queue the message and record its dispatches as one batch."""
        message = Message(
            derive_message_id(decision), "user", render_source(decision), (TextBlock(render_text(decision)),)
        )
        dispatches = [draft_change(change) for change in derive_dispatches(decision)]
        self._agent.followup(message, also=dispatches)

    def _now(self) -> Instant:
        return Instant(self._clock.now_ms())

    def _arm_again(self, retry: Instant | None = None) -> None:
        """After a failure, ask again at the next target, or at `retry` if that is earlier."""
        self._disarm()
        self._looked_until = -1
        following = self._transactions.state.earliest_after(self._now())
        instants = [instant for instant in (retry, following) if instant is not None]
        if instants and not self._closed:
            self._timer = self._clock.call_at(min(instants), self.request)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_idle(self) -> None:
        """Look at the schedule again: the agent is idle, or its storage works again while it is."""
        if not self._claiming:
            self.request()
