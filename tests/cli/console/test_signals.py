from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import FUTURE, Start, Store, create, read_events


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_waiting_run_with_everything_stored(
    home: Path, start: Start, number: int, code: int
) -> None:
    running = start("run", "a", "remind me in 5 hours to stretch", "--wait")
    running.until("Waiting")
    running.send_signal(number)
    out, err = running.communicate(timeout=20)
    assert (out, err, running.returncode) == ("", "", code)
    assert read_events(home, "a")[-1].type == "turn/end"


def test_a_signal_ends_a_chat_that_reads_lines(store: Store, start: Start) -> None:
    store("a", create("schedule-1"), create("schedule-2", at=FUTURE))
    running = start("chat", "a")
    assert running.stdout.readline().startswith("[reminder]")
    running.send_signal(signal.SIGTERM)
    assert running.wait(timeout=20) == 143


def test_a_hang_up_that_is_ignored_stays_ignored(start: Start) -> None:
    running = start("chat", "a", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    running.say("hello")
    assert running.stdout.readline()
    running.send_signal(signal.SIGHUP)
    out, _ = running.communicate("list\n", timeout=20)
    assert "You have no active reminders." in out
    assert running.returncode == 0


STUCK = """
import asyncio, sys
from watchbell.cli.console import signals

async def work():
    print("ready", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("closing", flush=True)
        await asyncio.sleep(60)
    return 0

signals.GRACE_SECONDS = float(sys.argv[1])
sys.exit(signals.run_stoppable(work()))
"""


def test_a_second_signal_ends_a_program_that_is_still_closing() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK, "60"], stdout=subprocess.PIPE, text=True) as stuck:
        assert stuck.stdout is not None
        assert stuck.stdout.readline() == "ready\n"
        stuck.send_signal(signal.SIGINT)
        assert stuck.stdout.readline() == "closing\n"
        stuck.send_signal(signal.SIGTERM)
        assert stuck.wait(timeout=20) == 143


def test_closing_that_takes_too_long_is_given_up() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK, "0.01"], stdout=subprocess.PIPE, text=True) as stuck:
        assert stuck.stdout is not None
        assert stuck.stdout.readline() == "ready\n"
        stuck.send_signal(signal.SIGINT)
        assert stuck.wait(timeout=20) == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["[tool]", "[reminder]"])
def test_a_signal_after_an_append_or_during_a_delivery_leaves_a_clean_log(
    home: Path, start: Start, moment: str, number: int
) -> None:
    running = start("run", "a", "remind me in 1 second to stretch", "--wait")
    running.until(moment)
    running.send_signal(number)
    running.communicate(timeout=20)
    assert running.returncode in (128 + number, 0)
    events = read_events(home, "a")
    changes = [event.data["operation"] for event in events if event.type == "schedule/change"]
    assert changes[0] == "create"  # it was answered, so it is there
    assert events[-1].type in ("turn/end", "schedule/change")
    again = start("run", "a", "list", "--wait")
    out, err = again.communicate(timeout=20)
    assert (again.returncode, err) == (0, "")
    assert "No reminders pending." in out
    messages = [event.data for event in read_events(home, "a") if event.type == "user/message"]
    assert sum(message["source"].get("plugin") == "schedule" for message in messages) == 1


LATE = """
import signal, sys
from watchbell.cli.console import signals

async def work():
    signal.raise_signal(signal.SIGTERM)
    return 0

code = signals.run_stoppable(work())
print("closed", flush=True)
signal.raise_signal(signal.SIGINT)
sys.exit(code)
"""


def test_a_second_signal_after_closing_ends_the_program_without_a_word() -> None:
    late = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=20, check=False
    )
    assert (late.stdout, late.stderr, late.returncode) == ("closed\n", "", 130)
