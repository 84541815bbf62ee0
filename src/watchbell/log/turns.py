"""What closes a turn that a crash left open (log-format, "Interrupted turn")."""

from __future__ import annotations

import msgspec

from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock, ToolSource
from watchbell.log.payloads import (
    Interrupted,
    StepMark,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    surface_message,
)

_TURN_TYPES = frozenset({"turn/start", "turn/end"})


def last_turn(log: EventLog) -> tuple[int, int | None] | None:
    """Find the last turn of a log.

    Returns:
        The seqs of its `turn/start` and of its `turn/end` (None while it is open); None without a turn.
    """
    end: int | None = None
    for event in log.select_back(_TURN_TYPES):
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
    source = msgspec.to_builtins(ToolSource(call_id))
    # The id needs to be unique only among pending messages, and a result is never pending.
    message = Message(f"result-{turn}-{step}-{call_id}", "user", source, (block,))
    payload = ToolResultEvent(turn, step, message, error)
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
    number = log[turn[0]].decode(TurnStart).turn
    step: int | None = None
    calls: dict[str, int | None] = {}  # calls without a result, and the seqs of their `tool/call`
    for event in log.span(turn[0]):
        match event.type:
            case "step/start":
                step = event.decode(StepMark).step
            case "step/end":
                step = None
            case "assistant/message":
                blocks = surface_message(event).content
                calls |= {block.id: None for block in blocks if isinstance(block, ToolCallBlock)}
            case "tool/call":
                calls[event.decode(ToolCallEvent).call_id] = event.seq
            case "tool/result":
                origin = surface_message(event).origin
                calls.pop(origin.call_id if isinstance(origin, ToolSource) else "", None)
            case _:
                pass
    drafts = [_unfinished(number, step or 1, call_id, seq) for call_id, seq in calls.items()]
    if step is not None:
        drafts.append(Draft("step/end", StepMark(number, step)))
    drafts.append(Draft("turn/end", TurnEnd(number, Interrupted())))
    time = log[-1].time
    return [Draft(d.type, d.data, d.source_event_seqs, d.surface_op, d.ignorable, time) for d in drafts]


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
