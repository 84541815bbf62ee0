"""The common scene of these tests: a program, and the agent of session `s` in it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

from tests.program import Program, require_valid, run, store
from watchbell.log.event import Draft
from watchbell.testing import SimulatedClock
from watchbell.testing.model import Script

__all__ = ["on_agent"]


def on_agent(
    script: Script = (), *, log: Sequence[Draft] = (), logs_errors: bool = False, **options: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make a test of what happens to an agent; it takes `clock`, `program` and `agent` as it needs them.

    Every log that is durable once the program has ended has to be valid.

    Args:
        script: What the model answers.
        log: What the session holds already.
        logs_errors: Whether the program logs an error; it has to, or must not.
        options: For `Program`.
    """

    def decorate(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        parameters = inspect.signature(body).parameters

        @wraps(body)
        def test(**cases: Any) -> None:
            async def main(clock: SimulatedClock) -> None:
                program = Program(clock, script, **options)
                if log:
                    store(program.disk, *log)
                async with program:
                    scene: dict[str, Any] = {"clock": clock, "program": program}
                    if "agent" in parameters:
                        scene["agent"] = await program.host.agents.open("s")
                    await body(**{name: part for name, part in scene.items() if name in parameters}, **cases)
                for session_id in program.disk.batches:
                    require_valid(program.disk.events(session_id))

            run(main, logs_errors=logs_errors)

        cases = [each for name, each in parameters.items() if name not in ("clock", "program", "agent")]
        test.__signature__ = inspect.Signature(cases)  # pyright: ignore[reportAttributeAccessIssue]
        return test

    return decorate
