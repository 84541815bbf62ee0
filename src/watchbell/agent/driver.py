"""The driver: takes what is pending, turn after turn, until the inbox is empty."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING

from watchbell.agent.steps import Entry
from watchbell.agent.turn import Turn, TurnAbortedError
from watchbell.log.turns import last_turn

if TYPE_CHECKING:
    from watchbell.agent.agent import Agent
    from watchbell.agent.take_ups import TakeUps
    from watchbell.log.payloads import AbortKind, TakeUp

__all__ = ["Driver"]

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_logger = logging.getLogger("watchbell.agent")
# Not the task itself: its own context would hold it, and every turn leave a cycle for the collector.
_driving: ContextVar[object] = ContextVar("_driving", default=None)


class Driver:
    """Runs one agent's turns, one at a time, in a task that lives while there is work.

    Work is a turn to take up, a message of the next-turn list, or one of the next-step list that was not
    injected silently. What could not enter a turn stays pending and is tried again after a pause that grows
    from 1 to 60 seconds.
    """

    def __init__(self, agent: Agent, take_ups: TakeUps) -> None:
        self._agent = agent
        self._entry = Entry(agent)
        self._task: asyncio.Task[None] | None = None
        self._drive_mark: object = None  # what `_driving` holds in the task and in those that begin in it
        self._turn: Turn | None = None
        self._preparing: Turn | None = None
        self._take_ups = take_ups
        self._take_ups_wait = False
        self._work_is_gone: asyncio.Event | None = None
        found = last_turn(agent.session.events)
        self._last_turn = 0 if found is None else agent.session.events[found[0]].data["turn"]

    @property
    def is_running(self) -> bool:
        """Whether a turn runs, is prepared, or waits for its next try."""
        return self._task is not None

    @property
    def has_work(self) -> bool:
        """Whether something is there that opens a turn."""
        if self._agent.inbox.next_turn or self._agent.has_waking_step:
            return True
        return self._due_take_up() is not None

    @property
    def is_caller(self) -> bool:
        """Whether its own task asks, or one that began in it (a hook or tool): neither can wait for it."""
        return self._task is not None and _driving.get() is self._drive_mark

    def storage_healed(self) -> None:
        """Let a turn be taken up again that waited for the storage."""
        self._take_ups_wait = False

    def start(self) -> None:
        """Run turns, in a task of their own, until there is no work."""
        if self._task is None:
            self._take_ups_wait = False
            self._drive_mark = object()
            self._task = asyncio.create_task(self._drive(), name=f"watchbell driver {self._agent.id}")

    def cancel(self, kind: AbortKind) -> None:
        """Cancel the running turn; of one that is about to begin, drop what people had queued for it."""
        if self._turn is not None:
            self._turn.cancel(kind)
        elif self._task is not None:
            self._discard_next()
            if not self.has_work and self._work_is_gone is not None:
                self._work_is_gone.set()
            if self._preparing is not None:
                self._preparing.cancel(kind)

    async def aclose(self) -> None:
        """Abort the running turn as disposed and wait for its end, unless that would wait for the caller."""
        task = self._task
        if task is None:
            return
        self.cancel("disposed")
        if self._turn is None:
            task.cancel()
        if not self.is_caller:
            await asyncio.wait([task])

    async def _drive(self) -> None:
        _driving.set(self._drive_mark)
        pause = 0.0
        try:
            while self.has_work and not self._agent.is_closing:
                try:
                    await self._run_turn()
                    pause = 0.0
                    continue
                except TurnAbortedError:
                    # Before anything was claimed: what may not be dropped is tried again, at once after a
                    # person's cancel, but a hook that cancels every time must not keep the loop busy.
                    await self._wait(pause)
                except Exception:
                    _logger.exception("session %s: a turn could not begin; trying again", self._agent.id)
                    pause = pause or FIRST_PAUSE_SECONDS
                    await self._wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS) if pause else FIRST_PAUSE_SECONDS
        finally:
            self._task = None
            self._agent.settle()

    async def _wait(self, seconds: float) -> None:
        """Pause before the next try, and no longer than there is something to try."""
        if not self.has_work:
            return
        self._work_is_gone = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._work_is_gone.wait()
        self._work_is_gone = None

    async def _run_turn(self) -> None:
        take_up = self._due_take_up()
        if take_up is not None and not await self._storage_answers():
            self._take_ups_wait = True
            return
        turn = self._preparing = Turn(self._agent, self._last_turn + 1)
        try:
            plan = await turn.prepare(self._entry, opens_turn=take_up is None)
            if take_up is None and not plan.messages:
                return  # all of it was withdrawn meanwhile
            opened = self._entry.enter_turn(turn.number, plan, take_up)
        finally:
            self._preparing = None
        self._last_turn = turn.number
        if not opened:
            return
        self._turn = turn
        try:
            await turn.run(self._entry)
        finally:
            self._turn = None

    def _due_take_up(self) -> TakeUp | None:
        return None if self._take_ups_wait else self._take_ups.advance(self._agent.session.events).due()

    async def _storage_answers(self) -> bool:
        """Whether the storage confirms all there is; a try to take up is not spent on one that does not."""
        try:
            return await self._agent.sessions.flush(self._agent.session)
        except Exception:  # noqa: BLE001 - a listener may be anybody's; whatever it raises, nothing is certain
            return False

    def _discard_next(self) -> None:
        """Drop what people had queued for the turn that was about to begin; a turn to take up has nothing."""
        if self._agent.is_closing or self._due_take_up() is not None:
            return
        retention, messages = self._agent.retention, self._entry.pending(opens_turn=True)
        discarded = [message.id for message in messages if not retention.holds(message)]
        self._agent.session.append_batch(self._agent.inbox.remove(discarded, canceled=True))
