"""The barrier while the disk fails: what was answered as durable is there, the rest comes later."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.logs import BOTH, active, ask, host, read, run
from watchbell import JsonlStorage, PersistenceError
from watchbell.agent.agent import Agent
from watchbell.host import Host
from watchbell.log.verify import verify_events
from watchbell.schedule import plugin
from watchbell.storage.jsonl.layout import Compression
from watchbell.testing import ScriptedModel, SimulatedClock, SimulatedDisk, simulate


def codes(value: Any) -> Any:
    """What a tool answered: the ids of views, or the error's code."""
    if isinstance(value, list):
        return [view["id"] for view in value]
    return value.get("code", value.get("id"))


async def create(agent: Agent, prompt: str) -> Any:
    return await ask(agent, "create", prompt=prompt, after_seconds=600)


class Plan:
    """Makes the `number`-th changing call, and others after it, `times` in all, fail with an error number."""

    def __init__(self, number: int, code: int, times: float = 1) -> None:
        self.number = number
        self.code = code
        self.times = times
        self.calls: list[str] = []

    def __call__(self, operation: str, data: bytes) -> int:
        self.calls.append(operation)
        if 0 <= len(self.calls) - self.number < self.times:
            raise OSError(self.code, os.strerror(self.code), "/secret/path")
        return len(data)

    @property
    def is_past(self) -> bool:
        """Whether there were fewer calls than that."""
        return len(self.calls) < self.number


def healthy(operation: str, data: bytes) -> int:
    return len(data)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SimulatedDisk]:
    scratch = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path  # noqa: S108 - only the parent
    root = scratch / f"watchbell-{os.getpid()}-{tmp_path.name}"
    root.mkdir()
    yield SimulatedDisk(root)
    shutil.rmtree(root)


# More than once fails the undoing too.
@pytest.mark.parametrize("times", [1, 2, 3, inf])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("compression", BOTH)
def test_whichever_call_fails_the_answer_is_honest_and_the_next_heals(
    disk: SimulatedDisk, code: int, times: float, compression: Compression
) -> None:
    for number in range(1, 100):
        for is_new in (True, False):
            plan = Plan(number, code, times)
            session = f"{number}-{is_new}"

            async def work(
                program: Host, session: str = session, is_new: bool = is_new, plan: Plan = plan
            ) -> list[Any]:
                agent = await program.agents.create(session)
                if not is_new:
                    assert codes(await create(agent, "first")) == "schedule-1"
                wanted = "schedule-1" if is_new else "schedule-2"
                disk.before = plan
                created = await create(agent, "second")
                if not plan.is_past and codes(created) != wanted:
                    assert created["code"] == "persistence_uncertain"
                    assert "secret" not in created["message"]
                    assert (created["operation"], created["id"]) == ("create", wanted)
                if times == inf and not plan.is_past:
                    assert codes(created) == codes(await ask(agent, "list")) == "persistence_uncertain"
                disk.before = healthy
                listed = codes(await ask(agent, "list"))
                assert wanted in listed
                assert codes(await create(agent, "third")).startswith("schedule-")
                return codes(await ask(agent, "list"))

            listed = run(disk.home, work, files=disk, compression=compression)
            disk.lose_power(Random(number))  # only what was synced is left
            assert active(disk.home, session) == listed
            stored = read(disk.home, session)
            assert stored.torn is None
            assert verify_events(stored.events) is None
        if plan.is_past:
            return
    pytest.fail("it never ends")


@pytest.mark.parametrize("compression", BOTH)
def test_every_call_of_opening_may_fail_and_loses_nothing(
    disk: SimulatedDisk, compression: Compression
) -> None:
    async def open_it(program: Host) -> list[Any]:
        return codes(await ask(await program.agents.resume("s"), "list"))

    def tear() -> None:
        for side_file in disk.home.rglob("torn-*"):
            side_file.unlink()
        (path,) = disk.home.rglob("session.jsonl*")
        with path.open("ab") as file:
            file.write(b"(" if compression == "zstd" else b"{")

    async def prepare(program: Host) -> None:
        await create(await program.agents.create("s"), "a")

    run(disk.home, prepare, files=disk, compression=compression)
    for number in range(1, 100):
        tear()
        plan = disk.before = Plan(number, errno.ENOSPC)
        try:
            assert run(disk.home, open_it, files=disk) == ["schedule-1"]
        except PersistenceError:
            disk.before = healthy
            assert run(disk.home, open_it, files=disk) == ["schedule-1"]  # its lock was given back
        if plan.is_past:
            return
    pytest.fail("it never ends")


def test_writes_that_take_a_byte_at_a_time_are_completed(disk: SimulatedDisk) -> None:
    disk.before = lambda operation, data: min(len(data), 1)

    async def work(program: Host) -> list[Any]:
        agent = await program.agents.create("s")
        return [codes(await create(agent, text)) for text in "ab"]

    assert run(disk.home, work, files=disk) == ["schedule-1", "schedule-2"]
    disk.before = healthy
    disk.lose_power(Random(1))
    assert active(disk.home) == ["schedule-1", "schedule-2"]


def test_a_short_write_before_the_disk_is_full_leaves_nothing_behind(disk: SimulatedDisk) -> None:
    for room in (1, 40, 200):
        left = room

        def fill(operation: str, data: bytes) -> int:
            nonlocal left
            if operation != "write":
                return len(data)
            if not left:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken = min(len(data), left)
            left -= taken
            return taken

        async def work(program: Host, room: int = room) -> None:
            agent = await program.agents.create(f"s{room}")
            await create(agent, "a")
            (path,) = disk.home.rglob(f"s{room}/session.jsonl.zstd")
            before = path.read_bytes()
            disk.before = fill
            assert codes(await create(agent, Random(1).randbytes(600).hex())) == "persistence_uncertain"
            assert path.read_bytes() == before
            disk.before = healthy
            assert codes(await ask(agent, "list")) == ["schedule-1", "schedule-2"]

        run(disk.home, work, files=disk)
        assert active(disk.home, f"s{room}") == ["schedule-1", "schedule-2"]


def test_pages_that_a_failed_fsync_lost_are_written_again(disk: SimulatedDisk) -> None:
    """The second fsync reports success though the first one's pages are gone: they must not be counted on."""

    async def work(program: Host) -> None:
        agent = await program.agents.create("s")
        await create(agent, "a")
        failures = iter([OSError(errno.EIO, "Input/output error")])

        def fail_once(operation: str, data: bytes) -> int:
            if operation == "fsync" and (failure := next(failures, None)) is not None:
                raise failure
            return len(data)

        disk.before = fail_once
        assert codes(await create(agent, "b")) == "persistence_uncertain"
        assert codes(await ask(agent, "list")) == ["schedule-1", "schedule-2"]

    run(disk.home, work, files=disk)
    disk.lose_power(Random(3))
    assert active(disk.home) == ["schedule-1", "schedule-2"]


@pytest.mark.parametrize("compression", BOTH)
def test_a_failed_batch_that_could_not_be_taken_back_is_gone_later(
    disk: SimulatedDisk, compression: Compression
) -> None:
    def refuse_the_end(operation: str, data: bytes) -> int:
        if operation in ("fsync", "truncate"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return len(data)

    async def main(clock: SimulatedClock) -> list[str]:
        storage = JsonlStorage(disk.home, compression=compression, files=disk)
        async with Host(storage=storage, model=ScriptedModel(), plugins=[plugin()], clock=clock) as home:
            agent = await home.agents.create("s")
            assert codes(await create(agent, "kept")) == "schedule-1"
            disk.before = refuse_the_end
            assert codes(await create(agent, "refused")) == "persistence_uncertain"
            with pytest.raises(PersistenceError):
                await agent.aclose()
            # The disk says yes again, but what it refused may read well and be nowhere.
            disk.before = healthy
            agent = await home.agents.resume("s")
            listed = await ask(agent, "list")
        return codes(listed)

    assert simulate(main) == ["schedule-1"]


def test_storage_that_heals_by_itself_delivers_what_came_due_meanwhile(disk: SimulatedDisk) -> None:
    async def work(clock: SimulatedClock) -> None:
        async with host(disk.home, clock, files=disk) as program:
            agent = await program.agents.create("s")
            await create(agent, "a")
            disk.before = Plan(1, errno.EIO, inf)
            await asyncio.sleep(700)
            assert codes(await ask(agent, "list")) == "persistence_uncertain"
            disk.before = healthy
            await asyncio.sleep(61)
            await agent.when_idle()
            assert codes(await ask(agent, "list")) == []

    simulate(work)
    types = [event.type for event in read(disk.home).events]
    assert types.count("user/message") == 1


# --- the file goes away under a live session (LOG-23)


def test_a_log_that_was_moved_removed_or_replaced_is_never_confirmed(tmp_path: Path) -> None:
    async def work(program: Host) -> None:
        agent = await program.agents.create("s")
        assert codes(await create(agent, "kept")) == "schedule-1"
        (path,) = tmp_path.rglob("session.jsonl.zstd")  # noqa: ASYNC240 - time is simulated
        older, aside = path.read_bytes(), path.with_name("log.bak")
        await create(agent, "kept too")

        path.rename(aside)
        assert codes(await ask(agent, "list")) == "persistence_uncertain"
        assert codes(await ask(agent, "delete", id="nobody")) == "persistence_uncertain"
        assert codes(await create(agent, "a")) == "persistence_uncertain"
        agent.followup("remember this")
        await agent.when_idle()
        assert codes(await ask(agent, "list")) == "persistence_uncertain"
        assert not path.exists()

        aside.rename(path)
        # Nothing was appended behind a first barrier that failed.
        assert codes(await ask(agent, "list")) == ["schedule-1", "schedule-2"]

        path.unlink()
        assert codes(await ask(agent, "list")) == "persistence_uncertain"
        assert codes(await create(agent, "b")) == "persistence_uncertain"
        assert not path.exists()

        path.write_bytes(older)
        assert codes(await create(agent, "c")) == "persistence_uncertain"
        assert path.read_bytes() == older

    run(tmp_path, work)
    assert active(tmp_path) == ["schedule-1"]


def test_a_log_cut_or_grown_by_another_program_is_never_confirmed(tmp_path: Path) -> None:
    async def work(program: Host) -> None:
        agent = await program.agents.create("s")
        await create(agent, "kept")
        (path,) = tmp_path.rglob("session.jsonl.zstd")  # noqa: ASYNC240 - time is simulated
        content = path.read_bytes()
        for changed in (content[:-1], content + b"x"):
            with path.open("r+b") as file:
                file.write(changed)
                file.truncate()
            assert codes(await create(agent, "b")) == "persistence_uncertain"
            assert path.read_bytes() == changed
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()
        # Neither try got any further than its first barrier.
        assert codes(await ask(agent, "list")) == ["schedule-1"]

    run(tmp_path, work)
    assert active(tmp_path) == ["schedule-1"]


def test_a_log_that_came_back_wakes_the_reminders_that_waited_for_it(tmp_path: Path) -> None:
    async def work(clock: SimulatedClock) -> None:
        async with host(tmp_path, clock) as program:
            agent = await program.agents.create("s")
            await create(agent, "a")
            (path,) = tmp_path.rglob("session.jsonl.zstd")  # noqa: ASYNC240 - time is simulated
            aside = path.rename(path.with_name("log.bak"))
            await asyncio.sleep(700)
            assert [e.type for e in agent.session.events if e.type == "user/message"] == []
            aside.rename(path)
            await asyncio.sleep(61)
            await agent.when_idle()
            assert codes(await ask(agent, "list")) == []

    simulate(work)
    assert [event.type for event in read(tmp_path).events].count("user/message") == 1


# --- a disk that is really full, or read only (LOG-12)

FULL = """
import asyncio, json, resource, secrets, sys
from pathlib import Path
from tests.logs import ask, host
from watchbell.clock import SystemClock

async def main(home, fill, free):
    async with host(Path(home), SystemClock()) as program:
        agent = await program.agents.create("s")
        say = lambda value: print(json.dumps(value), flush=True)
        say(await ask(agent, "create", prompt="before", after_seconds=86400))
        fill()
        say(await ask(agent, "create", prompt=secrets.token_hex(8000), after_seconds=86400))
        say(await ask(agent, "list"))
        free()
        say(await ask(agent, "list"))
        say(await ask(agent, "create", prompt="after", after_seconds=86400))
        print("ready", flush=True)
        await asyncio.sleep(60)

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
"""
RLIMIT = """
size = lambda: next(Path(sys.argv[1]).rglob("session.jsonl.zstd")).stat().st_size
asyncio.run(main(sys.argv[1], lambda: limit(size() + 20), lambda: limit(resource.RLIM_INFINITY)))
"""
TMPFS = """
ballast = Path(sys.argv[1]) / "ballast"
def fill():
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
asyncio.run(main(sys.argv[1], fill, ballast.unlink))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount program")
    if mounted.returncode:
        pytest.skip(f"a file system of its own cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_file_at_its_size_limit_is_survived_without_a_restart(tmp_path: Path) -> None:
    _survive(tmp_path, RLIMIT)


def test_a_full_file_system_is_survived_without_a_restart(small_disk: Path) -> None:
    _survive(small_disk, TMPFS)


def _survive(home: Path, how: str) -> None:
    command = [sys.executable, "-c", FULL + textwrap.dedent(how), str(home)]
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        printed: list[Any] = []
        for line in process.stdout:
            if line == "ready\n":
                process.kill()
                break
            printed.append(json.loads(line))
    first, full, listed_full, listed, last = printed
    assert codes(first) == "schedule-1"
    assert (full["code"], full["operation"]) == ("persistence_uncertain", "create")
    assert full["id"] == "schedule-2"
    assert (listed_full["code"], listed_full["operation"]) == ("persistence_uncertain", "list")
    assert codes(listed) == ["schedule-1", "schedule-2"]
    assert codes(last) == "schedule-3"
    stored = read(home)
    assert stored.torn is None
    changes = [event.data["schedule"]["id"] for event in stored.events if event.type == "schedule/change"]
    assert changes == ["schedule-1", "schedule-2", "schedule-3"]


def test_a_home_that_cannot_be_written_is_told_and_reading_it_goes_on(disk: SimulatedDisk) -> None:
    async def prepare(program: Host) -> None:
        await create(await program.agents.create("s"), "a")

    run(disk.home, prepare, files=disk)
    disk.before = Plan(1, errno.EROFS, inf)

    async def work(program: Host) -> None:
        agent = await program.agents.create("new")
        assert codes(await create(agent, "b")) == "persistence_uncertain"
        assert codes(await ask(agent, "list")) == "persistence_uncertain"
        assert [ref.session_id for ref in await program.sessions.list()] == ["s"]
        assert len((await program.sessions.read("s")).events) == 1
        with pytest.raises(OSError, match=r"could not be opened: Read-only file system"):
            await program.agents.resume("s")

    run(disk.home, work, files=disk)
    assert not list(disk.home.rglob("new"))


# --- what a system call sees


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no /proc here")
def test_a_live_session_takes_one_descriptor(tmp_path: Path) -> None:
    async def work(program: Host) -> None:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a number is all that is wanted
        for number in range(20):
            agent = await program.agents.create(f"s{number}")
            for text in "abc":
                await create(agent, text)
        assert len(os.listdir("/proc/self/fd")) == before + 20  # noqa: PTH208
        for agent in program.agents.live:
            await agent.aclose()
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208

    run(tmp_path, work)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_the_file_and_then_its_directories_are_synced_before_the_answer(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    calls = "trace=openat,write,fsync,fdatasync,link,linkat,close,mkdir,mkdirat"
    command = [sys.executable, "-m", "watchbell", "call", "s", "schedule_create", "--create"]
    arguments = '{"prompt":"p","after_seconds":600}'
    home = tmp_path / "home"
    done = subprocess.run(
        ["strace", "-f", "-y", "-s", "20", "-e", calls, "-o", str(trace), *command, arguments],
        env={**os.environ, "WATCHBELL_HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip("tracing is not allowed here")
    assert '"id":"schedule-1"' in done.stdout
    traced = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
    lines = [line for line in traced if str(home) in line or "schedule-1" in line]
    steps = [line for line in lines if line.startswith(("fsync", "link"))]
    session = home / "sessions"
    synced = [line.split("<", 1)[1].split(">", 1)[0] for line in steps if line.startswith("fsync")]
    folder = next(session.rglob("session.jsonl.zstd")).parent
    assert steps[0].startswith("fsync")
    assert synced[0] == str(folder / "new-0")
    assert steps[1].startswith("link")
    assert set(map(str, [folder, folder.parent, session, home])) <= set(synced[1:])
    answer = next(k for k, line in enumerate(lines) if line.startswith("write(1"))
    assert all(lines.index(step) < answer for step in steps)
