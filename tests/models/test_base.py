from __future__ import annotations

import pytest

from watchbell.errors import ModelError
from watchbell.log.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    UsageChunk,
)
from watchbell.models.base import AnswerAssembler, ChatModel
from watchbell.offline.model import OfflineModel
from watchbell.testing.model import ScriptedModel


def assemble(*chunks: Chunk, taken: tuple[str, ...] = ()) -> AnswerAssembler:
    answer = AnswerAssembler(taken)
    for chunk in chunks:
        answer.add(chunk)
    return answer


def piece(index: int, call_id: str, text: str, name: str = "t") -> ToolCallDelta:
    return ToolCallDelta(index=index, id=call_id, name=name, arguments_delta=text)


def whole_call(index: int, call_id: str) -> tuple[Chunk, ...]:
    return (piece(index, call_id, "{}"), BlockEnd(index, ToolCallBlock(call_id, "t", "{}")))


def test_the_models_that_come_with_watchbell_keep_the_protocol() -> None:
    assert isinstance(OfflineModel(), ChatModel)
    assert isinstance(ScriptedModel(), ChatModel)


def test_chunks_fold_into_blocks_by_index_although_blocks_overlap() -> None:
    answer = assemble(
        BlockStart(1, "text"),
        TextDelta(1, "Hel"),
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "Think."),
        TextDelta(1, "lo"),
        BlockEnd(1, TextBlock("Hello")),
        piece(2, "a", '{"x":'),
        BlockEnd(0, ReasoningBlock("Think.")),
        piece(2, "a", "1}"),
        BlockEnd(2, ToolCallBlock("a", "t", '{"x":1}')),
        UsageChunk({"inputTokens": 3}),
        Finish(FinishReason("tool-calls")),
    )
    assert answer.blocks() == (
        ReasoningBlock("Think."),
        TextBlock("Hello"),
        ToolCallBlock("a", "t", '{"x":1}'),
    )
    assert answer.tool_calls() == (ToolCallBlock("a", "t", '{"x":1}'),)
    assert answer.usage == {"inputTokens": 3}
    assert answer.finish == FinishReason("tool-calls")


def test_an_answer_that_was_cut_off_keeps_its_text_and_no_half_tool_call() -> None:
    answer = assemble(ReasoningDelta(0, "Hm"), TextDelta(1, "Hel"), piece(2, "a", '{"x'))
    assert answer.blocks() == (ReasoningBlock("Hm"), TextBlock("Hel"))
    assert answer.tool_calls() == ()
    assert answer.finish is None


def test_an_empty_block_is_left_out() -> None:
    assert assemble(BlockStart(0, "text"), BlockEnd(0, TextBlock(""))).blocks() == ()


def test_repeated_and_empty_call_ids_are_made_unique_within_the_answer() -> None:
    given = ("a", "a", "a-2", "", "", "call")
    answer = assemble(*(chunk for index, call_id in enumerate(given) for chunk in whole_call(index, call_id)))
    ids = [call.id for call in answer.tool_calls()]
    assert ids == ["a", "a-2", "a-2-2", "call", "call-2", "call-3"]


def test_ids_that_are_taken_elsewhere_are_not_used_again() -> None:
    answer = assemble(*whole_call(0, "a"), *whole_call(1, ""), taken=("a", "call"))
    assert [call.id for call in answer.tool_calls()] == ["a-2", "call-2"]


def test_a_chunk_comes_back_with_the_id_that_the_message_will_have() -> None:
    answer = assemble(*whole_call(0, "a"))
    assert answer.add(piece(1, "a", "{")) == piece(1, "a-2", "{")
    assert answer.add(piece(1, "", "}")) == piece(1, "a-2", "}")
    assert answer.add(BlockEnd(1, ToolCallBlock("a", "t", "{}"))) == BlockEnd(
        1, ToolCallBlock("a-2", "t", "{}")
    )
    text = TextDelta(2, "x")
    assert answer.add(text) is text


def test_a_call_that_comes_in_one_piece_counts() -> None:
    answer = assemble(BlockEnd(0, ToolCallBlock("a", "t", "{}")))
    assert answer.tool_calls() == (ToolCallBlock("a", "t", "{}"),)


@pytest.mark.parametrize(
    "chunks",
    [
        (Finish(FinishReason("stop")), TextDelta(0, "more")),
        (TextDelta(0, "x"), ReasoningDelta(0, "y")),
        (TextDelta(0, "x"), BlockEnd(0, TextBlock("x")), TextDelta(0, "y")),
        (BlockEnd(0, ToolResultBlock("a", ())),),
    ],
)
def test_a_stream_that_breaks_the_contract_is_an_error_of_the_model(chunks: tuple[Chunk, ...]) -> None:
    with pytest.raises(ModelError) as caught:
        assemble(*chunks)
    assert caught.value.code == "INVALID_STREAM"
