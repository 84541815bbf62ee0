"""The payloads that Watchbell writes, one struct for each type (log-format, "Vocabulary that we write")."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.event import Event
from watchbell.log.messages import Chunk, Message
from watchbell.log.values import decode_typed


class EndSeed(msgspec.Struct, frozen=True, gc=False):
    """`session/end-seed`: what stands before it came from an earlier life or a parent."""


class TurnStart(msgspec.Struct, frozen=True, gc=False):
    """`turn/start`: turns count from 1, on across forks."""

    turn: int


AbortKind: TypeAlias = Literal["user", "parent", "hook", "disposed"]
"""Who stopped a turn; `disposed`: its agent was closed."""


class AbortReason(msgspec.Struct, frozen=True, gc=False):
    """Who stopped a turn."""

    kind: AbortKind


class TurnFailure(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What made a turn fail.

    Attributes:
        message: What happened, in words.
        code: Stable upper-case word such as `PROVIDER_ERROR` or `PERSISTENCE_UNCERTAIN`.
        status: HTTP status of the provider's answer.
        provider_retry_after_ms: How long the provider asked to wait, milliseconds.
        request_id: The provider's own id of the request.
    """

    message: str
    code: str
    status: int | None = None
    provider_retry_after_ms: int | float | None = None
    request_id: str | None = None


class Reason:
    """Why a turn ended: what `Completed`, `MaxTokens`, … and `OtherReason` have in common."""

    __slots__ = ()

    @property
    def is_loss(self) -> bool:
        """Whether the program ended before the turn did."""
        # `isinstance` takes several times as long for a struct's class.
        return type(self) is Interrupted or (type(self) is Aborted and self.reason.kind == "disposed")

    @property
    def is_uncertainty(self) -> bool:
        """Whether the turn failed because the barrier before the model's call did."""
        return type(self) is Failed and self.error.code == "PERSISTENCE_UNCERTAIN"

    @classmethod
    def from_json(cls, value: object) -> Reason:
        """Read a reason that any program wrote.

        Raises:
            ValueError: It has no `kind`.
        """
        for plain, reason in _PLAIN:
            if value == plain:
                return reason  # as most turns end: converting takes ten times as long
        try:
            return msgspec.convert(value, _KnownReason)
        except msgspec.ValidationError:
            return msgspec.convert(value, OtherReason)


@final
class Completed(Reason, msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="completed"):
    """The model had answered."""


@final
class MaxTokens(Reason, msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="max-tokens"):
    """The answer reached its length limit."""


@final
class Blocked(Reason, msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="blocked"):
    """Hooks rejected all the messages that the turn had."""


@final
class Aborted(Reason, msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="aborted"):
    """Somebody stopped the turn."""

    reason: AbortReason


@final
class Failed(Reason, msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="error"):
    """Something the turn needs did not work."""

    error: TurnFailure


@final
class Interrupted(Reason, msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="interrupted"):
    """The program stopped while the turn ran; whoever opened the session next wrote this."""


@final
class OtherReason(Reason, msgspec.Struct, frozen=True, gc=False):
    """What another program wrote and nobody here knows."""

    kind: str


_PLAIN: list[tuple[dict[str, str], Reason]] = [
    ({"kind": "completed"}, Completed()),
    ({"kind": "interrupted"}, Interrupted()),
]
_KnownReason: TypeAlias = Completed | MaxTokens | Blocked | Aborted | Failed | Interrupted


class TurnEnd(msgspec.Struct, frozen=True, gc=False):
    """`turn/end`: why a turn ended."""

    turn: int
    reason: Reason


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
    removed_count: int = 0
    inserted: tuple[Message, ...]
    outcome: Literal["canceled"] | None = None


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
    context_window: int | None = None


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
    usage: dict[str, Any] | None = None
    interrupted: bool = False


class Carrier(msgspec.Struct, frozen=True, gc=False):
    """What `assistant/message` and `tool/result` have in common, for those who need the message alone."""

    message: Message


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
    error: dict[str, str] | None = None


class TakeUp(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`watchbell/take-up`: the next turn answers `message_id` again, as try number `attempt` (1 to 3)."""

    message_id: str
    attempt: int


def carried_messages(event: Event) -> tuple[Message, ...]:
    """Return the messages in an event of a type that holds some; their blocks are plain values yet.

    Raises:
        CorruptLogError: Its payload has another shape than its type's.
    """
    try:
        if event.type == "user/message":
            return (decode_typed(event.raw, Message),)
        if event.type == "agent/inbox/spliced":
            return decode_typed(event.raw, Splice).inserted
        return (decode_typed(event.raw, Carrier).message,)
    except ValueError as error:
        raise CorruptLogError(f"event {event.seq} ({event.type}) holds no message") from error


def surface_message(event: Event) -> Message:
    """Return the message that a `user/message`, `assistant/message` or `tool/result` event carries.

    Raises:
        CorruptLogError: Its payload has another shape than its type's.
    """
    return carried_messages(event)[0].complete()
