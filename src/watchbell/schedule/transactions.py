"""One agent's Schedule transactions: first come, first served, each from its preflight to its last barrier.

The three tools and the owner's deliveries share this queue, so that no two of them interleave (contract
section 4, "Order of work").
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from watchbell.clock import Clock
from watchbell.errors import ScheduleLogError, ToolAbortedError
from watchbell.instants import Instant
from watchbell.reminders.arguments import Limits, require_room
from watchbell.reminders.records import Create, Delete, draft_change
from watchbell.reminders.state import ScheduleState
from watchbell.reminders.times import CreateRequest, resolve
from watchbell.reminders.views import Deletion, Failure, Operation, RefusedError, View, derive_view
from watchbell.sessions.live import Sessions
from watchbell.sessions.session import Session
from watchbell.tools.definition import AbortSignal

T = TypeVar("T")

_logger = logging.getLogger("watchbell.schedule")


class _Call:
    """A call in the queue; abandoned when whoever made it was cancelled."""

    def __init__(self, signal: AbortSignal) -> None:
        self._signal = signal
        self.abandoned = False

    def require_wanted(self) -> None:
        if self.abandoned or self._signal.aborted:
            raise ToolAbortedError("the call was cancelled before it took effect")


class Transactions:
    """The Schedule state of one live session and the only way to change it.

    A create, list or delete returns what its tool answers; errors are values too.

    Args:
        session: The session.
        sessions: Its service, for the barrier.
        clock: Wall time.
        limits: Caps on creation.
        state: The fold of the session's log, as far as it is folded already.
    """

    def __init__(
        self,
        session: Session,
        sessions: Sessions,
        clock: Clock,
        limits: Limits,
        state: ScheduleState | None = None,
    ) -> None:
        self.state = ScheduleState(session.header.owned_from) if state is None else state
        self.on_durable_change: Callable[[], None] = lambda: None
        self._session = session
        self._sessions = sessions
        self._clock = clock
        self._limits = limits
        self._slot = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    async def create(self, request: CreateRequest, signal: AbortSignal) -> View | Failure:
        """Create a reminder and return its view."""

        async def transaction(call: _Call) -> View | Failure:
            if not await self.preflight():
                return _uncertain("create")
            self.state.advance(self._session.events)
            call.require_wanted()
            record = resolve(request, self.state.next_id(), self._now())
            require_room(len(self.state), self._limits)
            self._session.append_batch([draft_change(Create(record))])
            if not await self.barrier():
                return _uncertain("create", record.id)
            self._announce()
            return derive_view(record, self._now())

        return await self._enqueue(transaction, signal)

    async def list(self, signal: AbortSignal) -> tuple[View, ...] | Failure:
        """Return the views of every active reminder, in create order."""

        async def transaction(_: _Call) -> tuple[View, ...] | Failure:
            if not await self.preflight():
                return _uncertain("list")
            self.state.advance(self._session.events)
            now = self._now()
            return tuple(derive_view(record, now) for record in self.state.records)

        return await self._enqueue(transaction, signal)

    async def delete(self, schedule_id: str, signal: AbortSignal) -> Deletion | Failure:
        """End an active reminder, and say whether there was one."""

        async def transaction(call: _Call) -> Deletion | Failure:
            if not await self.preflight():
                return _uncertain("delete", schedule_id)
            self.state.advance(self._session.events)
            call.require_wanted()
            if self.state.find(schedule_id) is None:
                return Deletion(schedule_id, deleted=False, code="schedule_not_found")
            self._session.append_batch([draft_change(Delete(schedule_id))])
            if not await self.barrier():
                return _uncertain("delete", schedule_id)
            self._announce()
            return Deletion(schedule_id, deleted=True)

        return await self._enqueue(transaction, signal)

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Hold the queue for a delivery. Nothing inside may wait for the agent to become idle."""
        async with self._slot:
            yield

    async def preflight(self) -> bool:
        """Pass the barrier and, when everything so far is durable, ask the owner to look again."""
        if not await self.barrier():
            return False
        self._announce()
        return True

    async def barrier(self) -> bool:
        """Whether everything in the log is durable: somebody acknowledged it and nobody failed."""
        try:
            return await self._sessions.flush(self._session)
        except Exception as error:  # noqa: BLE001 - a listener may be anybody's; then nothing is certain
            _logger.warning("session %s: the barrier failed: %s", self._session.id, type(error).__name__)
            return False

    async def aclose(self) -> None:
        """Begin no more transactions, and wait for those in flight; calls still queued count as cancelled."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)

    def _now(self) -> Instant:
        return Instant(self._clock.now_ms())

    async def _enqueue(
        self, transaction: Callable[[_Call], Coroutine[Any, Any, T]], signal: AbortSignal
    ) -> T | Failure:
        """Queue a transaction and return what it answers.

        While it is queued, cancelling the caller takes it out. From then on it runs in a task of its own: it
        stops before its append when it is no longer wanted, and is carried to its barrier once appended.

        Raises:
            ToolAbortedError: The call was cancelled, or the agent ended, before anything was appended.
        """
        await self._slot.acquire()
        if self._closed:
            self._slot.release()
            raise ToolAbortedError("the agent, or its reminders, ended before the call's turn came")
        call = _Call(signal)
        answer: asyncio.Future[T | Failure] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(transaction(call), answer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await answer
        except asyncio.CancelledError:
            call.abandoned = True
            raise

    async def _run(self, transaction: Coroutine[Any, Any, T], answer: asyncio.Future[T | Failure]) -> None:
        """Run a transaction to its end, and answer whoever still waits for it."""
        try:
            value = await self._guarded(transaction)
        except ToolAbortedError as error:
            if not answer.done():
                answer.set_exception(error)
        except BaseException:
            answer.cancel()
            raise
        else:
            if not answer.done():
                answer.set_result(value)
        finally:
            self._slot.release()

    async def _guarded(self, transaction: Coroutine[Any, Any, T]) -> T | Failure:
        try:
            return await transaction
        except RefusedError as refusal:
            return Failure(refusal.code, refusal.message)
        except ScheduleLogError:
            return Failure(
                "corrupt_schedule_log",
                "The reminders of this session cannot be read: its schedule history is invalid. Tell the "
                "user; the conversation can go on, but no reminder of this session is delivered.",
            )
        except ToolAbortedError:
            raise
        except Exception:
            _logger.exception("session %s: a call about its reminders failed", self._session.id)
            return Failure("internal_error", "The call failed inside the program; it may be tried once more.")

    def _announce(self) -> None:
        try:
            self.on_durable_change()
        except Exception:  # what is durable stays durable, whoever fails to hear of it
            _logger.exception("session %s: an observer of durable changes failed", self._session.id)


def _uncertain(operation: Operation, schedule_id: str | UnsetType = UNSET) -> Failure:
    effect = f"so whether this {operation} took effect is not known. Call schedule_list in a moment to see."
    if operation == "list":
        effect = "so a list may be incomplete. Call schedule_list again in a moment."
    message = f"The storage did not confirm that everything is saved, {effect}"
    return Failure("persistence_uncertain", message, operation, schedule_id)
