"""What closes a turn that a crash left open (log-format, "Interrupted turn")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchbell.log.event import Draft
from watchbell.log.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock
from watchbell.log.payloads import Interrupted, StepMark, ToolResultEvent, TurnEnd
from watchbell.log.surface import MALFORMED, malformed, surface_message

if TYPE_CHECKING:
    from watchbell.log.event import Event
    from watchbell.log.eventlog import EventLog

__all__ = ["close_open_turn", "last_turn", "tool_result"]

_TURN_TYPES = frozenset({"turn/start", "turn/end"})


def last_turn(log: EventLog, start: int = 0) -> tuple[int, int | None] | None:
    """Find the last turn that began at or after seq `start`.

    Returns:
        The seqs of its `turn/start` and of its `turn/end` (None while it is open); None without a turn.
    """
    end: int | None = None
    for event in log.select_back(_TURN_TYPES, start):
        if event.type == "turn/start":
            return event.seq, end
        end = event.seq
    return None


def tool_result(
    turn: int,
    step: int,
    call_id: str,
    text: str,
    *,
    is_error: bool,
    error: dict[str, str] | None,
    cites: int | None,
) -> Draft:
    """Return the `tool/result` that answers a call; `cites` is the seq of its `tool/call`."""
    block = ToolResultBlock(call_id, (TextBlock(text),), is_error)
    # The id needs to be unique only among pending messages, and a result is never pending.
    message = Message(
        f"result-{turn}-{step}-{call_id}", "user", {"kind": "tool", "callId": call_id}, (block,)
    )
    payload = (
        ToolResultEvent(turn, step, message) if error is None else ToolResultEvent(turn, step, message, error)
    )
    # A list of none is allowed to answers only (log-format, "Vocabulary that we write").
    return Draft("tool/result", payload, None if cites is None else (cites,), "append")


def close_open_turn(log: EventLog) -> list[Draft]:
    """Return the events that close the last turn, none when it is closed already.

    Each call without a result gets an error result, an open step and the turn get their ends. Their time is
    the last event's, so that recovery does not invent activity.

    Raises:
        CorruptLogError: An event of that turn has a payload of another shape than its type's.
    """
    turn = last_turn(log)
    if turn is None or turn[1] is not None:
        return []
    number = 0
    step: int | None = None
    calls: dict[str, tuple[str, int | None]] = {}
    for event in log.span(turn[0]):
        try:
            if event.type == "turn/start":
                number = _count(event.data["turn"])
            elif event.type in ("step/start", "step/end"):
                step = _count(event.data["step"]) if event.type == "step/start" else None
            else:
                _track_calls(event, calls)
        except MALFORMED as error:
            raise malformed(event) from error
    drafts = [_unfinished(number, step or 1, call_id, seq) for call_id, (_, seq) in calls.items()]
    if step is not None:
        drafts.append(Draft("step/end", StepMark(number, step)))
    drafts.append(Draft("turn/end", TurnEnd(number, Interrupted())))
    time = log[-1].time
    return [Draft(d.type, d.data, d.source_event_seqs, d.surface_op, d.ignorable, time) for d in drafts]


def _count(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError("not a number")
    return value


def _track_calls(event: Event, calls: dict[str, tuple[str, int | None]]) -> None:
    if event.type == "assistant/message":
        for block in surface_message(event).content:
            if isinstance(block, ToolCallBlock):
                calls[block.id] = (block.name, None)
    elif event.type == "tool/call":
        data = event.data
        calls[data["callId"]] = (data["name"], event.seq)
    elif event.type == "tool/result":
        calls.pop(event.data["message"]["source"]["callId"], None)


def _unfinished(turn: int, step: int, call_id: str, seq: int | None) -> Draft:
    if seq is None:
        text = (
            "This call was not started: the program stopped before it. "
            "Call the tool again if it is still wanted."
        )
        error = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    else:
        text = (
            "The program stopped while this call ran: it may or may not have taken effect. "
            "Check before repeating it."
        )
        error = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
    return tool_result(turn, step, call_id, text, is_error=True, error=error, cites=seq)
