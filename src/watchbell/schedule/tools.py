"""The three tools that a model manages its reminders with (contract sections 3 and 4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from watchbell.errors import ToolAbortedError
from watchbell.schedule.protocol import MAX_SAFE_INTEGER, MIN_EVERY_INTERVAL_SECONDS
from watchbell.schedule.rules import (
    Limits,
    RefusedError,
    ZoneLookup,
    decode_create,
    decode_delete,
    decode_list,
)
from watchbell.schedule.transactions import error_value
from watchbell.tools.definition import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from watchbell.schedule.transactions import Transactions
    from watchbell.tools.definition import ToolExecution

__all__ = ["schedule_tools"]

_logger = logging.getLogger("watchbell.schedule")

_AT_OBJECT = {
    "type": "object",
    "description": "A local date and time in a time zone.",
    "properties": {
        "date": {"type": "string", "description": "YYYY-MM-DD"},
        "time": {"type": "string", "description": "HH:mm:ss, up to three fraction digits allowed"},
        "time_zone": {"type": "string", "description": "IANA name such as Europe/Berlin, or UTC"},
    },
    "required": ["date", "time", "time_zone"],
    "additionalProperties": False,
}

_CREATE = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "description": "What to remind of, as it should be put to the user when it is due.",
        },
        "after_seconds": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_SAFE_INTEGER,
            "description": "Once, this many seconds from now.",
        },
        "at": {
            "anyOf": [
                {"type": "string", "description": "An instant with its offset, such as 2027-06-01T09:00:00+02:00."},
                _AT_OBJECT,
            ],
            "description": "Once, at this time.",
        },
        "every_seconds": {
            "type": "integer",
            "minimum": MIN_EVERY_INTERVAL_SECONDS,
            "maximum": MAX_SAFE_INTEGER // 1000,
            "description": "Again and again, this many seconds apart, first one interval from now.",
        },
    },
    "required": ["prompt"],
    "additionalProperties": False,
}

_VIEW = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "kind": {"type": "string", "enum": ["after", "at", "every"]},
        "prompt": {"type": "string"},
        "afterSeconds": {"type": "integer"},
        "everySeconds": {"type": "integer"},
        "scheduledAt": {"type": "string", "format": "date-time"},
        "state": {"type": "string", "enum": ["scheduled", "overdue"]},
        "deliveryMode": {"type": "string", "enum": ["session-local"]},
    },
    "required": ["id", "kind", "prompt", "scheduledAt", "state", "deliveryMode"],
    "additionalProperties": False,
}

_ERROR = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "operation": {"type": "string", "enum": ["create", "list", "delete"]},
        "id": {"type": "string"},
    },
    "required": ["code", "message"],
    "additionalProperties": False,
}

_DELETED = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "deleted": {"type": "boolean"},
        "code": {"type": "string", "enum": ["schedule_not_found"]},
    },
    "required": ["id", "deleted"],
    "additionalProperties": False,
}


def schedule_tools(
    transactions: Transactions, zones: ZoneLookup, limits: Limits, *, agent: object | None = None
) -> tuple[Tool, Tool, Tool]:
    """Return `schedule_create`, `schedule_list` and `schedule_delete` over one session's transactions.

    Args:
        transactions: The session's queue.
        zones: Where time zones are looked up.
        limits: Caps on creation.
        agent: The only agent that may run them; anybody may when None.
    """

    async def create(execution: ToolExecution, text: str) -> Any:
        return await transactions.create(decode_create(text, zones, limits), execution.signal)

    async def list_(execution: ToolExecution, text: str) -> Any:
        decode_list(text)
        return await transactions.list(execution.signal)

    async def delete(execution: ToolExecution, text: str) -> Any:
        return await transactions.delete(decode_delete(text), execution.signal)

    return (
        Tool(
            "schedule_create",
            "Create a durable reminder that comes back into this conversation as a message. Give the prompt and "
            "exactly one of after_seconds, at and every_seconds; leave the other two out. A wall-clock time needs "
            "the user's time zone: use at with date, time and time_zone, and ask when the zone is not known. The "
            "reminder fires while this session is open; when the session is not open at that time, it comes as "
            "soon as the session is opened again.",
            _CREATE,
            {"anyOf": [_VIEW, _ERROR]},
            _answering(create, agent),
        ),
        Tool(
            "schedule_list",
            "List the active reminders of this session, each with its id, prompt, next time in UTC and whether it "
            "is overdue.",
            {"type": "object", "properties": {}, "additionalProperties": False},
            {"anyOf": [{"type": "array", "items": _VIEW}, _ERROR]},
            _answering(list_, agent),
        ),
        Tool(
            "schedule_delete",
            "Delete an active reminder of this session for good, by its id.",
            {
                "type": "object",
                "properties": {"id": {"type": "string", "description": "The id, as schedule_list shows it."}},
                "required": ["id"],
                "additionalProperties": False,
            },
            {"anyOf": [_DELETED, _ERROR]},
            _answering(delete, agent),
        ),
    )


def _answering(
    run: Callable[[ToolExecution, str], Awaitable[Any]], agent: object | None
) -> Callable[[ToolExecution, str], Awaitable[Any]]:
    """Turn refusals into values, and keep every agent but the tools' own out."""

    async def answer(execution: ToolExecution, text: str) -> Any:
        if agent is not None and execution.agent is not agent:
            return error_value("internal_error", "This tool belongs to another agent's session.")
        try:
            return await run(execution, text)
        except RefusedError as refusal:
            return error_value(refusal.code, refusal.message)
        except ToolAbortedError:
            raise
        except Exception:
            _logger.exception("call %s failed", execution.call_id)
            return error_value("internal_error", "The call failed inside the program; tell the user.")

    return answer
