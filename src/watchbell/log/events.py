"""The event envelope and the payloads that Watchbell writes (log-format, "Vocabulary that we write").

An `Event` carries its payload as JSON bytes: they are encoded once, when the event is made, and decoded
only when somebody reads them. Key order in every struct is the order in which it is written.

Longer than other modules: the whole vocabulary stands in one place, as in the document that it follows.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from watchbell.log.values import decode_json, encode_json

__all__ = [
    "CARRIED_TYPES",
    "OWN_PREFIX",
    "SURFACE_TYPES",
    "WRITTEN_TYPES",
    "AssistantMessage",
    "Block",
    "BlockEnd",
    "BlockStart",
    "Chunk",
    "ChunkEvent",
    "Draft",
    "EndSeed",
    "Event",
    "Finish",
    "FinishReason",
    "Message",
    "ReasoningBlock",
    "ReasoningDelta",
    "RequestContext",
    "RequestHeader",
    "Splice",
    "StepMark",
    "TakeUp",
    "TextBlock",
    "TextDelta",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolCallEvent",
    "ToolResultBlock",
    "ToolResultEvent",
    "ToolSpec",
    "TurnEnd",
    "TurnStart",
    "UsageChunk",
]

SURFACE_TYPES = frozenset({"user/message", "assistant/message", "tool/result"})
"""Types that make up the transcript; only they may carry `sourceEventSeqs` and `surfaceOp`."""

OWN_PREFIX = "watchbell/"
"""Types of our own; they always carry `ignorable: true`."""

WRITTEN_TYPES = SURFACE_TYPES | {
    "agent/inbox/spliced",
    "assistant/chunk",
    "request/context",
    "request/header",
    "schedule/change",
    "session/end-seed",
    "step/end",
    "step/start",
    "tool/call",
    "turn/end",
    "turn/start",
}
"""Types that Watchbell itself writes, besides its own `watchbell/...` ones."""

CARRIED_TYPES = frozenset(
    """agent-preset/selected approval/asked approval/decided approval/policy command/done command/run
    compaction/end compaction/prune compaction/start compaction/summary feedback/record goal/change
    hook/invoked hook/result llm/retry llm/retry-started permission/preset plan/mode request/context
    sandbox/mode session/title session/title-llm-request subagent/descriptor team/member
    team/message/delivered team/message/queued team/task todo/write tool-workflow/agent-end
    tool-workflow/agent-start tool-workflow/run-end tool-workflow/run-start tool/code-dispatch
    tool/code-dispatch-start web/deepseek-search-llm-request""".split()  # noqa: SIM905 - one name a line would fill a screen
)
"""Types of other programs that are kept verbatim and otherwise left alone."""


class Event(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename={"raw": "data", "source_event_seqs": "sourceEventSeqs", "surface_op": "surfaceOp"},
):
    """One immutable event of a session log; encoding it gives its row.

    Attributes:
        type: Event type, such as `turn/start`.
        seq: Position in the log, from 0, without gaps.
        time: Epoch milliseconds at which it was appended.
        raw: The payload as compact JSON; `data` decodes it.
        source_event_seqs: JSON list of the seqs that this event was made from (surface types only).
        surface_op: JSON of how it enters the transcript: `"append"` or a replacement (surface types only).
        ignorable: Whether a program that does not know the type may skip it.
    """

    type: str
    seq: int
    time: int
    raw: msgspec.Raw
    source_event_seqs: msgspec.Raw | UnsetType = UNSET
    surface_op: msgspec.Raw | UnsetType = UNSET
    ignorable: bool = False

    @property
    def data(self) -> Any:
        """The payload, decoded anew at each access."""
        return decode_json(self.raw)


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event that is not in a log yet: it has no seq and no time.

    `data` is any JSON value or msgspec struct, or `msgspec.Raw` with the finished JSON text.
    """

    type: str
    data: Any
    source_event_seqs: tuple[int, ...] | None = None
    surface_op: Literal["append"] | None = None
    ignorable: bool = False
    time: int | None = None

    def at(self, seq: int, time: int) -> Event:
        """Return the event that this draft becomes as number `seq` of a log."""
        raw = self.data if isinstance(self.data, msgspec.Raw) else msgspec.Raw(encode_json(self.data))
        sources = self.source_event_seqs
        return Event(
            self.type,
            seq,
            time if self.time is None else self.time,
            raw,
            UNSET if sources is None else msgspec.Raw(encode_json(sources)),
            UNSET if self.surface_op is None else msgspec.Raw(encode_json(self.surface_op)),
            self.ignorable,
        )


# --- content blocks and messages -------------------------------------------------------------------------


class TextBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class ReasoningBlock(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning"):
    """What a model thought before it answered."""

    text: str


class ToolCallBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool-call"):
    """A model's request to run a tool; `arguments` is its raw JSON text."""

    id: str
    name: str
    arguments: str


class ToolResultBlock(
    msgspec.Struct, frozen=True, tag_field="type", tag="tool-result", rename="camel", omit_defaults=True
):
    """What a tool answered to the call `tool_call_id`."""

    tool_call_id: str
    content: tuple[TextBlock, ...]
    is_error: bool | UnsetType = UNSET


Block: TypeAlias = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation.

    Attributes:
        id: Non-empty, unique among the pending messages of a session.
        role: `user` (people, plugins and tool results) or `assistant`.
        source: Who wrote it: `{"kind": "user" | "plugin" | "model" | "tool", ...}`.
        content: Its blocks, in order. A block of a kind unknown here is kept as a plain dict.
    """

    id: str
    role: Literal["user", "assistant"]
    source: dict[str, Any]
    content: tuple[Any, ...]

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def retained(self) -> bool:
        """Whether nothing may discard the message while it is pending (contract section 5).

        The source says so. Reminders written by a program that does not know the flag count as well.
        """
        source = self.source
        return source.get("retained") is True or (
            source.get("kind") == "plugin" and source.get("plugin") == "schedule"
        )

    @property
    def is_from_person(self) -> bool:
        """Whether a person sent it."""
        return self.source.get("kind") == "user"

    @classmethod
    def decode(cls, raw: bytes | msgspec.Raw) -> Message:
        """Decode a message's JSON text.

        Raises:
            ValueError: It is not a message.
        """
        return cls.from_value(decode_json(raw))

    @classmethod
    def from_value(cls, value: Any) -> Message:
        """Build a message from its decoded JSON value.

        Raises:
            ValueError: It is not a message.
        """
        return msgspec.convert(value, cls).complete()

    def complete(self) -> Message:
        """Return the message with blocks in place of the plain values that it was decoded with."""
        if not any(isinstance(block, dict) for block in self.content):
            return self
        return msgspec.structs.replace(self, content=tuple(_block(block) for block in self.content))


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


# --- what a model streams --------------------------------------------------------------------------------


class BlockStart(msgspec.Struct, frozen=True, tag_field="type", tag="block-start", rename="camel"):
    """A content block begins at position `index` of the answer."""

    index: int
    block_type: str


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="text-delta"):
    """More text of block `index`."""

    index: int
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning-delta"):
    """More reasoning of block `index`."""

    index: int
    text: str


class ToolCallDelta(
    msgspec.Struct, frozen=True, tag_field="type", tag="tool-call-delta", rename="camel", kw_only=True
):
    """More of the tool call in block `index`; `arguments_delta` is a piece of its raw argument text."""

    index: int
    id: str
    name: str | UnsetType = UNSET
    arguments_delta: str


class BlockEnd(msgspec.Struct, frozen=True, tag_field="type", tag="block-end"):
    """Block `index` is whole: this is it."""

    index: int
    block: Block


class UsageChunk(msgspec.Struct, frozen=True, tag_field="type", tag="usage"):
    """Token counts as the provider gave them, such as `inputTokens` and `outputTokens`."""

    usage: dict[str, Any]


class FinishReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why an answer ended; `failure` has `message` and `code` when the kind is `error`."""

    kind: Literal["stop", "tool-calls", "max-tokens", "error", "aborted"]
    failure: dict[str, Any] | UnsetType = UNSET


class Finish(msgspec.Struct, frozen=True, tag_field="type", tag="finish"):
    """The last chunk of an answer."""

    reason: FinishReason


Chunk: TypeAlias = BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | Finish


# --- payloads --------------------------------------------------------------------------------------------


class EndSeed(msgspec.Struct, frozen=True):
    """`session/end-seed`: what stands before it came from an earlier life or a parent."""


class TurnStart(msgspec.Struct, frozen=True):
    """`turn/start`: turns count from 1, on across forks."""

    turn: int


class TurnEnd(msgspec.Struct, frozen=True):
    """`turn/end`: why a turn ended.

    `reason` is `{"kind": "completed" | "max-tokens" | "blocked" | "aborted" | "error" | "interrupted"}`.
    `aborted` carries `reason: {"kind": "user" | "parent" | "hook" | "disposed"}`; `error` carries
    `error: {"message", "code", ...}`.
    """

    turn: int
    reason: dict[str, Any]


class StepMark(msgspec.Struct, frozen=True):
    """`step/start` and `step/end`: steps count from 1 in each turn."""

    turn: int
    step: int


class Splice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """`agent/inbox/spliced`: one mutation of a durable pending list.

    From position `start` of list `target`, `removed_count` messages go and `inserted` come.
    """

    target: Literal["next-turn", "next-step"]
    start: int
    removed_count: int | UnsetType = UNSET
    inserted: tuple[Any, ...]
    outcome: Literal["canceled"] | UnsetType = UNSET


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model is told of it; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class RequestHeader(msgspec.Struct, frozen=True):
    """`request/header`: the fixed part of the requests that follow.

    `header` is `{"config": {"provider", "model", ...}, "system"?, "tools"?}`.
    """

    header: dict[str, Any]
    reason: Literal["initial", "resume", "change"]


class RequestContext(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`request/context`: which model answers, and its context window in tokens when known."""

    provider: str
    model: str
    context_window: int | UnsetType = UNSET


class ChunkEvent(msgspec.Struct, frozen=True):
    """`assistant/chunk`: one streamed chunk of an answer."""

    turn: int
    step: int
    chunk: Chunk


class AssistantMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`assistant/message`: the whole answer of a step, or what had come when it was cut off."""

    turn: int
    step: int
    message: Message
    usage: dict[str, Any] | UnsetType = UNSET
    interrupted: bool = False


class ToolCallEvent(msgspec.Struct, frozen=True, rename="camel"):
    """`tool/call`: a call is about to run."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class ToolResultEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """`tool/result`: what a call gave; `error` is `{"name", "code"}` when it did not run to its end."""

    turn: int
    step: int
    message: Message
    error: dict[str, str] | UnsetType = UNSET


class TakeUp(msgspec.Struct, frozen=True, rename="camel"):
    """`watchbell/take-up`: the next turn answers `message_id` again, as try number `attempt` (1 to 3)."""

    message_id: str
    attempt: int
