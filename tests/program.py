"""A whole program for tests: a host under simulated time, over a disk that outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from unittest.mock import patch

from msgspec import Raw

from tests.judge.book import Book
from watchbell.agent.agent import Agent
from watchbell.agent.inbox import Inbox
from watchbell.context import Plugin
from watchbell.errors import PersistenceError
from watchbell.host import Host
from watchbell.log.codec import decode_rows, encode_rows
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.log.values import decode_json
from watchbell.models.base import ModelRequest
from watchbell.testing import (
    FaultyPersistence,
    MemoryDisk,
    MemoryStorage,
    ScriptedModel,
    SimulatedClock,
    SimulatedEventLoop,
    simulate,
)
from watchbell.testing.clock import DEFAULT_START
from watchbell.testing.model import Answer, Script
from watchbell.tools.definition import AbortSignal, Tool, ToolExecution
from watchbell.tools.function import tool

P = ParamSpec("P")
T = TypeVar("T")
MOST_PASSES = 20_000


class SpinningError(AssertionError):
    """The program keeps the loop busy without time passing."""


class WatchedLoop(SimulatedEventLoop):
    """A simulated loop that fails a program which spins, and keeps what nobody handled."""

    unhandled: list[str]

    def __init__(self) -> None:
        super().__init__()
        WatchedLoop.unhandled = []
        self._passes = (0.0, 0)
        self.set_exception_handler(lambda _, context: self.unhandled.append(str(context)))

    def _run_once(self) -> None:
        now = self.time()
        self._passes = (now, self._passes[1] + 1 if self._passes[0] == now else 0)
        if self._passes[1] > MOST_PASSES:
            raise SpinningError(f"{MOST_PASSES} passes of the loop at {now} s")
        super()._run_once()  # pyright: ignore[reportAttributeAccessIssue]


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def run(
    main: Callable[[SimulatedClock], Awaitable[T]],
    *,
    start: str | int = DEFAULT_START,
    logs_errors: bool = False,
) -> T:
    """Simulate `main`; nothing may spin, be left running, fail unheard or, unless said, log an error."""
    errors = _Errors()
    logging.getLogger("watchbell").addHandler(errors)
    try:
        with patch("watchbell.testing.loop.SimulatedEventLoop", WatchedLoop):
            result = simulate(main, start=start)
        gc.collect()  # a task that failed unheard says so when it is gone
    finally:
        logging.getLogger("watchbell").removeHandler(errors)
    assert WatchedLoop.unhandled == []
    assert bool(errors.lines) == logs_errors, "\n".join(errors.lines)
    return result


def simulated(
    test: Callable[Concatenate[SimulatedClock, P], Awaitable[None]] | None = None,
    *,
    start: str | int = DEFAULT_START,
    logs_errors: bool = False,
) -> Any:
    """Make an async test, whose first parameter is the clock, one that `run` simulates."""
    if test is None:
        return functools.partial(simulated, start=start, logs_errors=logs_errors)

    @functools.wraps(test)
    def run_test(*args: P.args, **kwargs: P.kwargs) -> None:
        run(lambda clock: test(clock, *args, **kwargs), start=start, logs_errors=logs_errors)

    signature = inspect.signature(test)
    rest = list(signature.parameters.values())[1:]  # fixtures and parameters alone are pytest's to give
    run_test.__signature__ = signature.replace(parameters=rest)  # pyright: ignore[reportAttributeAccessIssue]
    return run_test


class Program:
    """One host. Several over one disk, one after the other, are a program that is started again."""

    def __init__(
        self,
        clock: SimulatedClock,
        script: Script = (),
        *,
        disk: MemoryDisk | None = None,
        plugins: Sequence[Plugin] = (),
        tools: Sequence[Tool] = (),
        delay_seconds: float = 0,
        **options: Any,
    ) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self.store = FaultyPersistence(MemoryStorage(self.disk))
        self.model = ScriptedModel(script, delay_seconds=delay_seconds)
        self.host = Host(
            storage=self.store, model=self.model, plugins=plugins, tools=tools, clock=clock, **options
        )

    async def __aenter__(self) -> Self:
        await self.host.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.host.aclose()

    async def kill(self) -> None:
        """Lose the process: what was not durable is gone, and nothing that it still does reaches the disk."""
        self.disk.crash()
        with contextlib.suppress(PersistenceError):
            await self.host.aclose()


def inbox(agent: Agent) -> Inbox:
    """Fold what waits for an agent."""
    return Inbox(agent.session.header.owned_from).advance(agent.session.events)


def store(disk: MemoryDisk, *drafts: Draft, seed_length: int | None = None) -> None:
    """Put a log on the disk, as session `s`."""
    disk.headers["s"] = SessionHeader(id="s", created_at=0, seed_length=seed_length, delegation_depth=0)
    disk.batches["s"] = [tuple(draft.at(seq, 1000 + seq) for seq, draft in enumerate(drafts))]


def cut(events: Sequence[Event], length: int) -> MemoryDisk:
    """Return a disk on which session `s` has the first events of another log."""
    disk = MemoryDisk()
    disk.headers["s"] = SessionHeader(id="s", created_at=0, delegation_depth=0)
    disk.batches["s"] = [tuple(events[:length])]
    return disk


async def ask(agent: Agent, name: str, signal: AbortSignal | None = None, **arguments: Any) -> Any:
    """Call a tool of an agent as its model would, outside a turn, and return the value."""
    execution = ToolExecution(agent, "asked", AbortSignal() if signal is None else signal)
    return (await agent.tools.execute(name, json.dumps(arguments), execution)).value


def operations(events: Iterable[Event]) -> list[str]:
    """Say what happened to reminders: `create schedule-1` and so on."""
    changes = data(events, "schedule/change")
    return [f"{change['operation']} {change.get('id') or change['schedule']['id']}" for change in changes]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers, the greater sum the later."""
    await asyncio.sleep(a + b)
    return a + b


def converse(
    script: Sequence[Answer], *said: str, tools: Sequence[Tool] = (), logs_errors: bool = False
) -> Any:
    """Have one conversation, and return its durable events with what the model was asked."""

    async def main(clock: SimulatedClock) -> tuple[list[Event], list[ModelRequest]]:
        program = Program(clock, script, tools=tools)
        async with program:
            agent = await program.host.agents.create("s")
            for text in said:
                agent.followup(text)
            await agent.when_idle()
        return program.disk.events("s"), program.model.requests

    events, requests = run(main, logs_errors=logs_errors)
    require_valid(events)
    return events, requests


async def passes(count: int = 20) -> None:
    """Let everything run that needs no time."""
    for _ in range(count):
        await asyncio.sleep(0)


async def quiet(agent: Agent) -> None:
    """Wait until the agent is idle and nothing that needs no time makes it busy again."""
    for _ in range(20):
        await agent.when_idle()
        await passes(5)


def types(events: Iterable[Event], *, without: str = "assistant/chunk") -> list[str]:
    """Name the events' types, chunks left out."""
    return [event.type for event in events if event.type != without]


def data(events: Iterable[Event], of_type: str) -> list[Any]:
    """Decode the payloads of one type."""
    return [event.data for event in events if event.type == of_type]


def cites(event: Event) -> Any:
    """Decode the seqs that an event was made from."""
    assert isinstance(event.source_event_seqs, Raw)
    return decode_json(bytes(event.source_event_seqs))


def reasons(events: Iterable[Event]) -> list[Any]:
    """Say why each turn ended."""
    return [end["reason"] for end in data(events, "turn/end")]


def reason_kinds(events: Iterable[Event]) -> list[str]:
    """Say in one word why each turn ended."""
    return [reason["kind"] for reason in reasons(events)]


def texts(agent: Agent) -> list[str]:
    """Read the conversation, one text for each message; a tool's result shows its text."""
    return [_text(message.content) for message in agent.transcript()]


def user_texts(events: Iterable[Event]) -> list[str]:
    """Read what entered the conversation as a user message."""
    return [
        "".join(block["text"] for block in message["content"]) for message in data(events, "user/message")
    ]


def results(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Read each tool result: the call that it answers and its text."""
    blocks = [result["message"]["content"][0] for result in data(events, "tool/result")]
    return [(block["toolCallId"], block["content"][0]["text"]) for block in blocks]


def reminders(events: Iterable[Event]) -> list[list[tuple[str, str]]]:
    """List for each message of Schedule that entered the conversation which occurrences it presents."""
    sources = [message["source"] for message in data(events, "user/message")]
    return [
        [(item["id"], item["occurrenceAt"]) for item in source["reminders"]]
        for source in sources
        if source.get("plugin") == "schedule"
    ]


def require_valid(events: Sequence[Event], owned_from: int = 0) -> None:
    """Check what every reader relies on.

    Strict decoding takes each row, and the judge's own fold finds nothing wrong: boundaries nest, each call
    of a model has exactly one result, reminders are decided and shown once, and no turn is open.
    """
    assert list(EventLog(decode_rows(encode_rows(events), 0))) == list(events)
    book = Book(owned_from)
    for event in events:
        book.add(event.type, event.seq, event.time, event.data)
    assert book.wrongs == []
    assert book.turn is None


def _text(blocks: Iterable[Any]) -> str:
    parts: list[str] = []
    for block in blocks:
        if hasattr(block, "text"):
            parts.append(block.text)
        elif hasattr(block, "name"):
            parts.append(f"<{block.name}>")
        else:
            parts.append(_text(block.content))
    return "".join(parts)
