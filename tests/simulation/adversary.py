"""The adversary: one seed's run of a whole program, with everything in it that can go wrong."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.simulation.actions import Actions
from tests.simulation.monitor import Row
from tests.simulation.record import Record, is_reminder
from tests.simulation.world import DiskFaults, ErraticModel, MeddlingHook, SlowPersistence, work
from watchbell import schedule
from watchbell.agent.events import AgentCreated
from watchbell.errors import PersistenceError
from watchbell.host.host import Host
from watchbell.host.time_context import time_context
from watchbell.log.event import Event
from watchbell.sessions.events import SessionCreated
from watchbell.storage.jsonl.layout import Compression
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing.loop import ProcessKilled
from watchbell.testing.machine import SimulatedMachine

__all__ = ["Adversary", "Plan"]

_REMINDER = "a reminder's message in the inbox"
_INTERESTING = (
    *[_REMINDER] * 3,
    *["turn/start"] * 2,
    "schedule/change",
    "agent/inbox/spliced",
    "turn/end",
    "watchbell/take-up",
    "tool/call",
)
_REST_SECONDS = 300


class Plan:
    """What a seed makes of a run before it begins."""

    def __init__(self, random: Random) -> None:
        self.is_grim = random.random() < 0.12  # every life ends at once, in the same way
        self.compression: Compression = random.choice(("zstd", "none", "none"))
        self.sessions = random.choice((1, 1, 2, 3))
        self.lives = random.randint(6, 8) if self.is_grim else random.randint(1, 6)
        self.pace = random.choice((0.01, 0.3, 3.0))
        self.disk_seconds = random.choice((0.0, 0.003, 0.003, 0.4))
        self.has_faults = random.random() < 0.5
        self.has_steps = random.random() < 0.5
        self.has_hooks = random.random() < 0.4
        self.has_time_context = random.random() < 0.3


def _clock_rate(seed: int | str) -> float:
    """Choose how fast a seed's wall clock goes, as fast as true time in three of four."""
    random = Random(f"{seed} clock")
    return random.uniform(0.9, 1.1) if random.random() < 0.25 else 1.0


class Adversary:
    """Runs a program on a simulated machine, life after life, and leaves the logs and the record of it.

    Args:
        seed: Decides everything.
        root: An existing directory for the machine's disk.

    Attributes:
        machine: The machine.
        record: What was done and seen.
        crashes: How many processes were killed.
    """

    def __init__(self, seed: int | str, root: Path) -> None:
        self.random = Random(f"{seed} adversary")
        self.plan = Plan(self.random)
        self.machine = SimulatedMachine(root, seed=seed)
        self.record = Record(now=lambda: (self.machine.elapsed_seconds, self.machine.clock.now_ms()))
        self.record.clock_rate = _clock_rate(seed)
        self.machine.clock.drift(self.record.clock_rate)
        self.faults = DiskFaults(self.random, self._kill_now)
        self.machine.disk.before = self.faults
        self.crashes = 0
        self.session_ids = [f"session-{number}" for number in range(1, self.plan.sessions + 1)]
        self.models: dict[str, ErraticModel] = {}
        self.host: Host
        self._hook = MeddlingHook(self.random, self.record, self.plan.pace)
        self._kill_at_event: tuple[str, int] | None = None

    def run(self) -> None:
        """Live all lives, then a quiet one in which everything has to come to rest."""
        for _ in range(self.plan.lives):
            self._live(self._process)
            if self.random.random() < 0.3:
                self.machine.rest(self.random.choice((0.5, 20.0, 3000.0)) * self.random.random())
        self.faults.failing, self.faults.kill_in, self._kill_at_event = 0, None, None
        self._live(self._quiet_process)

    def _live(self, process: Any) -> None:
        try:
            self.machine.run(process)
        except ProcessKilled:
            self.crashes += 1
        self.record.note(None, "end")

    async def _process(self) -> None:
        self._hook.calm = False
        self._plan_death()
        await self._start(calm=False)
        actions = Actions(self)
        try:
            await actions.act()
        finally:
            await actions.aclose()
        if self._dies:
            self.machine.kill(after=self.random.randrange(40))
        await self._stop()
        self.machine.kill()  # whoever was to be killed is
        await asyncio.sleep(0)

    async def _quiet_process(self) -> None:
        self._hook.calm = True
        await self._start(calm=True)
        quiet_seconds, length = 0, -1
        for _ in range(_REST_SECONDS):
            await asyncio.sleep(1)
            before, length = length, sum(len(agent.session.events) for agent in self.host.agents.live)
            # Idle alone is no rest: between two deliveries an agent is idle while the storage confirms.
            is_quiet = length == before and all(agent.phase == "idle" for agent in self.host.agents.live)
            quiet_seconds = quiet_seconds + 1 if is_quiet else 0
            if quiet_seconds == 3:
                break
        else:
            self.record.blame("silent", "all", "no rest: an agent is still at work after five minutes")
        self.record.stopped_at = self.machine.elapsed_seconds
        await self._stop()

    def _plan_death(self) -> None:
        """Choose where this life ends: anywhere, early, in a call to the disk, or around an event."""
        self._kill_at_event, self.faults.kill_in = None, None
        choice = self.random.random()
        self._dies = choice < 0.85
        if self.plan.is_grim:
            self._dies, self._kill_at_event = True, ("turn/start", 0)
        elif choice < 0.15:
            self.machine.kill(after=self.random.randrange(300))
        elif choice < 0.4:
            self.faults.kill_in = self.random.randrange(60)
        elif choice < 0.75:
            self._kill_at_event = self.random.choice(_INTERESTING), self.random.randrange(4)

    def _kill_now(self) -> None:
        self.machine.kill()
        raise ProcessKilled

    async def _start(self, *, calm: bool) -> None:
        """Compose the program and resume all there is."""
        machine = self.machine
        jsonl = JsonlStorage(
            machine.disk.home,
            compression=self.plan.compression,
            files=machine.disk,
            now_ms=machine.clock.now_ms,
        )
        plugins: list[Any] = [schedule.plugin()]
        if self.plan.has_time_context:
            plugins.append(time_context(time_zone="Europe/Berlin"))
        if self.plan.has_hooks:
            plugins.append(self._hook)
        self.models = {}
        self.host = Host(
            storage=SlowPersistence(jsonl, self._disk_delay, self.record),
            model=self.model("?"),
            plugins=plugins,
            tools=[work],
            clock=machine.clock,
            new_id=machine.new_id,
        )
        await self.host.__aenter__()
        self.host.ctx.on(SessionCreated, self._on_session)
        self.host.ctx.on(AgentCreated, self._on_agent)
        stored = [ref.session_id for ref in await self.host.sessions.list()]
        self.session_ids += [name for name in stored if name not in self.session_ids]
        for name in self.session_ids:
            model = self.model(name)
            model.calm = calm
            if name in stored:
                await self._until_it_works(self.host.agents.resume, name, model)
            elif not calm:
                await self.host.agents.create(name, model=model)

    async def _until_it_works(self, resume: Any, name: str, model: ErraticModel) -> None:
        for attempts_left in range(20, -1, -1):
            try:
                await resume(name, model=model)
                return
            except PersistenceError:
                if not attempts_left:
                    raise
                if attempts_left < 16:
                    self.faults.failing = 0
                await asyncio.sleep(1)

    async def _stop(self) -> None:
        for agent in self.host.agents.live:
            self.record.note(agent.id, "gone")
        with suppress(PersistenceError):
            await self.host.aclose()

    def model(self, session_id: str) -> ErraticModel:
        """Return the model of a session."""
        return self.models.setdefault(
            session_id, ErraticModel(session_id, self.random, self.record, self.plan.pace)
        )

    def _disk_delay(self) -> float:
        return self.random.choice((0.0, self.plan.disk_seconds * self.random.random()))

    def _on_agent(self, event: AgentCreated) -> None:
        self.record.note(event.agent.id, "alive")

    def _on_session(self, event: SessionCreated) -> None:
        session = event.session
        if self.machine.is_running:
            self.record.opened(
                session.id, session.header.owned_from, [self._row(event) for event in session.events]
            )
            session.observe(lambda events: self._on_events(session.id, events))

    def _on_events(self, session_id: str, events: Any) -> None:
        if not self.machine.is_running:
            return
        rows = [self._row(event) for event in events]
        self.record.appended(session_id, rows)
        if self._kill_at_event is None:
            return
        kind, count = self._kill_at_event
        if not any(event.type == kind or (kind == _REMINDER and is_reminder(event)) for event in rows):
            return
        self._kill_at_event = (kind, count - 1)
        if count == 0 and self.random.random() < 0.5:
            self.machine.kill(after=self.random.randrange(40))
        elif count == 0:
            self.faults.kill_in = self.random.choice((0, 0, 1, 2))  # most often while that is being written

    def _row(self, event: Event) -> Row:
        data = msgspec.json.decode(event.raw)
        at, wall_ms = self.record.now()
        return Row(event.type, event.seq, event.time, data, at, wall_ms)
