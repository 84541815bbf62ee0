"""The transcript is the conversation that the log tells, compaction included."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from watchbell.errors import CorruptLogError
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, TextBlock
from watchbell.log.payloads import surface_message
from watchbell.log.transcript import Transcript
from watchbell.log.values import encode_json


def said(seq: int, text: str, operation: Any = "append") -> Event:
    message = Message(f"m{seq}", "user", {"kind": "user"}, (TextBlock(text),))
    event = Draft("user/message", message, None, "append").at(seq, 0)
    return msgspec.structs.replace(event, surface_op=msgspec.Raw(encode_json(operation)))


def replace(start: int, end: int) -> dict[str, Any]:
    return {"op": "replace", "start": start, "end": end}


def texts(transcript: Transcript) -> list[str]:
    return [message.text for message in transcript.messages]


def test_messages_of_every_kind_stand_in_the_order_of_the_log() -> None:
    answer = {
        "turn": 1,
        "step": 1,
        "message": {
            "id": "a",
            "role": "assistant",
            "source": {"kind": "model", "provider": "p", "model": "m"},
            "content": [{"type": "text", "text": "two"}, {"type": "image", "url": "u"}],
        },
    }
    log = EventLog([said(0, "one"), Draft("turn/start", {"turn": 1}).at(1, 0)])
    log.extend([Draft("assistant/message", answer, (), "append").at(2, 0)])
    transcript = Transcript().advance(log)
    assert texts(transcript) == ["one", "two"]
    assert transcript.messages[1].content[1] == {"type": "image", "url": "u"}


def test_it_folds_only_what_is_new() -> None:
    log, transcript = EventLog([said(0, "one")]), Transcript()
    assert texts(transcript.advance(log)) == ["one"]
    log.extend([said(1, "two"), said(2, "three")])
    assert texts(transcript.advance(log)) == texts(transcript.advance(log)) == ["one", "two", "three"]


def test_an_event_without_an_operation_is_appended() -> None:
    event = msgspec.structs.replace(said(0, "one"), surface_op=msgspec.UNSET)
    assert texts(Transcript().advance(EventLog([event]))) == ["one"]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 2, ["sum", "c"]),
        (1, 3, ["a", "sum"]),
        (0, 3, ["sum"]),
        (1, 1, ["a", "sum", "b", "c"]),
        (3, 3, ["a", "b", "c", "sum"]),
    ],
)
def test_a_summary_takes_the_place_of_what_it_sums_up(start: int, end: int, expected: list[str]) -> None:
    log = EventLog([said(0, "a"), said(1, "b"), said(2, "c"), said(3, "sum", replace(start, end))])
    assert texts(Transcript().advance(log)) == expected


def test_a_second_summary_counts_in_the_transcript_as_it_stood() -> None:
    log = EventLog([said(0, "a"), said(1, "b"), said(2, "sum", replace(0, 2)), said(3, "c")])
    log.extend([said(4, "all", replace(0, 2))])
    assert texts(Transcript().advance(log)) == ["all"]


@pytest.mark.parametrize("operation", [replace(0, 2), replace(2, 1), replace(-1, 0)])
def test_a_replacement_of_what_is_not_there_is_damage(operation: Any) -> None:
    with pytest.raises(CorruptLogError, match="which are not there"):
        Transcript().advance(EventLog([said(0, "a"), said(1, "sum", operation)]))


@pytest.mark.parametrize("payload", [{}, {"message": None}, [], 7, {"message": {"id": "x"}}])
@pytest.mark.parametrize("of_type", ["user/message", "assistant/message", "tool/result"])
def test_an_event_that_holds_no_message_is_damage(of_type: str, payload: Any) -> None:
    event = Draft(of_type, payload).at(0, 0)
    with pytest.raises(CorruptLogError, match=f"event 0 \\({of_type}\\) holds no message"):
        surface_message(event)


@pytest.mark.parametrize("source", ['{"kind":"user","at":1e400}', '{"kind":"user","at":2,"at":1}'])
@pytest.mark.parametrize("early", ['"role":7,', ""])
def test_numbers_too_large_and_keys_that_stand_twice_are_read_as_javascript_reads_them(
    source: str, early: str
) -> None:
    text = f'{{"id":"m0",{early}"role":"user","source":{source},"content":[]}}'
    (message,) = (
        Transcript().advance(EventLog([Event("user/message", 0, 0, msgspec.Raw(text.encode()))])).messages
    )
    assert message.source["at"] in (None, 1)
    assert message.role == "user"
