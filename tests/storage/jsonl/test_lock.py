from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from watchbell.errors import PersistenceError
from watchbell.storage.jsonl import _lock as lock
from watchbell.storage.jsonl._lock import Owner, read_owner, take_lock, write_owner

HOLD = """
import os, sys
from watchbell.storage.jsonl._lock import take_lock
print(take_lock(os.open(sys.argv[1], os.O_RDWR)), flush=True)
sys.stdin.read()
"""


def test_a_lock_is_refused_to_a_second_opener_in_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert take_lock(first)
    assert not take_lock(second)
    os.close(first)
    assert take_lock(second)
    os.close(second)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        descriptor = os.open(path, os.O_RDWR)
        assert not take_lock(descriptor)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert take_lock(descriptor)
        os.close(descriptor)


def test_a_system_without_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    with pytest.raises(PersistenceError, match="can be read here, not written"):
        take_lock(0)


def test_a_file_system_without_locks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(PersistenceError, match="No locks available"):
        take_lock(0)


def test_the_owner_is_written_down_for_people(tmp_path: Path) -> None:
    path = tmp_path / "owner"
    write_owner(path, 1_796_036_425_007)
    assert read_owner(path) == Owner(os.getpid(), "2026-11-30T11:00:25.007Z")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid":"x"}', b"\xff"])
def test_an_owner_file_that_says_nothing_is_no_obstacle(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "owner"
    assert read_owner(path) is None
    path.write_bytes(content)
    assert read_owner(path) is None
    write_owner(tmp_path / "missing" / "owner", 0)
