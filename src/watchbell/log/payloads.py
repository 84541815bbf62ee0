"""The payloads that Watchbell writes, one struct for each type (log-format, "Vocabulary that we write")."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from watchbell.log.chunks import Chunk
from watchbell.log.messages import Message

__all__ = [
    "AssistantMessage",
    "ChunkEvent",
    "EndSeed",
    "RequestContext",
    "RequestHeader",
    "Splice",
    "StepMark",
    "TakeUp",
    "ToolCallEvent",
    "ToolResultEvent",
    "ToolSpec",
    "TurnEnd",
    "TurnStart",
]


class EndSeed(msgspec.Struct, frozen=True, gc=False):
    """`session/end-seed`: what stands before it came from an earlier life or a parent."""


class TurnStart(msgspec.Struct, frozen=True, gc=False):
    """`turn/start`: turns count from 1, on across forks."""

    turn: int


class TurnEnd(msgspec.Struct, frozen=True, gc=False):
    """`turn/end`: why a turn ended.

    `reason` is `{"kind": "completed" | "max-tokens" | "blocked" | "aborted" | "error" | "interrupted"}`.
    `aborted` carries `reason: {"kind": "user" | "parent" | "hook" | "disposed"}`; `error` carries
    `error: {"message", "code", ...}`.
    """

    turn: int
    reason: dict[str, Any]


class StepMark(msgspec.Struct, frozen=True, gc=False):
    """`step/start` and `step/end`: steps count from 1 in each turn."""

    turn: int
    step: int


class Splice(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """`agent/inbox/spliced`: one mutation of a durable pending list.

    From position `start` of list `target`, `removed_count` messages go and `inserted` come.
    """

    target: Literal["next-turn", "next-step"]
    start: int
    removed_count: int | UnsetType = UNSET
    inserted: tuple[Any, ...]
    outcome: Literal["canceled"] | UnsetType = UNSET


class ToolSpec(msgspec.Struct, frozen=True, gc=False):
    """A tool as a model is told of it; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """`request/header`: the fixed part of the requests that follow.

    `header` is `{"config": {"provider", "model", ...}, "system"?, "tools"?}`.
    """

    header: dict[str, Any]
    reason: Literal["initial", "resume", "change"]


class RequestContext(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """`request/context`: which model answers, and its context window in tokens when known."""

    provider: str
    model: str
    context_window: int | UnsetType = UNSET


class ChunkEvent(msgspec.Struct, frozen=True, gc=False):
    """`assistant/chunk`: one streamed chunk of an answer."""

    turn: int
    step: int
    chunk: Chunk


class AssistantMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`assistant/message`: the whole answer of a step, or what had come when it was cut off."""

    turn: int
    step: int
    message: Message
    usage: dict[str, Any] | UnsetType = UNSET
    interrupted: bool = False


class ToolCallEvent(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`tool/call`: a call is about to run."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class ToolResultEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`tool/result`: what a call gave; `error` is `{"name", "code"}` when it did not run to its end."""

    turn: int
    step: int
    message: Message
    error: dict[str, str] | UnsetType = UNSET


class TakeUp(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`watchbell/take-up`: the next turn answers `message_id` again, as try number `attempt` (1 to 3)."""

    message_id: str
    attempt: int
