"""One turn of an agent, from its first step in the log to its end, each event appended as it happens."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from watchbell.agent.abort import TurnAbortedError, raise_if_aborted, until_aborted_here
from watchbell.agent.agent import Agent
from watchbell.agent.answers import AnswerLog
from watchbell.agent.core import Core
from watchbell.agent.steps import StepAssembler
from watchbell.errors import ModelError, PersistenceError
from watchbell.log.event import Draft
from watchbell.log.messages import Message, ToolCallBlock
from watchbell.log.payloads import (
    Aborted,
    AbortKind,
    AbortReason,
    Failed,
    Reason,
    StepMark,
    ToolCallEvent,
    TurnEnd,
    TurnFailure,
)
from watchbell.log.turns import tool_result
from watchbell.tools.definition import AbortSignal, ToolExecution
from watchbell.tools.registry import ToolOutcome

__all__ = ["Turn"]

_logger = logging.getLogger("watchbell.agent")


class Turn:
    """A turn that runs. Its first step has entered the log already; `run` goes on to `turn/end`.

    Attributes:
        agent: Whose turn it is.
        core: The agent's parts.
        number: The turn's number.
        step: Number of the step that is open, or was last.
        signal: Aborted when the turn is cancelled; its tools see the same signal.
    """

    def __init__(self, agent: Agent, core: Core, assembler: StepAssembler, number: int) -> None:
        self.agent = agent
        self.core = core
        self.number = number
        self.step = 1
        self.signal = AbortSignal()
        self._assembler = assembler
        self._step_open = True
        self._abort_kind: AbortKind = "user"
        self._call_ids: set[str] = set()

    def cancel(self, kind: AbortKind) -> None:
        """Abort the turn; its end says who did it: `user`, `parent`, `hook` or `disposed`."""
        if not self.signal.aborted:
            self._abort_kind = kind
            self.signal.abort()

    async def run(self, answering: Awaitable[Reason]) -> None:
        """Await what answers the turn, and append its end, whatever happens.

        Args:
            answering: Answers the turn and tells why it ends.
        """
        session = self.core.session
        reason: Reason
        try:
            reason = await answering
        except TurnAbortedError:
            reason = Aborted(AbortReason(self._abort_kind))
        except PersistenceError:
            reason = _failed(
                "PERSISTENCE_UNCERTAIN", "the storage did not confirm the message; nothing was asked"
            )
        except ModelError as error:
            reason = Failed(
                TurnFailure(str(error), error.code, error.status, error.retry_after_ms, error.request_id)
            )
        except Exception as error:  # a turn always gets its end; the log of the program has the rest
            _logger.exception("turn %d of session %s failed", self.number, session.id)
            reason = _failed("INTERNAL_ERROR", f"the turn failed: {type(error).__name__}")
        ends = [Draft("step/end", StepMark(self.number, self.step))] if self._step_open else []
        session.append_batch([*ends, Draft("turn/end", TurnEnd(self.number, reason))])

    def end_step(self) -> None:
        """Append the end of the step that is open, if one is."""
        if self._step_open:
            self.core.session.append("step/end", StepMark(self.number, self.step))
        self._step_open = False

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
        plan = await self._assembler.prepare(self.signal, opens_turn=False)
        if not is_needed and not plan.accepted:
            self.core.discard(plan.rejected)
            return None
        self._assembler.enter_step(self.number, self.step + 1, plan)
        self.step += 1
        self._step_open = True
        return (*plan.head, *plan.accepted)

    async def confirm(self) -> None:
        """Wait until all that the model will be asked about is durable.

        Raises:
            PersistenceError: It is not certain that all of it is.
            TurnAbortedError: The turn was cancelled.
        """
        try:
            acknowledged = await until_aborted_here(self.signal, self.core.flush())
        except TurnAbortedError:
            raise
        except Exception as error:
            raise PersistenceError("the storage did not confirm the message") from error
        if not acknowledged:
            raise PersistenceError("no storage acknowledged the message")

    def raise_if_aborted(self) -> None:
        """Do nothing unless the turn was cancelled.

        Raises:
            TurnAbortedError: The turn was cancelled.
        """
        raise_if_aborted(self.signal)

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


def _failed(code: str, message: str) -> Failed:
    return Failed(TurnFailure(message, code))
