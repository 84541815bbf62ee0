"""The process that is killed: a host with many sessions over files, told what to do by lines of its input.

It answers with lines on its standard output. When its input ends, so does it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.cli.console.signals import run_stoppable
from watchbell.clock import WallClock, wall_ms
from watchbell.host import Host
from watchbell.models.base import ModelRequest
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import ScriptedModel, call, say, think
from watchbell.testing.model import Answer
from watchbell.tools.definition import AbortSignal, ToolExecution
from watchbell.tools.function import tool

CHUNK_SECONDS = 0.002
REST_SECONDS = 30.0
"""How long the last process waits for what is overdue, before the log says what did not come."""


class PresetClock(WallClock):
    """The machine's clock, which reads another time while a reminder of long ago is made."""

    def __init__(self) -> None:
        self.preset_ms: int | None = None
        super().__init__(lambda: self.preset_ms or wall_ms(), time.monotonic)


@tool
async def work(milliseconds: int) -> str:
    """Work for a while."""
    await asyncio.sleep(milliseconds / 1000)
    return "worked"


def answer(request: ModelRequest) -> Answer:
    """Answer in different ways, some of them with a tool call first; the conversation's length decides."""
    last = request.messages[-1]
    length = len(request.messages)
    if last.text.startswith("work "):
        return call("work", {"milliseconds": int(last.text[5:])}, f"call-{length}")
    if "[SCHEDULE REMINDER" not in last.text:
        return "Done."
    match length % 3:
        case 0:
            return call("schedule_list", {}, f"call-{length}")
        case 1:
            return [think("Something is due."), say("It is time.")]
        case _:
            return say("It is time. Here is what you wanted to be told.")


class Commands:
    """Does what the lines say, each in a task of its own."""

    def __init__(self, agents: dict[str, Agent], clock: PresetClock) -> None:
        self._agents = agents
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._created: dict[str, asyncio.Future[str | None]] = {}

    async def follow(self, lines: AsyncIterator[Any]) -> None:
        """Obey every line until there are no more, or one that says to rest has been obeyed."""
        async for line in lines:
            if "preset_ms" in line or line["do"] == "rest":
                await self._obey(line)
            else:
                task = asyncio.create_task(self._obey(line))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if line["do"] == "rest":
                return

    async def _obey(self, line: dict[str, Any]) -> None:
        match line["do"]:
            case "create":
                created = self._created[line["arguments"]["prompt"]] = asyncio.Future()
                created.set_result(await self._create(line))
            case "delete":
                name = await self._created[line["prompt"]]
                if name is not None:
                    deleted = await _call(self._agents[line["session"]], "delete", id=name)
                    if "error" not in deleted:
                        tell(deleted=[line["session"], name])
            case "say":
                self._agents[line["session"]].followup(line["text"])
            case "cancel":
                self._agents[line["session"]].cancel(discard_pending=True)
            case _:
                await self._rest()
                tell(rested_ms=wall_ms())

    async def _create(self, line: dict[str, Any]) -> str | None:
        self._clock.preset_ms = line.get("preset_ms")
        try:
            made = await _call(self._agents[line["session"]], "create", **line["arguments"])
        finally:
            self._clock.preset_ms = None
        if "error" in made:
            return None
        tell(created=made)
        return made["id"]

    async def _rest(self) -> None:
        """Wait until nothing is overdue and every agent is idle."""
        deadline = wall_ms() + REST_SECONDS * 1000
        while wall_ms() < deadline:
            await asyncio.sleep(0.1)
            if all([await _is_at_rest(agent) for agent in self._agents.values()]):
                return


async def _call(agent: Agent, name: str, **arguments: Any) -> Any:
    execution = ToolExecution(agent, "asked", AbortSignal())
    outcome = await agent.tools.execute(f"schedule_{name}", json.dumps(arguments), execution)
    return {"error": outcome.text} if outcome.is_error else outcome.value


async def _is_at_rest(agent: Agent) -> bool:
    listed = await _call(agent, "list")
    if agent.phase != "idle" or not isinstance(listed, list):
        return False
    return not any(view["state"] == "overdue" for view in listed)


def tell(**answer: Any) -> None:
    """Write a line to whoever started this process."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def read_lines() -> AsyncIterator[Any]:
    """Read the lines of standard input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        yield json.loads(line)


async def run(home: str, sessions: int) -> int:
    """Open the sessions and do as told."""
    clock = PresetClock()
    model = ScriptedModel(answer, delay_seconds=CHUNK_SECONDS)
    async with Host(
        storage=JsonlStorage(home), model=model, plugins=[schedule.plugin()], tools=[work], clock=clock
    ) as host:
        tell(opening=True)
        names = [f"session-{number}" for number in range(sessions)]
        agents = {name: await host.agents.open(name) for name in names}
        tell(ready=True)
        await Commands(agents, clock).follow(read_lines())
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # even when the campaign runs under `nohup`
    sys.exit(run_stoppable(run(sys.argv[1], int(sys.argv[2]))))
