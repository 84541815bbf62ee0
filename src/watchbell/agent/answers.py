"""An answer on its way into the log: each chunk as it comes, then the message that they add up to.

Our own loop adds the chunks of a `ChatModel`; a `TurnRunner` reports pieces, which become chunks here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from watchbell.agent.core import Core
from watchbell.errors import AgentError
from watchbell.log.messages import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    Message,
    ModelSource,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)
from watchbell.log.payloads import AssistantMessage, ChunkEvent
from watchbell.models.base import AnswerAssembler


class AnswerLog:
    """One answer of one step. Exactly one `append_message` ends it.

    Args:
        core: The parts of the agent whose answer it is.
        turn: Number of the turn.
        step: Number of the step.
        taken: Tool-call ids that the answer must not use again.
    """

    def __init__(self, core: Core, turn: int, step: int, taken: Iterable[str]) -> None:
        self._core = core
        self._turn = turn
        self._step = step
        self._assembler = AnswerAssembler(taken)
        self._seqs: list[int] = []

    @property
    def finish(self) -> FinishReason | None:
        """Why the answer ended, None while it has not."""
        return self._assembler.finish

    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """Return the tool calls that came whole, in order."""
        return self._assembler.tool_calls()

    def add(self, received: Chunk) -> Chunk:
        """Append the next chunk and return it, with the tool call's id made unique.

        Raises:
            ModelError: The stream breaks the contract of `ChatModel.stream`.
        """
        chunk = self._assembler.add(received)
        event = self._core.session.append("assistant/chunk", ChunkEvent(self._turn, self._step, chunk))
        self._seqs.append(event.seq)
        return chunk

    def append_message(self, *, interrupted: bool) -> None:
        """Append the message; an interrupted answer leaves one only when it holds something."""
        blocks: tuple[Any, ...] = self._assembler.blocks()
        if interrupted:
            # A call that will not run must not stand in the conversation: it would never get its result.
            blocks = tuple(block for block in blocks if not isinstance(block, ToolCallBlock))
            if not blocks:
                return
        model = self._core.model
        source = msgspec.to_builtins(ModelSource(model.provider, model.model))
        message = Message(self._core.new_id(), "assistant", source, blocks)
        payload = AssistantMessage(self._turn, self._step, message, self._assembler.usage, interrupted)
        self._core.session.append(
            "assistant/message", payload, source_event_seqs=tuple(self._seqs), surface_op="append"
        )


class AnswerRecorder:
    """One answer of a model while it comes; made by `TurnRecorder.answer`.

    Attributes:
        entered: Messages that have joined the conversation since `run_turn` was called or the answer before
            began: what was steered in, and what hooks put before it. The model has to get them.
    """

    def __init__(self, log: AnswerLog, entered: tuple[Message, ...]) -> None:
        self.entered = entered
        self.given_ids: list[str] = []
        self._log: AnswerLog | None = log
        self._kind: Literal["text", "reasoning"] | None = None
        self._pieces: list[str] = []
        self._index = -1
        self._usage: dict[str, Any] | None = None
        self._hit_limit = False

    def text(self, delta: str) -> None:
        """Record more text of the answer."""
        self._delta("text", delta)

    def reasoning(self, delta: str) -> None:
        """Record more of what the model thinks before it answers."""
        self._delta("reasoning", delta)

    def call(self, call_id: str, name: str, arguments: str) -> None:
        """Record that the model calls a tool.

        Args:
            call_id: The call's id, by which `TurnRecorder.call` and `watch` know it.
            name: The tool.
            arguments: The model's own JSON text.
        """
        self._end_block()
        log, index = self._open_log(), self._next_index()
        log.add(BlockStart(index, "tool-call"))
        log.add(ToolCallDelta(index=index, id=call_id, name=name, arguments_delta=arguments))
        log.add(BlockEnd(index, ToolCallBlock(call_id, name, arguments)))
        self.given_ids.append(call_id)

    def usage(self, counts: dict[str, Any]) -> None:
        """Record token counts, such as `inputTokens` and `outputTokens`; the last ones given count."""
        self._usage = counts

    def hit_limit(self) -> None:
        """Record that a length limit cut the answer short."""
        self._hit_limit = True

    def end(self, *, interrupted: bool) -> AnswerLog | None:
        """End the answer and return its log, None when it had ended already. The recorder calls this."""
        if self._log is None:
            return None
        log = self._log
        if not interrupted:
            self._end_block()
            if self._usage is not None:
                log.add(UsageChunk(self._usage))
            kind = "max-tokens" if self._hit_limit else "tool-calls" if self.given_ids else "stop"
            log.add(Finish(FinishReason(kind)))
        log.append_message(interrupted=interrupted)
        self._log = None
        return log

    def _delta(self, kind: Literal["text", "reasoning"], delta: str) -> None:
        log = self._open_log()
        if not delta:
            return
        if kind != self._kind:
            self._end_block()
            self._kind = kind
            log.add(BlockStart(self._next_index(), kind))
        self._pieces.append(delta)
        log.add(TextDelta(self._index, delta) if kind == "text" else ReasoningDelta(self._index, delta))

    def _end_block(self) -> None:
        if self._kind is None:
            return
        text = "".join(self._pieces)
        block = TextBlock(text) if self._kind == "text" else ReasoningBlock(text)
        self._open_log().add(BlockEnd(self._index, block))
        self._kind = None
        self._pieces.clear()

    def _next_index(self) -> int:
        self._index += 1
        return self._index

    def _open_log(self) -> AnswerLog:
        if self._log is None:
            raise AgentError("this answer has ended; what came too late for it is not recorded")
        return self._log
