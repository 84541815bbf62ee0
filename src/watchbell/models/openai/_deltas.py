"""Reads what a provider streams, delta by delta, into the chunks of `watchbell.models.base.ChatModel`.

Servers differ in how they cut tool calls up: an id in every fragment or only in the first, an index for each
call, one index for all or none, a call in one piece. All of it is read alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

import msgspec
from msgspec import UNSET

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
    UsageChunk,
)
from watchbell.log.values import decode_json, encode_json
from watchbell.models.openai._json import items, member

_FAILED = {
    "content_filter": (
        "CONTENT_FILTER",
        "the provider's content filter stopped the answer; put it differently",
    ),
    "error": ("PROVIDER_ERROR", "the provider ended the answer with an error; try again"),
    "insufficient_system_resource": ("PROVIDER_ERROR", "the provider ran out of resources; try again later"),
}


class _Prose(msgspec.Struct):
    index: int
    kind: Literal["text", "reasoning"]
    pieces: list[str]
    held: str = ""


class _Call(msgspec.Struct):
    index: int
    wire_index: object
    id: str = ""
    name: str = ""
    pieces: list[str] = []  # msgspec copies it
    told: int = 0


class DeltaReader:
    """Reads one answer.

    Attributes:
        finish_reason: The provider's own word for why the answer ended, None while it goes on.
        has_read: Whether anything came at all.
    """

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.has_read = False
        self._choice: object = None
        self._next_index = 0
        self._prose: _Prose | None = None
        self._calls: list[_Call] = []
        self._usage: dict[str, int] | None = None
        self._has_text = False

    def read(self, data: object) -> Iterator[Chunk]:
        """Take in one streamed object, decoded, and yield what it adds to the answer.

        It passes over what it does not know, and over every choice but the first one.
        """
        self.has_read = True
        if (counts := _read_usage(member(data, "usage"))) is not None:
            self._usage = counts
        choice = self._find_choice(member(data, "choices"))
        delta = member(choice, "delta")
        yield from self._say("reasoning", member(delta, "reasoning_content") or member(delta, "reasoning"))
        yield from self._say("text", member(delta, "content"))
        yield from self._say("text", member(delta, "refusal"))
        for fragment in items(member(delta, "tool_calls")):
            yield from self._add_fragment(fragment)
        reason = member(choice, "finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason

    def end(self) -> Iterator[Chunk]:
        """Yield what ends the answer, once the stream has ended.

        Raises:
            ModelError: The stream was cut, or the answer failed or was empty.
        """
        reason = self.finish_reason
        if reason is None:
            raise ModelError("the answer was cut off before its end; ask again", code="CUT_STREAM")
        failed = reason in _FAILED
        yield from self._end_prose()
        if not failed:
            for call in self._calls:
                yield from self._tell(call, ends=True)
        if self._usage is not None:
            yield UsageChunk(self._usage)
        if failed:
            code, message = _FAILED[reason]
            raise ModelError(message, code=code)
        if reason == "length":
            yield Finish(FinishReason("max-tokens"))
        elif self._calls:
            yield Finish(FinishReason("tool-calls"))
        elif self._has_text:
            yield Finish(FinishReason("stop"))
        else:
            raise ModelError("the model gave an empty answer; ask again", code="EMPTY_ANSWER")

    def _find_choice(self, choices: object) -> object:
        for choice in items(choices):
            index = member(choice, "index")
            self._choice = index if self._choice is None else self._choice
            if index is None or index == self._choice:
                return choice
        return None

    def _say(self, kind: Literal["text", "reasoning"], text: object) -> Iterator[Chunk]:
        if not isinstance(text, str) or not text:
            return
        if self._prose is None or self._prose.kind != kind:
            yield from self._end_prose()
            self._prose = _Prose(self._new_index(), kind, [])
            yield BlockStart(self._prose.index, kind)
        whole = _join([self._prose.held, text])
        # The second half of a surrogate pair may come with the next piece.
        cut = len(whole) - ("\ud800" <= whole[-1] <= "\udbff")
        self._prose.held = whole[cut:]
        yield from self._tell_prose(self._prose, whole[:cut])

    def _tell_prose(self, prose: _Prose, text: str) -> Iterator[Chunk]:
        if not text:
            return
        prose.pieces.append(text)
        if prose.kind == "reasoning":
            yield ReasoningDelta(prose.index, text)
        else:
            self._has_text = self._has_text or bool(text.strip())
            yield TextDelta(prose.index, text)

    def _end_prose(self) -> Iterator[Chunk]:
        if self._prose is not None:
            yield from self._tell_prose(self._prose, self._prose.held)
            text = _join(self._prose.pieces)
            block = TextBlock(text) if self._prose.kind == "text" else ReasoningBlock(text)
            yield BlockEnd(self._prose.index, block)
            self._prose = None

    def _add_fragment(self, fragment: object) -> Iterator[Chunk]:
        call_id, name = _text(member(fragment, "id")), _text(member(member(fragment, "function"), "name"))
        arguments = member(member(fragment, "function"), "arguments")
        call = self._find_call(member(fragment, "index"), call_id, name, begins=bool(arguments))
        if call is None:
            yield from self._end_prose()
            call = _Call(self._new_index(), member(fragment, "index"), call_id)
            self._calls.append(call)
            yield BlockStart(call.index, "tool-call")
        call.id = call.id or call_id
        call.name = call.name or name
        if isinstance(arguments, dict):
            arguments = encode_json(arguments).decode()
        if isinstance(arguments, str) and arguments:
            call.pieces.append(arguments)
        yield from self._tell(call, ends=False)

    def _find_call(self, wire_index: object, call_id: str, name: str, *, begins: bool) -> _Call | None:
        """The call that a fragment goes on with, None when it begins one."""
        candidates = [call for call in self._calls if wire_index is None or call.wire_index == wire_index]
        if not candidates:
            return None
        latest = candidates[-1]
        # Some servers give every parallel call the same index, or none; each then begins with id and name.
        is_other = bool(call_id and latest.id and call_id != latest.id and name)
        if wire_index is None and name and (not call_id or (begins and _is_whole(latest.pieces))):
            is_other = True
        return None if is_other else latest

    def _tell(self, call: _Call, *, ends: bool) -> Iterator[Chunk]:
        """Yield what was not told of a call yet; its first delta has its name, so it waits for that."""
        if not (call.name or ends):
            return
        for piece in call.pieces[call.told :] or ([""] if ends and not call.pieces else []):
            name = call.name if call.told == 0 else UNSET
            yield ToolCallDelta(index=call.index, id=call.id, name=name, arguments_delta=piece)
            call.told += 1
        if ends:
            yield BlockEnd(call.index, ToolCallBlock(call.id, call.name, _join(call.pieces)))

    def _new_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1


def _join(pieces: list[str]) -> str:
    """Join text; a surrogate pair that was cut in two becomes its character again."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _is_whole(pieces: list[str]) -> bool:
    """Whether pieces of arguments are an object to its end."""
    try:
        return isinstance(decode_json("".join(pieces).encode("utf-8", "surrogatepass")), dict)
    except ValueError:
        return False


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_usage(usage: object) -> dict[str, int] | None:
    if not (usage and isinstance(usage, dict)):
        return None
    usage = cast("dict[str, object]", usage)
    prompt, completion = member(usage, "prompt_tokens_details"), member(usage, "completion_tokens_details")
    cached = member(prompt, "cached_tokens")
    counts = {
        "inputTokens": usage.get("prompt_tokens"),
        "outputTokens": usage.get("completion_tokens"),
        "totalTokens": usage.get("total_tokens"),
        "cachedInputTokens": usage.get("prompt_cache_hit_tokens") if cached is None else cached,
        "reasoningTokens": member(completion, "reasoning_tokens"),
    }
    return {name: count for name, count in counts.items() if isinstance(count, int)}
