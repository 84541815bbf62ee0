from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Started, Store, Watchbell, create
from tests.logs import BOTH, picture, place, units
from watchbell.log.event import Draft
from watchbell.storage.jsonl.layout import Compression

SOUND = [create("schedule-1")]


def turns(*numbers: int) -> list[Draft]:
    return [Draft("turn/start", {"turn": number}) for number in numbers]


def test_a_home_that_is_not_there_has_no_logs_and_is_not_made(watchbell: Watchbell, home: Path) -> None:
    home.rmdir()
    assert watchbell("verify") == Ran(0, f"No logs in {home}.\n", "")
    assert watchbell("verify", "--json").out == "[]\n"
    assert not home.exists()


def test_a_path_that_is_not_there_fails(watchbell: Watchbell, store: Store) -> None:
    log = store("a", *SOUND)
    ran = watchbell("verify", str(log), "/no/such/path")
    assert ran.code == 1
    assert ran.out == f"{log}: sound, 1 events\n"
    assert ran.err == "watchbell: /no/such/path: No such file or directory\n"


def test_each_log_gets_one_line_and_a_damaged_one_fails_the_command(
    watchbell: Watchbell, store: Store, home: Path
) -> None:
    store("a", *SOUND)
    store("b", *turns(1))
    damaged = store("c", *SOUND, cwd="/x")
    damaged.write_bytes(damaged.read_bytes() + b"{}\n")
    size = damaged.stat().st_size - 3
    torn = store("d", *SOUND)
    torn.write_bytes(torn.read_bytes() + b"\x28\xb5\x2f\xfd\x04")
    store("e", *SOUND, *SOUND)
    store("f", *turns(2))
    before = picture(home)
    ran = watchbell("verify")
    assert ran.code == 1
    told = [line.removeprefix(f"{home}/sessions/") for line in ran.out.splitlines()]
    name = "session.jsonl.zstd"
    assert told == [
        f"--x--/c/{name}: damaged at byte {size}: plain text where a zstd frame should begin",
        f"_no-cwd/a/{name}: sound, 1 events",
        f"_no-cwd/b/{name}: interrupted (turn 1 is open), 1 events",
        f"_no-cwd/d/{name}: torn tail (5 bytes at byte {torn.stat().st_size - 5}), 1 events",
        (
            f"_no-cwd/e/{name}: schedule invalid: the schedule history is invalid at event 1: "
            "id 'schedule-1' is used again"
        ),
        f"_no-cwd/f/{name}: damaged: event 0 (turn/start): expected turn 1, found 2",
    ]
    assert picture(home) == before


def test_what_a_crash_leaves_is_no_damage(watchbell: Watchbell, store: Store) -> None:
    store("a", *turns(1))
    torn = store("b", *turns(1))
    torn.write_bytes(torn.read_bytes() + b"\x28")
    ran = watchbell("verify")
    assert ran.code == 0
    assert "torn tail (1 bytes at byte" in ran.out
    assert ", turn 1 is open)" in ran.out


def test_json_has_all_that_there_is_to_say(watchbell: Watchbell, store: Store) -> None:
    log = store("a", *turns(1))
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b"\x28\xb5")
    place(log.parents[3], b"\0" * 9, session_id="b")
    ran = watchbell("verify", "--json")
    assert ran.code == 1
    assert json.loads(ran.out) == [
        {
            "log": str(log),
            "state": "torn",
            "session": "a",
            "events": 1,
            "openTurn": 1,
            "tornOffset": size,
            "tornLength": 2,
        },
        {
            "log": str(log.parents[1] / "b" / "session.jsonl.zstd"),
            "state": "damaged",
            "offset": 0,
            "reason": "something else where a zstd frame should begin",
        },
    ]


def test_every_level_of_the_layout_can_be_named(
    watchbell: Watchbell, store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = store("a", *SOUND)
    for path in (log, *log.parents[:4]):
        ran = watchbell("verify", str(path))
        assert (ran.code, ran.out) == (0, f"{log}: sound, 1 events\n")
    monkeypatch.chdir(log.parent)
    assert watchbell("verify", ".").out == "session.jsonl.zstd: sound, 1 events\n"
    assert watchbell("verify", "../a/session.jsonl.zstd").code == 0
    assert watchbell("verify", str(log), str(home), str(log)).out.count("\n") == 1


def test_a_copied_or_moved_log_has_the_wrong_identity(watchbell: Watchbell, store: Store) -> None:
    log = store("a", *SOUND)
    shutil.copytree(log.parent, log.parents[1] / "b")
    shutil.copy(log, log.parents[1] / log.name)
    ran = watchbell("verify")
    assert ran.code == 1
    assert ran.out.count("wrong identity: it is session 'a'") == 2


def test_a_session_that_is_there_twice_is_named_twice(watchbell: Watchbell, store: Store, home: Path) -> None:
    store("a", *SOUND)
    place(home, b"".join(units("none", SOUND)), "none", "s")
    place(home, b"".join(units("zstd", SOUND)), "zstd", "s")
    ran = watchbell("verify")
    assert ran.code == 1
    assert ran.out.count("there more than once") == 2
    assert ran.out.count("sound, 1 events") == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"type":"session","version":1}\n', "unsupported: log format version 1 is newer"),
        (
            (
                b'{"type":"session","version":0,"id":"s","createdAt":0,"delegationDepth":0}\n'
                b'{"type":"later/thing","seq":0,"time":0,"data":1}\n'
            ),
            "unsupported: it holds an event of type 'later/thing'",
        ),
    ],
)
def test_a_log_that_needs_another_program_is_not_sound(
    watchbell: Watchbell, home: Path, line: bytes, told: str
) -> None:
    place(home, line, "none")
    ran = watchbell("verify")
    assert ran.code == 1
    assert told in ran.out


def test_a_log_that_cannot_be_read_is_told(
    watchbell: Watchbell, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store("a", *SOUND)

    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("watchbell.cli.commands.verify.read_log", fail)
    ran = watchbell("verify")
    assert ran.code == 1
    assert "unreadable: Input/output error" in ran.out


def test_a_directory_that_cannot_be_read_is_told_and_hides_no_other(
    watchbell: Watchbell, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = store("a", *SOUND)
    closed = store("b", *SOUND, cwd="/x").parents[1]
    original = Path.iterdir

    def look(path: Path) -> Iterator[Path]:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path)

    monkeypatch.setattr(Path, "iterdir", look)
    verify, sessions, reminders, doctor = map(watchbell, ("verify", "sessions", "reminders", "doctor"))
    assert (verify.out, verify.err) == (
        f"{sound}: sound, 1 events\n",
        f"watchbell: {closed}: Permission denied\n",
    )
    listed = json.loads(watchbell("sessions", "--json").out)
    assert sorted((row["id"], row["log"], row["failure"]) for row in listed) == [
        ("", str(closed), f"{closed} cannot be read: Permission denied"),
        ("a", str(sound), None),
    ]
    assert "schedule-1" in reminders.out
    assert reminders.err == f"watchbell: {closed} cannot be read: Permission denied\n"
    assert f"{closed} cannot be read: Permission denied" in doctor.out
    assert [ran.code for ran in (verify, sessions, reminders, doctor)] == [1, 1, 1, 1]


@pytest.mark.parametrize("compression", BOTH)
def test_a_log_that_is_open_elsewhere_is_checked_all_the_same(
    watchbell: Watchbell, home: Path, compression: Compression
) -> None:
    log = place(home, b"".join(units(compression, SOUND)), compression)
    hold = (
        "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); "
        "print(flush=True); sys.stdin.read()"
    )
    with Started(
        [sys.executable, "-c", hold, str(log)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        assert watchbell("verify").out.endswith("sound, 1 events\n")
        holder.kill()


def test_hostile_names_do_nothing_to_the_terminal(watchbell: Watchbell, home: Path) -> None:
    place(home, b"".join(units("none", [Draft("x\x1b[31m", 1)])), "none")
    assert "\x1b" not in watchbell("verify").out


@pytest.mark.parametrize("name", ["session.jsonl", "session.jsonl.zstd"])
def test_a_session_whose_id_is_the_name_of_a_log_is_sound(
    watchbell: Watchbell, store: Store, home: Path, name: str
) -> None:
    log = store(name, *SOUND, cwd="/x")
    for path in (home, log.parent.parent, log.parent, log):
        assert watchbell("verify", str(path)) == Ran(0, f"{log}: sound, 1 events\n", "")
    assert watchbell("doctor").code == 0
    assert [row["id"] for row in json.loads(watchbell("sessions", "--json").out)] == [name]
