"""The seam for another framework's loop: it calls the model and decides what comes next, we keep the log.

A host takes a `TurnRunner` in the place of a model. The session log, the inbox, Schedule and its delivery
stay as they are; only what happens between the beginning of a turn and its end is the runner's. It reports
that through a `TurnRecorder`, so that the log says the same as for our own loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from watchbell.agent._abort import raise_if_aborted, until_aborted
from watchbell.agent.agent import Agent
from watchbell.agent.answers import AnswerRecorder
from watchbell.agent.turn import Turn
from watchbell.errors import AgentError, InvalidEventError, ModelError, PersistenceError
from watchbell.log.messages import Message, ToolCallBlock
from watchbell.log.payloads import Completed, MaxTokens, Reason
from watchbell.models.base import Answerer
from watchbell.tools.definition import AbortSignal, Tool
from watchbell.tools.registry import ToolOutcome, aborted_outcome, failed_outcome, render_value

T = TypeVar("T")
_NOT_STARTED = ToolOutcome(
    "This call was not run.", None, True, {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
)
_NOT_AWAITED = ToolOutcome(
    "Nobody waited for the end of this call: it may or may not have taken effect.",
    None,
    True,
    {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
)


@runtime_checkable
class TurnRunner(Answerer, Protocol):
    """A loop of another framework that answers turns.

    One runner may answer for many agents, and for several of them at a time.
    """

    async def run_turn(self, turn: TurnRecorder) -> None:
        """Answer what `turn.transcript()` ends with, and return when the answer is whole.

        Everything that the transcript holds is durable when this is called. Each call of a model stands in
        an `async with turn.answer()`, each call of a tool in `turn.call()` or `turn.watch()`. It is called
        once more in the same turn when somebody steered a message into it after the last answer.

        Cancellation: when the turn is cancelled, the task that runs this is, once, and its end is awaited.
        What it leaves open then is closed in the log.

        Raises:
            ModelError: The answer failed; its code goes into the log. A framework's own exceptions are best
                turned into it; any other one ends the turn with `INTERNAL_ERROR`.
        """
        ...


@dataclass(slots=True, eq=False)
class _Call:
    """A call of an answer, until its result is in the log."""

    given_id: str
    block: ToolCallBlock
    seq: int | None = None
    outcome: ToolOutcome | None = None


class TurnRecorder:
    """A turn as a `TurnRunner` sees it: what it has to answer, and where it reports how.

    Everything is appended to the session log as it is reported, in the order that every reader of logs relies
    on: an answer, then its calls, then the next answer in a new step.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._answer: AnswerRecorder | None = None
        self._is_answered = False
        self._hit_limit = False
        self._calls: list[_Call] = []
        self._failure: PersistenceError | ModelError | None = None
        self._is_over = False

    @property
    def agent(self) -> Agent:
        """Whose turn it is."""
        return self._turn.agent

    @property
    def number(self) -> int:
        """The turn's number, from 1."""
        return self._turn.number

    @property
    def signal(self) -> AbortSignal:
        """Aborted when the turn is cancelled."""
        return self._turn.signal

    @property
    def system(self) -> str | None:
        """The agent's system prompt, None for none."""
        return self._turn.core.system

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The agent's tools, by name, Schedule's among them; `call` runs one."""
        return self.agent.tools.tools()

    def transcript(self) -> tuple[Message, ...]:
        """Return the whole conversation so far, oldest message first."""
        return self._turn.core.messages()

    @asynccontextmanager
    async def answer(self) -> AsyncGenerator[AnswerRecorder]:
        """Record one answer of the model; the model is called inside.

        From the second answer of a turn on, this ends the step before and begins the next one, lets in what
        was steered meanwhile, and returns once all of it is durable. Calls of the answer before that have no
        result get an error for one. An exception inside leaves what had come as an interrupted answer.

        Raises:
            PersistenceError: The storage did not confirm what the model would be asked. The turn ends.
            ModelError: The turn has had as many steps as it may. It ends.
            AgentError: An answer is open already.
        """
        self._require_running()
        if self._answer is not None:
            raise AgentError("an answer is open already; a turn has one at a time")
        entered = await self._begin_step() if self._is_answered else ()
        answer = self._answer = AnswerRecorder(self._turn.begin_answer(), entered)
        try:
            yield answer
        except BaseException:
            answer.end(interrupted=True)
            raise
        else:
            self._end_answer(answer)
        finally:
            self._answer = None

    async def call(self, call_id: str) -> ToolOutcome:
        """Run a call of the last answer with the agent's tool of that name, and return what it came to.

        Calls may run side by side; their results enter the log in the order of the calls.

        Raises:
            AgentError: The last answer holds no such call that has not been run.
        """
        with self._begin_call(call_id) as call:
            call.outcome = await self._turn.execute(call.block)
            return call.outcome

    async def watch(self, call_id: str, run: Callable[[], Awaitable[T]]) -> T:
        """Run a call of the last answer with a tool of the framework's own.

        What `run` returns or raises passes. The log gets the value's JSON, or its `str` when it has none; of
        an exception only the class.

        Raises:
            AgentError: The last answer holds no such call that has not been run.
        """
        with self._begin_call(call_id) as call:
            value = await run()
            call.outcome = ToolOutcome(_text_of(value), value)
            return value

    async def run(self, runner: TurnRunner) -> Reason:
        """Have the turn answered and return why it ends. The turn itself calls this."""
        try:
            return await self._run(runner)
        finally:
            self._is_over = True

    async def _run(self, runner: TurnRunner) -> Reason:
        turn = self._turn
        await turn.confirm()
        while True:
            await self._run_once(runner)
            turn.end_step()
            if self._hit_limit:
                return MaxTokens()
            if await turn.begin_step(is_needed=False) is None:
                return Completed()
            self._is_answered = False
            await turn.confirm()

    async def _run_once(self, runner: TurnRunner) -> None:
        """Call the runner; whatever it does, nothing of the step is left open but the step itself."""
        turn = self._turn
        try:
            await until_aborted(turn.signal, runner.run_turn(self))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ModelError("the loop that answers was cancelled from inside", code="CANCELLED") from None
        except Exception:
            raise_if_aborted(turn.signal)  # whatever a framework makes of being cancelled
            if self._failure is not None:  # or of an error of ours
                raise self._failure from None
            raise
        finally:
            self._settle()
        raise_if_aborted(turn.signal)
        if self._failure is not None:
            raise self._failure
        if not self._is_answered:
            raise ModelError("the loop ended without an answer", code="EMPTY_ANSWER")

    async def _begin_step(self) -> tuple[Message, ...]:
        turn = self._turn
        self._settle()
        turn.end_step()
        try:
            entered = await turn.begin_step(is_needed=True)
            self._is_answered = False
            await turn.confirm()
        except (PersistenceError, ModelError) as error:
            self._failure = error
            raise
        return entered or ()

    def _end_answer(self, answer: AnswerRecorder) -> None:
        log = answer.end(interrupted=False)
        if log is None:
            return
        blocks = self._turn.take_calls(log)
        self._calls = [_Call(given, block) for given, block in zip(answer.given_ids, blocks, strict=True)]
        self._is_answered = True
        self._hit_limit = log.finish is not None and log.finish.kind == "max-tokens"

    def _require_running(self) -> None:
        """Raise what has stopped the turn, if anything has; a framework may have swallowed it before."""
        raise_if_aborted(self._turn.signal)
        if self._failure is not None:
            raise self._failure
        if self._is_over:
            raise AgentError(f"turn {self.number} has ended; nothing can be recorded in it any more")

    @contextmanager
    def _begin_call(self, call_id: str) -> Generator[_Call]:
        """Begin a call, to be run inside; whatever becomes of it, it has an outcome then."""
        self._require_running()
        for call in self._calls:
            if call.given_id == call_id and call.seq is None and call.outcome is None:
                break
        else:
            raise AgentError(f"the last answer holds no call {call_id!r} still to run; record it first")
        call.seq = self._turn.append_call(call.block)
        try:
            yield call
        except asyncio.CancelledError:
            call.outcome = aborted_outcome()
            raise
        except Exception as error:
            call.outcome = failed_outcome(call.block.name, type(error).__name__)
            raise
        finally:
            self._append_results()

    def _append_results(self) -> None:
        while self._calls and self._calls[0].outcome is not None:
            call = self._calls.pop(0)
            self._turn.append_result(call.block, call.seq, call.outcome or _NOT_STARTED)

    def _settle(self) -> None:
        """Close what a loop left open: its answer, and its calls without a result."""
        if self._answer is not None:
            self._answer.end(interrupted=True)
        for call in self._calls:
            if call.outcome is None:
                call.outcome = _NOT_STARTED if call.seq is None else _NOT_AWAITED
        self._append_results()


def _text_of(value: Any) -> str:
    try:
        return render_value(value)
    except InvalidEventError:
        return render_value(str(value))
