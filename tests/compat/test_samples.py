"""Logs that DeepSeek Harness wrote load as its own replay says, and are written as it writes them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import zstandard

from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.events import Draft, Event
from watchbell.storage.base import StoredLog
from watchbell.storage.jsonl import JsonlStorage

SAMPLES = Path(os.environ.get("WATCHBELL_SAMPLES", "/nonexistent"))
MANIFEST = SAMPLES / "manifest.json"
EXPECTED: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_bytes()) if MANIFEST.exists() else {}

pytestmark = pytest.mark.skipif(not EXPECTED, reason="WATCHBELL_SAMPLES does not name the sample logs")


@pytest.fixture(params=sorted(EXPECTED))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, name: str) -> Path:
    (tmp_path / "sessions").parent.mkdir(exist_ok=True)
    shutil.copytree(SAMPLES / name.split("/")[0], tmp_path / "sessions")
    return tmp_path


def read(home: Path, session_id: str) -> StoredLog:
    async def work() -> StoredLog:
        storage = JsonlStorage(home)
        stored = await storage.read(session_id)
        await storage.aclose()
        return stored

    return asyncio.run(work())


def lines_of(path: Path) -> list[bytes]:
    data = path.read_bytes()
    if path.suffix == ".zstd":
        data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return data.splitlines()


def test_it_loads_as_its_own_replay_says(home: Path, name: str) -> None:
    expected = EXPECTED[name]
    stored = read(home, expected["id"])
    assert stored.location == str(home / "sessions" / name.split("/", 1)[1])
    assert stored.torn is None
    assert stored.header.id == expected["id"]
    assert stored.header.parent_session == expected["parentSession"]
    assert stored.header.seed_length == expected["seedLength"]
    assert len(stored.events) == expected["events"]
    assert [event.seq for event in stored.events] == list(range(expected["events"]))
    assert sorted({event.type for event in stored.events}) == expected["types"]


def test_its_header_and_rows_are_written_again_as_they_were(home: Path, name: str) -> None:
    stored = read(home, EXPECTED[name]["id"])
    header, *rows = lines_of(SAMPLES / name)
    assert json.loads(encode_header(stored.header)) == json.loads(header)
    at = 0
    for row in rows:
        seq = json.loads(row).get("seq0", at)
        count = len(json.loads(row)["data"]["dt"]) + 1 if "seq0" in json.loads(row) else 1
        written = encode_rows(stored.events[seq : seq + count]).splitlines()
        assert [json.loads(line) for line in written] == [json.loads(row)]
        at += count
    assert at == len(stored.events)


def test_it_goes_on_where_it_ended(home: Path, name: str) -> None:
    async def work() -> list[Event]:
        storage = JsonlStorage(home)
        stored, writer = await storage.open(EXPECTED[name]["id"])
        added = [Draft("session/end-seed", {}).at(len(stored.events) + k, 0) for k in range(2)]
        await writer.write(added)
        await writer.close()
        await storage.aclose()
        return [*stored.events, *added]

    events = asyncio.run(work())
    path = home / "sessions" / name.split("/", 1)[1]
    assert path.read_bytes().startswith((SAMPLES / name).read_bytes())
    assert list(read(home, EXPECTED[name]["id"]).events) == events
