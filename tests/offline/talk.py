"""A conversation with the offline model, in which the test plays the tools."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from watchbell.log.messages import Chunk, Message, TextBlock, ToolCallBlock, ToolResultBlock
from watchbell.log.payloads import ToolSpec
from watchbell.models.base import AnswerAssembler, ModelRequest
from watchbell.offline.model import OfflineModel

TOOLS = tuple(
    ToolSpec(name, "A tool.", {"type": "object"})
    for name in ("schedule_create", "schedule_delete", "schedule_list")
)
MODEL_SOURCE = {"kind": "model", "provider": "offline", "model": "offline-1"}
TIME_SOURCE = {"kind": "plugin", "plugin": "time-context"}


async def chunks_of(request: ModelRequest) -> list[Chunk]:
    async with aclosing(OfflineModel().stream(request)) as stream:
        return [chunk async for chunk in stream]


class Conversation:
    """The messages so far."""

    def __init__(self, tools: tuple[ToolSpec, ...] = TOOLS, time: str = "") -> None:
        self.messages: list[Message] = []
        self._tools = tools
        if time:
            self.add(time, TIME_SOURCE)

    def add(self, text: str, source: dict[str, Any] | None = None) -> None:
        source = {"kind": "user"} if source is None else source
        self.messages.append(Message(f"m{len(self.messages)}", "user", source, (TextBlock(text),)))

    def add_result(self, call: ToolCallBlock, value: Any, *, is_error: bool = False) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        block = ToolResultBlock(call.id, (TextBlock(text),), is_error)
        source = {"kind": "tool", "callId": call.id}
        self.messages.append(Message(f"m{len(self.messages)}", "user", source, (block,)))

    def ask(self, text: str) -> AnswerAssembler:
        self.add(text)
        return self.answer()

    def answer(self) -> AnswerAssembler:
        answer = AnswerAssembler()
        for chunk in asyncio.run(chunks_of(self.request())):
            answer.add(chunk)
        message = Message(f"m{len(self.messages)}", "assistant", MODEL_SOURCE, answer.blocks())
        self.messages.append(message)
        return answer

    def answer_list(self, text: str, reminders: list[dict[str, Any]]) -> AnswerAssembler:
        """Ask for what takes the list of reminders, and give it."""
        (listing,) = self.ask(text).tool_calls()
        assert listing.name == "schedule_list"
        self.add_result(listing, reminders)
        return self.answer()

    def request(self) -> ModelRequest:
        return ModelRequest("Be kind.", tuple(self.messages), self._tools)


def text_of(answer: AnswerAssembler) -> str:
    return "".join(block.text for block in answer.blocks() if isinstance(block, TextBlock))


def calls_of(answer: AnswerAssembler) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in answer.tool_calls()]
