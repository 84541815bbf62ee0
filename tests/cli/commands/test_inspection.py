"""Looking writes nothing, whatever state a log is in; and one bad log hides no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Start, Store, Watchbell, create
from tests.logs import BOTH, FUTURE, picture, place, units
from tests.logs import create as create_numbered
from watchbell.errors import PersistenceError
from watchbell.log.event import Draft
from watchbell.log.header import SessionHeader
from watchbell.storage.jsonl.layout import Compression
from watchbell.storage.jsonl.store import JsonlStorage

CREATE = '{"prompt":"p","after_seconds":600}'
TOOLS = ("schedule_create", "schedule_list", "schedule_delete")


def header(session_id: str) -> SessionHeader:
    return SessionHeader(id=session_id, created_at=0, delegation_depth=0)


def damaged(compression: Compression) -> dict[str, bytes]:
    """Logs that must be refused, by what was done to them."""
    parts = units(compression, [create_numbered(1)], [create_numbered(2)], [create_numbered(3)])
    whole = b"".join(parts)
    kinds = {
        "zeros": parts[0] + parts[1] + bytes(200) + b"\n" + parts[3],
        "more zeros": parts[0] + parts[1] + bytes(700) + b"\n" + parts[3],
        "foreign line": whole + b'{"x":1}\n',
        "zeros behind": whole + bytes(64) + b"\n",
        "no header": b"".join(parts[1:]),
        "nothing": b"",
        "batch twice": whole + parts[3],
        "batch missing": parts[0] + parts[1] + parts[3],
    }
    if compression == "none":
        kinds |= {
            "lost brace": parts[0] + parts[1] + parts[2].replace(b"}}}\n", b"}}\n") + parts[3],
            "mark": b"\xef\xbb\xbf" + whole,
            "UTF-16": whole.decode().encode("utf-16"),
            "empty line": parts[0] + b"\n" + b"".join(parts[1:]),
            "two readings": whole.replace(b'"seq":1', b'"seq":1,"seq":1'),
            "not UTF-8": whole.replace(b'"prompt":"p"', b'"prompt":"\xff"', 1),
            "brackets": whole + b'{"type":"x","seq":3,"time":0,"data":' + b"[" * 100_000 + b"\n",
        }
    return kinds


CASES = [(kind, name) for kind in BOTH for name in damaged(kind)]


@pytest.mark.parametrize(("compression", "name"), CASES)
def test_each_tool_answers_for_a_damaged_log_and_leaves_it_alone(
    watchbell: Watchbell, home: Path, compression: Compression, name: str
) -> None:
    log = place(home, damaged(compression)[name], compression)
    before = picture(home)
    for tool in TOOLS:
        arguments = '{"id":"schedule-1"}' if tool == "schedule_delete" else CREATE
        ran = watchbell("call", "s", tool, arguments if tool != "schedule_list" else "{}")
        value = json.loads(ran.out)
        assert (ran.code, value["code"]) == (0, "corrupt_schedule_log")
        assert str(home) not in value["message"]
        assert f"{log} is damaged" in ran.err
    ran = watchbell("run", "s", "hello")
    assert (ran.code, ran.out) == (1, "")
    assert "is damaged" in ran.err
    assert picture(home) == before


INSPECTIONS = [
    ["sessions"],
    ["sessions", "--json"],
    ["reminders"],
    ["reminders", "s"],
    ["reminders", "--json"],
    ["receipts", "s"],
    ["log", "s"],
    ["log", "s", "--json"],
    ["verify"],
    ["verify", "--json"],
    ["tools"],
    ["--version"],
]


def states() -> dict[str, bytes]:
    whole = b"".join(units("zstd", [create_numbered(1)], [Draft("turn/start", {"turn": 1})]))
    return {
        "sound": whole,
        "torn": whole + units("zstd", [create_numbered(2)])[1][:-3],
        "damaged": whole + b"x\n",
        "invalid": b"".join(units("zstd", [create_numbered(1), create_numbered(1)])),
    }


@pytest.mark.parametrize("state", states())
def test_inspecting_leaves_bytes_and_times_alone(watchbell: Watchbell, home: Path, state: str) -> None:
    place(home, states()[state])
    place(home, b"".join(units("none", [create_numbered(1)], header=header("other"))), "none", "other")
    before = picture(home)
    for command in INSPECTIONS:
        ran = watchbell(*command)
        assert ran.code in (0, 1)
        assert "bug" not in ran.err
        assert picture(home) == before, command


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="only root can mount")
def test_a_read_only_home_can_be_inspected(watchbell: Watchbell, home: Path, tmp_path: Path) -> None:
    place(home, states()["torn"])
    view = tmp_path / "view"
    view.mkdir()
    for options in (["--bind"], ["-o", "remount,ro,bind"]):
        done = subprocess.run(["mount", *options, str(home), str(view)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("a read-only view cannot be mounted here")
    try:
        for command in INSPECTIONS[:-2]:
            ran = watchbell(*command, "--home", str(view))
            assert ran.code == 0, ran.err
        ran = watchbell("call", "s", "schedule_list", "--home", str(view))
        assert (ran.code, ran.out) == (1, "")
        assert "Read-only file system" in ran.err
        value = json.loads(
            watchbell("call", "new", "schedule_create", CREATE, "--create", "--home", str(view)).out
        )
        assert (value["code"], value["operation"]) == ("persistence_uncertain", "create")
    finally:
        subprocess.run(["umount", str(view)], check=True)


def test_a_bad_log_is_named_and_the_others_are_listed(
    watchbell: Watchbell, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "e", "z"):
        store(name, create("schedule-1", prompt=f"of {name}", at=FUTURE))
    store("odd", create("schedule-1"), create("schedule-1"))
    place(home, b"\0" * 20, session_id="bad")
    place(home, b'{"type":"session","version":7}\n', "none", "later")
    read = JsonlStorage._read

    def fail_one(storage: JsonlStorage, session_id: str) -> object:
        if session_id == "e":
            raise PersistenceError("session 'e' could not be read: Input/output error")
        return read(storage, session_id)

    monkeypatch.setattr(JsonlStorage, "_read", fail_one)
    sessions = watchbell("sessions")
    assert sessions.code == 1
    for told in ("a ", "z ", "is damaged at byte 0", "log format version 7 is newer", "Input/output error"):
        assert told in sessions.out
    reminders = watchbell("reminders")
    assert reminders.code == 1
    assert "of a" in reminders.out
    assert "of z" in reminders.out
    for told in ("'bad': ", "'later': ", "'e': ", "session 'odd': the schedule history is invalid"):
        assert told in reminders.err


def refuse(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """Have nobody look into a directory, not even root."""
    for name in ("iterdir", "lstat"):
        original = getattr(Path, name)

        def look(path: Path, original: Callable[[Path], object] = original) -> object:
            if closed in (path, path.parent, path.parent.parent):
                raise PermissionError(13, "Permission denied", str(path))
            return original(path)

        monkeypatch.setattr(Path, name, look)


@pytest.mark.parametrize("command", [("reminders",), ("reminders", "s"), ("receipts", "s")])
@pytest.mark.parametrize("damage", ["schedule", "log", "later", "directory"])
def test_damage_is_never_shown_as_emptiness(
    watchbell: Watchbell,
    store: Store,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    damage: str,
) -> None:
    code = "corrupt_log"
    match damage:
        case "schedule":
            store("s", create("schedule-1"), create("schedule-1"))
            code = "corrupt_schedule_log"
        case "log":
            place(home, b"\0" * 20)
        case "later":
            place(home, b'{"type":"session","version":7}\n', "none")
            code = "unsupported_log"
        case _:
            refuse(monkeypatch, store("s", create("schedule-1")).parents[1])
            code = "unreadable"
    views = [(), ("--timeline",)] if command[0] == "reminders" else [()]
    for view in views:
        ran = watchbell(*command, *view)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("watchbell: ")
    ran = watchbell(*command, "--json")
    assert ran.code == 1
    (fault,) = json.loads(ran.out)
    assert fault["code"] == code
    assert fault["reason"] in ran.err
    assert fault["session"] == ("s" if (damage, command) != ("directory", ("reminders",)) else None)
    if command == ("reminders",):
        assert code in [row["code"] for row in json.loads(watchbell("sessions", "--json").out)]


def test_following_goes_on_over_a_torn_tail_that_another_process_mends(
    watchbell: Watchbell, home: Path, start: Start
) -> None:
    whole = b"".join(units("zstd", [create_numbered(1)]))
    path = place(home, whole + b"\x28\xb5\x2f")
    following = start("log", "s", "--follow", "--type", "schedule/change")
    assert "create schedule-1" in following.stdout.readline()
    writer = [sys.executable, "-m", "watchbell", "--home", str(home), "call", "s", "schedule_create", CREATE]
    for number in (2, 3):
        subprocess.run(writer, check=True, capture_output=True)
        assert f"create schedule-{number}" in following.stdout.readline()
    assert path.read_bytes().startswith(whole)
    assert next(path.parent.glob("torn-*")).read_bytes() == b"\x28\xb5\x2f"
    following.kill()


def test_following_ends_with_the_place_of_damage_that_comes(home: Path, start: Start) -> None:
    whole = b"".join(units("none", [create_numbered(1)]))
    path = place(home, whole, "none")
    following = start("log", "s", "--follow", "--type", "schedule/change")
    assert "create schedule-1" in following.stdout.readline()
    with path.open("ab") as file:
        file.write(b"{}\n")
    _, errors = following.communicate(timeout=20)
    assert following.returncode == 1
    assert f"{path} is damaged at byte {len(whole)}: malformed event" in errors
