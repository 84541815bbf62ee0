"""Write-behind: what is appended to a live session becomes durable soon, or now, on a barrier.

See log-format, "Write-behind and the barrier".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from watchbell.backoff import pause_seconds
from watchbell.errors import PersistenceError
from watchbell.log.event import Event
from watchbell.sessions.session import Session
from watchbell.storage.base import LogWriter

WINDOW_SECONDS = 0.2
"""Longest time that an appended event waits for companions."""

_logger = logging.getLogger("watchbell.storage")


class WriteBehind:
    """Writes the events of one live session, one write at a time.

    Everything in the log and not yet durable goes in one write, so what was appended as one batch stays
    one. After a failure the events are kept and tried again: after a pause (`pause_seconds`), on a `flush`,
    and when the window of a new event ends.

    Args:
        session: The session; what its log holds now counts as durable.
        writer: Where its events go; `close` closes it.
        on_healed: Called when a write succeeds after one that failed.
    """

    def __init__(
        self, session: Session, writer: LogWriter, *, on_healed: Callable[[], None] | None = None
    ) -> None:
        self._session = session
        self._writer = writer
        self._on_healed = on_healed
        self._durable = len(session.events)
        self._writing: asyncio.Future[None] | None = None
        self._writing_to = self._durable  # length of the log after the write that runs
        self._window: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._retries = 0  # since a write succeeded
        self._is_failing = False
        self._is_closing = False
        self._is_closed = False
        self._end_observing = session.observe(self._on_append)

    @property
    def pending(self) -> int:
        """Number of events that are in the log and not confirmed as durable."""
        return len(self._session.events) - self._durable

    async def flush(self) -> None:
        """Return once everything that is in the log now is durable.

        When it is already, the store is asked whether the log is still there. Events appended later may ride
        along and are not waited for. Cancelling the caller does not cancel the write.

        Raises:
            PersistenceError: The write failed; the events are kept. Or the log is no longer there.
        """
        target = len(self._session.events)
        if self._durable == target and not self._is_closing:
            self._check()
        while self._durable < target:
            if self._is_closed:
                raise PersistenceError(
                    f"session {self._session.id!r} is closed; its last events were not stored"
                )
            self._begin_write()
            covers_all = self._writing_to >= target
            error = None if self._writing is None else await _end_of(self._writing)
            if error is not None and covers_all:
                raise PersistenceError(
                    f"session {self._session.id!r} could not be stored: {error}"
                ) from error

    async def close(self) -> None:
        """Flush, then release the writer in any case. To be called once, when nothing is appended any more.

        Raises:
            PersistenceError: Events were not stored; the message says how many.
        """
        self._is_closing = True
        self._end_observing()
        failure: PersistenceError | None = None
        try:
            await self.flush()
        except PersistenceError as error:
            failure = error
        finally:
            self._is_closed = True
            self._stop_timers()
            if self._writing is not None:
                await _end_of(self._writing)
            await self._writer.close()
        if failure is not None:
            raise PersistenceError(
                f"session {self._session.id!r} was closed, its last {self.pending} events were not stored: "
                f"{failure.__cause__ or failure}"
            ) from failure

    def _on_append(self, events: Sequence[Event]) -> None:
        if self._window is None and not self._is_closing:
            self._window = asyncio.get_running_loop().call_later(WINDOW_SECONDS, self._on_window)

    def _on_window(self) -> None:
        self._window = None
        if self._writing is None:  # else `_settle` sees that these are owed a write
            self._begin_write()

    def _on_retry(self) -> None:
        self._retry = None
        if self._writing is None:
            self._begin_write()

    def _begin_write(self) -> None:
        """Begin a write of everything that is not durable, unless one runs."""
        if self._writing is not None:
            return
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self._writing_to = len(self._session.events)
        if self._durable == self._writing_to:  # a check failed, and is made again
            with contextlib.suppress(PersistenceError):
                self._check()
            return
        self._writing = self._start(self._session.events[self._durable : self._writing_to])
        self._writing.add_done_callback(self._on_written)

    def _start(self, events: Sequence[Event]) -> asyncio.Future[None]:
        try:
            return asyncio.ensure_future(self._writer.write(events))
        except Exception as error:  # noqa: BLE001 - whatever it is, the events are kept and tried again
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    def _on_written(self, write: asyncio.Future[None]) -> None:
        self._writing = None
        if write.cancelled():  # with the loop, or by whoever shut the executor down
            return
        error = write.exception()
        if error is None or isinstance(error, Exception):
            self._settle(error)

    def _check(self) -> None:
        """Have the store look at a log that is durable to its end; a failure counts like that of a write.

        Raises:
            PersistenceError: The log is no longer what was confirmed.
        """
        try:
            self._writer.check()
        except Exception as error:
            self._take_note_of_failure(error)
            self._retry_later()
            raise PersistenceError(f"session {self._session.id!r} is not safe: {error}") from error
        self._take_note_of_success()

    def _settle(self, error: Exception | None) -> None:
        """Take note of a write's end, and see to what waits for the next one."""
        if error is None:
            self._durable = self._writing_to
            self._take_note_of_success()
        else:
            self._take_note_of_failure(error)
        if self._is_closing:
            return
        has_later = len(self._session.events) > self._writing_to
        if has_later and self._window is None:  # their window ended while the write ran
            self._begin_write()
        elif error is not None:
            self._retry_later()

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retries += 1
            pause = pause_seconds(self._retries)
            self._retry = asyncio.get_running_loop().call_later(pause, self._on_retry)

    def _take_note_of_success(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._retries = 0
        if not self._is_failing:
            return
        self._is_failing = False
        _logger.info("session %s: storage works again", self._session.id)
        if self._on_healed is not None:
            self._on_healed()

    def _take_note_of_failure(self, error: Exception) -> None:
        if not self._is_failing:
            _logger.warning(
                "session %s: storage fails, %d events wait for it: %s", self._session.id, self.pending, error
            )
        self._is_failing = True

    def _stop_timers(self) -> None:
        for timer in (self._window, self._retry):
            if timer is not None:
                timer.cancel()
        self._window = self._retry = None


async def _end_of(write: asyncio.Future[None]) -> Exception | None:
    """Wait for the end of a write and return its failure; cancelling the caller does not cancel it."""
    await asyncio.wait([write])
    error = write.exception()  # raises CancelledError when the write was cancelled
    if error is None or isinstance(error, Exception):
        return error
    raise error
