"""The judge of final logs finds each kind of broken promise, and only these."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.judge.book import to_ms
from tests.judge.evidence import Create, Evidence
from tests.judge.judge import Verdict, judge
from tests.judge.reader import Rows, read_log, read_logs

AT = "2026-12-01T00:01:00.000Z"
START = to_ms("2026-12-01T00:00:00.000Z")
RECORD = {"id": "schedule-1", "kind": "at", "prompt": "p", "scheduledAt": AT}
SOURCE = {"kind": "plugin", "plugin": "schedule", "reminders": [{"id": "schedule-1", "occurrenceAt": AT}]}
BELL = {"id": "bell", "role": "user", "source": SOURCE, "content": []}
ANSWER = {"content": [{"type": "text", "text": "It is time."}]}


def row(second: int, kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "time": START + second * 1000, "data": data}


def splice(second: int, *inserted: Any, **data: Any) -> dict[str, Any]:
    return row(second, "agent/inbox/spliced", target="next-turn", start=0, inserted=[*inserted], **data)


def one_delivery() -> Rows:
    """A log of one reminder, delivered and answered."""
    return [
        row(0, "schedule/change", version=1, operation="create", schedule=RECORD),
        splice(60, BELL),
        row(60, "schedule/change", version=1, operation="dispatch", id="schedule-1"),
        row(60, "turn/start", turn=1),
        splice(60, removedCount=1),
        row(60, "step/start", turn=1, step=1),
        row(60, "user/message", **BELL),
        row(61, "assistant/message", turn=1, step=1, message=ANSWER),
        row(61, "step/end", turn=1, step=1),
        row(61, "turn/end", turn=1, reason={"kind": "completed"}),
    ]


def numbered(rows: Rows) -> Rows:
    return [{"type": "session", "id": "s"}, *({**row, "seq": seq} for seq, row in enumerate(rows))]


def verdict(rows: Rows, rested_ms: int = START + 3_600_000, **create: Any) -> Verdict:
    created = Create("s", "p", {**RECORD, "state": "scheduled"}, **create)
    return judge({"s": numbered(rows)}, Evidence(creates={"p": created}), rested_ms)


def kinds(verdict: Verdict) -> list[str]:
    return [violation.kind for violation in verdict.violations]


def silence(rows: Rows, kind: str) -> Rows:
    rows[9]["data"]["reason"] = {"kind": kind, "reason": {"kind": "user"}}
    return without(rows, 7)


def without(rows: Rows, *indexes: int) -> Rows:
    return [row for index, row in enumerate(rows) if index not in indexes]


def early(rows: Rows) -> Rows:
    rows[1]["time"] = START + 59_999
    return rows


BROKEN: dict[str, tuple[str, Callable[[Rows], Rows]]] = {
    "a create that was answered is gone": ("lost", lambda rows: []),
    "a reminder is never decided": ("lost", lambda rows: rows[:1]),
    "a decided one never enters": ("lost", lambda rows: rows[:3]),
    "a message enters twice": ("doubled", lambda rows: [*rows, *rows[3:]]),
    "one is decided twice": ("doubled", lambda rows: [*rows[:3], *rows[1:]]),
    "the model never gets to see it": ("silent", lambda rows: silence(rows, "interrupted")),
    "it is decided early": ("early", early),
    "a message was never decided": ("invalid", lambda rows: without(rows, 1, 2, 4)),
    "a turn has no end": ("invalid", lambda rows: rows[:9]),
    "a row is strange": ("invalid", lambda rows: [*rows, {"type": "turn/end", "time": 0, "data": {}}]),
}


def test_a_whole_delivery_breaks_no_promise() -> None:
    assert verdict(one_delivery()) == Verdict(occurrences=1)


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_promise_is_found(what: str) -> None:
    kind, change = BROKEN[what]
    assert kind in kinds(verdict(change(one_delivery())))


def test_a_confirmed_delete_that_is_not_in_the_log_is_found() -> None:
    evidence = Evidence(deleted=[("s", "schedule-1")])
    assert kinds(judge({"s": numbered(one_delivery())}, evidence, START)) == ["lost"]


def test_an_answered_create_without_any_log_is_lost() -> None:
    assert kinds(judge({}, Evidence(creates={"p": Create("s", "p", RECORD)}), START)) == ["lost"]


def test_a_turn_that_a_person_cancelled_is_not_silent() -> None:
    assert verdict(silence(one_delivery(), "aborted")).violations == []


def test_a_turn_is_given_up_after_three_times() -> None:
    rows = silence(one_delivery(), "interrupted")

    def taken_up(times: int) -> Rows:
        again = list(rows)
        for attempt in range(1, times + 1):
            again.append(row(62, "watchbell/take-up", messageId="bell", attempt=attempt))
            again.append(row(62, "turn/start", turn=attempt + 1))
            again.append(row(62, "turn/end", turn=attempt + 1, reason={"kind": "interrupted"}))
        return again

    assert kinds(verdict(taken_up(2))) == ["silent"]
    assert verdict(taken_up(3)) == Verdict(occurrences=1, interrupted=4, take_ups=3, given_up=1)


def test_a_delivery_after_its_time_is_late() -> None:
    assert verdict(one_delivery(), latest_ms=START + 60_000).violations == []
    assert kinds(verdict(one_delivery(), latest_ms=START + 59_999)) == ["late"]


def test_a_gap_in_the_numbers_is_found() -> None:
    rows = numbered(one_delivery())
    assert judge({"s": [*rows[:2], *rows[3:]]}, Evidence(), START).count("invalid") == 1


def test_packed_chunks_count_as_many_events_as_they_hold(tmp_path: Path) -> None:
    data = {"turn": 1, "step": 1, "index": 0, "dt": [1, 1], "texts": ["a", "b", "c"]}
    rows = numbered(one_delivery())
    rows.insert(8, {"type": "text-chunks", "seq0": 7, "time0": START, "data": data})
    for late in rows[9:]:
        late["seq"] += 3
    log = tmp_path / "sessions" / "_no-cwd" / "s" / "session.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    logs = read_logs(tmp_path)
    assert [row.get("seq") for row in logs["s"]] == [None, *range(13)]
    assert judge(logs, Evidence(), START) == Verdict(occurrences=1)


def test_frames_are_read_up_to_a_torn_one(tmp_path: Path) -> None:
    log = tmp_path / "session.jsonl.zstd"
    frames = [zstandard.compress(json.dumps({"seq": seq}).encode() + b"\n") for seq in range(3)]
    log.write_bytes(b"".join(frames))
    assert read_log(log) == ([{"seq": 0}, {"seq": 1}, {"seq": 2}], False)
    log.write_bytes(b"".join(frames)[:-1])
    assert read_log(log) == ([{"seq": 0}, {"seq": 1}], True)
