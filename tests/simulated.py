"""Tests that are coroutines, run under simulated time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from watchbell.testing import SimulatedClock, simulate

T = TypeVar("T")
Test = Callable[..., Coroutine[Any, Any, None]]


def simulated(make: Callable[[SimulatedClock], AbstractAsyncContextManager[T]]) -> Callable[[Test], Any]:
    """Give a test what `make` enters, as its first argument; fixtures and parameters follow."""

    def decorate(test: Test) -> Any:
        def run(**others: Any) -> None:
            async def main(clock: SimulatedClock) -> None:
                async with make(clock) as made:
                    await test(made, **others)

            simulate(main)

        _, *parameters = inspect.signature(test).parameters.values()
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate
