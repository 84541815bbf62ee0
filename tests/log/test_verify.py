from __future__ import annotations

from typing import Any

import pytest

from watchbell.errors import CorruptLogError
from watchbell.log.codec import decode_rows, encode_rows
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.log.verify import verify_events

PERSON = {"kind": "user"}
UNNAMED = {"provider": "", "model": "m"}
MODEL = {"kind": "model", "provider": "p", "model": "m"}


def message(
    source: dict[str, Any] = PERSON,
    *blocks: dict[str, Any],
    id: str = "m",  # noqa: A002 - the format's word
    role: str = "user",
) -> Any:
    return {"id": id, "role": role, "source": source, "content": list(blocks)}


def turn(kind: str, number: int = 1) -> Draft:
    extra = {"reason": {"kind": "completed"}} if kind == "end" else {}
    return Draft(f"turn/{kind}", {"turn": number, **extra})


def step(kind: str, number: int = 1, of: int = 1) -> Draft:
    return Draft(f"step/{kind}", {"turn": of, "step": number})


def insert(*ids: str, target: str = "next-turn", start: int = 0) -> Draft:
    inserted = [message(id=each) for each in ids]
    return Draft("agent/inbox/spliced", {"target": target, "start": start, "inserted": inserted})


def remove(count: int = 1, target: str = "next-turn", start: int = 0) -> Draft:
    return Draft(
        "agent/inbox/spliced", {"target": target, "start": start, "removedCount": count, "inserted": []}
    )


def user(**keys: Any) -> Draft:
    return Draft("user/message", message(**keys), None, "append")


def answer(*call_ids: str) -> Draft:
    blocks = [{"type": "tool-call", "id": each, "name": "t", "arguments": "{}"} for each in call_ids]
    data = {"turn": 1, "step": 1, "message": message(MODEL, *blocks, role="assistant")}
    return Draft("assistant/message", data, (), "append")


def called(call_id: str) -> Draft:
    return Draft("tool/call", {"turn": 1, "step": 1, "callId": call_id, "name": "t", "arguments": "{}"})


def result(call_id: str, *cites: int, block_id: str | None = None, blocks: int = 1) -> Draft:
    block = {"type": "tool-result", "toolCallId": block_id or call_id, "content": []}
    data = {
        "turn": 1,
        "step": 1,
        "message": message({"kind": "tool", "callId": call_id}, *[block] * blocks),
    }
    return Draft("tool/result", data, cites or None, "append")


def chunk(text: str = "x", of: int = 1) -> Draft:
    data = {"turn": of, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": text}}
    return Draft("assistant/chunk", data)


def verify(*drafts: Draft, owned_from: int = 0) -> int | None:
    """Check the events as a reader has them: encoded, packed and decoded."""
    rows = decode_rows(encode_rows(draft.at(seq, 0) for seq, draft in enumerate(drafts)), 0)
    return verify_events(EventLog(rows), owned_from)


TALK = [insert("m"), turn("start"), remove(), step("start"), user()]
CALLED = [*TALK, answer("a"), called("a")]


def test_an_empty_log_and_a_whole_conversation_are_sound() -> None:
    assert verify() is None
    steps = [*CALLED, result("a", 6), step("end"), step("start", 2), step("end", 2)]
    assert verify(*steps, turn("end"), turn("start", 2), turn("end", 2)) is None


def test_an_open_last_turn_is_named() -> None:
    assert verify(*TALK) == 1
    assert verify(*CALLED) == 1
    assert verify(*TALK, chunk(), chunk(), chunk(), chunk("\ud83d")) == 1


def test_a_call_that_was_never_made_may_be_answered_without_citing_it() -> None:
    assert verify(*TALK, answer("a", "b"), result("b"), result("a"), step("end"), turn("end")) is None


def test_an_id_of_a_call_may_come_again_in_a_later_step() -> None:
    second = [step("start", 2)]
    again = Draft("tool/call", {"turn": 1, "step": 2, "callId": "a", "name": "t", "arguments": "{}"})
    message_again = answer("a").data | {"step": 2}
    assert (
        verify(
            *CALLED, result("a", 6), step("end"), *second, Draft("assistant/message", message_again), again
        )
        == 1
    )


def test_events_of_other_programs_and_of_schedule_may_stand_anywhere() -> None:
    loose = [Draft("schedule/change", {}), Draft("session/title", 1), Draft("x/y", None, ignorable=True)]
    assert verify(*loose, turn("start"), *loose, turn("end"), *loose) is None


def test_a_summary_takes_the_place_of_messages_wherever_it_stands() -> None:
    summary = (
        '{"type":"user/message","seq":8,"time":0,"data":{"id":"s","role":"user","source":{"kind":"plugin",'
        '"plugin":"compaction"},"content":[]},"surfaceOp":{"op":"replace","start":%d,"end":%d}}\n'
    )
    events = [*TALK, user(id="n"), step("end"), turn("end")]
    lines = encode_rows(draft.at(seq, 0) for seq, draft in enumerate(events))
    assert verify_events(EventLog(decode_rows(lines + (summary % (0, 2)).encode(), 0))) is None
    with pytest.raises(CorruptLogError, match="messages 1 to 3 are not there to replace"):
        verify_events(EventLog(decode_rows(lines + (summary % (1, 3)).encode(), 0)))


def test_a_fork_s_inbox_begins_with_what_it_owns() -> None:
    inherited = [insert("m", "n")]
    assert verify(*inherited, insert("m"), owned_from=1) is None
    with pytest.raises(CorruptLogError, match="is empty or taken"):
        verify(*inherited, insert("m"))
    with pytest.raises(CorruptLogError, match="its seed has 2 events, the log 1"):
        verify(*inherited, owned_from=2)


@pytest.mark.parametrize(
    ("drafts", "why"),
    [
        ([turn("start", 2)], "event 0 .turn/start.: expected turn 1, found 2"),
        ([turn("start"), turn("start", 2)], "turn 1 is still open"),
        ([turn("start"), Draft("session/end-seed", {})], "turn 1 is still open"),
        ([turn("end")], "outside any turn"),
        ([turn("start"), turn("end", 2)], "belongs to turn 2, and turn 1 is open"),
        ([turn("start"), step("start"), turn("end")], "step 1 is still open"),
        ([turn("start"), turn("end"), turn("start", 3)], "expected turn 2, found 3"),
        ([step("start")], "outside any turn"),
        ([turn("start"), step("start", 2)], "expected step 1, found 2"),
        ([turn("start"), step("start"), step("start", 2)], "step 1 is still open"),
        ([turn("start"), step("start"), step("end", 2)], "belongs to step 2, which is not open"),
        ([turn("start"), step("end")], "belongs to step 1, which is not open"),
        ([turn("start"), Draft("step/start", {"turn": 1})], "expected step 1, found 0"),
        ([turn("start"), Draft("step/start", {"turn": "1"})], "Expected `int`"),
        ([chunk()], "outside any turn"),
        ([chunk(), chunk(), chunk()], "event 0 .assistant/chunk.: it stands outside any turn"),
        ([turn("start"), step("start"), chunk(of=2)], "belongs to turn 2"),
        ([user()], "outside any step"),
        ([turn("start"), user()], "outside any step"),
        ([*TALK, user(source={})], "required field `kind`"),
        ([*TALK, user(source={"kind": ""})], "who wrote it"),
        ([*TALK, user(source={"kind": "model", "provider": "p"})], "which model wrote it"),
        ([*TALK, user(role="system")], "Invalid enum value"),
        ([*TALK, Draft("user/message", message(), (5,), "append")], "comes later"),
        ([*CALLED, step("end")], "call 'a' has no result"),
        ([*TALK, called("a")], "was not asked for"),
        ([*CALLED, called("a")], "made already"),
        ([*TALK, result("a")], "waits for no result"),
        ([*CALLED, result("a", 6), result("a", 6)], "waits for no result"),
        ([*CALLED, result("a", 5)], "does not cite call 'a'"),
        ([*CALLED, result("a", 6, block_id="b")], "not one result of the call"),
        ([*CALLED, result("a", 6, blocks=2)], "not one result of the call"),
        ([*CALLED, result("a", 6, blocks=0)], "not one result of the call"),
        ([remove()], "takes messages 0 to 1 of 0 pending"),
        ([insert("m"), remove(start=1)], "takes messages 1 to 2 of 1 pending"),
        ([insert("m"), remove(-1)], "takes messages 0 to -1"),
        ([insert("m"), insert("m", target="next-step")], "is empty or taken"),
        ([insert("")], "is empty or taken"),
        ([insert("m", target="later")], "Invalid enum value"),
        ([insert("m", start=1)], "takes messages 1 to 1 of 0"),
        ([Draft("request/header", {})], "outside any turn"),
        ([turn("start"), Draft("request/header", {"header": {"config": UNNAMED}})], "empty"),
        ([turn("start"), Draft("request/header", {"header": 1})], "Expected `object`"),
        ([Draft("request/context", {"provider": "p", "model": "m"})], "outside any turn"),
        ([turn("start"), Draft("request/context", {"provider": "p", "model": ""})], "empty"),
    ],
)  # fmt: skip
def test_what_cannot_follow_is_damage_and_named_by_its_seq(drafts: list[Draft], why: str) -> None:
    with pytest.raises(CorruptLogError, match=why):
        verify(*drafts)
