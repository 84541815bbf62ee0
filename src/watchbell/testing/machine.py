"""A machine that outlives the processes on it: one clock on the wall, one disk, one seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TypeVar

from watchbell.testing.clock import DEFAULT_START, SimulatedClock
from watchbell.testing.disk import SimulatedDisk
from watchbell.testing.loop import ProcessKilled, SimulatedEventLoop, bury, without_leftovers

T = TypeVar("T")


class SimulatedMachine:
    """Runs processes one after the other, each until it returns or is killed. The seed decides everything.

    ```python
    machine = SimulatedMachine(tmp_path, seed=7)

    async def process() -> None:
        storage = JsonlStorage(machine.disk.home, files=machine.disk, now_ms=machine.clock.now_ms)
        async with Host(
            storage=storage,
            model=ScriptedModel(),
            plugins=[schedule.plugin()],
            clock=machine.clock,
            new_id=machine.new_id,
        ) as host:
            agent = await host.agents.open("standup")
            machine.kill(after=machine.random.randrange(200))
            ...

    with contextlib.suppress(ProcessKilled):
        machine.run(process)
    machine.run(process)  # what was on the disk is all that this one has
    ```

    The same seed and the same code give the same log, byte for byte, on any machine with the same versions of
    Python and of the libraries.

    Args:
        root: An existing directory for its disk.
        seed: Decides the ids, and through `random` whatever the processes ask it.
        start: Wall time at the beginning: ISO 8601 with an offset, or epoch milliseconds.

    Attributes:
        random: What processes may ask for chance.
        disk: Its disk.
        clock: The clock of the process that runs, or ran last.
        is_running: Whether a process runs.
    """

    def __init__(self, root: Path, *, seed: int | str = 0, start: str | int = DEFAULT_START) -> None:
        self.random = Random(f"{seed} processes")  # noqa: S311 - chance that can be repeated is the point
        self.disk = SimulatedDisk(root)
        self.clock = SimulatedClock(start)
        self.is_running = False
        self._ids = Random(f"{seed} ids")  # noqa: S311
        self._crashes = Random(f"{seed} crashes")  # noqa: S311
        self._past_seconds = 0.0
        self._loop: SimulatedEventLoop | None = None

    @property
    def elapsed_seconds(self) -> float:
        """Seconds that have truly passed, whatever was done to the wall clock."""
        return self._past_seconds + (0.0 if self._loop is None else self._loop.time())

    def new_id(self) -> str:
        """Return an id that the machine has not given out before."""
        return f"{self._ids.getrandbits(64):016x}" if self.is_running else "dead"

    def run(self, process: Callable[[], Awaitable[T]]) -> T:
        """Run one process on a fresh simulated event loop and return its result.

        Raises:
            ProcessKilled: It was killed; the disk holds what survived that.
            LeftoverTaskError: It returned and left tasks running.
        """
        loop = self._loop = SimulatedEventLoop()
        self.is_running = True
        is_killed = False
        try:
            return loop.run_until_complete(self._run(process))
        except ProcessKilled:
            is_killed = True
            self.disk.freeze()
            raise
        finally:
            self.is_running = False
            self._past_seconds += loop.time()
            self._loop = None
            bury(loop)
            if is_killed:
                self._crash()
            else:
                self.disk.hand_over()

    def kill(self, *, after: int = 0) -> None:
        """Kill the running process before it takes `after` more steps: at that `await`."""
        if self._loop is not None:
            self._loop.kill_after(after)

    def rest(self, seconds: float) -> None:
        """Let time pass while no process runs."""
        self.clock.step(seconds)
        self._past_seconds += seconds

    async def _run(self, process: Callable[[], Awaitable[T]]) -> T:
        # A new clock for each process: what waited on the last one's is gone.
        rate = self.clock.rate
        self.clock = SimulatedClock(self.clock.now_ms())
        self.clock.drift(rate)
        return await without_leftovers(process())

    def _crash(self) -> None:
        if self._crashes.random() < 0.5:
            self.disk.kill()
        else:
            self.disk.lose_power(self._crashes)
