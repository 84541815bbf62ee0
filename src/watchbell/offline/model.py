"""A stand-in for a model: it follows fixed rules, needs no network and always answers alike.

It exists so that Watchbell can be tried, shown and tested without an account. It understands a few English
sentences about reminders, calls the Schedule tools for them, tells their outcome and presents due reminders.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import groupby

from watchbell.log.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    Message,
    PersonSource,
    PluginSource,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    ToolSource,
    UsageChunk,
)  # fmt: skip  # fmt: skip
from watchbell.log.values import encode_json
from watchbell.models.base import ModelRequest
from watchbell.offline._hearing import Call, Wish, read_now, read_wish
from watchbell.offline._speech import HELP, read_list, render_due, render_outcome, tell_list
from watchbell.reminders.framing import decode_frame

_PIECE = re.compile(r"\s*\S+(?:\s+\S+){0,2}")
_ARGUMENTS_PIECE = 12


class OfflineModel:
    """Watchbell's offline `ChatModel`: deterministic, without network, randomness or a look at the clock.

    It knows the current time only from the time-context message in the conversation.
    """

    provider = "offline"
    model = "offline-1"
    context_window: int | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer what came after the last answer: tool results, due reminders, and what people wrote."""
        said, calls = self._decide(request.messages)
        known = {spec.name for spec in request.tools}
        if missing := sorted({name for name, _ in calls} - known):
            said.append(f"I cannot do that here: this session has no tool {' or '.join(missing)}.")
        calls = [call for call in calls if call[0] in known]
        if not said and not calls:
            said.append(HELP)
        blocks: list[TextBlock | ToolCallBlock] = [TextBlock("\n".join(said))] if said else []
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

    def _decide(self, messages: Sequence[Message]) -> tuple[list[str], list[Call]]:
        """Return what to say and which tools to call."""
        # An answer that was cut off is last itself; then what it was an answer to is taken up again.
        turns = [[*run] for role, run in groupby(messages, lambda message: message.role) if role == "user"]
        asked, recent = ([], [], *turns)[-2:]
        times = (each for each in reversed(messages) if each.origin == PluginSource("time-context"))
        now = next((read_now(message.text) for message in times), None)
        said: list[str] = []
        calls: list[Call] = []
        for message in recent:
            match message.origin:
                case PersonSource():
                    wish = read_wish(message.text, now)
                    said.append(wish.said)
                    calls += [call for call in wish.calls if call[1] or call not in calls]  # one list will do
                case ToolSource(call_id=call_id):
                    wishes = [read_wish(each.text, now) for each in asked if each.is_from_person]
                    sentences, deletions = _tell_result(message, _find_tool(messages, call_id), wishes)
                    said += sentences
                    calls += deletions
                case _:
                    said += [render_due(due) for due in decode_frame(message.text) or ()]
        return [sentence for sentence in said if sentence], calls


def _find_tool(messages: Sequence[Message], call_id: str) -> str | None:
    """Return which tool a call was of."""
    blocks = (block for message in reversed(messages) for block in message.content)
    return next(
        (block.name for block in blocks if isinstance(block, ToolCallBlock) and block.id == call_id), None
    )


def _tell_result(result: Message, tool: str | None, wishes: Sequence[Wish]) -> tuple[list[str], list[Call]]:
    """Return what to say of a tool's result and what to call next: for a list, what each wish wants of it."""
    blocks = [block for block in result.content if isinstance(block, ToolResultBlock)]
    text = "".join(part.text for block in blocks for part in block.content)
    is_error = not blocks or blocks[0].is_error is True
    views = read_list(text) if tool == "schedule_list" else None
    if views is None and tool == "schedule_list" and text.startswith("["):
        return ["You have more active reminders than I can list here."], []  # the result was cut
    if views is None:
        return [render_outcome(text, is_error=is_error)], []
    told = [tell_list(wish.of_list, views) for wish in wishes if wish.of_list]
    deletions: list[Call] = [("schedule_delete", {"id": view.id}) for _, chosen in told for view in chosen]
    return [sentence for sentence, _ in told], deletions


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


def _words(block: object) -> int:
    match block:
        case ToolCallBlock(arguments=text) | TextBlock(text=text):
            return len(text.split())
        case ToolResultBlock(content=content):
            return sum(_words(part) for part in content)
        case _:
            return 0
