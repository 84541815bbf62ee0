"""The wall clock and what waits for it; nothing else in the package reads time.

All waiters of a clock share one heap and one event-loop timer. The event loop counts monotonic time, which
stands still while a machine sleeps and knows nothing of a clock that is set; so while anything is armed
the wall clock is read again at least every `RECHECK_SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import time
from collections.abc import Callable
from typing import Protocol

RECHECK_SECONDS = 0.5
"""Longest time between two readings of the wall clock while anything is armed."""

STEP_SECONDS = 1.0
"""Wall time that runs ahead of or behind monotonic time by more than this has been stepped."""

_logger = logging.getLogger("watchbell.clock")


def wall_ms() -> int:
    """Read the system's wall clock, in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Timer:
    """A callback that waits for an instant; `WallClock.call_at` makes it.

    Attributes:
        target_ms: The instant, epoch milliseconds.
    """

    __slots__ = ("_callback", "_clock", "_context", "target_ms")

    def __init__(self, clock: WallClock, target_ms: int, callback: Callable[[], None]) -> None:
        self.target_ms = target_ms
        self._clock: WallClock | None = clock
        self._callback = callback
        self._context = contextvars.copy_context()

    @property
    def is_pending(self) -> bool:
        """Whether the callback is still to come."""
        return self._clock is not None

    def cancel(self) -> None:
        """Drop the callback; after it has run, or again, this does nothing."""
        if self._clock is not None:
            clock, self._clock = self._clock, None
            clock.forget(self)

    def fire(self) -> None:
        """Run the callback in the context in which it was armed; its exception is logged, no more."""
        self._clock = None
        try:
            self._context.run(self._callback)
        except Exception:
            _logger.exception("a callback of the clock failed")


class Clock(Protocol):
    """Wall time, and waiting for it."""

    def now_ms(self) -> int:
        """Read the wall clock, in epoch milliseconds."""
        ...

    def call_at(self, target_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` once on the running event loop, once the wall clock reads `target_ms` or later.

        It never runs inside this call, also when the instant has passed. Equal targets run in the order in
        which they were armed.
        """
        ...

    async def sleep_until(self, target_ms: int) -> None:
        """Return as soon as the wall clock reads `target_ms` or later."""
        ...


class WallClock:
    """A clock over any source of wall and monotonic time.

    A wall clock set back never fires anything early; set forward, it makes what it passed due within
    `recheck_seconds`. Each step of more than `STEP_SECONDS` is logged once, with its size, while anything
    is armed. It serves one event loop at a time: armed from another one, it forgets what waited on the
    first.

    Args:
        wall_ms: Reads wall time, epoch milliseconds.
        monotonic: Reads the monotonic time of the event loop, seconds.
        recheck_seconds: Longest time between two readings while anything is armed.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int],
        monotonic: Callable[[], float],
        *,
        recheck_seconds: float = RECHECK_SECONDS,
    ) -> None:
        self._wall_ms = wall_ms
        self._monotonic = monotonic
        self._recheck_seconds = recheck_seconds
        self._heap: list[tuple[int, int, Timer]] = []
        self._cancelled = 0  # of those in the heap
        self._armed = 0  # timers ever armed: the order among equal targets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._last_reading = (0, 0.0)

    def now_ms(self) -> int:
        """Read the wall clock, in epoch milliseconds."""
        return self._wall_ms()

    def call_at(self, target_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` once on the running event loop, once the wall clock reads `target_ms` or later."""
        self._bind(asyncio.get_running_loop())
        if not self._heap:
            self._last_reading = (self._wall_ms(), self._monotonic())
        timer = Timer(self, target_ms, callback)
        heapq.heappush(self._heap, (target_ms, self._armed, timer))
        self._armed += 1
        self._schedule()
        return timer

    async def sleep_until(self, target_ms: int) -> None:
        """Return as soon as the wall clock reads `target_ms` or later."""
        reached = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not reached.done():
                reached.set_result(None)

        timer = self.call_at(target_ms, wake)
        try:
            await reached
        finally:
            timer.cancel()

    def forget(self, timer: Timer) -> None:
        """Count a cancelled timer, and clear the heap of such once they are more than half of it."""
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].is_pending]
            heapq.heapify(self._heap)
            self._cancelled = 0
        if not self._heap:
            self._disarm()

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            return
        self._disarm()
        stale, self._heap, self._cancelled, self._loop = self._heap, [], 0, loop
        for _, _, timer in stale:
            timer.cancel()

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self) -> None:
        """Have the one timer run no later than the earliest target or the next recheck."""
        if not self._heap or self._loop is None:
            return
        remaining = max(0, self._heap[0][0] - self._wall_ms()) / 1000
        delay = min(remaining, self._recheck_seconds)
        if self._handle is not None:
            if self._handle.when() <= self._loop.time() + delay:
                return
            self._handle.cancel()
        self._handle = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._handle = None
        self._notice_step()
        newest = self._armed  # what callbacks arm waits for the next tick, so that this one ends
        try:
            while self._heap and self._heap[0][1] < newest and self._heap[0][0] <= self._wall_ms():
                timer = heapq.heappop(self._heap)[2]
                if timer.is_pending:
                    timer.fire()
                else:
                    self._cancelled -= 1
        finally:
            self._schedule()

    def _notice_step(self) -> None:
        wall, monotonic = self._wall_ms(), self._monotonic()
        last_wall, last_monotonic = self._last_reading
        self._last_reading = (wall, monotonic)
        step_ms = wall - last_wall - round((monotonic - last_monotonic) * 1000)
        if abs(step_ms) <= STEP_SECONDS * 1000:
            return
        _logger.warning("the wall clock went %+.3f s (it was set, or the machine slept)", step_ms / 1000)


class SystemClock(WallClock):
    """The clock of the machine."""

    def __init__(self) -> None:
        super().__init__(wall_ms, time.monotonic)
