"""Logs that Watchbell itself wrote are read as they were meant, and would be written the same today."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.compat.make_fixtures import FIXTURES, write_fixtures
from tests.logs import active, picture, read, run
from tests.program import quiet, require_valid
from watchbell.cli.commands.verify import verify_log
from watchbell.host import Host
from watchbell.reminders.state import ScheduleState
from watchbell.storage.jsonl._frames import Part, read_frames
from watchbell.storage.jsonl.layout import LOG_NAMES

LOGS = sorted(str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("session.jsonl*"))
EXPECTED: dict[str, dict[str, Any]] = {
    "talk": {"active": ["schedule-2"], "seen": 2},
    "fork": {"active": [], "seen": 1},
    "fork of fork": {"active": ["schedule-1"], "seen": 1},
    "failed turns ~ é/..": {"active": [], "seen": 0},
    "interrupted": {"active": ["schedule-1"], "seen": 1},
}


@pytest.fixture(scope="module")
def written_now(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("written") / "fixtures"
    write_fixtures(target, tmp_path_factory.mktemp("homes"))
    return target


def frames_of(path: Path) -> list[bytes]:
    """The text of each frame (how tightly zstd packs it may change with its version), or of a plain log."""
    data = path.read_bytes()
    if path.name == LOG_NAMES["none"]:
        return [data]
    frames = [b""]
    for part in read_frames(io.BytesIO(data), len(data)):
        assert isinstance(part, Part)
        frames[-1] += part.lines
        if part.is_last:
            frames.append(b"")
    return frames


def without_tools(text: bytes) -> str:
    """The lines, without what the model was told of its tools: that is no part of the format."""
    return re.sub(r'"tools":\[\{"name":"schedule_create".*?\}\]\},"reason"', '"reason"', text.decode())


def session_of(name: str) -> str:
    path = FIXTURES / name
    return str(verify_log(path).session)


def test_there_is_each_session_in_both_encodings() -> None:
    for kind in ("zstd", "none"):
        assert sorted(session_of(name) for name in LOGS if name.startswith(kind)) == sorted(EXPECTED)


@pytest.mark.parametrize("name", LOGS)
def test_it_is_read_and_nothing_is_changed(name: str) -> None:
    before = picture(FIXTURES)
    verdict = verify_log(FIXTURES / name)
    assert verdict.state == ("interrupted" if verdict.session == "interrupted" else "sound")
    assert picture(FIXTURES) == before


@pytest.mark.parametrize("name", LOGS)
def test_todays_code_writes_the_same_bytes(name: str, written_now: Path) -> None:
    then, now = frames_of(FIXTURES / name), frames_of(written_now / name)
    assert [without_tools(text) for text in now] == [without_tools(text) for text in then]


@pytest.mark.parametrize("name", LOGS)
def test_both_encodings_hold_the_same_lines(name: str) -> None:
    if not name.startswith("zstd"):
        return
    plain = FIXTURES / "none" / Path(name).relative_to("zstd").with_name(LOG_NAMES["none"])
    assert b"".join(frames_of(FIXTURES / name)) == plain.read_bytes()


@pytest.mark.parametrize("name", LOGS)
def test_it_is_resumed_and_goes_on(name: str, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / name.split("/")[0], tmp_path / "sessions")
    session_id = session_of(name)
    before = read(tmp_path, session_id)
    state = ScheduleState(before.header.owned_from)
    state.advance(before.events)
    expected = EXPECTED[session_id]
    assert [record.id for record in state.records] == expected["active"]
    assert len(state.reminders.seen) == expected["seen"]

    async def talk(program: Host) -> None:
        agent = await program.agents.resume(session_id)
        agent.followup("And now?")
        await quiet(agent)

    run(tmp_path, talk, start="2026-12-01T00:10:00.000Z")
    after = list(read(tmp_path, session_id).events)
    assert after[: len(before.events)] == list(before.events)
    require_valid(after, before.header.owned_from)
    assert "And now?" in json.dumps([event.data for event in after[len(before.events) :]])
    assert active(tmp_path, session_id) == expected["active"]
