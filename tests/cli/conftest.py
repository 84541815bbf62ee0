"""The program as tests run it: in this process, or in one of its own; and homes with sessions in them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import pytest

from watchbell.cli.main import main
from watchbell.cli.stored import read_log_of
from watchbell.log.event import Draft, Event
from watchbell.log.header import SessionHeader
from watchbell.reminders.records import AtRecord, Create, EveryRecord, Record, draft_change
from watchbell.storage.jsonl.store import JsonlStorage

PAST = "2020-01-01T00:00:00.000Z"
FUTURE = "2999-12-31T23:00:00.000Z"


class Ran(NamedTuple):
    """What a run of the program came to."""

    code: int
    out: str
    err: str


Watchbell = Callable[..., Ran]
"""Runs the program in this process, with these arguments."""


class Started(subprocess.Popen[str]):
    """The program as a process of its own; its standard streams are pipes unless a test says otherwise."""

    stdin: IO[str]
    stdout: IO[str]
    stderr: IO[str]

    def say(self, text: str) -> None:
        """Type a line."""
        self.stdin.write(f"{text}\n")
        self.stdin.flush()

    def until(self, beginning: str) -> None:
        """Read lines, up to one that begins so."""
        while not self.stdout.readline().startswith(beginning):
            pass


Start = Callable[..., Started]
"""Starts the program, with these arguments and options of `Popen`."""


class Store(Protocol):
    """Puts a session with these events into the home."""

    def __call__(
        self, session_id: str, *drafts: Draft, cwd: str | None = ..., seed_length: int | None = ...
    ) -> Path: ...


def create(schedule_id: str, prompt: str = "stretch", at: str = PAST) -> Draft:
    """The event that makes a one-shot reminder."""
    return _create(AtRecord(schedule_id, prompt, at))


def create_every(schedule_id: str, seconds: int, at: str = PAST) -> Draft:
    """The event that makes a repeating reminder."""
    return _create(EveryRecord(schedule_id, "look", at, every_seconds=seconds))


def _create(record: Record) -> Draft:
    return draft_change(Create(schedule=record))


@pytest.fixture
def watchbell(capsys: pytest.CaptureFixture[str]) -> Iterator[Watchbell]:
    """Run the program in this process."""
    root = logging.getLogger()
    before = list(root.handlers)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    yield run
    root.handlers[:] = before


@pytest.fixture
def home(own_home: Path) -> Path:
    """The home that the program uses here."""
    return own_home


@pytest.fixture
def store(home: Path) -> Store:
    """Put a session with these events into the home; returns the path of its log."""

    def put(session_id: str, *drafts: Draft, cwd: str | None = None, seed_length: int | None = None) -> Path:
        async def write() -> Path:
            storage = JsonlStorage(home)
            header = SessionHeader(
                id=session_id,
                created_at=1_500_000_000_000,
                cwd=cwd,
                seed_length=seed_length,
                delegation_depth=0,
            )
            writer = await storage.create(header)
            await writer.write([draft.at(seq, 1_600_000_000_000 + seq) for seq, draft in enumerate(drafts)])
            await writer.close()
            place = (await storage.read(session_id)).location
            await storage.aclose()
            return Path(place)

        return asyncio.run(write())

    return put


def _hear_hang_ups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # even when the tests run under `nohup`


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the program as a process of its own."""
    started: list[Started] = []

    def popen(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> Started:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        options = {"preexec_fn": _hear_hang_ups, **pipes, **options}
        command = [sys.executable, "-m", "watchbell", *arguments]
        process = Started(command, env={**os.environ, **(environment or {})}, encoding="utf-8", **options)
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.communicate()


def read_events(home: Path, session_id: str) -> Sequence[Event]:
    """Read a stored session's events."""
    return asyncio.run(read_log_of(home, session_id)).events


def read_payloads(home: Path, session_id: str, event_type: str) -> list[Any]:
    """Read the payloads of a stored session's events of one type."""
    return [event.data for event in read_events(home, session_id) if event.type == event_type]


def read_sources(home: Path, session_id: str) -> list[dict[str, Any]]:
    """Read who wrote the messages that entered a stored session."""
    return [message["source"] for message in read_payloads(home, session_id, "user/message")]
