from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from watchbell.clock import SystemClock
from watchbell.context import Context
from watchbell.errors import (
    CorruptLogError,
    PersistenceError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SettingsError,
)
from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.event import Draft, Event
from watchbell.log.header import SessionHeader
from watchbell.log.payloads import TurnStart
from watchbell.sessions.live import Sessions
from watchbell.storage.base import LogWriter, StoredLog, TornTail
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl._lock import take_lock
from watchbell.storage.jsonl.files import FileSystem
from watchbell.storage.jsonl.layout import Compression, log_path
from watchbell.storage.jsonl.store import JsonlStorage

T = TypeVar("T")
NOW_MS = 1_796_036_425_007
BOTH: list[Compression] = ["zstd", "none"]

pytestmark = pytest.mark.filterwarnings("error")


def make_header(session_id: str = "a", cwd: str | None = "/x") -> SessionHeader:
    return SessionHeader(id=session_id, created_at=1, cwd=cwd, delegation_depth=0)


def make_events(start: int, stop: int) -> list[Event]:
    return [Draft("turn/start", {"turn": seq + 1}).at(seq, 5) for seq in range(start, stop)]


def use(home: Path, work: Callable[[JsonlStorage], Awaitable[T]], **options: object) -> T:
    async def run() -> T:
        storage = JsonlStorage(home, now_ms=lambda: NOW_MS, **options)  # pyright: ignore[reportArgumentType]
        try:
            return await work(storage)
        finally:
            await storage.aclose()

    return asyncio.run(run())


def store(
    home: Path, *lengths: int, compression: Compression = "zstd", header: SessionHeader | None = None
) -> Path:
    """Store a session with batches up to these lengths."""
    header = header or make_header()

    async def work(storage: JsonlStorage) -> None:
        writer = await storage.create(header)
        for start, stop in itertools.pairwise((0, *lengths)):
            await writer.write(make_events(start, stop))
        await writer.close()

    use(home, work, compression=compression)
    return log_path(home, header.id, header.cwd, compression)


def load(home: Path, session_id: str = "a") -> StoredLog:
    return use(home, lambda storage: storage.read(session_id))


def reopen(home: Path, *events: Event, **options: object) -> StoredLog:
    """Open for writing, write, close."""

    async def work(storage: JsonlStorage) -> StoredLog:
        stored, writer = await storage.open("a")
        if events:
            await writer.write(events)
        await writer.close()
        return stored

    return use(home, work, **options)


def picture(home: Path) -> dict[str, object]:
    """Return everything that inspecting must leave alone."""
    return {
        str(path.relative_to(home)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in home.rglob("*")
    }


def names(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "sessions" / "--x--" / "a").glob("*"))


# --- what lies on disk


def test_a_compressed_log_is_a_header_frame_and_one_frame_for_each_batch(tmp_path: Path) -> None:
    path = store(tmp_path, 2, 5)
    assert path == tmp_path / "sessions" / "--x--" / "a" / "session.jsonl.zstd"
    batches = [encode_header(make_header()), encode_rows(make_events(0, 2)), encode_rows(make_events(2, 5))]
    assert path.read_bytes() == b"".join(encode_frame(batch) for batch in batches)
    assert names(tmp_path) == ["session.jsonl.zstd"]


def test_a_plain_log_is_the_same_lines(tmp_path: Path) -> None:
    path = store(tmp_path, 2, 5, compression="none")
    assert path.name == "session.jsonl"
    assert path.read_bytes() == encode_header(make_header()) + encode_rows(make_events(0, 5))


def test_the_home_may_be_written_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert JsonlStorage("~/.watchbell").home == tmp_path / ".watchbell"


def test_a_setting_or_id_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="compression"):
        JsonlStorage(tmp_path, compression="gzip")  # pyright: ignore[reportArgumentType]
    for session_id in ("", "x" * 256):
        with pytest.raises(SettingsError, match="session id"):
            use(tmp_path, lambda storage, name=session_id: storage.create(make_header(name)))
        with pytest.raises(SessionNotFoundError):
            load(tmp_path, session_id)


def test_a_folder_that_no_id_names_is_not_listed(tmp_path: Path) -> None:
    path = store(tmp_path, 1)
    (path.parent.parent / "not an id").mkdir()
    (path.parent.parent / "not an id" / path.name).touch()
    (path.parent.parent / "damaged").mkdir()
    (path.parent.parent / "damaged" / path.name).touch()
    refs = use(tmp_path, lambda storage: storage.list())
    assert [ref.session_id for ref in refs] == ["a", "damaged"]


# --- identity


def test_an_id_in_two_projects_is_an_error_that_names_both(tmp_path: Path) -> None:
    paths = [store(tmp_path, 1), log_path(tmp_path, "a", "/y", "zstd")]
    paths[1].parent.mkdir(parents=True)
    paths[1].write_bytes(encode_frame(encode_header(make_header(cwd="/y"))))
    with pytest.raises(CorruptLogError) as caught:
        load(tmp_path)
    assert all(str(path) in str(caught.value) for path in paths)


# --- damage


@pytest.mark.parametrize("compression", BOTH)
def test_a_log_without_its_whole_header_is_corrupt(tmp_path: Path, compression: Compression) -> None:
    path = store(tmp_path, 1, compression=compression)
    head = len(encode_header(make_header()))
    whole = path.read_bytes()
    for cut in (0, 1, head // 2):
        path.write_bytes(whole[:cut])
        with pytest.raises(CorruptLogError, match="empty" if cut == 0 else "inside its header"):
            reopen(tmp_path)
        assert path.read_bytes() == whole[:cut]


def test_a_plain_log_edited_on_windows_is_read_but_not_rewritten(tmp_path: Path) -> None:
    path = store(tmp_path, 2, compression="none")
    edited = path.read_bytes().replace(b"\n", b"\r\n")
    path.write_bytes(edited)
    assert list(load(tmp_path).events) == make_events(0, 2)
    reopen(tmp_path, *make_events(2, 3))
    assert path.read_bytes() == edited + encode_rows(make_events(2, 3))


# --- torn tails


@pytest.mark.parametrize("compression", BOTH)
def test_a_log_cut_anywhere_in_its_last_unit_goes_on_without_it(
    tmp_path: Path, compression: Compression
) -> None:
    path = store(tmp_path, 1, 2, compression=compression)
    whole = path.read_bytes()
    row = encode_rows(make_events(1, 2))
    start = len(whole) - len(encode_frame(row) if compression == "zstd" else row)
    for cut in range(start + 1, len(whole)):
        path.write_bytes(whole[:cut])
        stored = reopen(tmp_path, *make_events(1, 3))
        side_file = path.with_name(f"torn-{NOW_MS}")
        assert list(stored.events) == make_events(0, 1)
        assert stored.torn == TornTail(start, cut - start, str(side_file))
        assert side_file.read_bytes() == whole[start:cut]
        assert side_file.stat().st_mode & 0o777 == 0o600
        side_file.unlink()
        assert list(load(tmp_path).events) == make_events(0, 3)
        assert load(tmp_path).torn is None


def test_a_second_torn_tail_of_the_same_instant_has_its_own_file(tmp_path: Path) -> None:
    path = store(tmp_path, 1)
    for _ in range(2):
        with path.open("ab") as file:
            file.write(b"\x28")
        reopen(tmp_path)
    assert names(tmp_path) == ["session.jsonl.zstd", f"torn-{NOW_MS}", f"torn-{NOW_MS}-1"]


def test_inspecting_never_writes(tmp_path: Path) -> None:
    path = store(tmp_path, 1, 2)
    path.write_bytes(path.read_bytes()[:-3])
    before = picture(tmp_path)

    async def work(storage: JsonlStorage) -> None:
        stored = await storage.read("a")
        assert list(stored.events) == make_events(0, 1)
        assert stored.torn is not None
        assert stored.torn.saved_as is None
        await storage.list()
        with pytest.raises(SessionNotFoundError):
            await storage.read("b")

    use(tmp_path, work)
    assert picture(tmp_path) == before
    use(tmp_path / "none", lambda storage: storage.list())
    assert not (tmp_path / "none").exists()


# --- one writer


def test_leftovers_of_a_crash_in_the_first_write_hinder_nobody(tmp_path: Path) -> None:
    path = log_path(tmp_path, "a", "/x", "zstd")
    path.parent.mkdir(parents=True)
    path.with_name("new-0").write_bytes(b"half")
    assert list(use(tmp_path, lambda storage: storage.list())) == []
    store(tmp_path, 1)
    reopen(tmp_path)
    assert names(tmp_path) == ["session.jsonl.zstd"]


# --- the file under a live session


def test_a_log_replaced_during_the_write_is_not_confirmed(tmp_path: Path) -> None:
    path = store(tmp_path, 1)
    whole = path.read_bytes()

    class Files(FileSystem):
        def fsync(self, descriptor: int) -> None:
            super().fsync(descriptor)
            if path.stat().st_size > len(whole):
                path.rename(path.with_name("aside"))

    with pytest.raises(PersistenceError, match="moved, removed or replaced"):
        reopen(tmp_path, *make_events(1, 2), files=Files())
    assert path.with_name("aside").read_bytes() == whole


# --- faults


def test_a_seed_that_cannot_be_stored_leaves_nothing(tmp_path: Path) -> None:
    class Full(FileSystem):
        def write(self, descriptor: int, data: memoryview) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(PersistenceError, match="No space left on device"):
        use(tmp_path, lambda storage: storage.create(make_header(), make_events(0, 1)), files=Full())
    assert list(tmp_path.iterdir()) == []


def test_a_failure_names_its_session_once(tmp_path: Path) -> None:
    path = store(tmp_path, 1)

    async def work(storage: JsonlStorage) -> list[str]:
        told: list[str] = []
        async with Context() as ctx:
            sessions = Sessions(ctx, storage, SystemClock())
            session = await sessions.resume("a")
            path.rename(path.with_name("aside"))
            for ending in (sessions.flush(session), sessions.flush(session), sessions.close(session)):
                with pytest.raises(PersistenceError) as caught:
                    await ending
                told.append(str(caught.value))
                if len(told) == 1:
                    session.append("turn/start", TurnStart(2))
        return told

    reason = "the session's log was moved, removed or replaced under the open session"
    assert use(tmp_path, work) == [
        f"session 'a' is not safe: {reason}",
        f"session 'a' could not be stored: {reason}",
        f"session 'a' was closed, its last 2 events were not stored: {reason}",
    ]


def test_new_names_are_synced_before_the_first_write_is_confirmed(
    tmp_path: Path,
) -> None:
    synced: list[Path] = []

    class Files(FileSystem):
        def fsync(self, descriptor: int) -> None:
            super().fsync(descriptor)
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system cannot tell what a descriptor is open on")
    home = tmp_path / "home"
    folder = home / "sessions" / "--x--" / "a"
    use(home, lambda storage: storage.create(make_header(), make_events(0, 1)), files=Files())
    assert synced[0] == folder / "new-0"
    assert set(synced[1:]) == {tmp_path, home, folder.parent.parent, folder.parent, folder}


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(Path.mkdir, id="directory"),
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(lambda path: path.symlink_to(path), id="link to itself"),
        pytest.param(lambda path: path.symlink_to("gone"), id="link to nothing"),
        pytest.param(lambda path: path.symlink_to(path.parent / "pipe"), id="link to a pipe"),
    ],
)
def test_what_is_no_file_is_damage_and_keeps_its_id(tmp_path: Path, put: Callable[[Path], None]) -> None:
    path = store(tmp_path, 1)
    os.mkfifo(path.parent / "pipe")
    path.unlink()
    put(path)
    for work in (lambda storage: storage.read("a"), lambda storage: storage.open("a")):
        with pytest.raises(CorruptLogError, match="not a regular file"):
            use(tmp_path, work)
    with pytest.raises(SessionExistsError):
        use(tmp_path, lambda storage: storage.create(make_header(cwd="/y")))
    assert [ref.session_id for ref in use(tmp_path, lambda storage: storage.list())] == ["a"]


def test_a_log_that_becomes_a_pipe_while_it_is_opened_makes_nobody_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store(tmp_path, 1)
    path.unlink()
    os.mkfifo(path)
    original = Path.stat
    regular = tmp_path.joinpath("regular")
    regular.touch()
    monkeypatch.setattr(Path, "stat", lambda self, **kw: original(regular if self == path else self, **kw))
    for work in (lambda storage: storage.read("a"), lambda storage: storage.open("a")):
        with pytest.raises(CorruptLogError, match="not a regular file"):
            use(tmp_path, work)


def test_a_directory_that_cannot_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store(tmp_path, 1, header=make_header("a", "/x"))
    closed = store(tmp_path, 1, header=make_header("b", "/y")).parents[1]
    refuse(monkeypatch, closed)
    assert [ref.session_id for ref in use(tmp_path, lambda storage: storage.list())] == ["a"]
    assert f"{closed} cannot be read" in caplog.text
    assert list(reopen(tmp_path).events) == make_events(0, 1)
    for work in (
        lambda storage: storage.read("b"),
        lambda storage: storage.open("b"),
        lambda storage: storage.create(make_header("b", "/x")),  # it may well be in there
    ):
        with pytest.raises(PersistenceError, match=f"{closed}.*: Permission denied"):
            use(tmp_path, work)


def refuse(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """Let nobody look into a directory, not even who may do everything."""

    def denying(original: Callable[..., T]) -> Callable[..., T]:
        def look(self: Path, *args: object, **options: object) -> T:
            if closed in self.parents or (self == closed and original.__name__ == "iterdir"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
            return original(self, *args, **options)

        return look

    for name in ("iterdir", "lstat", "stat"):
        monkeypatch.setattr(Path, name, denying(getattr(Path, name)))


def test_a_fork_that_is_shorter_than_its_seed_is_damaged(tmp_path: Path) -> None:
    header = SessionHeader(id="a", created_at=1, cwd="/x", seed_length=3, delegation_depth=0)
    path = store(tmp_path, 2, 3, header=header)
    assert len(load(tmp_path).events) == 3
    path.write_bytes(path.read_bytes()[:-1])
    before = picture(tmp_path)
    for work in (load, reopen):
        with pytest.raises(CorruptLogError, match="its seed has 3 events, the log 2"):
            work(tmp_path)
    assert picture(tmp_path) == before


class Rivals(FileSystem):
    """Holds the first link until the other first write has looked whether the id is free, if it can."""

    def __init__(self) -> None:
        self.links = 0

    def link(self, source: Path, target: Path) -> None:
        self.links += 1
        if self.links == 1:
            self.rival = threading.Thread(target=self.compete)
            self.rival.start()
            self.rival.join(0.5)
        super().link(source, target)

    compete: Callable[[], None]


@pytest.mark.parametrize(("cwd", "compression"), [("/y", "zstd"), ("/x", "none")])
@pytest.mark.parametrize("is_fork", [False, True])
def test_of_two_first_writes_of_one_id_one_is_refused_wherever_they_go(
    tmp_path: Path, cwd: str, compression: Compression, *, is_fork: bool
) -> None:
    files = Rivals()
    refusals: list[str] = []

    async def first_write(storage: JsonlStorage, cwd: str) -> None:
        try:
            writer = await storage.create(make_header(cwd=cwd), make_events(0, 1) if is_fork else ())
            await writer.write(make_events(0, 1))
            await writer.close()
        except (PersistenceError, SessionExistsError) as error:
            refusals.append(str(error))

    def compete() -> None:
        use(tmp_path, lambda storage: first_write(storage, cwd), compression=compression)

    files.compete = compete
    use(tmp_path, lambda storage: first_write(storage, "/x"), files=files)
    files.rival.join()
    assert len(list((tmp_path / "sessions").glob("*/*/session*"))) == 1
    assert ["was stored meanwhile" in refusal for refusal in refusals] == [True]


def test_a_locked_session_names_who_has_it_and_not_who_is_gone(tmp_path: Path) -> None:
    if not Path("/proc/locks").exists():
        pytest.skip("this system does not list its locks")
    path = store(tmp_path, 1)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path.with_name("owner").write_text(json.dumps({"pid": ended.pid, "since": "2026-01-01T00:00:00.000Z"}))
    with path.open("rb") as holder:  # as an opener does that has not read the log yet
        assert take_lock(holder.fileno())
        with pytest.raises(SessionLockedError) as caught:
            reopen(tmp_path)
    assert (caught.value.holder, caught.value.since) == (os.getpid(), None)


# --- calls and cancellation


def test_events_that_do_not_follow_are_refused(tmp_path: Path) -> None:
    store(tmp_path, 2)
    with pytest.raises(PersistenceError, match="cannot follow"):
        reopen(tmp_path, *make_events(3, 4))
    assert list(load(tmp_path).events) == make_events(0, 2)


def test_a_closed_writer_refuses(tmp_path: Path) -> None:
    async def work(storage: JsonlStorage) -> None:
        writer = await storage.create(make_header())
        await writer.close()
        with pytest.raises(PersistenceError, match="closed"):
            await writer.write(make_events(0, 1))

    use(tmp_path, work)


class Gate(FileSystem):
    """Holds each write until it is let through."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.passable = threading.Event()

    def write(self, descriptor: int, data: memoryview) -> int:
        self.reached.set()
        self.passable.wait()
        return super().write(descriptor, data)


def test_what_follows_a_cancelled_write_waits_for_its_end(tmp_path: Path) -> None:
    store(tmp_path, 1)
    gate = Gate()

    async def write(writer: LogWriter, stop: int) -> None:
        await writer.write(make_events(1, stop))

    async def work(storage: JsonlStorage) -> None:
        _, writer = await storage.open("a")
        writing = asyncio.create_task(write(writer, 2))
        await asyncio.to_thread(gate.reached.wait)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        following = asyncio.create_task(write(writer, 3))
        await asyncio.sleep(0)
        gate.passable.set()
        await following
        await write(writer, 3)
        await writer.close()

    use(tmp_path, work, files=gate)
    assert list(load(tmp_path).events) == make_events(0, 3)


def test_closing_waits_for_the_end_of_a_cancelled_write(tmp_path: Path) -> None:
    store(tmp_path, 1)
    gate = Gate()

    async def work(storage: JsonlStorage) -> None:
        _, writer = await storage.open("a")
        writing = asyncio.ensure_future(writer.write(make_events(1, 2)))
        await asyncio.to_thread(gate.reached.wait)
        writing.cancel()
        closing = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        gate.passable.set()
        await closing

    use(tmp_path, work, files=gate)
    assert list(load(tmp_path).events) == make_events(0, 2)


def test_a_cancelled_create_or_open_holds_no_lock(tmp_path: Path) -> None:
    gate = Gate()

    async def work(storage: JsonlStorage) -> None:
        creating = asyncio.create_task(storage.create(make_header(), make_events(0, 1)))
        await asyncio.to_thread(gate.reached.wait)
        creating.cancel()
        await asyncio.sleep(0)
        gate.passable.set()
        with pytest.raises(asyncio.CancelledError):
            await creating
        opening = asyncio.create_task(storage.open("a"))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        _, writer = await storage.open("a")
        await writer.close()

    use(tmp_path, work, files=gate)


def test_an_executor_of_the_caller_s_is_used_and_left_open(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        use(tmp_path, lambda storage: storage.list(), executor=executor)
        assert executor.submit(int).result() == 0
