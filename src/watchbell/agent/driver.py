"""The driver: takes what is pending, turn after turn, until there is no work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from watchbell.agent._abort import TurnAbortedError
from watchbell.agent.agent import Agent
from watchbell.agent.core import Core
from watchbell.agent.runner import TurnRecorder, TurnRunner
from watchbell.agent.steps import StepAssembler
from watchbell.agent.turn import Turn, answer_turn
from watchbell.backoff import pause_seconds
from watchbell.log.payloads import AbortKind, Reason, TurnStart
from watchbell.log.turns import last_turn
from watchbell.models.base import ChatModel
from watchbell.tools.definition import AbortSignal

_logger = logging.getLogger("watchbell.agent")
# Not the task itself: its own context would hold it, and every turn leave a cycle for the collector.
_driving: ContextVar[object] = ContextVar("_driving", default=None)


@dataclass(slots=True, eq=False)
class Driver:
    """Runs one agent's turns, one at a time, in a task that lives while there is work.

    Work is a turn to take up, a message of the next-turn list, or one of the next-step list that does not
    wait silently. What could not enter a turn stays pending and is tried again after a pause that grows.
    """

    _agent: Agent
    _core: Core
    _assembler: StepAssembler
    _task: asyncio.Task[None] | None = None
    _drive_mark: object = None  # what `_driving` holds in the task and in those that begin in it
    _turn: Turn | None = None
    _preparing: AbortSignal | None = None  # of a turn that is about to begin
    _work_is_gone: asyncio.Event | None = None
    _last_turn: int = 0

    def __post_init__(self) -> None:
        events = self._core.session.events
        if (found := last_turn(events)) is not None:
            self._last_turn = events[found[0]].decode(TurnStart).turn
        self._core.drive = self

    @property
    def is_running(self) -> bool:
        """Whether a turn runs, is prepared, or waits for its next try."""
        return self._task is not None

    @property
    def is_caller(self) -> bool:
        """Whether its own task asks, or one that began in it (a hook or tool): neither can wait for it."""
        return self._task is not None and _driving.get() is self._drive_mark

    def start(self) -> None:
        """Run turns, in a task of their own, until there is no work."""
        if self._task is None:
            self._core.take_ups_wait = False
            self._drive_mark = object()
            self._task = asyncio.create_task(self._drive(), name=f"watchbell driver {self._agent.id}")

    def cancel(self, kind: AbortKind) -> None:
        """Cancel the running turn; of one that is about to begin, drop what people had queued for it."""
        if self._turn is not None:
            self._turn.cancel(kind)
        elif self._task is not None:
            self._discard_next()
            if not self._core.has_work and self._work_is_gone is not None:
                self._work_is_gone.set()
            if self._preparing is not None:
                self._preparing.abort()

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
        failures = 0
        try:
            while self._core.has_work and not self._core.is_closing:
                try:
                    await self._run_turn()
                    failures = 0
                    continue
                except TurnAbortedError:
                    # Before anything was claimed: what may not be dropped is tried again, at once after a
                    # person's cancel, but a hook that cancels every time must not keep the loop busy.
                    pass
                except Exception:
                    _logger.exception("session %s: a turn could not begin; trying again", self._agent.id)
                    failures = max(failures, 1)
                await self._wait(pause_seconds(failures) if failures else 0.0)
                failures += 1
        finally:
            self._task = None
            self._core.settle()

    async def _wait(self, seconds: float) -> None:
        """Pause before the next try, and no longer than there is something to try."""
        if not self._core.has_work:
            return
        self._work_is_gone = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._work_is_gone.wait()
        self._work_is_gone = None

    async def _run_turn(self) -> None:
        core = self._core
        take_up = core.due_take_up()
        if take_up is not None and not await core.flush():
            core.take_ups_wait = True  # no try is spent on a storage that does not confirm what there is
            return
        self._preparing = AbortSignal()
        try:
            plan = await self._assembler.prepare(self._preparing, opens_turn=take_up is None)
        finally:
            self._preparing = None
        if take_up is None and not plan.messages:
            return  # all of it was withdrawn meanwhile
        opened = self._assembler.enter_turn(self._last_turn + 1, plan, take_up)
        self._last_turn += 1
        if not opened:
            return
        self._turn = Turn(self._agent, core, self._assembler, self._last_turn)
        try:
            await self._turn.run(self._answer(self._turn))
        finally:
            self._turn = None

    def _answer(self, turn: Turn) -> Awaitable[Reason]:
        """Have a turn answered by whoever the agent's model is."""
        model = self._core.model
        if hasattr(model, "run_turn"):  # `isinstance` of a protocol costs as much as appending an event
            return TurnRecorder(turn).run(cast("TurnRunner", model))
        return answer_turn(turn, cast("ChatModel", model))

    def _discard_next(self) -> None:
        """Drop what people had queued for the turn that was about to begin; a turn to take up has nothing."""
        if not self._core.is_closing and self._core.due_take_up() is None:
            self._core.discard(self._assembler.pending(opens_turn=True))
