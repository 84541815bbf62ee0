"""What a model streams: the chunks of an answer."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from watchbell.log.messages import Block

__all__ = [
    "BlockEnd",
    "BlockStart",
    "Chunk",
    "Finish",
    "FinishReason",
    "ReasoningDelta",
    "TextDelta",
    "ToolCallDelta",
    "UsageChunk",
]


class BlockStart(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="block-start", rename="camel"):
    """A content block begins at position `index` of the answer."""

    index: int
    block_type: str


class TextDelta(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text-delta"):
    """More text of block `index`."""

    index: int
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="reasoning-delta"):
    """More reasoning of block `index`."""

    index: int
    text: str


class ToolCallDelta(
    msgspec.Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    tag="tool-call-delta",
    rename="camel",
    kw_only=True,
):
    """More of the tool call in block `index`; `arguments_delta` is a piece of its raw argument text."""

    index: int
    id: str
    name: str | UnsetType = UNSET
    arguments_delta: str


class BlockEnd(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="block-end"):
    """Block `index` is whole: this is it."""

    index: int
    block: Block


class UsageChunk(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="usage"):
    """Token counts as the provider gave them, such as `inputTokens` and `outputTokens`."""

    usage: dict[str, Any]


class FinishReason(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why an answer ended; `failure` has `message` and `code` when the kind is `error`."""

    kind: Literal["stop", "tool-calls", "max-tokens", "error", "aborted"]
    failure: dict[str, Any] | UnsetType = UNSET


class Finish(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="finish"):
    """The last chunk of an answer."""

    reason: FinishReason


Chunk: TypeAlias = BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | Finish
