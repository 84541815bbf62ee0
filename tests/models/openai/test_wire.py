from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.log.messages import Message, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock
from watchbell.models.openai._wire import wire_messages


def message(role: Literal["user", "assistant"], *blocks: Any) -> Message:
    content = tuple(TextBlock(block) if isinstance(block, str) else block for block in blocks)
    return Message("m", role, {"kind": "user"}, content)


def user(*blocks: Any) -> Message:
    return message("user", *blocks)


def assistant(*blocks: Any) -> Message:
    return message("assistant", *blocks)


def called(call_id: str, arguments: str = "{}", name: str = "ring") -> ToolCallBlock:
    return ToolCallBlock(call_id, name, arguments)


def result(call_id: str, text: str) -> Message:
    return user(ToolResultBlock(call_id, (TextBlock(text),)))


def shape(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(each["role"], each.get("tool_call_id") or each["content"]) for each in messages]


def test_user_messages_in_a_row_are_one_on_the_wire_alone() -> None:
    conversation = [user("one"), user("two"), assistant("ok"), user("three")]
    assert shape(wire_messages("Be brief.", conversation)) == [
        ("system", "Be brief."),
        ("user", "one\n\ntwo"),
        ("assistant", "ok"),
        ("user", "three"),
    ]
    assert len(conversation) == 4


def test_every_call_is_followed_by_its_result_in_the_order_of_the_calls() -> None:
    conversation = [
        user("go"),
        assistant("so", called("a"), called("b")),
        result("b", "B"),
        user("by the way"),
        result("a", "A"),
        assistant("done"),
        user("thanks"),
    ]
    wire = wire_messages(None, conversation)
    assert shape(wire) == [
        ("user", "go"),
        ("assistant", "so"),
        ("tool", "a"),
        ("tool", "b"),
        ("user", "by the way"),
        ("assistant", "done"),
        ("user", "thanks"),
    ]
    assert [each["content"] for each in wire if each["role"] == "tool"] == ["A", "B"]


def test_a_call_has_its_one_result_and_a_result_has_its_call() -> None:
    wire = wire_messages(None, [result("lost", "?"), user("go"), assistant(called("a"))])
    assert shape(wire) == [("user", "go"), ("assistant", None), ("tool", "a")]
    assert "interrupted" in wire[-1]["content"]


def test_calls_of_one_id_are_told_apart() -> None:
    wire = wire_messages(
        None, [user("go"), assistant(called("a"), called("a")), result("a", "1"), result("a", "2")]
    )
    assert [call["id"] for call in wire[1]["tool_calls"]] == ["a", "a-2"]
    assert [(each["tool_call_id"], each["content"]) for each in wire[2:]] == [("a", "1"), ("a-2", "2")]


def test_a_result_with_blocks_unknown_here_still_answers_its_call() -> None:
    kept = {
        "type": "tool-result",
        "toolCallId": "a",
        "content": [{"type": "image", "url": "x"}, {"type": "text", "text": "seen"}],
    }
    wire = wire_messages(None, [user("go"), assistant(called("a")), user(kept)])
    assert wire[-1] == {"role": "tool", "tool_call_id": "a", "content": "seen"}


def test_reasoning_unknown_blocks_and_empty_messages_are_left_out() -> None:
    conversation = [
        user("go", {"type": "image", "url": "x"}),
        assistant(ReasoningBlock("hm")),
        assistant(),
        user({"type": "file"}),
        user(""),
    ]
    assert wire_messages(None, conversation) == [{"role": "user", "content": "go"}]


def test_a_conversation_that_ends_with_half_an_answer_asks_for_another() -> None:
    wire = wire_messages(None, [user("go"), assistant("Half an ans")])
    assert wire[-1]["role"] == "user"
    assert "again" in wire[-1]["content"]


@pytest.mark.parametrize("text", ["", " ", "null"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    wire = wire_messages(None, [assistant(called("a", text))])
    assert wire[0]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("text", ['{"prompt":"p","after_seconds":600}', ' {"a": [1, "\u2028"]}\n', "{}"])
def test_arguments_that_are_an_object_are_sent_as_they_were(text: str) -> None:
    wire = wire_messages(None, [assistant(called("a", text))])
    assert wire[0]["tool_calls"][0]["function"]["arguments"] == text


@pytest.mark.parametrize(
    "text",
    ['{"prompt":"p","after_sec', '{"a":6} x', "[]", '"text"', '{"a":NaN}', '{"a":"\n"}', "[" * 100_000, "6"],
)
def test_arguments_that_are_no_object_are_quoted_in_one(text: str) -> None:
    wire = wire_messages(None, [assistant(called("a", text))])
    assert json.loads(wire[0]["tool_calls"][0]["function"]["arguments"]) == {"invalid_arguments": text}


def test_half_a_surrogate_pair_is_replaced_and_a_pair_is_its_character() -> None:
    arguments = '{"prompt":"\\ud83d","b":"\\ud83d\\ude00","c":"x\udc00"}'
    conversation = [user("a\ud83d", "b\ud83d\ude00"), assistant(called("i\udc00", arguments)), user("z")]
    wire = wire_messages("s\ud800", conversation)
    assert wire[0]["content"] == "s\ufffd"
    assert wire[1]["content"] == "a\ufffdb\U0001f600"
    call = wire[2]["tool_calls"][0]
    assert call["id"] == wire[3]["tool_call_id"] == "i\ufffd"
    assert json.loads(call["function"]["arguments"]) == {
        "prompt": "\ufffd",
        "b": "\U0001f600",
        "c": "x\ufffd",
    }


@pytest.mark.parametrize(("name", "sent"), [("", "unknown"), ("a b!", "a_b_"), ("x" * 70, "x" * 64)])
def test_a_tool_name_that_no_provider_takes_is_mended(name: str, sent: str) -> None:
    wire = wire_messages(None, [assistant(called("a", name=name))])
    assert wire[0]["tool_calls"][0]["function"]["name"] == sent


_any_text = st.text(st.characters(categories=None), max_size=8)
_blocks = st.one_of(
    _any_text.map(TextBlock),
    st.builds(ToolCallBlock, st.sampled_from("abc"), _any_text, _any_text),
    st.builds(ToolResultBlock, st.sampled_from("abc"), st.tuples(_any_text.map(TextBlock))),
    st.just({"type": "image"}),
)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.lists(_blocks, max_size=3)), max_size=8))
def test_whatever_the_conversation_the_wire_is_valid(drawn: list[tuple[Any, list[Any]]]) -> None:
    wire = wire_messages(None, [message(role, *blocks) for role, blocks in drawn])
    json.dumps(wire, ensure_ascii=False).encode()
    open_calls: list[str] = []
    before = ""
    for each in wire:
        if each["role"] == "tool":
            assert each["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls
            assert each["role"] != before
            open_calls = [call["id"] for call in each.get("tool_calls", [])]
            assert each["content"] or open_calls
            for call in each.get("tool_calls", []):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
        before = each["role"]
    assert not open_calls
    assert before != "assistant"
