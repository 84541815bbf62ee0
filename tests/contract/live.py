"""A live program that the contract's tests stop at the await that they name."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from tests.contract.world import SESSION
from tests.program import Program, ask, quiet, reminders, run, store
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.agent.registry import AgentRegistry
from watchbell.context import Plugin
from watchbell.log.event import Draft
from watchbell.sessions.events import FlushSession
from watchbell.testing import MemoryDisk, SimulatedClock
from watchbell.testing.model import Script
from watchbell.tools.definition import AbortSignal, Tool

T = TypeVar("T")


class Gate:
    """A durability listener; it lets barriers pass, stops them, or makes them fail, as a test says.

    Attributes:
        asked: How many barriers came.
    """

    def __init__(self, program: Program) -> None:
        self.asked = 0
        self._until_stop = 0
        self._until_failure: int | None = 0
        self._reached = asyncio.Event()
        self._open = asyncio.Event()
        self.withdraw = program.host.ctx.on(FlushSession, self._flush)

    def stop(self, number: int = 1) -> None:
        """Stop the `number`-th barrier from now on, and those that come while it stands."""
        self._until_stop = number
        self._reached, self._open = asyncio.Event(), asyncio.Event()

    def fail(self, number: int | None = 1) -> None:
        """Make the `number`-th barrier from now on fail; with None all of them."""
        self._until_failure = number

    async def reached(self) -> None:
        """Return once a barrier stands."""
        await self._reached.wait()

    def open(self) -> None:
        """Let what stands go on, and all later ones pass."""
        self._until_stop = 0
        self._open.set()

    async def _flush(self, _: FlushSession) -> bool:
        self.asked += 1
        fails = self._until_failure is None or self._until_failure == 1
        self._until_failure = self._until_failure and self._until_failure - 1
        if self._until_stop > 1:
            self._until_stop -= 1
        elif self._until_stop == 1:
            self._reached.set()
            await self._open.wait()
        if fails:
            raise OSError("/secret/disk is full")
        return True


class Live:
    """One program with Schedule, and session `s` in it.

    Attributes:
        clock: The wall clock.
        program: The program.
        agent: The agent of the session.
        gate: What its barriers pass through.
    """

    def __init__(self, clock: SimulatedClock, program: Program, agent: Agent) -> None:
        self.clock = clock
        self.program = program
        self.agent = agent
        self.gate = Gate(program)

    @property
    def agents(self) -> AgentRegistry:
        """All agents of the program."""
        return self.program.host.agents

    @property
    def events(self) -> Any:
        """What the log holds."""
        return self.agent.session.events

    @property
    def delivered(self) -> list[str]:
        """Ids of the reminders that entered the conversation, those of one message joined by a blank."""
        return [" ".join(schedule_id for schedule_id, _ in keys) for keys in reminders(self.events)]

    async def reopen(self) -> None:
        """Dispose of the agent, and open its session again."""
        await self.agent.aclose()
        self.agent = await self.agents.resume(SESSION)

    async def remind(self, seconds: int = 60, prompt: str = "p") -> Any:
        """Create a one-shot; the value."""
        return await ask(self.agent, "schedule_create", prompt=prompt, after_seconds=seconds)

    async def repeat(self, seconds: int = 300, prompt: str = "p") -> Any:
        """Create a repeating reminder; the value."""
        return await ask(self.agent, "schedule_create", prompt=prompt, every_seconds=seconds)

    async def list(self) -> Any:
        """List; the value."""
        return await ask(self.agent, "schedule_list")

    def begin(self, name: str, signal: AbortSignal | None = None, **arguments: Any) -> asyncio.Task[Any]:
        """Begin a call and do not wait for it."""
        return asyncio.create_task(ask(self.agent, f"schedule_{name}", signal, **arguments))

    def create(self, prompt: str = "p", signal: AbortSignal | None = None) -> asyncio.Task[Any]:
        """Begin to create a one-shot that is due in ten minutes."""
        return self.begin("create", signal, prompt=prompt, after_seconds=600)

    async def until(self, seconds: float) -> None:
        """Wait so long, and then until all is quiet."""
        await asyncio.sleep(seconds)
        await quiet(self.agent)


def live(
    body: Callable[[Live], Awaitable[T]],
    script: Script = (),
    *,
    log: Sequence[Draft | dict[str, Any]] = (),
    seed_length: int | None = None,
    tools: Sequence[Tool] = (),
    plugins: Sequence[Plugin] = (),
    with_schedule: bool = True,
    logs_errors: bool = False,
    after: float = 0,
) -> T:
    """Run `body` on a live session in simulated time; nothing may spin, be left running or fail unheard.

    Args:
        body: What to do.
        script: What the model answers.
        log: What the session holds already; payloads alone are changes of Schedule.
        seed_length: How much of that is a parent's.
        tools: Tools of the host.
        plugins: Plugins besides Schedule.
        with_schedule: Whether Schedule is loaded.
        logs_errors: Whether the program logs an error in it; it has to, or must not.
        after: Seconds by which the clock is past T0.
    """

    disk = MemoryDisk()
    if log:
        drafts = [entry if isinstance(entry, Draft) else Draft("schedule/change", entry) for entry in log]
        store(disk, *drafts, seed_length=seed_length)

    async def main(clock: SimulatedClock) -> T:
        clock.step(after)
        loaded = [schedule.plugin(), *plugins] if with_schedule else plugins
        async with Program(clock, script, disk=disk, plugins=loaded, tools=tools) as program:
            return await body(Live(clock, program, await program.host.agents.open(SESSION)))

    return run(main, logs_errors=logs_errors)


def living(test: Callable[..., Awaitable[None]] | None = None, **options: Any) -> Any:
    """Have `live` run an async test, whose first parameter is the live session, with these options."""
    if test is None:
        return functools.partial(living, **options)

    @functools.wraps(test)
    def run_test(**given: Any) -> None:
        live(lambda at: test(at, **given), **options)

    signature = inspect.signature(test)
    others = list(signature.parameters.values())[1:]  # what pytest has to give
    run_test.__signature__ = signature.replace(parameters=others)  # pyright: ignore[reportAttributeAccessIssue]
    return run_test


def refuse_dispatches(agent: Agent, times: int) -> list[Draft]:
    """Have the log refuse the next deliveries; the list holds what was tried."""
    tried: list[Draft] = []

    def guard(_: object, drafts: Any) -> None:
        if any(draft.type == "schedule/change" for draft in drafts):
            tried.extend(drafts)
            if len(tried) <= times * 2:
                raise RuntimeError("refused")

    agent.session.guard(guard)
    return tried
