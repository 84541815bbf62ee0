"""A simulated disk keeps what was synced, and of the rest what chance leaves."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from watchbell.testing import SimulatedDisk


def write(disk: SimulatedDisk, name: str, data: bytes, *, sync: bool) -> int:
    descriptor = disk.open(disk.home / name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    disk.write(descriptor, memoryview(data))
    if sync:
        disk.fsync(descriptor)
    return descriptor


def sync_names(disk: SimulatedDisk) -> None:
    descriptor = disk.open(disk.home, os.O_RDONLY)
    disk.fsync(descriptor)
    os.close(descriptor)


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(disk.home.iterdir())}


def test_what_was_synced_survives_a_loss_of_power(tmp_path: Path) -> None:
    disk = SimulatedDisk(tmp_path)
    write(disk, "log", b"one", sync=True)
    sync_names(disk)
    for seed in range(20):
        disk.lose_power(Random(seed))
        assert contents(disk) == {"log": b"one"}


def test_of_unsynced_bytes_any_prefix_survives_a_loss_of_power(tmp_path: Path) -> None:
    left: set[bytes] = set()
    for seed in range(60):
        root = tmp_path / str(seed)
        root.mkdir()
        disk = SimulatedDisk(root)
        descriptor = write(disk, "log", b"one", sync=True)
        sync_names(disk)
        disk.write(descriptor, memoryview(b"two"))
        disk.lose_power(Random(seed))
        left.add(contents(disk)["log"])
    assert left == {b"one", b"onet", b"onetw", b"onetwo"}


def test_a_killed_process_leaves_all_that_it_wrote_as_unsynced_as_it_was(tmp_path: Path) -> None:
    disk = SimulatedDisk(tmp_path)
    write(disk, "log", b"one", sync=True)
    sync_names(disk)
    write(disk, "log", b"two", sync=False)
    disk.kill()
    assert contents(disk) == {"log": b"onetwo"}
    left: set[bytes] = set()
    for seed in range(10):
        disk.lose_power(Random(seed))
        left.add(contents(disk)["log"])
    assert all(b"onetwo".startswith(found) and len(found) >= 3 for found in left)


def test_a_name_survives_only_once_its_directory_was_synced(tmp_path: Path) -> None:
    outcomes: set[bool] = set()
    for seed in range(20):
        root = tmp_path / str(seed)
        root.mkdir()
        disk = SimulatedDisk(root)
        write(disk, "log", b"one", sync=True)
        disk.lose_power(Random(seed))
        outcomes.add("log" in contents(disk))
    assert outcomes == {True, False}


def test_what_a_failed_sync_lost_is_not_made_durable_by_the_next_one(tmp_path: Path) -> None:
    disk = SimulatedDisk(tmp_path)
    descriptor = write(disk, "log", b"one", sync=True)
    sync_names(disk)
    disk.write(descriptor, memoryview(b"two"))

    def fail(operation: str, data: bytes) -> int:
        raise OSError(5, "made to fail")

    disk.before = fail
    with pytest.raises(OSError, match="made to fail"):
        disk.fsync(descriptor)
    disk.before = lambda _, data: len(data)
    disk.fsync(descriptor)
    disk.lose_power(Random(1))
    assert contents(disk) == {"log": b"one"}


def test_a_program_from_before_a_crash_does_not_disturb_a_store_over_it(tmp_path: Path) -> None:
    disk = SimulatedDisk(tmp_path)
    descriptor = write(disk, "log", b"one", sync=True)
    sync_names(disk)
    disk.kill()
    with pytest.raises(OSError, match="descriptor"):
        os.write(descriptor, b"two")
    assert contents(disk) == {"log": b"one"}
