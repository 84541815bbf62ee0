"""What a model is to Watchbell: it answers a conversation with a stream of chunks, which fold into blocks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import UNSET

from watchbell.errors import ModelError
from watchbell.log.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    Message,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)
from watchbell.log.payloads import ToolSpec

AnswerBlock: TypeAlias = TextBlock | ReasoningBlock | ToolCallBlock
"""What an answer is made of."""

_Kind = Literal["text", "reasoning", "tool-call"]


class ModelRequest(msgspec.Struct, frozen=True):
    """One request for one answer.

    Attributes:
        system: The system prompt, None for none.
        messages: The conversation, oldest first. Two messages of one role may follow each other; an adapter
            whose provider refuses that merges them on the wire only. A tool result is a message of role
            `user` with one `ToolResultBlock`. Blocks of a kind unknown to Watchbell are plain dicts; an
            adapter leaves out what it cannot send.
        tools: What the model may call, by name.
    """

    system: str | None
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


class Answerer(Protocol):
    """Who answers: what the log says of a `ChatModel`, or of what stands in the place of one."""

    @property
    def provider(self) -> str:
        """Who serves the model, such as `deepseek`; not empty."""
        ...

    @property
    def model(self) -> str:
        """The model's name at its provider; not empty."""
        ...

    @property
    def context_window(self) -> int | None:
        """How many tokens a request and its answer may have together, None when unknown."""
        ...


@runtime_checkable
class ChatModel(Answerer, Protocol):
    """A model that can hold a conversation and call tools.

    It keeps nothing between requests: the whole conversation is in each of them.
    """

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer `request`, chunk by chunk, as the answer comes.

        Order: for each content block of the answer, with an index from 0 upward that is never used again, one
        `BlockStart`, its deltas, one `BlockEnd` with the whole block. Blocks may overlap. Then at most one
        `UsageChunk`; then exactly one `Finish`, last.

        Blocks: text comes in `TextDelta`, thought in `ReasoningDelta`. A tool call comes in one or more
        `ToolCallDelta`, each with the call's id, the first with its name; their pieces of argument text add
        up to what the model wrote, unparsed, and the block's `arguments` is the same text. An answer with
        tool calls finishes with kind `tool-calls`; one that hit a length limit with `max-tokens`; else
        `stop`.

        Failure: either a `Finish` of kind `error` whose `failure` is `{message, code, status?,
        providerRetryAfterMs?, requestId?}`, or a raised ModelError; callers treat both alike. Chunks that
        came before stay valid. A provider's own exceptions never pass. An adapter retries only what fails
        before the first chunk.

        Cancellation: when the task that reads is cancelled, or closes the generator (`aclose`), the request
        is dropped and its connection freed; CancelledError passes.

        Raises:
            ModelError: The answer failed.
        """
        ...


class _Part(msgspec.Struct, gc=False):
    kind: _Kind
    pieces: list[str]
    call_id: str | None = None
    name: str = ""
    ended: bool = False


class AnswerAssembler:
    """Folds the chunks of one answer into its content blocks.

    It may be read at any time, so that an answer that was cut off keeps what had come.

    Attributes:
        usage: The latest token counts, None when none came.
        finish: Why the answer ended, None while it has not.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """Start an answer.

        Args:
            taken: Tool-call ids that the answer must not use again, such as those of the turn so far.
        """
        self._ids = set(taken)
        self._parts: dict[int, _Part] = {}
        self.usage: dict[str, Any] | None = None
        self.finish: FinishReason | None = None

    def add(self, chunk: Chunk) -> Chunk:
        """Take in the next chunk and return it, with the tool call's id made unique.

        An id that is taken becomes `id-2`, `id-3` and so on; an empty one becomes `call`, `call-2` and so on.

        Raises:
            ModelError: The stream breaks the contract of `ChatModel.stream`.
        """
        if self.finish is not None:
            raise ModelError("the model went on after it had finished", code="INVALID_STREAM")
        match chunk:
            case Finish(reason=reason):
                self.finish = reason
            case UsageChunk(usage=usage):
                self.usage = usage
            case TextDelta(index=index, text=text):
                self._part(index, "text").pieces.append(text)
            case ReasoningDelta(index=index, text=text):
                self._part(index, "reasoning").pieces.append(text)
            case ToolCallDelta():
                return self._add_call(chunk)
            case BlockEnd():
                return self._add_end(chunk)
            case BlockStart():
                pass  # what it announces is seen at the first delta
        return chunk

    def blocks(self) -> tuple[AnswerBlock, ...]:
        """Return the blocks so far, by index, without empty ones and tool calls that did not come whole."""
        blocks = [_block(self._parts[index]) for index in sorted(self._parts)]
        return tuple(block for block in blocks if block is not None)

    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """Return the tool calls that came whole, by index."""
        return tuple(block for block in self.blocks() if isinstance(block, ToolCallBlock))

    def _part(self, index: int, kind: _Kind) -> _Part:
        part = self._parts.setdefault(index, _Part(kind, []))
        if part.kind != kind or part.ended:
            raise ModelError(f"the model went on with block {index} as {kind}", code="INVALID_STREAM")
        return part

    def _add_call(self, chunk: ToolCallDelta) -> ToolCallDelta:
        part = self._part(chunk.index, "tool-call")
        part.pieces.append(chunk.arguments_delta)
        if chunk.name is not UNSET:
            part.name = chunk.name
        return msgspec.structs.replace(chunk, id=self._call_id(part, chunk.id))

    def _add_end(self, chunk: BlockEnd) -> BlockEnd:
        match chunk.block:
            case ToolCallBlock() as call:
                part = self._part(chunk.index, "tool-call")
                part.name, part.pieces = call.name, [call.arguments]
                call = msgspec.structs.replace(call, id=self._call_id(part, call.id))
                chunk = BlockEnd(chunk.index, call)
            case TextBlock(text=text) | ReasoningBlock(text=text):
                part = self._part(chunk.index, "text" if isinstance(chunk.block, TextBlock) else "reasoning")
                part.pieces = [text]
            case _:
                raise ModelError("the model answered with a tool result", code="INVALID_STREAM")
        part.ended = True
        return chunk

    def _call_id(self, part: _Part, given: str) -> str:
        if part.call_id is None:
            base = given or "call"
            part.call_id, count = base, 1
            while part.call_id in self._ids:
                count += 1
                part.call_id = f"{base}-{count}"
            self._ids.add(part.call_id)
        return part.call_id


def _block(part: _Part) -> AnswerBlock | None:
    text = "".join(part.pieces)
    if part.kind == "tool-call":
        return ToolCallBlock(part.call_id or "call", part.name, text) if part.ended else None
    if not text:
        return None
    return TextBlock(text) if part.kind == "text" else ReasoningBlock(text)
