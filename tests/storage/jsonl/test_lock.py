from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from watchbell.errors import PersistenceError
from watchbell.storage.jsonl import _lock as lock
from watchbell.storage.jsonl._lock import Owner, read_owner, take_lock, write_owner


def test_a_lock_is_refused_to_a_second_opener_in_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert take_lock(first)
    assert not take_lock(second)
    os.close(first)
    assert take_lock(second)
    os.close(second)


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
