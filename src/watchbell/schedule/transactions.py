"""One agent's Schedule transactions: first come, first served, each from its preflight to its last barrier.

The three tools and the owner's deliveries share this queue, so that no two of them interleave (contract
section 4, "Order of work").
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from watchbell.errors import ScheduleLogError, ToolAbortedError
from watchbell.reminders.records import Change, Create, Delete, draft_change
from watchbell.reminders.rules import CreateRequest, Limits, RefusedError, require_room, resolve
from watchbell.reminders.shapes import Deletion, Operation, error_value
from watchbell.reminders.state import ScheduleState, render_view

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from watchbell.clock import Clock
    from watchbell.sessions.live import Sessions
    from watchbell.sessions.session import Session

__all__ = ["Cancellable", "Transactions"]

_logger = logging.getLogger("watchbell.schedule")


class Cancellable(Protocol):
    """Says whether a call is still wanted."""

    @property
    def aborted(self) -> bool:
        """Whether it is not."""
        ...


class _Call:
    """A call in the queue; abandoned when whoever made it was cancelled."""

    def __init__(self, signal: Cancellable) -> None:
        self._signal = signal
        self.abandoned = False

    def require_wanted(self) -> None:
        if self.abandoned or self._signal.aborted:
            raise ToolAbortedError("the call was cancelled before it took effect")


class Transactions:
    """The Schedule state of one live session and the only way to change it.

    Every method returns the canonical value of its tool; errors are values too.

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
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def create(self, request: CreateRequest, signal: Cancellable) -> Any:
        """Create a reminder; the value is its view, or an error."""

        def plan() -> tuple[Change, Callable[[], Any]]:
            record = resolve(request, self.state.next_id(), self._clock.now_ms())
            require_room(len(self.state), self._limits)
            return Create(schedule=record), lambda: render_view(record, self._clock.now_ms())

        return await self._enqueue("create", lambda call: self._change("create", call, plan), signal)

    async def delete(self, schedule_id: str, signal: Cancellable) -> Any:
        """End an active reminder; the value says whether there was one, or is an error."""

        def plan() -> tuple[Change | None, Callable[[], Any]]:
            if self.state.find(schedule_id) is None:
                missing = Deletion(schedule_id, deleted=False, code="schedule_not_found")
                return None, lambda: msgspec.to_builtins(missing)
            deletion = Deletion(schedule_id, deleted=True)
            return Delete(id=schedule_id), lambda: msgspec.to_builtins(deletion)

        return await self._enqueue(
            "delete", lambda call: self._change("delete", call, plan, schedule_id), signal, schedule_id
        )

    async def list(self, signal: Cancellable) -> Any:
        """Return the views of every active reminder in create order, or an error."""

        async def views(_: _Call) -> Any:
            if not await self.preflight():
                return _uncertain("list")
            self.state.advance(self._session.events)
            now_ms = self._clock.now_ms()
            return [render_view(record, now_ms) for record in self.state.records]

        return await self._enqueue("list", views, signal)

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

    async def _enqueue(
        self,
        operation: Operation,
        body: Callable[[_Call], Coroutine[Any, Any, Any]],
        signal: Cancellable,
        schedule_id: str | msgspec.UnsetType = msgspec.UNSET,
    ) -> Any:
        """Queue a transaction and return its value.

        While it is queued, cancelling the caller takes it out. From then on it runs in a task of its own: it
        stops before its append when it is no longer wanted, and is carried to its barrier once appended.
        """
        await self._slot.acquire()
        if self._closed:
            self._slot.release()
            raise ToolAbortedError("the agent, or its reminders, ended before the call's turn came")
        call = _Call(signal)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(operation, body(call), answer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await answer
        except asyncio.CancelledError:
            call.abandoned = True
            raise

    async def _run(
        self, operation: Operation, body: Coroutine[Any, Any, Any], answer: asyncio.Future[Any]
    ) -> None:
        """Run a transaction to its end, and answer whoever still waits for it."""
        try:
            value = await self._guarded(operation, body)
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

    async def _guarded(self, operation: Operation, body: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await body
        except RefusedError as refusal:
            return error_value(refusal.code, refusal.message)
        except ScheduleLogError:
            return error_value(
                "corrupt_schedule_log",
                "The reminders of this session cannot be read: its schedule history is invalid. "
                "Tell the user; "
                "the conversation can go on, but no reminder of this session is delivered.",
            )
        except ToolAbortedError:
            raise
        except Exception:
            _logger.exception("session %s: schedule %s failed", self._session.id, operation)
            return error_value(
                "internal_error", "The call failed inside the program; it may be tried once more."
            )

    async def _change(
        self,
        operation: Operation,
        call: _Call,
        plan: Callable[[], tuple[Change | None, Callable[[], Any]]],
        schedule_id: str | msgspec.UnsetType = msgspec.UNSET,
    ) -> Any:
        if not await self.preflight():
            return _uncertain(operation, schedule_id)
        self.state.advance(self._session.events)
        call.require_wanted()
        change, value = plan()
        if change is None:
            return value()
        self._session.append_batch([draft_change(change)])
        if not await self.barrier():
            return _uncertain(operation, change.id)
        self._announce()
        return value()

    def _announce(self) -> None:
        try:
            self.on_durable_change()
        except Exception:  # what is durable stays durable, whoever fails to hear of it
            _logger.exception("session %s: an observer of durable changes failed", self._session.id)


def _uncertain(operation: Operation, schedule_id: str | msgspec.UnsetType = msgspec.UNSET) -> dict[str, Any]:
    return error_value(
        "persistence_uncertain",
        f"The storage did not confirm that everything is saved, so whether this {operation} took effect is "
        "not known. Call schedule_list in a moment to see.",
        operation,
        schedule_id,
    )
