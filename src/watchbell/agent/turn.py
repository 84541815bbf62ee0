"""One turn of an agent, each event appended as it happens, and our own loop that answers it.

The loop asks the model and runs the tools that it calls, until it answers without a call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from watchbell.agent._abort import TurnAbortedError, raise_if_aborted, until_aborted_here
from watchbell.agent.agent import Agent
from watchbell.agent.answers import AnswerLog
from watchbell.agent.core import Core
from watchbell.agent.steps import StepAssembler
from watchbell.errors import ModelError, PersistenceError
from watchbell.log.event import Draft
from watchbell.log.messages import Finish, FinishReason, Message, ToolCallBlock
from watchbell.log.payloads import (
    Aborted,
    AbortKind,
    AbortReason,
    Completed,
    Failed,
    MaxTokens,
    Reason,
    StepMark,
    ToolCallEvent,
    TurnEnd,
    TurnFailure,
)
from watchbell.log.turns import tool_result
from watchbell.models.base import ChatModel, ModelRequest
from watchbell.tools.definition import AbortSignal, ToolExecution
from watchbell.tools.registry import ToolOutcome

_logger = logging.getLogger("watchbell.agent")


@dataclass(slots=True, eq=False)
class Turn:
    """A turn that runs. Its first step has entered the log already; `run` goes on to `turn/end`.

    Attributes:
        step: Number of the step that is open, or was last.
        signal: Aborted when the turn is cancelled; its tools see the same signal.
    """

    agent: Agent
    core: Core
    assembler: StepAssembler
    number: int
    step: int = 1
    signal: AbortSignal = field(default_factory=AbortSignal)
    _is_step_open: bool = True
    _abort_kind: AbortKind = "user"
    _call_ids: set[str] = field(default_factory=set[str])

    def cancel(self, kind: AbortKind) -> None:
        """Abort the turn; its end says who did it: `user`, `parent`, `hook` or `disposed`."""
        if not self.signal.aborted:
            self._abort_kind = kind
            self.signal.abort()

    async def run(self, answering: Awaitable[Reason]) -> None:
        """Await `answering`, which tells why the turn ends, and append the end whatever happens."""
        session = self.core.session
        reason: Reason
        try:
            reason = await answering
        except TurnAbortedError:
            reason = Aborted(AbortReason(self._abort_kind))
        except PersistenceError:
            failure = "the storage did not confirm the message; nothing was asked"
            reason = Failed(TurnFailure(failure, "PERSISTENCE_UNCERTAIN"))
        except ModelError as error:
            details = error.code, error.status, error.retry_after_ms, error.request_id
            reason = Failed(TurnFailure(str(error), *details))
        except Exception as error:  # a turn always gets its end; the log of the program has the rest
            _logger.exception("turn %d of session %s failed", self.number, session.id)
            reason = Failed(TurnFailure(f"the turn failed: {type(error).__name__}", "INTERNAL_ERROR"))
        ends = [Draft("step/end", StepMark(self.number, self.step))] if self._is_step_open else []
        session.append_batch([*ends, Draft("turn/end", TurnEnd(self.number, reason))])

    def end_step(self) -> None:
        """Append the end of the step that is open, if one is."""
        if self._is_step_open:
            self.core.session.append("step/end", StepMark(self.number, self.step))
        self._is_step_open = False

    async def begin_step(self, *, is_needed: bool) -> tuple[Message, ...] | None:
        """Begin the next step, with what was steered in meanwhile.

        Args:
            is_needed: Whether the turn goes on even if nothing was.

        Returns:
            The messages that entered; None when there is no such step.

        Raises:
            ModelError: The turn has had as many steps as it may.
            TurnAbortedError: The turn was cancelled.
        """
        if is_needed and self.step >= self.core.max_steps:
            raise ModelError(f"the turn was stopped after {self.step} steps", code="STEP_LIMIT")
        if not is_needed and not self.core.has_waking_step:
            return None
        plan = await self.assembler.prepare(self.signal, opens_turn=False)
        if not is_needed and not plan.accepted:
            self.core.discard(plan.rejected)
            return None
        self.assembler.enter_step(self.number, self.step + 1, plan)
        self.step += 1
        self._is_step_open = True
        return (*plan.head, *plan.accepted)

    async def confirm(self) -> None:
        """Wait until all that the model will be asked about is durable.

        Raises:
            PersistenceError: It is not certain that all of it is.
            TurnAbortedError: The turn was cancelled.
        """
        if not await until_aborted_here(self.signal, self.core.flush()):
            raise PersistenceError("the storage did not confirm the message")

    def begin_answer(self) -> AnswerLog:
        """Begin the answer of the step that is open."""
        return AnswerLog(self.core, self.number, self.step, self._call_ids)

    def take_calls(self, answer: AnswerLog) -> tuple[ToolCallBlock, ...]:
        """Return the calls of a whole answer; their ids are taken for the rest of the turn."""
        calls = answer.tool_calls()
        self._call_ids.update(call.id for call in calls)
        return calls

    def append_call(self, call: ToolCallBlock) -> int:
        """Append that a call is about to run, and return the seq of that event."""
        payload = ToolCallEvent(self.number, self.step, call.id, call.name, call.arguments)
        return self.core.session.append("tool/call", payload).seq

    async def execute(self, call: ToolCallBlock) -> ToolOutcome:
        """Run a call of one of the agent's tools; there is an outcome whatever the tool does."""
        execution = ToolExecution(self.agent, call.id, self.signal)
        return await self.core.tools.execute(call.name, call.arguments, execution)

    def append_result(self, call: ToolCallBlock, seq: int | None, outcome: ToolOutcome) -> None:
        """Append what a call came to; `seq` is that of its `tool/call`, None when it never began."""
        result = tool_result(
            self.number,
            self.step,
            call.id,
            outcome.text,
            is_error=outcome.is_error,
            error=outcome.error,
            cites=seq,
        )
        self.core.session.append_batch([result])


async def answer_turn(turn: Turn, model: ChatModel) -> Completed | MaxTokens:
    """Run the steps of a turn and return why it ends.

    Raises:
        TurnAbortedError: The turn was cancelled.
        PersistenceError: The storage did not confirm what the model would be asked.
        ModelError: The model failed, or the turn has had as many steps as it may.
    """
    while True:
        reason = await _answer_step(turn, model)
        turn.end_step()
        if isinstance(reason, MaxTokens):
            return reason
        if await turn.begin_step(is_needed=reason is None) is None and reason is not None:
            return reason


async def _answer_step(turn: Turn, model: ChatModel) -> Completed | MaxTokens | None:
    """Run one step: barrier, model, tool calls. Returns why the turn ends, None when it goes on."""
    await turn.confirm()
    answer, finish = await _stream(turn, model)
    calls = turn.take_calls(answer)
    if calls:
        await _run_calls(turn, calls)
        return None
    return MaxTokens() if finish.kind == "max-tokens" else Completed()


async def _stream(turn: Turn, model: ChatModel) -> tuple[AnswerLog, FinishReason]:
    answer = turn.begin_answer()
    try:
        await until_aborted_here(turn.signal, _receive(turn, model, answer))
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


async def _receive(turn: Turn, model: ChatModel, answer: AnswerLog) -> None:
    core = turn.core
    await core.session.fold(core.transcript)  # in slices, what is long and unread
    stream = model.stream(ModelRequest(core.system, core.messages(), core.tools.specs()))
    try:
        async for received in stream:
            if isinstance(answer.add(received), Finish):
                break
    finally:
        await stream.aclose()


async def _run_calls(turn: Turn, calls: Sequence[ToolCallBlock]) -> None:
    """Run the calls side by side; their results enter in the order of the calls, one for each."""
    started = [(turn.append_call(call), asyncio.create_task(turn.execute(call))) for call in calls]
    for call, (seq, task) in zip(calls, started, strict=True):
        turn.append_result(call, seq, await task)
    raise_if_aborted(turn.signal)


def _model_error(finish: FinishReason) -> ModelError:
    failure = finish.failure or {}
    return ModelError(
        str(failure.get("message", "the model's answer failed")),
        code=str(failure.get("code", "PROVIDER_ERROR")),
        status=failure.get("status"),
        retry_after_ms=failure.get("providerRetryAfterMs"),
        request_id=failure.get("requestId"),
    )
