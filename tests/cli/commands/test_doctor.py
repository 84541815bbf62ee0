from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import FUTURE, PAST, Ran, Start, Store, Watchbell, create


def findings(ran: Ran) -> list[tuple[str, str, str]]:
    return [(f["level"], f["about"], f["text"]) for f in json.loads(ran.out)["findings"]]


def told(ran: Ran, level: str, text: str) -> bool:
    return any(found == level and text in said for found, _, said in findings(ran))


def snapshot(home: Path) -> list[tuple[str, int, bytes]]:
    return [
        (str(path), path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(home.rglob("*"))
    ]


def test_a_sound_home_has_nothing_to_complain_of(watchbell: Watchbell, store: Store, home: Path) -> None:
    home.chmod(0o700)
    store("a", create("schedule-1", at=FUTURE))
    ran = watchbell("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "No problems, no warnings."


def test_the_release_of_the_zone_data_and_its_origin_are_told(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tzdata

    monkeypatch.setenv("PYTHONTZPATH", str(tmp_path))
    ran = watchbell("doctor", "--json")
    zones = json.loads(ran.out)["zoneData"]
    assert zones == {"release": tzdata.IANA_VERSION, "origin": str(Path(tzdata.__file__).parent)}
    assert told(ran, "note", "PYTHONTZPATH")
    # Vancouver keeps summer time since 2026, whatever the host and PYTHONTZPATH say.
    value = watchbell(
        "call", "a", "schedule_create", "--create", "--clock", "2026-12-01T00:00:00Z",
        '{"prompt":"x","at":{"date":"2027-01-15","time":"09:00:00","time_zone":"America/Vancouver"}}',
    )  # fmt: skip
    assert json.loads(value.out)["scheduledAt"] == "2027-01-15T16:00:00.000Z"


def test_missing_zone_data_is_one_plain_error_and_utc_still_works(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tzdata", None)
    ran = watchbell("doctor", "--json")
    assert ran.code == 1
    assert told(ran, "problem", "pip install --force-reinstall tzdata")
    at = {"date": "2027-06-01", "time": "09:00:00", "time_zone": "UTC"}
    arguments = ("call", "a", "schedule_create", "--create", "--clock", "2026-12-01T00:00:00Z")
    assert json.loads(watchbell(*arguments, json.dumps({"prompt": "x", "at": at})).out)["scheduledAt"] == (
        "2027-06-01T09:00:00.000Z"
    )
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    chat = watchbell("run", "b", "hello")
    assert chat.code == 1
    assert "tzdata" in chat.err
    assert "invalid_time_zone" not in chat.err


def test_everything_that_is_wrong_is_named_and_nothing_is_touched(
    watchbell: Watchbell, store: Store, home: Path
) -> None:
    home.chmod(0o755)
    store("late", create("schedule-1", at=PAST))
    store("odd", create("schedule-1"), create("schedule-1"))
    store("broken", create("schedule-1")).write_bytes(b"\0" * 100)
    torn = store("torn", create("schedule-1", at=FUTURE), create("schedule-2", at=FUTURE))
    torn.write_bytes(torn.read_bytes() + torn.read_bytes()[:30])
    (home / "sessions" / "notes.txt").write_text("mine")
    (home / "sessions" / "_no-cwd" / "stray.txt").write_text("mine")
    (home / "watchbell.toml").write_text('api_key = "sk-secret"\n')
    (home / "watchbell.toml").chmod(0o644)
    before = snapshot(home)
    ran = watchbell("doctor", "--json")
    assert snapshot(home) == before
    assert ran.code == 1
    for level, text in (
        ("note", "1 reminder is overdue"),
        ("problem", "the schedule history is invalid"),
        ("problem", "is damaged at byte 0"),
        ("warning", "a crash left a torn batch, 30 bytes"),
        ("warning", "notes.txt does not belong there"),
        ("warning", "stray.txt does not belong there"),
        ("warning", "holds an API key and others can read it (mode 0644)"),
        ("warning", "others can look into it (mode 0755)"),
    ):
        assert told(ran, level, text), text


def test_warnings_alone_are_no_failure(watchbell: Watchbell, store: Store, home: Path) -> None:
    store("a", create("schedule-1", at=FUTURE))
    (home / "sessions" / "notes.txt").write_text("mine")
    assert watchbell("doctor").code == 0


def test_a_home_with_both_encodings_is_warned_of(
    watchbell: Watchbell, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store("a", create("schedule-1", at=FUTURE))
    monkeypatch.setenv("WATCHBELL_COMPRESSION", "none")
    assert watchbell("run", "b", "hello").code == 0
    assert told(watchbell("doctor", "--json"), "warning", "plain logs (1) and compressed ones (1)")


def test_a_broken_settings_file_is_a_problem_and_the_rest_is_checked(
    watchbell: Watchbell, store: Store, home: Path
) -> None:
    store("a", create("schedule-1", at=FUTURE))
    (home / "watchbell.toml").write_text("model = \n")
    ran = watchbell("doctor", "--json")
    assert ran.code == 1
    assert told(ran, "problem", "is not TOML")
    assert [session["id"] for session in json.loads(ran.out)["sessions"]] == ["a"]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("HTTPS_PROXY", "foo://me:password@box", "check HTTP_PROXY"),
        ("WATCHBELL_HOME", "~nosuchuser/x", "no home directory is known"),
    ],
)
def test_an_environment_that_cannot_be_used_does_not_end_the_report(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv("WATCHBELL_MODEL", "m")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://localhost:1/v1")
    monkeypatch.setenv(variable, value)
    ran = watchbell("doctor", "--json")
    assert ran.code == 1
    assert told(ran, "problem", says)


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(Path.mkdir, id="directory"),
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(lambda log: log.symlink_to(log.name), id="link to itself"),
        pytest.param(lambda log: log.symlink_to("gone"), id="link to nothing"),
    ],
)
def test_what_has_a_logs_name_and_is_no_file_is_told_everywhere(
    watchbell: Watchbell, home: Path, put: Callable[[Path], None]
) -> None:
    log = home / "sessions" / "_no-cwd" / "a" / "session.jsonl.zstd"
    log.parent.mkdir(parents=True)
    put(log)
    doctor, verify, sessions = watchbell("doctor", "--json"), watchbell("verify"), watchbell("sessions")
    assert told(doctor, "problem", "not a regular file")
    assert (doctor.code, verify.code, sessions.code) == (1, 1, 1)
    assert f"{log}: damaged: " in verify.out
    assert "not a regular file" in verify.out
    assert "not a regular file" in sessions.out
    assert watchbell("verify", str(log)).code == 1
    opened = watchbell("run", "a", "hello")
    assert opened.code != 0
    assert f"{log} is damaged: " in opened.err
    assert "not a regular file" in opened.err
    called = watchbell("call", "a", "schedule_list", "{}", "--create")
    assert "corrupt_schedule_log" in called.out
    assert os.listdir(home / "sessions" / "_no-cwd" / "a") == [log.name]  # noqa: PTH208 - names, not paths


def test_a_lock_names_its_holder_while_it_lives_and_after_it_was_killed(
    watchbell: Watchbell, start: Start, store: Store
) -> None:
    store("a", create("schedule-1", at=FUTURE))
    running = start("chat", "a")
    running.say("hello")
    running.stdout.readline()

    def holder() -> Any:
        return json.loads(watchbell("doctor", "--json").out)["sessions"][0]["holder"]

    assert (holder()["pid"], holder()["is_live"]) == (running.pid, True)
    running.kill()
    running.wait()
    assert (holder()["pid"], holder()["is_live"]) == (running.pid, False)
    assert told(watchbell("doctor", "--json"), "note", "is gone without closing it")


def test_looking_at_a_lock_refuses_nobody(watchbell: Watchbell, store: Store) -> None:
    import fcntl

    path = store("a", create("schedule-1", at=FUTURE))
    taken: list[int] = []
    original = fcntl.flock

    def flock(descriptor: Any, operation: int) -> None:
        taken.append(operation)
        original(descriptor, operation)

    fcntl.flock = flock
    try:
        watchbell("doctor")
    finally:
        fcntl.flock = original
    assert taken == []
    assert os.access(path, os.R_OK)


def test_a_home_that_is_not_there_yet_is_fine(watchbell: Watchbell, tmp_path: Path) -> None:
    ran = watchbell("doctor", "--home", str(tmp_path / "new"))
    assert ran.code == 0
    assert "the first session makes it" in ran.out
    assert not (tmp_path / "new").exists()
