"""Stopping on a signal: what is open is closed and stored first, but nobody waits long for that."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any

from watchbell.cli.console.guard import report

GRACE_SECONDS = 4.5
"""How long closing may take after a signal; then the process ends as it is."""

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def run_stoppable(work: Coroutine[Any, Any, int]) -> int:
    """Run an asynchronous command and return its exit code.

    The first SIGINT, SIGTERM or SIGHUP cancels it, so that it closes what it opened, and the code is
    128 + n. A second one, or `GRACE_SECONDS`, ends the process at once.
    """
    stop = _Stop()
    previous = {number: signal.signal(number, stop.on_signal) for number in _SIGNALS if _is_ours(number)}
    try:
        return asyncio.run(stop.watch(work))
    finally:
        stop.release()
        if not stop.is_stopping:  # else a second signal ends the process quietly while Python shuts down
            for number, handler in previous.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def on_interrupt(handle: Callable[[], None]) -> Generator[None]:
    """While this is entered, SIGINT has the running loop call `handle` and does not end the program."""
    loop = asyncio.get_running_loop()
    previous = signal.signal(signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(handle))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _is_ours(number: signal.Signals) -> bool:
    """Whether a signal stops us: a hang-up does not under `nohup`."""
    return number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN


class _Stop:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._number: int | None = None
        self._watchdog: threading.Timer | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether a signal came."""
        return self._number is not None

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Cancel the work; the second time, end the process."""
        if self._number is not None:
            os._exit(128 + number)
        self._number = number
        self._watchdog = threading.Timer(GRACE_SECONDS, os._exit, [128 + number])
        self._watchdog.daemon = True
        self._watchdog.start()
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def watch(self, work: Coroutine[Any, Any, int]) -> int:
        """Await the work; after a signal its outcome is the signal's code."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._number is not None:
            work.close()
            return 128 + self._number
        try:
            code = await work
        except asyncio.CancelledError:
            if self._number is None:
                raise
            code = 0
        except Exception as error:
            if self._number is None:
                raise
            with contextlib.suppress(OSError):  # the terminal may be gone
                report(error)
            code = 1
        finally:
            self._task = None
        return code if self._number is None else 128 + self._number

    def release(self) -> None:
        """Call the watchdog off."""
        if self._watchdog is not None:
            self._watchdog.cancel()
