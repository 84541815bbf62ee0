"""The world around the program: a store that takes its time, a model and tools of uncertain temper."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.record import Record
from watchbell.agent.events import StepPrepare
from watchbell.errors import PersistenceError
from watchbell.log.event import Event
from watchbell.log.messages import Chunk, ToolCallBlock, ToolResultBlock
from watchbell.models.base import ModelRequest
from watchbell.storage.base import LogWriter, SessionPersistence, SessionRef, StoredLog
from watchbell.testing.model import Answer, ScriptedModel, call, fail, hang, say, think
from watchbell.tools.function import tool

if TYPE_CHECKING:
    from watchbell.context import Context
    from watchbell.log.header import SessionHeader

__all__ = ["DiskFaults", "ErraticModel", "MeddlingHook", "SlowPersistence", "work"]

Delay = Callable[[], float]


@tool
async def work(seconds: float) -> str:
    """Work for a while."""
    await asyncio.sleep(seconds)
    return "done"


class DiskFaults:
    """Lets calls to the disk fail, the next ones or all for a while, and kills the process in one of them.

    Attributes:
        failing: How many of the next writes and fsyncs fail.
        kill_in: How many calls pass before one in which the process is killed, None for never.
    """

    def __init__(self, random: Random, kill: Callable[[], None]) -> None:
        self._random = random
        self._kill = kill
        self._is_short = False
        self._has_lost_pages = False
        self.failing = 0
        self.kill_in: int | None = None

    def __call__(self, operation: str, data: bytes) -> int:
        """Decide about one call, as `SimulatedDisk.before`."""
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                if len(data) > 1 and not self._is_short:
                    self._is_short = True
                    return self._cut(data)
                self._kill()
        if self.failing > 0 and operation in ("write", "fsync", "link", "truncate"):
            self._fail(operation, len(data))
            return self._cut(data) if self._is_short else len(data)
        return len(data)

    def _cut(self, data: bytes) -> int:
        """Choose where a write falls short: anywhere, or between the lines of a plain log."""
        ends = [at + 1 for at, byte in enumerate(data[:-1]) if byte == 10]
        if ends and self._random.random() < 0.5:
            return self._random.choice(ends)
        return self._random.randint(1, len(data) - 1)

    def _fail(self, operation: str, size: int) -> None:
        """Fail, or let a write fall short and fail in the next call.

        Of a double fault, lost pages that cannot be cut off either, no program on one disk could recover.
        """
        if size > 1 and not self._is_short and self._random.random() < 0.5:
            self._is_short = True
            return
        self._is_short = False
        if operation == "truncate" and (self._has_lost_pages or self._random.random() < 0.8):
            self._has_lost_pages = False
            return
        self._has_lost_pages = operation == "fsync"
        self.failing -= 1
        raise OSError(self._random.choice((errno.ENOSPC, errno.EIO)), "made to fail")


class SlowPersistence:
    """A store whose calls take time, and that tells the record of each write."""

    def __init__(self, inner: SessionPersistence, delay: Delay, record: Record) -> None:
        self._inner = inner
        self._delay = delay
        self._record = record

    async def list(self) -> Sequence[SessionRef]:
        """Name the stored sessions."""
        return await self._inner.list()

    async def read(self, session_id: str) -> StoredLog:
        """Read a log."""
        await asyncio.sleep(self._delay())
        return await self._inner.read(session_id)

    async def open(self, session_id: str) -> tuple[StoredLog, LogWriter]:
        """Open a log for writing."""
        await asyncio.sleep(self._delay())
        stored, writer = await self._inner.open(session_id)
        await asyncio.sleep(self._delay())
        return stored, _SlowWriter(writer, session_id, self._delay, self._record)

    async def create(self, header: SessionHeader, seed: Sequence[Event] = ()) -> LogWriter:
        """Begin a new log."""
        await asyncio.sleep(self._delay())
        writer = await self._inner.create(header, seed)
        await asyncio.sleep(self._delay())
        return _SlowWriter(writer, header.id, self._delay, self._record)

    async def aclose(self) -> None:
        """Close the store inside."""
        await self._inner.aclose()


class _SlowWriter:
    def __init__(self, inner: LogWriter, session_id: str, delay: Delay, record: Record) -> None:
        self._inner = inner
        self._session_id = session_id
        self._delay = delay
        self._record = record

    async def write(self, events: Sequence[Event]) -> None:
        self._record.note(self._session_id, "write")
        try:
            await asyncio.sleep(self._delay())
            await self._inner.write(events)
            self._record.wrote(self._session_id, events[-1].seq + 1)
            await asyncio.sleep(self._delay())
        except PersistenceError:
            self._record.counts["failed writes"] += 1
            self._record.note(self._session_id, "written", False)
            raise
        self._record.note(self._session_id, "written", True)

    def check(self) -> None:
        self._inner.check()

    async def close(self) -> None:
        await self._inner.close()


class ErraticModel:
    """Answers one session as chance has it: text, thought, tool calls, failures, or nothing for a long time.

    Attributes:
        calm: Whether it answers each request at once, in two words.
    """

    provider = "erratic"
    model = "erratic-1"
    context_window: int | None = None

    def __init__(self, session_id: str, random: Random, record: Record, pace: float) -> None:
        self._session_id = session_id
        self._random = random
        self._record = record
        self._pace = pace
        self._calls = 0
        self.calm = False

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer a request."""
        answered = [m.source.get("kind") == "tool" for m in request.messages]
        ids = frozenset(
            m.id for m, is_result in zip(request.messages, answered, strict=True) if not is_result
        )
        self._record.asked(self._session_id, ids)
        if (wrong := _find_wrong(request)) is not None:
            self._record.blame("invalid", self._session_id, f"a request that providers refuse: {wrong}")
        delay = 0.0 if self.calm else self._random.choice((0, 0, 0.001, self._pace * self._random.random()))
        return ScriptedModel(self._answer, delay_seconds=delay).stream(request)

    async def _answer(self, _: ModelRequest) -> Answer:
        if self.calm:
            return say("all right")
        random = self._random
        await asyncio.sleep(random.choice((0, 0, random.random() * self._pace)))
        choice = random.random()
        if choice < 0.5:
            return say("all right then")
        if choice < 0.6:
            return [think("hm"), say("yes")]
        if choice < 0.7:
            return [think("hm"), fail(random.choice(("PROVIDER_ERROR", "RATE_LIMITED")))]
        if choice < 0.74:
            return fail()
        if choice < 0.76:
            return [think("let me see"), hang()]
        return [self._call() for _ in range(random.randint(1, 2))]

    def _call(self) -> Any:
        self._calls += 1
        random, call_id = self._random, f"m{self._record.counts['model calls']}"
        self._record.counts["model calls"] += 1
        choice = random.random()
        if choice < 0.5:
            return call("work", {"seconds": random.random() * 4 * self._pace}, call_id)
        if choice < 0.7:
            return call("schedule_list", {}, call_id)
        if choice < 0.8:
            return call("schedule_delete", {"id": f"schedule-{random.randint(1, 6)}"}, call_id)
        prompt = f"model {call_id}"
        self._record.counts["model creates"] += 1
        return call("schedule_create", {"prompt": prompt, "after_seconds": random.randint(1, 40)}, call_id)


def _find_wrong(request: ModelRequest) -> str | None:
    """Say what a provider would refuse: no user at the head, a call without its one result."""
    if not request.messages or request.messages[0].role != "user":
        return "it does not begin with a user message"
    open_calls: set[str] = set()
    for message in request.messages:
        results = {block.tool_call_id for block in message.content if isinstance(block, ToolResultBlock)}
        if results - open_calls:
            return f"a result without a call: {sorted(results - open_calls)}"
        if open_calls and not results:
            return f"calls without a result: {sorted(open_calls)}"
        open_calls -= results
        open_calls |= {block.id for block in message.content if isinstance(block, ToolCallBlock)}
    return f"calls without a result: {sorted(open_calls)}" if open_calls else None


class MeddlingHook:
    """A plugin whose step hook dawdles, fails, and rejects what it may not."""

    name = "meddling"
    requires = ("agents",)

    def __init__(self, random: Random, record: Record, pace: float) -> None:
        self._random = random
        self._record = record
        self._pace = pace
        self.calm = False

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncGenerator[None]:
        """Meddle until this is left."""
        end = ctx.on(StepPrepare, self._prepare)
        try:
            yield
        finally:
            end()

    async def _prepare(self, event: StepPrepare) -> None:
        agent, plan = event.agent, event.plan
        if self.calm:
            return
        choice = self._random.random()
        await asyncio.sleep(self._random.choice((0, 0, self._pace * self._random.random())))
        if choice < 0.1:
            raise RuntimeError("a hook that was made to fail")
        if choice < 0.2:
            for message in plan.messages:
                if plan.reject(message) and message.source.get("plugin") == "schedule":
                    self._record.blame("lost", agent.id, f"a hook rejected reminder {message.id}")
