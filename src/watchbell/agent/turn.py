"""One turn: steps of a model's answer and the tool calls in it, each event appended as it happens."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from watchbell.errors import ModelError, PersistenceError, WatchbellError
from watchbell.log.events import (
    AssistantMessage,
    ChunkEvent,
    Draft,
    Finish,
    FinishReason,
    Message,
    StepMark,
    ToolCallBlock,
    ToolCallEvent,
    TurnEnd,
)
from watchbell.log.repair import tool_result
from watchbell.models.base import AnswerAssembler, ModelRequest
from watchbell.tools.definition import AbortSignal, ToolExecution

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from watchbell.agent.agent import Agent
    from watchbell.agent.entry import Entry, StepPlan
    from watchbell.log.events import Event
    from watchbell.tools.registry import ToolOutcome

__all__ = ["Turn", "TurnAbortedError"]

T = TypeVar("T")
_logger = logging.getLogger("watchbell.agent")


class TurnAbortedError(WatchbellError):
    """The turn was cancelled while something in it was awaited."""


class Turn:
    """A running turn. Its first step has entered the log already; `run` goes on to `turn/end`.

    Attributes:
        number: The turn's number.
        signal: Aborted when the turn is cancelled; its tools see the same signal.
    """

    def __init__(self, agent: Agent, number: int) -> None:
        self.number = number
        self.signal = AbortSignal()
        self._agent = agent
        self._session = agent.session
        self._step = 1
        self._abort_kind = "user"
        self._call_ids: set[str] = set()

    def cancel(self, kind: str) -> None:
        """Abort the turn; `kind` is what its end says of who did it (`user`, `parent`, `hook`, `disposed`)."""
        if not self.signal.aborted:
            self._abort_kind = kind
            self.signal.abort()

    async def run(self, entry: Entry) -> None:
        """Answer until the turn ends, whatever happens; the log then holds its `turn/end`."""
        step_open = True
        try:
            while True:
                reason = await self._answer()
                self._session.append("step/end", StepMark(self.number, self._step))
                step_open = False
                if reason is None and self._step >= self._agent.max_steps:
                    reason = _error("STEP_LIMIT", f"the turn was stopped after {self._step} steps")
                if reason is not None and (reason["kind"] != "completed" or not self._agent.has_waking_step):
                    break
                plan = await self.prepare(entry, opens_turn=False)
                if reason is not None and not plan.accepted:
                    entry.discard(plan)
                    break
                entry.enter_step(self.number, self._step + 1, plan)
                self._step += 1
                step_open = True
        except TurnAbortedError:
            reason = {"kind": "aborted", "reason": {"kind": self._abort_kind}}
        except PersistenceError:
            reason = _error("PERSISTENCE_UNCERTAIN", "the storage did not confirm the message; nothing was asked")
        except ModelError as error:
            reason = {"kind": "error", "error": _failure(error)}
        except Exception as error:  # noqa: BLE001 - a turn always gets its end; the log of the program has the rest
            _logger.exception("turn %d of session %s failed", self.number, self._session.id)
            reason = _error("INTERNAL_ERROR", f"the turn failed: {type(error).__name__}")
        ends = [Draft("step/end", StepMark(self.number, self._step))] if step_open else []
        self._session.append_batch([*ends, Draft("turn/end", TurnEnd(self.number, reason))])

    async def prepare(self, entry: Entry, *, opens_turn: bool) -> StepPlan:
        """Assemble the next step, anew until its messages did not change meanwhile.

        Nothing may be awaited between the return and the claim of these messages.

        Raises:
            TurnAbortedError: The turn was aborted.
        """
        while True:
            plan = await self.until_aborted(entry.assemble(opens_turn=opens_turn))
            if self.signal.aborted:  # while the end of the assembling was on its way here
                raise TurnAbortedError
            if entry.is_current(plan):
                return plan

    async def until_aborted(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, cancelling it when the turn is aborted.

        Raises:
            TurnAbortedError: The turn was aborted before `work` had ended.
        """
        task = asyncio.ensure_future(work)
        forget = self.signal.on_abort(task.cancel)
        try:
            if self.signal.aborted:
                task.cancel()
            return await task
        except asyncio.CancelledError:
            if not self.signal.aborted:
                task.cancel()
                raise
            raise TurnAbortedError from None
        finally:
            forget()

    async def _answer(self) -> dict[str, Any] | None:
        """Run one step: barrier, model, tool calls. Returns why the turn ends, None when it goes on."""
        await self._confirm()
        answer, finish = await self._stream()
        calls = answer.tool_calls()
        self._call_ids.update(call.id for call in calls)
        if calls:
            await self._run_calls(calls)
            return None
        return {"kind": "max-tokens" if finish.kind == "max-tokens" else "completed"}

    async def _confirm(self) -> None:
        """Wait until all that the model will be asked about is durable.

        Raises:
            PersistenceError: That is not certain.
        """
        try:
            acknowledged = await self.until_aborted(self._agent.sessions.flush(self._session))
        except TurnAbortedError:
            raise
        except Exception as error:
            raise PersistenceError("the storage did not confirm the message") from error
        if not acknowledged:
            raise PersistenceError("no storage acknowledged the message")

    async def _stream(self) -> tuple[AnswerAssembler, FinishReason]:
        answer = AnswerAssembler(self._call_ids)
        seqs: list[int] = []
        try:
            await self.until_aborted(self._receive(answer, seqs))
        except (TurnAbortedError, ModelError):
            self._append_answer(answer, seqs, interrupted=True)
            raise
        finish = answer.finish or FinishReason("error", {"message": "the answer was cut off", "code": "CUT_STREAM"})
        if finish.kind in ("error", "aborted"):
            self._append_answer(answer, seqs, interrupted=True)
            raise _model_error(finish)
        self._append_answer(answer, seqs, interrupted=False)
        return answer, finish

    async def _receive(self, answer: AnswerAssembler, seqs: list[int]) -> None:
        messages = await self._agent.read_transcript()
        stream = self._agent.model.stream(
            ModelRequest(self._agent.system, messages, self._agent.tools.specs())
        )
        try:
            async for received in stream:
                chunk = answer.add(received)
                event = self._session.append("assistant/chunk", ChunkEvent(self.number, self._step, chunk))
                seqs.append(event.seq)
                if isinstance(chunk, Finish):
                    break
        finally:
            await stream.aclose()

    def _append_answer(self, answer: AnswerAssembler, seqs: list[int], *, interrupted: bool) -> None:
        blocks: tuple[Any, ...] = answer.blocks()
        if interrupted:
            # A call that will not run must not stand in the conversation: it would never get its result.
            blocks = tuple(block for block in blocks if not isinstance(block, ToolCallBlock))
            if not blocks:
                return
        source = {"kind": "model", "provider": self._agent.model.provider, "model": self._agent.model.model}
        message = Message(self._agent.new_id(), "assistant", source, blocks)
        payload = AssistantMessage(self.number, self._step, message, interrupted=interrupted)
        if answer.usage is not None:
            payload = AssistantMessage(self.number, self._step, message, answer.usage, interrupted)
        self._session.append("assistant/message", payload, source_event_seqs=tuple(seqs), surface_op="append")

    async def _run_calls(self, calls: Sequence[ToolCallBlock]) -> None:
        """Run the calls side by side; their results enter in the order of the calls, one for each."""
        started = [self._start_call(call) for call in calls]
        for call, (event, task) in zip(calls, started, strict=True):
            outcome = await task
            self._session.append_batch([self._result(call, event, outcome)])
        if self.signal.aborted:
            raise TurnAbortedError

    def _start_call(self, call: ToolCallBlock) -> tuple[Event, asyncio.Task[ToolOutcome]]:
        payload = ToolCallEvent(self.number, self._step, call.id, call.name, call.arguments)
        event = self._session.append("tool/call", payload)
        execution = ToolExecution(self._agent, call.id, self.signal)
        task = asyncio.create_task(self._agent.tools.execute(call.name, call.arguments, execution))
        return event, task

    def _result(self, call: ToolCallBlock, event: Event, outcome: ToolOutcome) -> Draft:
        return tool_result(
            self.number,
            self._step,
            call.id,
            outcome.text,
            is_error=outcome.is_error,
            error=outcome.error,
            cites=event.seq,
        )


def _error(code: str, message: str) -> dict[str, Any]:
    return {"kind": "error", "error": {"message": message, "code": code}}


def _model_error(finish: FinishReason) -> ModelError:
    failure = finish.failure or {}
    return ModelError(
        str(failure.get("message", "the model's answer failed")),
        code=str(failure.get("code", "PROVIDER_ERROR")),
        status=failure.get("status"),
        retry_after_ms=failure.get("providerRetryAfterMs"),
        request_id=failure.get("requestId"),
    )


def _failure(error: ModelError) -> dict[str, Any]:
    hints = {"status": error.status, "providerRetryAfterMs": error.retry_after_ms, "requestId": error.request_id}
    given = {key: hint for key, hint in hints.items() if hint is not None}
    return {"message": str(error), "code": error.code, **given}
