from __future__ import annotations

from pathlib import Path

import pytest

from watchbell.storage.jsonl import JsonlStorage
from watchbell.testing.storage_contract import Connect, StorageContract


class TestContract(StorageContract):
    @pytest.fixture(params=["zstd", "none"])
    def connect(self, tmp_path: Path, request: pytest.FixtureRequest) -> Connect:
        return lambda: JsonlStorage(tmp_path, compression=request.param)
