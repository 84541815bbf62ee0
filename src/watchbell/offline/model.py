"""A stand-in for a model: it follows fixed rules, needs no network and always answers alike.

It exists so that Watchbell can be tried, shown and tested without an account. It understands a few English
sentences about reminders (`watchbell.models.phrases`), calls the Schedule tools for them, tells their
outcome and presents due reminders.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from watchbell.log.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from watchbell.log.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock
from watchbell.log.values import encode_json
from watchbell.models.base import ModelRequest
from watchbell.offline._phrases import (
    Ask,
    Cancel,
    CancelAll,
    ListAll,
    LocalNow,
    Remind,
    read_now,
    read_phrase,
)
from watchbell.offline._sentences import HELP, decode_frame, decode_list, render_outcome, render_reminder
from watchbell.zones import ZoneTable

__all__ = ["OfflineModel"]

_PIECE = re.compile(r"\s*\S+(?:\s+\S+){0,2}")
_ARGUMENTS_PIECE = 12

_Call = tuple[str, dict[str, Any]]


class OfflineModel:
    """Watchbell's offline `ChatModel`: deterministic, without network, randomness or a look at the clock.

    It knows the current time only from the time-context message in the conversation.
    """

    provider = "offline"
    model = "offline-1"
    context_window: int | None = None

    def __init__(self) -> None:
        self._zones = ZoneTable()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer what came after the last answer: tool results, due reminders, and what people wrote."""
        text, calls = self._decide(request)
        blocks: list[TextBlock | ToolCallBlock] = [TextBlock(text)] if text else []
        for position, (name, arguments) in enumerate(calls, 1):
            # The conversation only grows, so its length makes the id one of a kind in the session.
            call_id = f"offline-{len(request.messages)}-{position}"
            blocks.append(ToolCallBlock(call_id, name, encode_json(arguments).decode()))
        for index, block in enumerate(blocks):
            for chunk in _stream_block(index, block):
                yield chunk
                await asyncio.sleep(0)  # others get to see each piece, and may cancel
        yield UsageChunk({"inputTokens": _count_words(request), "outputTokens": sum(map(_words, blocks))})
        yield Finish(FinishReason("tool-calls" if calls else "stop"))

    def _decide(self, request: ModelRequest) -> tuple[str, list[_Call]]:
        """Return what to say and which tools to call."""
        asked, recent = _split(request.messages)
        now = _latest_now(request.messages)
        said: list[str] = []
        calls: list[_Call] = []
        for message in recent:
            if message.source.get("kind") == "tool":
                call, text, is_error = _read_result(request.messages, message)
                listed = decode_list(text) if call is not None and call.name == "schedule_list" else None
                if listed and isinstance(self._read(asked, now), CancelAll):
                    calls += [("schedule_delete", {"id": entry["id"]}) for entry in listed]
                else:
                    said.append(render_outcome(call, text, is_error=is_error))
            elif not message.is_from_person and (due := decode_frame(message.text)) is not None:
                said += [render_reminder(reminder) for reminder in due]
            elif message.is_from_person:
                sentence, wanted = self._answer(message.text, now)
                said += [sentence] if sentence else []
                calls += wanted
        known = {spec.name for spec in request.tools}
        missing = sorted({name for name, _ in calls} - known)
        if missing:
            said.append(f"I cannot do that here: this session has no tool {' or '.join(missing)}.")
        if not said and not calls:
            said.append(HELP)
        return "\n".join(said), [call for call in calls if call[0] in known]

    def _read(self, asked: Message | None, now: LocalNow | None) -> object:
        return None if asked is None else read_phrase(asked.text, now, self._zones)

    def _answer(self, text: str, now: LocalNow | None) -> tuple[str, list[_Call]]:
        match read_phrase(text, now, self._zones):
            case Remind(prompt=prompt, selector=selector):
                return "", [("schedule_create", {"prompt": prompt, **selector})]
            case ListAll() | CancelAll():
                return "", [("schedule_list", {})]
            case Cancel(ids=ids):
                return "", [("schedule_delete", {"id": schedule_id}) for schedule_id in ids]
            case Ask(text=question):
                return question, []
            case None:
                return HELP, []


# --- the conversation ------------------------------------------------------------------------------------


def _split(messages: Sequence[Message]) -> tuple[Message | None, Sequence[Message]]:
    """Return the latest message of a person, and what came after the last answer.

    An answer that was cut off is last itself; then what it was an answer to is taken up again.
    """
    end = len(messages)
    while end and messages[end - 1].role == "assistant":
        end -= 1
    start = end
    while start and messages[start - 1].role == "user":
        start -= 1
    people = [message for message in messages[:end] if message.is_from_person]
    return (people[-1] if people else None), messages[start:end]


def _latest_now(messages: Sequence[Message]) -> LocalNow | None:
    for message in reversed(messages):
        if message.source.get("kind") == "plugin" and message.source.get("plugin") == "time-context":
            return read_now(message.text)
    return None


def _read_result(messages: Sequence[Message], result: Message) -> tuple[ToolCallBlock | None, str, bool]:
    """Return the call that a tool result answers, the result's text, and whether it is an error."""
    block = next((block for block in result.content if isinstance(block, ToolResultBlock)), None)
    if block is None:
        return None, "", True
    text = "".join(part.text for part in block.content)
    for message in reversed(messages):
        for call in message.content:
            if isinstance(call, ToolCallBlock) and call.id == block.tool_call_id:
                return call, text, block.is_error is True
    return None, text, block.is_error is True


# --- the stream ------------------------------------------------------------------------------------------


def _stream_block(index: int, block: TextBlock | ToolCallBlock) -> Iterator[Chunk]:
    if isinstance(block, TextBlock):
        yield BlockStart(index, "text")
        yield from (TextDelta(index, piece) for piece in _PIECE.findall(block.text))
    else:
        yield BlockStart(index, "tool-call")
        for start in range(0, len(block.arguments), _ARGUMENTS_PIECE):
            piece = block.arguments[start : start + _ARGUMENTS_PIECE]
            yield ToolCallDelta(index=index, id=block.id, name=block.name, arguments_delta=piece)
    yield BlockEnd(index, block)


def _count_words(request: ModelRequest) -> int:
    """Count words in place of tokens: the same request always costs the same."""
    schemas = sum(len(spec.description.split()) for spec in request.tools)
    blocks = sum(_words(block) for message in request.messages for block in message.content)
    return len((request.system or "").split()) + schemas + blocks


def _words(block: Any) -> int:
    match block:
        case ToolCallBlock(arguments=text) | TextBlock(text=text):
            return len(text.split())
        case ToolResultBlock(content=content):
            return sum(_words(part) for part in content)
        case _:
            return 0
