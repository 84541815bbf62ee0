"""Two programs and one session: one writes, the other is refused at once; readers are never in the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.logs import HEADER, active, ask, create, numbered, place, read, rows_of, run, units
from watchbell.errors import LogError, PersistenceError, SessionLockedError
from watchbell.host import Host
from watchbell.log.verify import verify_events
from watchbell.offline.model import OfflineModel
from watchbell.storage.jsonl import _logfile as logfile
from watchbell.storage.jsonl.layout import log_path
from watchbell.storage.jsonl.reading import read_log
from watchbell.storage.jsonl.store import JsonlStorage

Start = Callable[..., "subprocess.Popen[str]"]

PRELUDE = """
import asyncio, json, sys
from pathlib import Path
from tests.logs import ask, host
from watchbell.clock import SystemClock
home = Path(sys.argv[1])
say = lambda value: print(json.dumps(value), flush=True)
"""
HOLD = """
async def main():
    async with host(home, SystemClock()) as program:
        agent = await program.agents.open("s")
        say(await ask(agent, "create", prompt="p", after_seconds=120))
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""
CREATE_FOR_EVER = """
async def main():
    async with host(home, SystemClock()) as program:
        agent = await program.agents.open("s")
        while True:
            say((await ask(agent, "create", prompt="p", after_seconds=86400))["id"])
asyncio.run(main())
"""
INTERLEAVE = """
from watchbell.storage.jsonl import _logfile as logfile
logfile.take_lock = lambda descriptor: True  # the guard, forced off
async def main():
    async with host(home, SystemClock()) as program:
        agent = await program.agents.resume("s")
        say("open")
        await asyncio.to_thread(sys.stdin.readline)
        confirmed = []
        for number in range(500):
            prompt = f"{sys.argv[2]} {number} " + "x" * 200
            value = await ask(agent, "create", prompt=prompt, after_seconds=86400)
            if "code" not in value:
                confirmed.append(value["prompt"])
            elif value["code"] == "invalid_rule":
                raise SystemExit(value["message"])
        say(confirmed)
try:
    asyncio.run(main())
except OSError:
    pass  # what was not confirmed could not be stored
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    started: list[subprocess.Popen[str]] = []

    def popen(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code, str(tmp_path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.communicate()


def heard(process: subprocess.Popen[str]) -> Any:
    """The next value that a process says."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_a_second_opener_is_told_the_holder_and_readers_are_not_refused(tmp_path: Path, start: Start) -> None:
    holder = start(HOLD)
    view = heard(holder)
    path = next(tmp_path.rglob("session.jsonl.zstd"))
    before = path.read_bytes()

    async def second(program: Host) -> None:
        with pytest.raises(SessionLockedError) as caught:
            await program.agents.resume("s")
        assert caught.value.holder == holder.pid
        assert str(caught.value.since).startswith("20")
        assert f"open in process {holder.pid} since 20" in str(caught.value)
        assert [ref.session_id for ref in await program.sessions.list()] == ["s"]
        stored = await program.sessions.read("s")
        assert stored.events[0].data["schedule"]["id"] == view["id"]
        fork = await program.agents.fork("s", "child")
        assert await ask(fork, "list") == []

    run(tmp_path, second)
    assert path.read_bytes() == before


def test_the_program_refuses_every_command_that_would_write(tmp_path: Path, start: Start) -> None:
    holder = start(HOLD)
    heard(holder)
    path = next(tmp_path.rglob("session.jsonl.zstd"))
    before = path.read_bytes()
    huge = json.dumps({"prompt": "x" * 300_000, "after_seconds": 600})
    calls = [
        ["call", "s", "schedule_list"],
        ["call", "s", "schedule_create", "-"],
        ["call", "s", "schedule_delete", '{"id":"schedule-1"}'],
        ["run", "s", "hello"],
    ]
    for arguments in calls:
        done = subprocess.run(
            [sys.executable, "-m", "watchbell", "--home", str(tmp_path), *arguments],
            input=huge, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (1, "")
        assert f"open in process {holder.pid} since 20" in done.stderr
    for arguments in (["sessions"], ["reminders"], ["log", "s"], ["verify"]):
        done = subprocess.run(
            [sys.executable, "-m", "watchbell", "--home", str(tmp_path), *arguments],
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert path.read_bytes() == before


def test_a_session_is_refused_to_a_second_program_in_the_same_process(tmp_path: Path) -> None:
    async def first(program: Host) -> None:
        agent = await program.agents.create("s")
        await ask(agent, "create", prompt="p", after_seconds=600)
        for opener in (program.agents, Host(storage=JsonlStorage(tmp_path), model=OfflineModel())):
            if isinstance(opener, Host):
                async with opener:
                    with pytest.raises(SessionLockedError, match=f"process {os.getpid()}"):
                        await opener.agents.resume("s")
            else:
                with pytest.raises(SessionLockedError, match=f"process {os.getpid()}"):
                    await opener.resume("s")
        assert len(await ask(agent, "list")) == 1

    run(tmp_path, first)


def test_a_killed_holders_lock_is_free_and_what_it_confirmed_is_there(tmp_path: Path, start: Start) -> None:
    for _ in range(3):
        before = len(active(tmp_path)) if list(tmp_path.rglob("session.jsonl.zstd")) else 0
        process = start(CREATE_FOR_EVER)
        confirmed = [heard(process) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        confirmed += [json.loads(line) for line in process.stdout if line.endswith("\n")]
        process.wait()
        listed = active(tmp_path)
        assert listed[before : before + len(confirmed)] == confirmed
        assert len(listed) - before - len(confirmed) in (0, 1)  # one that was stored and not yet answered


def test_of_two_new_sessions_of_one_name_one_is_never_confirmed(tmp_path: Path) -> None:
    async def both(program: Host) -> list[Any]:
        first = await program.agents.create("s")
        async with Host(storage=JsonlStorage(tmp_path), model=OfflineModel()) as other:
            session = await other.sessions.create("s")
            session.append_batch([create(1)])
            value = await ask(first, "create", prompt="p", after_seconds=600)
            with pytest.raises(PersistenceError, match="stored meanwhile"):
                await other.sessions.flush(session)
            with pytest.raises(PersistenceError, match="were not stored"):
                await other.sessions.close(session)
        return [value["prompt"]]

    assert run(tmp_path, both) == ["p"]
    assert active(tmp_path) == ["schedule-1"]


def test_without_the_guard_every_line_parses_or_nothing_was_confirmed(tmp_path: Path, start: Start) -> None:
    path = place(tmp_path, b"".join(units("none", [create(1)])), "none")
    writers = [start(INTERLEAVE, name) for name in ("one", "two")]
    for writer in writers:
        assert heard(writer) == "open"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    confirmed = [prompt for writer in writers for prompt in heard(writer)]
    for writer in writers:
        writer.communicate()
    rows = rows_of(path)  # every line parses
    stored = [row["data"]["schedule"]["prompt"] for row in rows if row["type"] == "schedule/change"]
    assert set(confirmed) <= set(stored)


def test_a_lock_forced_off_lets_no_second_batch_be_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(tmp_path, b"".join(units("zstd", [create(1)])))
    monkeypatch.setattr(logfile, "take_lock", lambda _: True)

    async def work() -> None:
        one, two = JsonlStorage(tmp_path), JsonlStorage(tmp_path)
        (_, first), (_, second) = await one.open("s"), await two.open("s")
        await first.write(numbered([create(2)], 1))
        with pytest.raises(PersistenceError, match="changed by another program"):
            await second.write(numbered([create(3)], 1))
        for writer in (first, second):
            await writer.close()
        for storage in (one, two):
            await storage.aclose()

    asyncio.run(work())
    assert active(tmp_path) == ["schedule-1", "schedule-2"]
    assert read_log(path).torn is None


def test_a_reader_sees_whole_batches_while_another_process_writes(tmp_path: Path, start: Start) -> None:
    writer = start(CREATE_FOR_EVER)
    heard(writer)
    path = log_path(tmp_path, HEADER.id, None, "zstd")
    lengths: list[int] = []
    while len(lengths) < 100 or lengths[-1] == lengths[0]:
        assert writer.poll() is None
        try:
            stored = read_log(path)
        except LogError as error:
            pytest.fail(str(error))
        assert verify_events(stored.events) is None
        lengths.append(len(stored.events))
    assert lengths == sorted(lengths)
    writer.kill()
    assert len(read(tmp_path).events) >= lengths[-1]
