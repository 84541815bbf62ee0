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
from typing import Any, NamedTuple, Protocol

import pytest

from watchbell.cli.main import main
from watchbell.log.event import Draft
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
def watchbell(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ran]]:
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
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the program as a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def popen(
        *arguments: str, environment: dict[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "watchbell", *arguments],
            env={**os.environ, **(environment or {})},
            stdin=options.pop("stdin", subprocess.PIPE),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            preexec_fn=options.pop("preexec_fn", _hear_hang_ups),
            **options,
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.communicate()


def read_events(home: Path, session_id: str) -> Sequence[Any]:
    """Read a stored session's events."""

    async def read() -> Sequence[Any]:
        storage = JsonlStorage(home)
        stored = await storage.read(session_id)
        await storage.aclose()
        return stored.events

    return asyncio.run(read())
