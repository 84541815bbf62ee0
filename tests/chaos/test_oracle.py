"""The judge of the killed hosts' logs finds each kind of broken promise, and only these."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.chaos.campaign import Campaign
from tests.chaos.oracle import KINDS, Promise, Verdict, has_torn_tail, judge, read_rows, to_ms

AT = "2026-12-01T00:01:00.000Z"
START = to_ms("2026-12-01T00:00:00.000Z")
Rows = list[dict[str, Any]]


def one_delivery() -> Rows:
    """A log of one reminder, delivered and answered."""
    source = {"kind": "plugin", "plugin": "schedule", "reminders": [{"id": "schedule-1", "occurrenceAt": AT}]}
    message = {"id": "bell", "role": "user", "source": source, "content": []}
    record = {"id": "schedule-1", "kind": "at", "prompt": "p", "scheduledAt": AT}
    answer = {"content": [{"type": "text", "text": "It is time."}]}
    rows = [
        (0, "schedule/change", {"version": 1, "operation": "create", "schedule": record}),
        (60, "schedule/change", {"version": 1, "operation": "dispatch", "id": "schedule-1"}),
        (60, "turn/start", {"turn": 1}),
        (60, "user/message", message),
        (61, "assistant/message", {"turn": 1, "step": 1, "message": answer}),
        (61, "turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
    ]
    return [{"type": kind, "time": START + second * 1000, "data": data} for second, kind, data in rows]


def verdict(rows: Rows, **promise: Any) -> Verdict:
    numbered = [{**row, "seq": seq} for seq, row in enumerate(rows)]
    promises = [Promise("schedule-1", AT, **promise)]
    return judge("s", [{"type": "session"}, *numbered], promises, START + 3_600_000)


def silence(rows: Rows, kind: str) -> Rows:
    rows[5]["data"]["reason"] = {"kind": kind, "reason": {"kind": "user"}}
    return [row for row in rows if row["type"] != "assistant/message"]


def without(rows: Rows, *indexes: int) -> Rows:
    return [row for index, row in enumerate(rows) if index not in indexes]


def early(rows: Rows) -> Rows:
    rows[1]["time"] = START + 59_999
    return rows


BROKEN: dict[str, tuple[str, Callable[[Rows], Rows]]] = {
    "a create that was answered is gone": ("lost", lambda rows: []),
    "a reminder is never decided": ("lost", lambda rows: rows[:1]),
    "a decided one never enters": ("lost", lambda rows: rows[:2]),
    "a message enters twice": ("doubled", lambda rows: [*rows, *rows[2:]]),
    "one is decided twice": ("doubled", lambda rows: [*rows[:2], *rows[1:]]),
    "the model never gets to see it": ("silent", lambda rows: silence(rows, "interrupted")),
    "it is decided early": ("early", early),
    "a message was never decided": ("invalid", lambda rows: without(rows, 1)),
    "a turn has no end": ("invalid", lambda rows: rows[:5]),
    "a row is strange": ("invalid", lambda rows: [*rows, {"type": "turn/end", "time": 0, "data": {}}]),
}


def test_a_whole_delivery_breaks_no_promise() -> None:
    assert verdict(one_delivery()) == Verdict(occurrences=1)


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_promise_is_found(what: str) -> None:
    kind, change = BROKEN[what]
    assert kind in {violation[0] for violation in verdict(change(one_delivery())).violations}


def test_a_turn_that_a_person_cancelled_is_not_silent() -> None:
    assert verdict(silence(one_delivery(), "aborted")).violations == []


def test_a_turn_is_given_up_after_three_times() -> None:
    rows = silence(one_delivery(), "interrupted")
    take_up = {"type": "watchbell/take-up", "time": START, "data": {"messageId": "bell"}}
    again = [take_up, rows[2], rows[4]]
    assert [v[0] for v in verdict(rows + 2 * again).violations] == ["silent"]
    assert verdict(rows + 3 * again) == Verdict(occurrences=1, interrupted=4, take_ups=3, given_up=1)


def test_a_delivery_after_its_time_is_late() -> None:
    assert verdict(one_delivery(), latest_ms=START + 60_000).violations == []
    assert [v[0] for v in verdict(one_delivery(), latest_ms=START + 59_999).violations] == ["late"]


def test_a_gap_in_the_numbers_is_found() -> None:
    rows = [{**row, "seq": seq} for seq, row in enumerate(one_delivery())]
    assert judge("s", [{}, *rows[:1], *rows[2:]], [], START).count("invalid") == 1


def test_packed_chunks_count_as_many_events_as_they_hold() -> None:
    chunks = {"type": "text-chunks", "seq0": 0, "time0": 0, "data": {"dt": [1, 1], "texts": ["a", "b", "c"]}}
    rows = [{}, chunks, {"type": "step/end", "seq": 3, "time": 9, "data": {}}]
    assert judge("s", rows, [], START).violations == []


def test_frames_are_read_up_to_a_torn_one(tmp_path: Path) -> None:
    log = tmp_path / "session.jsonl.zstd"
    frames = [zstandard.compress(json.dumps({"seq": seq}).encode() + b"\n") for seq in range(3)]
    log.write_bytes(b"".join(frames))
    assert not has_torn_tail(log)
    log.write_bytes(b"".join(frames)[:-1])
    assert has_torn_tail(log)
    assert read_rows(log) == [{"seq": 0}, {"seq": 1}]


def test_a_host_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, sessions=4, kills=3, seed="small")
    asyncio.run(campaign.run())
    broken = [kind for kind in KINDS if campaign.verdict.count(kind)]
    assert set(broken) <= {"late"}  # which a busy machine can be
    assert campaign.verdict.occurrences > 0
    assert campaign.count["kill"] == 3
