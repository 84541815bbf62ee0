"""Reasons and sources as structs, also those that other programs write."""

from __future__ import annotations

from typing import Any

import pytest

from watchbell.errors import CorruptLogError
from watchbell.log.event import Draft
from watchbell.log.messages import (
    Message,
    ModelSource,
    PersonSource,
    PluginSource,
    Source,
    ToolSource,
    UnknownSource,
)
from watchbell.log.payloads import (
    Aborted,
    AbortReason,
    Blocked,
    Completed,
    Failed,
    Interrupted,
    MaxTokens,
    OtherReason,
    Reason,
    TurnEnd,
    TurnFailure,
)


@pytest.mark.parametrize(
    ("value", "reason", "is_loss", "is_uncertainty"),
    [
        ({"kind": "completed"}, Completed(), False, False),
        ({"kind": "max-tokens"}, MaxTokens(), False, False),
        ({"kind": "blocked"}, Blocked(), False, False),
        ({"kind": "interrupted"}, Interrupted(), True, False),
        (
            {"kind": "aborted", "reason": {"kind": "user", "by": "x"}},
            Aborted(AbortReason("user")),
            False,
            False,
        ),
        ({"kind": "aborted", "reason": {"kind": "disposed"}}, Aborted(AbortReason("disposed")), True, False),
        (
            {"kind": "error", "error": {"message": "m", "code": "C", "status": 429, "requestId": "r"}},
            Failed(TurnFailure("m", "C", 429, request_id="r")),
            False,
            False,
        ),
        (
            {"kind": "error", "error": {"message": "m", "code": "PERSISTENCE_UNCERTAIN"}},
            Failed(TurnFailure("m", "PERSISTENCE_UNCERTAIN")),
            False,
            True,
        ),
        ({"kind": "aborted", "reason": {"kind": "gone"}}, OtherReason("aborted"), False, False),
        ({"kind": "out-of-money", "left": 0}, OtherReason("out-of-money"), False, False),
    ],
)
def test_a_turns_end_says_why(value: Any, reason: Reason, *, is_loss: bool, is_uncertainty: bool) -> None:
    read = Draft("turn/end", {"turn": 1, "reason": value}).at(0, 0).decode(TurnEnd).reason
    assert (read, read.is_loss, read.is_uncertainty) == (reason, is_loss, is_uncertainty)


@pytest.mark.parametrize("value", [None, "completed", {}, {"kind": 1}])
def test_an_end_without_a_kind_of_reason_is_corrupt(value: Any) -> None:
    with pytest.raises(CorruptLogError, match=r"event 7 \(turn/end\) is malformed"):
        Draft("turn/end", {"turn": 1, "reason": value}).at(7, 0).decode(TurnEnd)


def test_a_reason_is_written_in_the_order_of_the_format() -> None:
    failure = TurnFailure("m", "C", 500, 3000, "r")
    assert bytes(Draft("turn/end", TurnEnd(1, Failed(failure))).at(0, 0).raw) == (
        b'{"turn":1,"reason":{"kind":"error","error":{"message":"m","code":"C","status":500,'
        b'"providerRetryAfterMs":3000,"requestId":"r"}}}'
    )


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ({"kind": "user"}, PersonSource()),
        ({"kind": "user", "timeZone": "Europe/Berlin", "name": "Ann"}, PersonSource("Europe/Berlin")),
        ({"kind": "user", "timeZone": 1}, PersonSource()),
        ({"kind": "plugin", "plugin": "p", "retained": True, "x": 1}, PluginSource("p", retained=True)),
        ({"kind": "plugin", "plugin": "p", "retained": "yes"}, PluginSource("p")),
        ({"kind": "model", "provider": "p", "model": "m"}, ModelSource("p", "m")),
        ({"kind": "tool", "callId": "c"}, ToolSource("c")),
        ({"kind": "tool"}, UnknownSource("tool")),
        ({"kind": "wire"}, UnknownSource("wire")),
        ({}, UnknownSource()),
    ],
)
def test_a_message_says_who_wrote_it(source: dict[str, Any], origin: Source) -> None:
    message = Message("m", "user", source, ())
    assert message.origin == origin
    assert message.is_from_person is isinstance(origin, PersonSource)
