"""A model that answers what a test tells it to."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Literal, TypeAlias

import msgspec

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
    UsageChunk,
)
from watchbell.log.values import encode_json
from watchbell.models.base import ModelRequest

_PIECE = 8
"""Most characters in one delta: small enough that short answers come in several."""


class Part(msgspec.Struct, frozen=True):
    """One part of a scripted answer; `say`, `think`, `call`, `fail` and `hang` make them."""

    kind: Literal["say", "think", "call", "fail", "hang"]
    text: str = ""
    name: str = ""
    call_id: str | None = None
    end: FinishReason = FinishReason("stop")


Answer: TypeAlias = Part | Sequence[Part] | str
"""One answer: a part, several, or plain text to say."""

Script: TypeAlias = Iterable[Answer] | Callable[[ModelRequest], Answer | Awaitable[Answer]]
"""The answers in order, or a function that finds the answer to a request."""


def say(text: str) -> Part:
    """Answer with text."""
    return Part("say", text)


def think(text: str) -> Part:
    """Answer with reasoning."""
    return Part("think", text)


def call(
    name: str,
    arguments: Mapping[str, object] | str | None = None,
    id: str | None = None,  # noqa: A002 - the protocol's word
) -> Part:
    """Call a tool with arguments, or with raw argument text; a call without an id gets `call-1` and so on."""
    text = arguments if isinstance(arguments, str) else encode_json(arguments or {}).decode()
    return Part("call", text, name, id)


def fail(
    code: str = "PROVIDER_ERROR", message: str = "the provider failed", status: int | None = None
) -> Part:
    """End the answer here as failed."""
    failure = {"message": message, "code": code} | ({} if status is None else {"status": status})
    return Part("fail", end=FinishReason("error", failure))


def hang() -> Part:
    """Never go on: wait here until the request is cancelled."""
    return Part("hang")


class ScriptedModel:
    """A `ChatModel` that follows a script; when the script has run out it says "ok".

    Attributes:
        requests: Every request so far.
        closed: How many answers were closed before their end.
    """

    provider = "scripted"
    model = "scripted-1"
    context_window: int | None = None

    def __init__(self, script: Script = (), *, delay_seconds: float = 0) -> None:
        """Take a script.

        Args:
            script: The answers in order, or a function (plain or async) from a request to its answer.
            delay_seconds: Time that passes before each chunk, by the event loop's clock.
        """
        self.requests: list[ModelRequest] = []
        self.closed = 0
        self._find = script if callable(script) else None
        self._rest = iter(()) if callable(script) else iter(script)
        self._delay_seconds = delay_seconds
        self._calls = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer `request` as the script says."""
        self.requests.append(request)
        try:
            async with aclosing(self._chunks(await self._parts(request))) as chunks:
                async for chunk in chunks:
                    await asyncio.sleep(self._delay_seconds)
                    yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            self.closed += 1
            raise

    async def _parts(self, request: ModelRequest) -> Sequence[Part]:
        answer = next(self._rest, "ok") if self._find is None else self._find(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            return (say(answer),)
        return (answer,) if isinstance(answer, Part) else answer

    async def _chunks(self, parts: Sequence[Part]) -> AsyncGenerator[Chunk, None]:
        kind: Literal["stop", "tool-calls"] = "stop"
        for index, part in enumerate(parts):
            match part.kind:
                case "hang":
                    await asyncio.get_running_loop().create_future()
                case "fail":
                    yield Finish(part.end)
                    return
                case "call":
                    kind = "tool-calls"
                    self._calls += 1
                    for chunk in _stream_call(index, part, part.call_id or f"call-{self._calls}"):
                        yield chunk
                case _:
                    for chunk in _stream_text(index, part):
                        yield chunk
        yield UsageChunk({"inputTokens": 100, "outputTokens": 10})
        yield Finish(FinishReason(kind))


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _stream_text(index: int, part: Part) -> Iterable[Chunk]:
    is_thought = part.kind == "think"
    delta, block = (ReasoningDelta, ReasoningBlock) if is_thought else (TextDelta, TextBlock)
    yield BlockStart(index, "reasoning" if is_thought else "text")
    yield from (delta(index, piece) for piece in _pieces(part.text))
    yield BlockEnd(index, block(part.text))


def _stream_call(index: int, part: Part, call_id: str) -> Iterable[Chunk]:
    yield BlockStart(index, "tool-call")
    for piece in _pieces(part.text) or [""]:
        yield ToolCallDelta(index=index, id=call_id, name=part.name, arguments_delta=piece)
    yield BlockEnd(index, ToolCallBlock(call_id, part.name, part.text))
