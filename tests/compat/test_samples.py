"""Logs that DeepSeek Harness wrote load as its own replay says, and go on as they were."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.logs import ask, lines_of, picture, read, run
from tests.program import quiet, types, user_texts
from watchbell.cli.commands.verify import verify_log
from watchbell.host import Host
from watchbell.log.codec import encode_header, encode_rows
from watchbell.log.verify import verify_events
from watchbell.reminders.records import render_record
from watchbell.reminders.state import ScheduleState

SAMPLES = Path(os.environ.get("WATCHBELL_SAMPLES", "/nonexistent"))
MANIFEST = SAMPLES / "manifest.json"
EXPECTED: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_bytes()) if MANIFEST.exists() else {}

pytestmark = pytest.mark.skipif(not EXPECTED, reason="WATCHBELL_SAMPLES does not name the sample logs")


@pytest.fixture(params=sorted(EXPECTED))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, name: str) -> Path:
    """A home with the samples of one encoding, that the test may write to."""
    shutil.copytree(SAMPLES / name.split("/")[0], tmp_path / "sessions")
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path


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


def test_its_reminders_are_those_of_its_own_replay(home: Path, name: str) -> None:
    stored = read(home, EXPECTED[name]["id"])
    state = ScheduleState(stored.header.owned_from)
    state.advance(stored.events)
    assert [render_record(record) for record in state.records] == EXPECTED[name]["active"]
    assert sorted(state.reminders.seen) == EXPECTED[name]["seenIds"]


def test_it_is_sound_or_interrupted_and_nothing_else(name: str) -> None:
    before = picture(SAMPLES)
    expected = EXPECTED[name]
    verdict = verify_log(SAMPLES / name)
    assert verdict.state == ("interrupted" if expected.get("openTurn") else "sound")
    assert (verdict.session, verdict.events) == (expected["id"], expected["events"])
    assert picture(SAMPLES) == before


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


def test_an_agent_resumes_it_and_goes_on_with_a_turn(home: Path, name: str) -> None:
    expected = EXPECTED[name]
    ids = [record["id"] for record in expected["active"]]

    async def talk(program: Host) -> None:
        agent = await program.agents.resume(expected["id"])
        assert [view["id"] for view in await ask(agent, "list")] == ids
        await quiet(agent)
        agent.followup("good morning")
        await quiet(agent)

    # Before the earliest target of them all, so that nothing but the turn happens.
    run(home, talk, start="2026-11-30T11:00:30.000Z", script=["good morning to you"] * 2)
    path = home / "sessions" / name.split("/", 1)[1]
    assert path.read_bytes().startswith((SAMPLES / name).read_bytes())
    events = list(read(home, expected["id"]).events)
    assert verify_events(read(home, expected["id"]).events, expected["seedLength"] or 0) is None
    added = events[expected["events"] :]
    assert user_texts(added) == ["good morning"]
    assert types(added)[-1] == "turn/end"
    assert [event.type for event in added].count("session/end-seed") == 1
    headers = [event.data["reason"] for event in added if event.type == "request/header"]
    assert headers == ["resume"]


def test_what_is_overdue_in_it_is_delivered_once_and_what_lies_ahead_stays(home: Path, name: str) -> None:
    expected = EXPECTED[name]
    overdue = [record["id"] for record in expected["active"] if record["scheduledAt"] < "2027"]

    async def wait(program: Host) -> None:
        await quiet(await program.agents.resume(expected["id"]))

    for _ in range(2):
        run(home, wait, start="2026-12-01T00:00:00.000Z")
    stored = read(home, expected["id"])
    added = list(stored.events)[expected["events"] :]
    sources = [event.data["source"] for event in added if event.type == "user/message"]
    assert sorted(item["id"] for source in sources for item in source.get("reminders", [])) == overdue
    state = ScheduleState(stored.header.owned_from)
    state.advance(stored.events)
    kept = [r["id"] for r in expected["active"] if r["kind"] == "every" or r["id"] not in overdue]
    assert [record.id for record in state.records] == kept


def test_an_interrupted_turn_is_closed_at_the_time_of_its_last_event(home: Path, name: str) -> None:
    expected = EXPECTED[name]
    if not expected.get("openTurn"):
        return

    async def resume(program: Host) -> None:
        await quiet(await program.agents.resume(expected["id"]))

    run(home, resume, start="2026-11-30T11:00:30.000Z")
    events = list(read(home, expected["id"]).events)
    last, step_end, turn_end, end_seed = events[expected["events"] - 1 :][:4]
    assert [event.type for event in (step_end, turn_end, end_seed)] == [
        "step/end",
        "turn/end",
        "session/end-seed",
    ]
    assert step_end.data == {"turn": 1, "step": 2}
    assert turn_end.data == {"turn": 1, "reason": {"kind": "interrupted"}}
    assert step_end.time == turn_end.time == last.time


def test_a_fork_of_it_has_its_conversation_and_none_of_its_reminders(home: Path, name: str) -> None:
    expected = EXPECTED[name]

    async def fork(program: Host) -> list[Any]:
        child = await program.agents.fork(expected["id"], "child")
        grandchild = await program.agents.fork(child, "grandchild")
        created = await ask(grandchild, "create", prompt="p", after_seconds=600)
        return [await ask(child, "list"), created["id"]]

    assert run(home, fork, start="2026-11-30T11:00:30.000Z") == [[], "schedule-1"]
    child, grandchild = read(home, "child"), read(home, "grandchild")
    assert child.header.parent_session == expected["id"]
    assert child.header.seed_length == expected["events"]
    assert grandchild.header.parent_session == "child"
    assert list(child.events)[: expected["events"]] == list(read(home, expected["id"]).events)
    for stored in (child, grandchild):
        assert verify_events(stored.events, stored.header.owned_from) is None
