"""Every store that is shipped keeps the contract of `watchbell.storage.base`."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from watchbell.storage.jsonl.files import FileSystem
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import FaultyPersistence, MemoryDisk, MemoryStorage
from watchbell.testing.storage_contract import BreakWrites, Connect, RemoveLog, StorageContract


class FailingFiles(FileSystem):
    """A disk that stops to confirm anything, or is full."""

    failing_call = ""

    def write(self, descriptor: int, data: memoryview) -> int:
        written = super().write(descriptor, data[: max(1, len(data) // 2)])
        self.fail("write")
        return written

    def fsync(self, descriptor: int) -> None:
        self.fail("fsync")
        super().fsync(descriptor)

    def fail(self, call: str) -> None:
        if call == self.failing_call:
            raise OSError(errno.ENOSPC, "no space left")


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def disk(self) -> MemoryDisk:
        return MemoryDisk()

    @pytest.fixture
    def connect(self, disk: MemoryDisk) -> Connect:
        return lambda: MemoryStorage(disk)

    @pytest.fixture
    def remove_log(self, disk: MemoryDisk) -> RemoveLog:
        return disk.remove


class TestFaultyPersistence(StorageContract):
    @pytest.fixture
    def disk(self) -> MemoryDisk:
        return MemoryDisk()

    @pytest.fixture
    def store(self, disk: MemoryDisk) -> FaultyPersistence:
        return FaultyPersistence(MemoryStorage(disk))

    @pytest.fixture
    def connect(self, store: FaultyPersistence) -> Connect:
        return lambda: store

    @pytest.fixture
    def remove_log(self, disk: MemoryDisk) -> RemoveLog:
        return disk.remove

    @pytest.fixture
    def break_writes(self, store: FaultyPersistence) -> BreakWrites:
        @contextmanager
        def broken() -> Iterator[None]:
            store.fail_writes(None)
            yield
            store.heal()

        return broken


class TestZstdStorage(StorageContract):
    @pytest.fixture(params=["write", "fsync"])
    def failing_call(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def files(self) -> FailingFiles:
        return FailingFiles()

    @pytest.fixture
    def connect(self, tmp_path: Path, files: FailingFiles) -> Connect:
        return lambda: JsonlStorage(tmp_path, files=files)

    @pytest.fixture
    def remove_log(self, tmp_path: Path) -> RemoveLog:
        def remove(session_id: str) -> None:
            (log,) = tmp_path.rglob(f"{session_id}/session.jsonl*")
            log.unlink()

        return remove

    @pytest.fixture
    def break_writes(self, files: FailingFiles, failing_call: str) -> BreakWrites:
        @contextmanager
        def broken() -> Iterator[None]:
            files.failing_call = failing_call
            yield
            files.failing_call = ""

        return broken


class TestPlainStorage(TestZstdStorage):
    @pytest.fixture
    def connect(self, tmp_path: Path, files: FailingFiles) -> Connect:
        return lambda: JsonlStorage(tmp_path, compression="none", files=files)
