"""Our own loop: ask the model, run the tools that it calls, until it answers without a call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from watchbell.agent.abort import TurnAbortedError, until_aborted_here
from watchbell.agent.answers import AnswerLog
from watchbell.agent.turn import Turn
from watchbell.errors import ModelError
from watchbell.log.chunks import Finish, FinishReason
from watchbell.log.messages import ToolCallBlock
from watchbell.log.payloads import Completed, MaxTokens
from watchbell.models.base import ChatModel, ModelRequest

__all__ = ["answer_turn"]


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
    turn.raise_if_aborted()


def _model_error(finish: FinishReason) -> ModelError:
    failure = finish.failure or {}
    return ModelError(
        str(failure.get("message", "the model's answer failed")),
        code=str(failure.get("code", "PROVIDER_ERROR")),
        status=failure.get("status"),
        retry_after_ms=failure.get("providerRetryAfterMs"),
        request_id=failure.get("requestId"),
    )
