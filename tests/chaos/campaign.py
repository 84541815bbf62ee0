"""One home, from its first host to rest: what is asked of each, and how and when it ends."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.chaos.process import HostProcess
from tests.judge.evidence import Create, Evidence, Violation
from tests.judge.judge import Verdict, judge
from tests.judge.reader import read_log
from watchbell.clock import wall_ms
from watchbell.errors import SessionLockedError
from watchbell.storage.jsonl.store import JsonlStorage

GRID_MS = 500
"""One-shots of a round, and repeaters of all, have their targets close after a multiple of this."""

LEAD_MS = 300
"""Time to create a round's reminders before its targets."""

EVERY_MS = 300_000
STOP_SECONDS = 5.0
RUNNING_AGAIN_MS = 1000
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Campaign:
    """Breaks the hosts of one home, then lets one run to rest and has the logs judged.

    Args:
        home: A directory of its own.
        sessions: Sessions of each host.
        kills: How many hosts are killed.
        seed: Decides the reminders and the moments, as far as the machine's scheduling lets it.

    Attributes:
        count: What was done: `kill` (each moment also by its name), `stop`, `freeze`, `second opener`.
        verdict: What came of it.
    """

    def __init__(self, home: Path, *, sessions: int, kills: int, seed: str) -> None:
        self.count: Counter[str] = Counter()
        self.verdict = Verdict()
        self._home = home
        self._names = [f"session-{number}" for number in range(sessions)]
        self._kills = kills
        self._random = Random(seed)
        self._host: HostProcess | None = None
        self._evidence = Evidence()
        self._last_target_ms = 0
        self._rested_ms: int | None = None

    async def run(self) -> None:
        """Run it all."""
        try:
            await self._make_repeaters()
            await self._freeze()
            while self.count["kill"] < self._kills:
                await self._round()
            await self._rest()
        finally:
            if self._host is not None:
                self._host.send(signal.SIGKILL)
                await self._host.end()
        self._judge()

    async def _ready(self) -> HostProcess:
        if self._host is None:
            self._host = await HostProcess.start(self._home, len(self._names))
        await self._host.wait_for(self._host.ready)
        return self._host

    async def _end(self, host: HostProcess) -> int:
        """Wait for a host's end, and note what it had promised."""
        code = await host.end()
        self._host = None
        for prompt, view in host.created.items():
            self._evidence.creates[prompt].answer = view
        self._evidence.deleted += host.deleted
        return code

    async def _make_repeaters(self) -> None:
        """Create repeaters, as if five minutes ago, whose first targets fall into the rounds to come."""
        host = await self._ready()
        first = _next_target(2 * LEAD_MS)
        for name in self._names:
            for _ in range(self._random.randrange(3)):
                at_ms = first + GRID_MS * self._random.randrange(4 * self._kills)
                self._create(host, name, at_ms, {"every_seconds": EVERY_MS // 1000}, at_ms - EVERY_MS)

    def _create(
        self,
        host: HostProcess,
        name: str,
        at_ms: int,
        selector: dict[str, object],
        preset_ms: int | None = None,
    ) -> str:
        prompt = f"number {len(self._evidence.creates)}"
        self._evidence.creates[prompt] = Create(name, prompt)
        self._last_target_ms = max(self._last_target_ms, at_ms)
        preset = {} if preset_ms is None else {"preset_ms": preset_ms}
        host.tell("create", session=name, arguments={"prompt": prompt, **selector}, **preset)
        return prompt

    def _create_at(self, host: HostProcess, name: str, at_ms: int) -> str:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return self._create(host, name, at_ms, {"at": at})

    async def _freeze(self) -> None:
        """Stop a host's process over its targets, as a suspend does, and let it go on."""
        host = await self._ready()
        target = _next_target(LEAD_MS)
        asked = [self._create_at(host, name, target + self._random.randrange(100)) for name in self._names]
        await _until(target - 50)
        host.send(signal.SIGSTOP)
        answered = set(asked) & host.created.keys()  # what was not before the freeze is not judged
        await _until(target + self._random.randrange(200, 1500))
        running_ms = wall_ms()
        host.send(signal.SIGCONT)
        await _until(running_ms + RUNNING_AGAIN_MS)
        self.count["freeze"] += 1
        await self._kill(host, "after a freeze")
        for prompt in answered:
            self._evidence.creates[prompt].latest_ms = running_ms + RUNNING_AGAIN_MS

    async def _round(self) -> None:
        """Start a host if none runs, give it something to do, and end it."""
        moment = self._random.choices(("due", "turn", "opening", "stop"), (12, 3, 3, 4))[0]
        if moment == "opening":
            self._host = host = await HostProcess.start(self._home, len(self._names))
            await host.wait_for(host.opening)
            await asyncio.sleep(self._random.uniform(0, 0.06))
            await self._kill(host, moment)
            return
        host = await self._ready()
        target = _next_target(LEAD_MS)
        self._give_work(host, target)
        after_ms = self._random.uniform(40, 400) if moment == "turn" else self._random.uniform(0, 40)
        if self._random.random() < 0.3:
            await _until(target - 30)
            await self._open_besides()
        await self._interfere(host, target, target + after_ms)
        if moment == "stop":
            await self._stop(host)
        else:
            await self._kill(host, moment)

    def _give_work(self, host: HostProcess, target: int) -> None:
        """Create most sessions' reminders at the target, some later ones, and some to be deleted."""
        chance = self._random
        for name in self._names:
            if chance.random() < 0.9:
                self._create_at(host, name, target + chance.randrange(30))
            if chance.random() < 0.25:
                self._create_at(host, name, target + chance.randrange(200, 2500))
            if chance.random() < 0.1:
                prompt = self._create_at(host, name, target + chance.randrange(3000))
                host.tell("delete", session=name, prompt=prompt)

    async def _interfere(self, host: HostProcess, target: int, end_ms: float) -> None:
        """Say something to some sessions, and cancel some, around the target; then wait for the end."""
        chance = self._random
        acts: list[tuple[float, str, str]] = []
        for name in self._names:
            if chance.random() < 0.2:
                acts.append((target - chance.uniform(0, 60), "say", name))
            if chance.random() < 0.1:
                acts.append((target + chance.uniform(-20, 60), "cancel", name))
        for at_ms, act, name in sorted(acts):
            if at_ms < end_ms:
                await _until(at_ms)
                host.tell(act, session=name, text=f"work {chance.randrange(40)}")
        await _until(end_ms)

    async def _kill(self, host: HostProcess, moment: str) -> None:
        host.send(signal.SIGKILL)
        await self._end(host)
        self.count.update(["kill", moment])

    async def _stop(self, host: HostProcess) -> None:
        """End a host by a signal that asks it to close, sometimes by a second one that insists."""
        first, second = self._random.choices(STOPS, k=2)
        insists = self._random.random() < 0.3
        begun_ms = wall_ms()
        host.send(first)
        if insists:
            await asyncio.sleep(self._random.uniform(0, 0.03))
            host.send(second)
        code = await self._end(host)
        self.count["stop"] += 1
        # The last moment of a process has no handlers any more: then a shell says 128 + n by itself.
        codes = {128 + first, 128 + second, -second} if insists else {128 + first}
        if code not in codes or wall_ms() - begun_ms > STOP_SECONDS * 1000:
            self._blame("all", f"{first.name} ended a host with {code} after {wall_ms() - begun_ms} ms")
        if not insists:
            for name in self._names:
                self._require_closed(name)

    def _require_closed(self, name: str) -> None:
        log = self._log(name)
        if log is None:
            return
        rows, is_torn = read_log(log)
        types = [row["type"] for row in rows]
        if is_torn or types.count("turn/start") != types.count("turn/end"):
            self._blame(name, "a clean stop left a torn frame or an open turn")

    async def _open_besides(self) -> None:
        """Open a session that the host holds from this process, which has to be refused."""
        name = self._random.choice(self._names)
        if self._log(name) is None:
            return  # what was never written is held by nobody
        storage = JsonlStorage(self._home)
        try:
            _, writer = await storage.open(name)
        except SessionLockedError:
            self.count["second opener"] += 1
        else:
            await writer.close()
            self._blame(name, "a second process could open a session that was held")
        finally:
            await storage.aclose()

    async def _rest(self) -> None:
        """Let a last host run until nothing is due any more."""
        host = await self._ready()
        await _until(self._last_target_ms + 100)
        host.tell("rest")
        code = await self._end(host)
        self._rested_ms = host.rested_ms
        if code != 0 or host.rested_ms is None:
            self._blame("all", f"the last host ended with {code}")
        for name in self._names:
            self._require_closed(name)

    def _judge(self) -> None:
        found = {name: log for name in self._names if (log := self._log(name)) is not None}
        logs = {name: read_log(log)[0] for name, log in found.items()}
        self.verdict.add(judge(logs, self._evidence, self._rested_ms or wall_ms()))

    def _log(self, name: str) -> Path | None:
        return next(self._home.glob(f"sessions/*/{name}/session.jsonl.zstd"), None)

    def _blame(self, session: str, text: str) -> None:
        self.verdict.violations.append(Violation("invalid", session, text))


def _next_target(lead_ms: int) -> int:
    return ((wall_ms() + lead_ms) // GRID_MS + 1) * GRID_MS


async def _until(at_ms: float) -> None:
    await asyncio.sleep((at_ms - wall_ms()) / 1000)
