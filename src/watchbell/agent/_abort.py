"""Waiting for what others do in a turn, and no longer than the turn is wanted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TypeVar

from watchbell.errors import WatchbellError
from watchbell.tools.definition import AbortSignal

T = TypeVar("T")


class TurnAbortedError(WatchbellError):
    """The turn was cancelled while something in it was awaited."""


def raise_if_aborted(signal: AbortSignal) -> None:
    """Do nothing unless the turn was cancelled.

    Raises:
        TurnAbortedError: The turn was cancelled.
    """
    if signal.aborted:
        raise TurnAbortedError


async def until_aborted(signal: AbortSignal, work: Coroutine[object, object, T]) -> T:
    """Await `work` of others in a task of its own, which is cancelled when the turn is.

    Raises:
        TurnAbortedError: The turn was cancelled before `work` had ended.
    """
    task = asyncio.ensure_future(work)
    forget = signal.on_abort(task.cancel)
    try:
        if signal.aborted:
            task.cancel()
        return await task
    except asyncio.CancelledError:
        if not signal.aborted:
            task.cancel()
            raise
        raise TurnAbortedError from None
    finally:
        forget()


async def until_aborted_here(signal: AbortSignal, work: Coroutine[object, object, T]) -> T:
    """Await `work` in the task that asks, cancelling what it waits for when the turn is cancelled.

    Raises:
        TurnAbortedError: The turn was cancelled before `work` had ended.
    """
    task = asyncio.current_task()
    if task is None or signal.aborted:
        work.close()
        raise TurnAbortedError
    requests = task.cancelling()
    forget = signal.on_abort(task.cancel)
    try:
        result = await work
        if not signal.aborted:
            return result
    except asyncio.CancelledError:
        if not signal.aborted:
            raise
    finally:
        forget()
        if signal.aborted:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # the abort may have come too late for `work` to notice
            task.uncancel()
    if task.cancelling() > requests:  # somebody else cancelled the task as well
        raise asyncio.CancelledError
    raise TurnAbortedError
