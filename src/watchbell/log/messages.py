"""Messages of a conversation, the content blocks that they are made of, and the chunks that bring answers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType


class TextBlock(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class ReasoningBlock(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="reasoning"):
    """What a model thought before it answered."""

    text: str


class ToolCallBlock(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="tool-call"):
    """A model's request to run a tool; `arguments` is its raw JSON text."""

    id: str
    name: str
    arguments: str


class ToolResultBlock(
    msgspec.Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    tag="tool-result",
    rename="camel",
    omit_defaults=True,
):
    """What a tool answered to the call `tool_call_id`."""

    tool_call_id: str
    content: tuple[TextBlock, ...]
    is_error: bool | UnsetType = UNSET


Block: TypeAlias = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock


# --- what a model streams: the chunks of an answer


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


# --- who wrote a message


class PersonSource(
    msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="user", rename="camel", omit_defaults=True
):
    """A person wrote it; `time_zone` is the IANA zone that the person says to be in."""

    time_zone: str | None = None


class PluginSource(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="plugin", omit_defaults=True):
    """A plugin wrote it; nothing may discard it while it is pending when it is `retained`."""

    plugin: str
    retained: bool = False


class ModelSource(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="model"):
    """A model answered."""

    provider: str
    model: str


class ToolSource(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="tool", rename="camel"):
    """A tool gave the result of the call `call_id`."""

    call_id: str


class UnknownSource(msgspec.Struct, frozen=True, gc=False):
    """Nobody here knows who wrote it."""

    kind: str = ""


_KnownSource: TypeAlias = PersonSource | PluginSource | ModelSource | ToolSource
Source: TypeAlias = _KnownSource | UnknownSource


# --- messages


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a conversation.

    Attributes:
        id: Non-empty, unique among the pending messages of a session.
        role: `user` (people, plugins and tool results) or `assistant`.
        source: Who wrote it, as it stands in the log, with what other programs add; `origin` reads it.
        content: Its blocks, in order. A block of a kind unknown here is kept as a plain dict.
    """

    id: str
    role: Literal["user", "assistant"]
    source: dict[str, Any]
    content: tuple[Any, ...]

    @property
    def origin(self) -> Source:
        """Who wrote it."""
        try:
            return msgspec.convert(self.source, _KnownSource)
        except msgspec.ValidationError:
            return _read_source(self.source)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def retained(self) -> bool:
        """Whether its source says that nothing may discard the message while it is pending."""
        return self.source.get("retained") is True

    @property
    def is_from_person(self) -> bool:
        """Whether a person sent it."""
        return isinstance(self.origin, PersonSource)

    def complete(self) -> Message:
        """Return the message with blocks in place of the plain values that it was decoded with."""
        if not any(isinstance(block, dict) for block in self.content):
            return self
        return msgspec.structs.replace(self, content=tuple(_block(block) for block in self.content))


def _read_source(source: dict[str, Any]) -> Source:
    """Read as much of a source as can be, when another program wrote a key in another way than we do."""
    match source:
        case {"kind": "user"}:
            return PersonSource()
        case {"kind": "plugin", "plugin": str(plugin)}:
            return PluginSource(plugin)
        case {"kind": str(kind)}:
            return UnknownSource(kind)
        case _:
            return UnknownSource()


def _block(value: Any) -> Any:
    match value:
        case {"type": "text" | "reasoning" | "tool-call" | "tool-result"}:
            try:
                return msgspec.convert(value, Block)
            except ValueError:
                # A tool result may hold blocks that we do not know; carry it as it is.
                return value
        case _:
            return value
