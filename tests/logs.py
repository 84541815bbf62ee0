"""Session logs as files, for tests: programs over a home, and what lies on the disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import zstandard

from tests.program import ask as ask_tool
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.clock import Clock
from watchbell.errors import PersistenceError
from watchbell.host import Host
from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.event import Draft, Event
from watchbell.log.header import SessionHeader
from watchbell.reminders.records import AtRecord, Create, Delete, draft_change
from watchbell.storage.base import StoredLog
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl.files import FileSystem
from watchbell.storage.jsonl.layout import Compression, log_path
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import ScriptedModel, SimulatedClock, simulate
from watchbell.testing.clock import DEFAULT_START
from watchbell.testing.model import Script

T = TypeVar("T")

BOTH: list[Compression] = ["zstd", "none"]
FUTURE = "2999-12-31T23:00:00.000Z"
HEADER = SessionHeader(id="s", created_at=0, delegation_depth=0)


def scratch_directory() -> Path | None:
    """A directory in memory for scratch files, None when the system has none."""
    shared = Path("/dev/shm")  # noqa: S108 - only the parent of a fresh directory
    return shared if os.access(shared, os.W_OK) else None


def create(number: int, prompt: str = "p") -> Draft:
    """The event that makes one-shot `schedule-<number>`."""
    return draft_change(Create(schedule=AtRecord(f"schedule-{number}", prompt, FUTURE)))


def delete(number: int) -> Draft:
    """The event that ends it."""
    return draft_change(Delete(id=f"schedule-{number}"))


def numbered(drafts: Iterable[Draft], start: int = 0) -> list[Event]:
    """The events that they become from seq `start` on."""
    return [draft.at(seq, 1_796_036_425_000 + seq) for seq, draft in enumerate(drafts, start)]


def units(compression: Compression, *batches: Iterable[Draft], header: SessionHeader = HEADER) -> list[bytes]:
    """The header and each batch, as they lie in a log."""
    lines = [encode_header(header)]
    length = 0
    for batch in batches:
        events = numbered(batch, length)
        length += len(events)
        lines.append(encode_rows(events))
    return [encode_frame(part) if compression == "zstd" else part for part in lines]


def place(home: Path, data: bytes, compression: Compression = "zstd", session_id: str = "s") -> Path:
    """Put these bytes where the log of a session belongs."""
    path = log_path(home, session_id, None, compression)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def lines_of(path: Path) -> list[bytes]:
    """The lines of a log, without their ends."""
    data = path.read_bytes()
    if path.suffix == ".zstd":
        data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return data.splitlines()


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, decoded."""
    return [json.loads(line) for line in lines_of(path)]


def picture(root: Path) -> dict[str, object]:
    """Everything below a directory that inspecting must leave alone: names, bytes and times."""
    seen: dict[str, object] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        stat = path.stat()
        content = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else path.read_bytes()
        seen[str(path)] = (stat.st_ino, stat.st_mode, stat.st_mtime_ns, stat.st_ctime_ns, content)
    return seen


def read(home: Path, session_id: str = "s") -> StoredLog:
    """Read a stored log."""

    async def work() -> StoredLog:
        storage = JsonlStorage(home)
        try:
            return await storage.read(session_id)
        finally:
            await storage.aclose()

    return asyncio.run(work())


def host(
    home: Path,
    clock: Clock,
    *,
    script: Script = (),
    files: FileSystem | None = None,
    compression: Compression = "zstd",
) -> Host:
    """A program with reminders over a home."""
    return Host(
        storage=JsonlStorage(home, files=files, compression=compression, now_ms=clock.now_ms),
        model=ScriptedModel(script),
        plugins=[schedule.plugin()],
        clock=clock,
    )


def run(home: Path, main: Callable[[Host], Awaitable[T]], *, start: str = DEFAULT_START, **options: Any) -> T:
    """Run a program over a home under simulated time, to the end of its host; storage may fail then."""

    async def work(clock: SimulatedClock) -> T:
        program = host(home, clock, **options)
        await program.__aenter__()
        try:
            result = await main(program)
        except BaseException:
            await _end(program)
            raise
        await _end(program)
        return result

    return simulate(work, start=start)


async def _end(program: Host) -> None:
    with contextlib.suppress(PersistenceError):  # what could be stored is what the test is about
        await program.aclose()


async def ask(agent: Agent, tool: str, **arguments: Any) -> Any:
    """Call a Schedule tool as the model would, and return the value: `ask(agent, "list")`."""
    return await ask_tool(agent, f"schedule_{tool}", **arguments)


def active(home: Path, session_id: str = "s") -> list[str]:
    """The ids of the active reminders of a stored session."""
    return [view["id"] for view in run(home, lambda program: _listed(program, session_id))]


async def _listed(program: Host, session_id: str) -> Any:
    return await ask(await program.agents.resume(session_id), "list")
