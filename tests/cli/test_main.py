"""What holds for every command: exit codes, encodings, closed pipes, quick starts."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import watchbell as package
from tests.cli.conftest import FUTURE, Start, Store, Watchbell, create, read_events
from watchbell.cli.commands import sessions


def test_the_version_is_the_packages(watchbell: Watchbell) -> None:
    assert watchbell("--version") == (0, f"watchbell {package.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing",),
        ("log",),
        ("sessions", "--nothing"),
        ("chat", "--history", "-1"),
        ("run", "", "hi"),
        ("chat", ""),
        ("log", ""),
        ("reminders", ""),
        ("call", "", "schedule_list", "--create"),
        ("call", "s", "schedule_snooze"),
    ],
)
def test_wrong_usage_is_code_2(watchbell: Watchbell, arguments: tuple[str, ...]) -> None:
    ran = watchbell(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Error:" in ran.err


def test_the_home_is_of_the_command_of_the_program_or_of_the_environment(
    watchbell: Watchbell, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert str(home) in watchbell("sessions").out
    assert one in watchbell("--home", one, "sessions").out
    assert two in watchbell("--home", one, "sessions", "--home", two).out
    monkeypatch.setenv("WATCHBELL_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(tmp_path / ".watchbell") in watchbell("sessions").out


def test_a_failure_is_one_line_and_a_traceback_only_when_asked(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = watchbell("log", "nope\x1b")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "watchbell: there is no session 'nope\\x1b'; there are no sessions yet\n"
    monkeypatch.setenv("WATCHBELL_DEBUG", "1")
    assert "Traceback" in watchbell("log", "nope").err


def test_a_bug_is_one_line_that_names_its_class(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(home: Path) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(sessions, "_read", fail)
    ran = watchbell("sessions")
    assert ran.code == 1
    assert ran.err.startswith("watchbell: unexpected KeyError: 'odd' (a bug: please report it")
    assert ran.err.count("\n") == 1


def test_a_home_that_cannot_be_written_fails_in_one_line(watchbell: Watchbell, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    ran = watchbell("run", "a", "hello", "--home", str(file))
    assert ran.code == 1
    assert all(line.startswith("watchbell: ") for line in ran.err.splitlines())


def test_warnings_of_the_library_are_lines_on_standard_error(
    watchbell: Watchbell, capsys: pytest.CaptureFixture[str]
) -> None:
    watchbell("sessions")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("watchbell.test").exception("it failed\x1b")
    assert capsys.readouterr().err == "watchbell: error: it failed\\x1b (ValueError: two\\nlines)\n"


@pytest.mark.parametrize("command", [["--version"], ["sessions"], ["reminders"], ["log", "a"]])
def test_a_command_that_only_reads_starts_without_the_terminals_library(
    store: Store, command: list[str]
) -> None:
    store("a", create("schedule-1"))
    program = (
        "import sys; from watchbell.cli.main import main; code = main(sys.argv[1:]); "
        "assert 'prompt_toolkit' not in sys.modules; sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", program, *command], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "cp1252:strict"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_console_that_lacks_a_character_gets_its_escape(
    store: Store, start: Start, environment: dict[str, str]
) -> None:
    store("a", create("schedule-1", "✓ 日本 😀", FUTURE))
    for command in (["reminders"], ["log", "a"]):
        out, err = start(*command, environment=environment).communicate()
        assert "\\u2713 \\u65e5\\u672c \\U0001f600" in out
        assert err == ""
    failing = start("log", "✓", environment=environment)
    assert "watchbell: there is no session" in failing.communicate()[1]
    assert failing.returncode == 1


def test_a_reader_that_has_enough_ends_the_program_silently(store: Store, start: Start) -> None:
    store("a", *[create(f"schedule-{number}", "x" * 150) for number in range(3000)])
    for arguments in (["log", "a"], ["log", "a", "--json"], ["reminders", "--json"]):
        process = start(*arguments)
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)


def test_a_talk_whose_reader_has_gone_ends_silently_after_its_turn(start: Start, home: Path) -> None:
    for session, arguments in (("a", ["run", "a", "hello"]), ("b", ["chat", "b"])):
        reading, writing = os.pipe()
        os.close(reading)
        process = start(*arguments, stdout=writing)
        os.close(writing)
        _, err = process.communicate("hello\nnever said\n", timeout=20)
        assert (process.returncode, err) == (0, "")
        events = read_events(home, session)
        assert [e.data["reason"]["kind"] for e in events if e.type == "turn/end"] == ["completed"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize(
    "arguments", [("run", "a", "hello"), ("chat", "a"), ("sessions",), ("config", "--json")]
)
def test_output_that_cannot_be_written_is_one_line_and_a_failure(
    start: Start, arguments: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("w") as full:
        process = start(*arguments, stdout=full)
        _, err = process.communicate("hello\n", timeout=20)
    assert process.returncode == 1
    assert err == "watchbell: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_standard_stream_that_is_closed_is_like_none_at_all(
    home: Path, start: Start, closed: tuple[int, ...]
) -> None:
    process = start("run", "a", "hello", preexec_fn=lambda: [os.close(descriptor) for descriptor in closed])
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert ("stand-in" in out) == (1 not in closed)
    assert read_events(home, "a")[-1].type == "turn/end"
    process = start("call", "a", "schedule_create", "-", preexec_fn=lambda: os.close(0))
    assert '"code":"invalid_selector"' in process.communicate(timeout=20)[0]


def test_output_that_is_no_terminal_has_no_colour(store: Store, start: Start) -> None:
    store("a", create("schedule-1"))
    out, _ = start("run", "a", "hello", environment={"TERM": "xterm-256color"}).communicate()
    assert "[reminder]" in out
    assert "\x1b" not in out


def test_without_its_extra_the_program_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; from watchbell.__main__ import main; sys.exit(main())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (
        1,
        "watchbell: the program needs an extra: pip install 'watchbell[cli]'\n",
    )


def test_json_is_ascii_on_every_console_and_a_closed_pipe_ends_silently(store: Store, start: Start) -> None:
    store("a", create("schedule-1", "✓ 日本 😀", FUTURE))
    for encoding in ("cp1252:strict", "ascii:strict", "utf-8"):
        environment = {"PYTHONIOENCODING": encoding}
        for command in (["reminders", "--json"], ["doctor", "--json"], ["config", "--json"]):
            process = start(*command, environment=environment)
            out, err = process.communicate()
            assert (process.returncode, err) == (0, "")
            assert out.isascii()
        drawn = start("reminders", "--timeline", environment=environment)
        out, err = drawn.communicate()
        assert (drawn.returncode, err) == (0, "")
        assert "\\u2588" not in out  # a picture of escapes is none
        assert ("█" in out) == (encoding == "utf-8")


def test_one_instant_is_the_same_in_every_zone_and_stands_there_as_utc(
    watchbell: Watchbell, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store("a", create("schedule-1", at="2027-01-15T16:00:00.000Z"))
    for zone, local in {
        "UTC": "2027-01-15 16:00:00 +00:00 UTC",
        "Asia/Kolkata": "2027-01-15 21:30:00 +05:30 Asia/Kolkata",
        "America/Vancouver": "2027-01-15 09:00:00 -07:00 America/Vancouver",
    }.items():
        monkeypatch.setenv("TZ", zone)
        for command in (("reminders",), ("reminders", "--timeline")):
            out = watchbell(*command).out
            assert local in out
            assert "2027-01-15T16:00:00.000Z" in out
