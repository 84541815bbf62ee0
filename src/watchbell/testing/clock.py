"""A wall clock that a test owns."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from watchbell.clock import RECHECK_SECONDS, WallClock
from watchbell.instants import Instant, render_instant

DEFAULT_START = "2026-12-01T00:00:00.000Z"
"""Wall time at which a simulation starts unless told otherwise."""


class SimulatedClock(WallClock):
    """Wall time that runs with the event loop's time, and that a test can set.

    It reads `start` when it is made, or when it first meets a running loop, and goes on from one loop to
    the next. On a `SimulatedEventLoop` both stand still while anything runs, and leap when all is waiting.
    Everything else is the code of `SystemClock`, rechecks and clock steps included.

    Args:
        start: Wall time at the beginning: ISO 8601 with an offset or `Z`, or epoch milliseconds.
        recheck_seconds: As for `WallClock`; raise it to simulate years at less cost.
    """

    def __init__(self, start: str | int = DEFAULT_START, *, recheck_seconds: float = RECHECK_SECONDS) -> None:
        super().__init__(self._read_wall, self._read_monotonic, recheck_seconds=recheck_seconds)
        self._wall_start = start if isinstance(start, int) else _to_ms(start)
        self._rate = 1.0
        self._rate_since = 0.0  # seconds that it had run when it was given this rate
        self._loop_read: asyncio.AbstractEventLoop | None = None  # whose time it runs with
        self._zero = 0.0  # what that loop's time was when the clock read `start`
        self._read_monotonic()

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back when negative; monotonic time goes on as before."""
        self._wall_start += round(seconds * 1000)

    @property
    def rate(self) -> float:
        """Wall seconds in one second of monotonic time; 1 unless `drift` set it."""
        return self._rate

    def drift(self, rate: float) -> None:
        """From now on let the wall clock go faster than monotonic time, or slower when `rate` is below 1.

        Raises:
            ValueError: `rate` is not positive.
        """
        if rate <= 0:
            raise ValueError("a clock that drifts still goes forward; use step() to set it back")
        self._wall_start, self._rate_since = self._read_wall(), self._elapsed()
        self._rate = rate

    def freeze_monotonic(self, wall_seconds: float) -> None:
        """Let wall time pass while monotonic time stands, as when a laptop sleeps.

        Raises:
            ValueError: `wall_seconds` is negative.
        """
        if wall_seconds < 0:
            raise ValueError("a machine cannot sleep for less than no time; use step() to set the clock back")
        self.step(wall_seconds)

    def iso(self) -> str:
        """Read the wall clock as canonical UTC, such as `2026-12-01T00:00:00.000Z`."""
        return render_instant(Instant(self.now_ms()))

    def _read_wall(self) -> int:
        return self._wall_start + round((self._read_monotonic() - self._rate_since) * 1000 * self._rate)

    def _read_monotonic(self) -> float:
        """Read the seconds that the clock has run, on the running event loop or the last one."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = self._loop_read
        if loop is not self._loop_read and loop is not None:
            self._loop_read, self._zero = loop, loop.time() - self._elapsed()
        return self._elapsed()

    def _elapsed(self) -> float:
        return 0.0 if self._loop_read is None else self._loop_read.time() - self._zero


def _to_ms(text: str) -> int:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no offset; end it with Z for UTC")
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
