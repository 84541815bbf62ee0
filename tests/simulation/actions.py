"""What people, tools, disks and clocks do to a running program, as chance has it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tests.judge.evidence import Create
from watchbell.errors import SessionError, WatchbellError
from watchbell.tools.definition import AbortSignal, ToolExecution

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.simulation.adversary import Adversary
    from watchbell.agent.agent import Agent

__all__ = ["Actions"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 4_000_000_000_000  # in the year 2096; set no further, clocks leave calls within the calendar
_MOST_SESSIONS = 5


class Actions:
    """Acts on one process of the adversary's program until chance says that it is enough."""

    def __init__(self, adversary: Adversary) -> None:
        self._adversary = adversary
        self._random = adversary.random
        self._record = adversary.record
        self._tasks: set[asyncio.Task[Any]] = set()

    async def act(self) -> None:
        """Do something, wait a while, do the next thing."""
        plan = self._adversary.plan
        kinds = (
            [self._create] * 8 + [self._talk] * 4 + [self._delete] * 2 + [self._list] * 2 + [self._cancel] * 2
        )
        kinds += [self._steer, self._inject, self._flush, self._fork, self._reopen, self._wait, self._wait]
        if plan.has_faults:
            kinds += [self._break_disk] * 3
        if plan.has_steps:
            kinds += [self._set_clock] * 2 + [self._suspend]
        for _ in range(self._random.randint(1, 14)):
            agents = [agent for agent in self._adversary.host.agents.live if agent.phase != "closed"]
            if agents:
                self._random.choice(kinds)(self._random.choice(agents))
            await asyncio.sleep(self._random.choice((0, 0, 0.05, 2, 2, 15)) * self._random.random())
        await asyncio.sleep(self._random.choice((0, 1, 5, 40)) * self._random.random())

    async def aclose(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(list(self._tasks), timeout=200)
            for task in sorted(self._tasks, key=lambda task: task.get_name()):
                task.cancel()

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work, name=f"action {self._record.counts['actions']:05}")
        self._record.counts["actions"] += 1
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- Schedule's tools

    def _create(self, agent: Agent) -> None:
        number = self._record.counts["creates"]
        self._record.counts["creates"] += 1
        prompt = f"reminder {number}"
        self._record.creates[prompt] = Create(agent.id, prompt)
        self._begin(self._run_create(agent, prompt, {"prompt": prompt, **self._selector()}))

    def _selector(self) -> dict[str, Any]:
        random, now_ms = self._random, self._adversary.machine.clock.now_ms()
        seconds = random.choice((1, 2, 5, 20, 20, 300, 86_400 * 400))
        match random.randrange(6):
            case 0:
                return {"every_seconds": random.choice((300, 300, 420, 90_000))}
            case 1:
                zone = timezone(timedelta(hours=random.randint(-12, 14)))
                at = (_EPOCH + timedelta(milliseconds=now_ms + seconds * 1000)).astimezone(zone)
                return {"at": at.isoformat(timespec="milliseconds")}
            case 2:
                at = _EPOCH + timedelta(milliseconds=now_ms + seconds * 1000)
                given = {"date": f"{at:%Y-%m-%d}", "time": f"{at:%H:%M:%S}", "time_zone": "Etc/UTC"}
                return {"at": given}
            case 3 if random.random() < 0.2:
                return {"every_seconds": 10}
            case _:
                return {"after_seconds": random.randint(1, seconds)}

    async def _run_create(self, agent: Agent, prompt: str, arguments: dict[str, Any]) -> None:
        outcome: dict[str, Any] | None = await self._call(agent, "schedule_create", arguments)
        self._record.creates[prompt].answer = outcome
        if outcome is not None and "scheduledAt" in outcome and self._random.random() < 0.3:
            self._plan_trouble(agent, outcome["id"], outcome["scheduledAt"])

    def _plan_trouble(self, agent: Agent, schedule_id: str, scheduled_at: str) -> None:
        """Have something else happen around the instant at which a reminder is due."""
        target = datetime.fromisoformat(scheduled_at)
        now_ms = self._adversary.machine.clock.now_ms()
        wait = (target - _EPOCH - timedelta(milliseconds=now_ms)).total_seconds()
        if not 0 < wait < 60:
            return
        plan = self._adversary.plan
        trouble: list[Callable[[Agent], None]] = [self._talk, self._steer, self._cancel]
        trouble += [partial(self._delete_with_work, schedule_id)] * 3
        if plan.has_faults:
            trouble += [self._break_disk_with_work] * 3
        if plan.has_steps:
            trouble += [self._set_clock] * 2
        earlier = self._random.choice((-0.001, 0, 0, 0.001, 0.3))
        happen = self._random.choice(trouble)
        asyncio.get_running_loop().call_later(max(0.0, wait - earlier), self._if_live, agent, happen)

    def _if_live(self, agent: Agent, happen: Callable[[Agent], None]) -> None:
        if agent.phase != "closed":
            happen(agent)

    def _delete(self, agent: Agent) -> None:
        self._begin(self._run_delete(agent, f"schedule-{self._random.randint(1, 8)}"))

    async def _run_delete(self, agent: Agent, schedule_id: str) -> None:
        outcome = await self._call(agent, "schedule_delete", {"id": schedule_id})
        if outcome == {"id": schedule_id, "deleted": True}:
            self._record.deleted.append((agent.id, schedule_id))

    def _list(self, agent: Agent) -> None:
        self._begin(self._run_list(agent))

    async def _run_list(self, agent: Agent) -> None:
        outcome = await self._call(agent, "schedule_list", {})
        if isinstance(outcome, list):
            views = cast("list[dict[str, Any]]", outcome)
            self._record.listed.append((agent.id, [view["id"] for view in views]))

    async def _call(self, agent: Agent, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool as the agent's own call, sometimes cancelled on the way; None when it was."""
        signal = AbortSignal()
        if self._random.random() < 0.1:
            asyncio.get_running_loop().call_later(self._random.choice((0, 0.001, 0.3)), signal.abort)
        execution = ToolExecution(agent, "direct", signal)
        outcome = await agent.tools.execute(name, json.dumps(arguments), execution)
        return None if outcome.error is not None else outcome.value

    # --- people

    def _talk(self, agent: Agent) -> None:
        agent.followup("hello there")

    def _steer(self, agent: Agent) -> None:
        agent.steer("wait a moment")

    def _inject(self, agent: Agent) -> None:
        with suppress(WatchbellError):
            self._record.quiet_ids.add(agent.steer("by the way", wake=False).id)

    def _cancel(self, agent: Agent) -> None:
        self._record.cancels.append((agent.id, self._adversary.machine.elapsed_seconds))
        agent.cancel(discard_pending=self._random.random() < 0.5)

    # --- sessions

    def _flush(self, agent: Agent) -> None:
        self._begin(self._quietly(self._adversary.host.sessions.flush(agent.session)))

    def _fork(self, agent: Agent) -> None:
        if len(self._adversary.session_ids) < _MOST_SESSIONS:
            name = f"session-{len(self._adversary.session_ids) + 1}"
            self._adversary.session_ids.append(name)
            length = len(agent.session.events)
            at = None if self._random.random() < 0.5 else self._random.randint(0, length)
            model = self._adversary.model(name)
            self._begin(self._quietly(self._adversary.host.agents.fork(agent, name, at=at, model=model)))

    def _reopen(self, agent: Agent) -> None:
        self._record.note(agent.id, "gone")
        self._begin(self._run_reopen(agent))

    async def _run_reopen(self, agent: Agent) -> None:
        with suppress(WatchbellError):
            await agent.aclose()
        for _ in range(30):
            try:
                await self._adversary.host.agents.open(agent.id, model=self._adversary.model(agent.id))
                return
            except SessionError:
                return
            except WatchbellError:
                await asyncio.sleep(1)

    async def _quietly(self, work: Coroutine[Any, Any, Any]) -> None:
        with suppress(WatchbellError):
            await work

    # --- the machine

    def _wait(self, agent: Agent) -> None:
        """Do nothing."""

    def _break_disk(self, agent: Agent) -> None:
        faults = self._adversary.faults
        faults.failing += self._random.choice((1, 2, 10_000))
        asyncio.get_running_loop().call_later(
            self._random.choice((0.5, 5, 50)) * self._random.random(), self._heal
        )

    def _delete_with_work(self, schedule_id: str, agent: Agent) -> None:
        """Delete, mostly while there is something to store before."""
        if self._random.random() < 0.7:
            self._inject(agent)
        self._begin(self._run_delete(agent, schedule_id))

    def _break_disk_with_work(self, agent: Agent) -> None:
        """Fail while there is something to store."""
        self._inject(agent)
        self._break_disk(agent)

    def _heal(self) -> None:
        self._adversary.faults.failing = 0

    def _set_clock(self, agent: Agent) -> None:
        size = self._random.choice((0.7, 3, 60, 4000, 86_400 * 3, 86_400 * 365 * 10))
        self._step(size * self._random.uniform(-1, 1))

    def _suspend(self, agent: Agent) -> None:
        self._step(self._random.choice((1, 30, 4000)) * self._random.random())

    def _step(self, seconds: float) -> None:
        clock = self._adversary.machine.clock
        if 0 < clock.now_ms() + seconds * 1000 < _LAST_MS:
            clock.step(seconds)
            self._record.note(None, "step")
            self._record.counts["clock steps"] += 1
