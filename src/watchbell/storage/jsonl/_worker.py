"""Blocking work, done away from the event loop and always to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_THREADS = 4


class Worker:
    """Runs what blocks for one store.

    Args:
        executor: Where it runs, and not closed here; a small pool, made when first needed, when None.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._own: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Begin `work` at once. Cancelling the future does not stop what runs, but hides its end."""
        executor = self._executor or self._own
        if executor is None:
            executor = self._own = ThreadPoolExecutor(_THREADS, thread_name_prefix="watchbell-storage")
        return asyncio.get_running_loop().run_in_executor(executor, work)

    async def run(self, work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
        """Run `work` and return its result. A cancellation passes only when the work has ended.

        Args:
            work: What to run.
            undo: Called with the result when the caller was cancelled and so cannot have it.
        """
        running = self.start(work)
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return running.result()
        if running.exception() is None and undo is not None:
            undo(running.result())
        raise cancelled

    def close(self) -> None:
        """End the pool, if there is one."""
        if self._own is not None:
            self._own.shutdown()
            self._own = None
