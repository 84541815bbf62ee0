"""One turn: steps of a model's answer and the tool calls in it, each event appended as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, TypeVar, cast

from watchbell.agent.answers import AnswerLog
from watchbell.agent.runner import TurnRecorder
from watchbell.errors import ModelError, PersistenceError, WatchbellError
from watchbell.log.event import Draft
from watchbell.log.messages import Finish, FinishReason, ToolCallBlock
from watchbell.log.payloads import (
    Aborted,
    AbortReason,
    Completed,
    Failed,
    MaxTokens,
    StepMark,
    ToolCallEvent,
    TurnEnd,
    TurnFailure,
)
from watchbell.log.turns import tool_result
from watchbell.models.base import ModelRequest
from watchbell.tools.definition import AbortSignal, ToolExecution

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from watchbell.agent.agent import Agent
    from watchbell.agent.runner import TurnRunner
    from watchbell.agent.steps import Entry, StepPlan
    from watchbell.log.payloads import AbortKind, Reason
    from watchbell.models.base import ChatModel
    from watchbell.tools.registry import ToolOutcome

__all__ = ["Turn", "TurnAbortedError"]

T = TypeVar("T")
_logger = logging.getLogger("watchbell.agent")


class TurnAbortedError(WatchbellError):
    """The turn was cancelled while something in it was awaited."""


class Turn:
    """A running turn. Its first step has entered the log already; `run` goes on to `turn/end`.

    Attributes:
        agent: Whose turn it is.
        number: The turn's number.
        step: Number of the step that is open, or was last.
        signal: Aborted when the turn is cancelled; its tools see the same signal.
    """

    def __init__(self, agent: Agent, number: int) -> None:
        self.number = number
        self.signal = AbortSignal()
        self.agent = agent
        self.step = 1
        self._session = agent.session
        self._step_open = True
        self._abort_kind: AbortKind = "user"
        self._call_ids: set[str] = set()

    def cancel(self, kind: AbortKind) -> None:
        """Abort the turn; its end says who did it: `user`, `parent`, `hook` or `disposed`."""
        if not self.signal.aborted:
            self._abort_kind = kind
            self.signal.abort()

    async def run(self, entry: Entry) -> None:
        """Answer until the turn ends, whatever happens; the log then holds its `turn/end`."""
        model = self.agent.model
        reason: Reason
        try:
            if hasattr(model, "run_turn"):  # `isinstance` of a protocol costs as much as appending an event
                reason = await TurnRecorder(self, entry).run(cast("TurnRunner", model))
            else:
                reason = await self._run_steps(entry, cast("ChatModel", model))
        except TurnAbortedError:
            reason = Aborted(AbortReason(self._abort_kind))
        except PersistenceError:
            reason = _error(
                "PERSISTENCE_UNCERTAIN", "the storage did not confirm the message; nothing was asked"
            )
        except ModelError as error:
            reason = Failed(_failure(error))
        except Exception as error:  # a turn always gets its end; the log of the program has the rest
            _logger.exception("turn %d of session %s failed", self.number, self._session.id)
            reason = _error("INTERNAL_ERROR", f"the turn failed: {type(error).__name__}")
        ends = [Draft("step/end", StepMark(self.number, self.step))] if self._step_open else []
        self._session.append_batch([*ends, Draft("turn/end", TurnEnd(self.number, reason))])

    def end_step(self) -> None:
        """Append the end of the step that is open, if one is."""
        if self._step_open:
            self._session.append("step/end", StepMark(self.number, self.step))
        self._step_open = False

    def enter_step(self, entry: Entry, plan: StepPlan) -> None:
        """Append the beginning of the next step."""
        entry.enter_step(self.number, self.step + 1, plan)
        self.step += 1
        self._step_open = True

    def step_limit(self) -> ModelError | None:
        """Return the error that stops the turn, None while it may have another step."""
        if self.step < self.agent.max_steps:
            return None
        return ModelError(f"the turn was stopped after {self.step} steps", code="STEP_LIMIT")

    async def prepare(self, entry: Entry, *, opens_turn: bool) -> StepPlan:
        """Assemble the next step, anew until its messages did not change meanwhile.

        Nothing may be awaited between the return and the claim of these messages.

        Raises:
            TurnAbortedError: The turn was aborted.
        """
        while True:
            assembling = entry.assemble(opens_turn=opens_turn)
            # Without hooks it waits for nothing, so that it needs no task.
            plan = await (self.until_aborted(assembling) if entry.has_hooks else assembling)
            self.raise_if_aborted()  # while the end of the assembling was on its way here
            if entry.is_current(plan):
                return plan

    async def until_aborted(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` of others, in a task of its own, cancelling it when the turn is aborted.

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

    async def until_aborted_here(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` in the task that asks, cancelling what it waits for when the turn is aborted.

        Raises:
            TurnAbortedError: The turn was aborted before `work` had ended.
        """
        task = asyncio.current_task()
        if task is None or self.signal.aborted:
            work.close()
            raise TurnAbortedError
        requests = task.cancelling()
        forget = self.signal.on_abort(task.cancel)
        try:
            result = await work
            if not self.signal.aborted:
                return result
        except asyncio.CancelledError:
            if not self.signal.aborted:
                raise
        finally:
            forget()
            if self.signal.aborted:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)  # the abort may have come too late for `work` to notice
                task.uncancel()
        if task.cancelling() > requests:  # somebody else cancelled the task as well
            raise asyncio.CancelledError
        raise TurnAbortedError

    def raise_if_aborted(self) -> None:
        """Do nothing unless the turn was aborted.

        Raises:
            TurnAbortedError: It was.
        """
        if self.signal.aborted:
            raise TurnAbortedError

    async def confirm(self) -> None:
        """Wait until all that the model will be asked about is durable.

        Raises:
            PersistenceError: That is not certain.
        """
        try:
            acknowledged = await self.until_aborted_here(self.agent.sessions.flush(self._session))
        except TurnAbortedError:
            raise
        except Exception as error:
            raise PersistenceError("the storage did not confirm the message") from error
        if not acknowledged:
            raise PersistenceError("no storage acknowledged the message")

    def begin_answer(self) -> AnswerLog:
        """Begin the answer of the step that is open."""
        return AnswerLog(self.agent, self.number, self.step, self._call_ids)

    def take_calls(self, answer: AnswerLog) -> tuple[ToolCallBlock, ...]:
        """Return the calls of a whole answer; their ids are taken for the rest of the turn."""
        calls = answer.tool_calls()
        self._call_ids.update(call.id for call in calls)
        return calls

    def append_call(self, call: ToolCallBlock) -> int:
        """Append that a call is about to run, and return the seq of that event."""
        payload = ToolCallEvent(self.number, self.step, call.id, call.name, call.arguments)
        return self._session.append("tool/call", payload).seq

    async def execute(self, call: ToolCallBlock) -> ToolOutcome:
        """Run a call of one of the agent's tools; there is an outcome whatever the tool does."""
        execution = ToolExecution(self.agent, call.id, self.signal)
        return await self.agent.tools.execute(call.name, call.arguments, execution)

    def append_result(self, call: ToolCallBlock, seq: int | None, outcome: ToolOutcome) -> None:
        """Append what a call came to; `seq` is that of its `tool/call`, None when it never began."""
        self._session.append_batch(
            [
                tool_result(
                    self.number,
                    self.step,
                    call.id,
                    outcome.text,
                    is_error=outcome.is_error,
                    error=outcome.error,
                    cites=seq,
                )
            ]
        )

    async def _run_steps(self, entry: Entry, model: ChatModel) -> Reason:
        """Run our own loop: ask the model, run its calls, until it answers without any."""
        while True:
            reason = await self._answer(model)
            self.end_step()
            if reason is None and (limit := self.step_limit()) is not None:
                raise limit
            if reason is not None and (not isinstance(reason, Completed) or not self.agent.has_waking_step):
                return reason
            plan = await self.prepare(entry, opens_turn=False)
            if reason is not None and not plan.accepted:
                entry.discard(plan)
                return reason
            self.enter_step(entry, plan)

    async def _answer(self, model: ChatModel) -> Reason | None:
        """Run one step: barrier, model, tool calls. Returns why the turn ends, None when it goes on."""
        await self.confirm()
        answer, finish = await self._stream(model)
        calls = self.take_calls(answer)
        if calls:
            await self._run_calls(calls)
            return None
        return MaxTokens() if finish.kind == "max-tokens" else Completed()

    async def _stream(self, model: ChatModel) -> tuple[AnswerLog, FinishReason]:
        answer = self.begin_answer()
        try:
            await self.until_aborted_here(self._receive(model, answer))
        except (TurnAbortedError, ModelError):
            answer.append_message(interrupted=True)
            raise
        finish = answer.finish or FinishReason(
            "error", {"message": "the answer was cut off", "code": "CUT_STREAM"}
        )
        if finish.kind in ("error", "aborted"):
            answer.append_message(interrupted=True)
            raise _model_error(finish)
        answer.append_message(interrupted=False)
        return answer, finish

    async def _receive(self, model: ChatModel, answer: AnswerLog) -> None:
        agent = self.agent
        messages = await agent.read_transcript()
        stream = model.stream(ModelRequest(agent.system, messages, agent.tools.specs()))
        try:
            async for received in stream:
                if isinstance(answer.add(received), Finish):
                    break
        finally:
            await stream.aclose()

    async def _run_calls(self, calls: Sequence[ToolCallBlock]) -> None:
        """Run the calls side by side; their results enter in the order of the calls, one for each."""
        started = [(self.append_call(call), asyncio.create_task(self.execute(call))) for call in calls]
        for call, (seq, task) in zip(calls, started, strict=True):
            self.append_result(call, seq, await task)
        self.raise_if_aborted()


def _error(code: str, message: str) -> Failed:
    return Failed(TurnFailure(message, code))


def _model_error(finish: FinishReason) -> ModelError:
    failure = finish.failure or {}
    return ModelError(
        str(failure.get("message", "the model's answer failed")),
        code=str(failure.get("code", "PROVIDER_ERROR")),
        status=failure.get("status"),
        retry_after_ms=failure.get("providerRetryAfterMs"),
        request_id=failure.get("requestId"),
    )


def _failure(error: ModelError) -> TurnFailure:
    return TurnFailure(str(error), error.code, error.status, error.retry_after_ms, error.request_id)
