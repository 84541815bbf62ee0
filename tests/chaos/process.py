"""A host process as the killer sees it: lines go in, answers come out, and it ends by a signal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any, Self

__all__ = ["HostProcess"]

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0


class HostProcess:
    """A running host over one home.

    Attributes:
        opening: Set once it begins to open its sessions.
        ready: Set once all of them are open.
        created: What it answered as created, by prompt.
        deleted: Session and id of the reminders that it answered as deleted.
        rested_ms: When it said that it had come to rest, None before.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.opening = asyncio.Event()
        self.ready = asyncio.Event()
        self.created: dict[str, dict[str, Any]] = {}
        self.deleted: list[tuple[str, str]] = []
        self.rested_ms: int | None = None
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, home: Path, sessions: int) -> Self:
        """Start a host; what it logs goes to `host.log` in the home, an existing directory."""
        with (home / "host.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.chaos.host", str(home), str(sessions),
                cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        return cls(process)

    def tell(self, do: str, **details: Any) -> None:
        """Send a line; to a process that has ended it does nothing."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")

    def send(self, number: signal.Signals) -> None:
        """Send a signal; to a process that has ended it does nothing."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for `opening` or `ready`.

        Raises:
            RuntimeError: The process ended before, or takes too long.
        """
        waiting = asyncio.create_task(event.wait())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait([waiting, self._listening], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not event.is_set():
            raise RuntimeError(f"a host ended by itself, with code {await self.end()}")

    async def end(self) -> int:
        """Wait until the process has ended and all that it said is read; returns its exit code."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._listening
            code = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if not line.endswith(b"\n"):
                return  # killed while it wrote this
            match json.loads(line):
                case {"created": view}:
                    self.created[view["prompt"]] = view
                case {"deleted": [session, name]}:
                    self.deleted.append((session, name))
                case {"opening": _}:
                    self.opening.set()
                case {"ready": _}:
                    self.ready.set()
                case {"rested_ms": rested_ms}:
                    self.rested_ms = rested_ms
                case other:
                    raise RuntimeError(f"a host said {other}")
