"""An event loop whose time is simulated: it never waits, it moves on to the next timer."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import selectors
import warnings
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from watchbell.testing.clock import DEFAULT_START, SimulatedClock

T = TypeVar("T")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")

_SETTLING_PASSES = 10


class SimulationDeadlockError(AssertionError):
    """Everything waits, and nothing is scheduled that could ever end the waiting."""


class LeftoverTaskError(AssertionError):
    """A simulation ended while tasks that it started were still waiting."""


class ProcessKilled(BaseException):
    """The simulated process was killed: nothing in it runs any more, no `finally` either."""


class _Steps(collections.deque[asyncio.Handle]):
    """The loop's ready callbacks; it can stop handing them out.

    Attributes:
        taken: How many were handed out.
        left: How many more will be, None for all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0
        self.left: int | None = None

    def popleft(self) -> asyncio.Handle:
        if self.left is not None:
            if self.left <= 0:
                raise ProcessKilled
            self.left -= 1
        self.taken += 1
        return super().popleft()


class _LeapingSelector(selectors.DefaultSelector):
    """Waits for files as usual, but never for time: `leap` is told how long the loop would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.leap: Callable[[float | None], None] = lambda _: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            self.leap(timeout)
        return ready


class SimulatedEventLoop(asyncio.SelectorEventLoop):
    """An asyncio loop with virtual time, from 0 on.

    When nothing is ready it advances its time to the next timer instead of waiting. Functions meant for an
    executor run in the loop's own thread, at once; their results arrive with the next pass, as from a
    thread. So a run is deterministic. With nothing ready and no timer it raises SimulationDeadlockError.

    `kill_after` stops it between any two callbacks, that is at any `await` of the program.
    """

    def __init__(self) -> None:
        self._now = 0.0
        selector = _LeapingSelector()
        selector.leap = self._leap
        super().__init__(selector)
        self._ready = self._steps = _Steps()
        self._clock_resolution = 1e-9  # the same on every machine

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    @property
    def steps(self) -> int:
        """How many callbacks have been run."""
        return self._steps.taken

    def kill_after(self, steps: int) -> None:
        """Run `steps` more callbacks (0: only end the one that runs), then raise ProcessKilled from the loop.

        Of several calls the one that comes first counts. Afterwards `bury` the loop.
        """
        left = self._steps.left
        self._steps.left = steps if left is None else min(steps, left)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` now, in this thread; the future is done in the loop's next pass."""
        future: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the future
            self.call_soon(_unless_done, future, future.set_exception, error)
        else:
            self.call_soon(_unless_done, future, future.set_result, result)
        return future

    def _leap(self, timeout: float | None) -> None:
        if timeout is None:
            waiting = _describe(asyncio.all_tasks(self))
            raise SimulationDeadlockError(
                f"nothing is ready, no timer is set; these wait for ever:\n{waiting}"
            )
        self._now += timeout


def simulate(main: Callable[[SimulatedClock], Awaitable[T]], *, start: str | int = DEFAULT_START) -> T:
    """Run `main(clock)` on a fresh simulated event loop and return its result.

    Args:
        main: What to run; an hour that it sleeps takes no real time.
        start: Wall time at the beginning: ISO 8601 with an offset, or epoch milliseconds.

    Raises:
        LeftoverTaskError: `main` returned and left tasks running; they were cancelled.
        SimulationDeadlockError: Everything waited for something that nothing would bring.
    """
    with asyncio.Runner(loop_factory=SimulatedEventLoop) as runner:
        return runner.run(_run(main, start))


def bury(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop whose process was killed and free what its tasks hold, in silence.

    Their `finally` blocks run now, since Python has no other way; they belong to a dead process, so what they
    reach for must not matter any more.
    """
    loop.set_exception_handler(_ignore)
    buried: set[asyncio.Task[object]] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio._set_running_loop(loop)  # so that they can begin tasks, which are buried with them
        try:
            while remaining := asyncio.all_tasks(loop) - buried:
                for task in remaining:
                    _close_task(task)
                buried |= remaining
        finally:
            asyncio._set_running_loop(None)
        loop.close()


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Say nothing of what a dead process left undone."""


def _close_task(task: asyncio.Task[object]) -> None:
    task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
    coroutine: Any = task.get_coro()
    while coroutine.cr_frame is not None:
        with contextlib.suppress(BaseException):  # an `await` in a `finally` suspends it once more
            coroutine.throw(ProcessKilled())


async def _run(main: Callable[[SimulatedClock], Awaitable[T]], start: str | int) -> T:
    return await without_leftovers(main(SimulatedClock(start)))


async def without_leftovers(work: Awaitable[T]) -> T:
    """Return the result of `work`.

    Raises:
        LeftoverTaskError: It left tasks running.
    """
    result = await work
    for _ in range(_SETTLING_PASSES):  # what only has to take note of its end may do so
        if not _others():
            return result
        await asyncio.sleep(0)
    raise LeftoverTaskError(f"tasks are left running:\n{_describe(_others())}")


def _others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def _describe(tasks: Iterable[asyncio.Task[object]]) -> str:
    """Say of each task what it awaits, from its outermost coroutine to the innermost."""
    lines: list[str] = []
    for task in sorted(tasks, key=lambda task: task.get_name()):
        chain: list[str] = []
        awaited: Any = task.get_coro()
        while (frame := getattr(awaited, "cr_frame", None)) is not None:
            chain.append(f"{awaited.__qualname__}:{frame.f_lineno}")
            awaited = awaited.cr_await
        lines.append(f"  {task.get_name()}: {' > '.join(chain)}")
    return "\n".join(lines)


def _unless_done(future: asyncio.Future[T], settle: Callable[[V], object], value: V) -> None:
    if not future.done():
        settle(value)
