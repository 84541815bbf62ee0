"""An answer on its way into the log: each chunk as it comes, then the message that they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchbell.log.events import AssistantMessage, ChunkEvent, Message, ToolCallBlock
from watchbell.models.base import AnswerAssembler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchbell.agent.agent import Agent
    from watchbell.log.events import Chunk, FinishReason

__all__ = ["AnswerLog"]


class AnswerLog:
    """One answer of one step. Exactly one `append_message` ends it.

    Args:
        agent: Whose answer it is.
        turn: Number of the turn.
        step: Number of the step.
        taken: Tool-call ids that the answer must not use again.
    """

    def __init__(self, agent: Agent, turn: int, step: int, taken: Iterable[str]) -> None:
        self._agent = agent
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
        event = self._agent.session.append("assistant/chunk", ChunkEvent(self._turn, self._step, chunk))
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
        model = self._agent.model
        source = {"kind": "model", "provider": model.provider, "model": model.model}
        message = Message(self._agent.new_id(), "assistant", source, blocks)
        payload = AssistantMessage(self._turn, self._step, message, interrupted=interrupted)
        if self._assembler.usage is not None:
            payload = AssistantMessage(self._turn, self._step, message, self._assembler.usage, interrupted)
        self._agent.session.append(
            "assistant/message", payload, source_event_seqs=tuple(self._seqs), surface_op="append"
        )
