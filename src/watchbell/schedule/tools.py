"""The three tools that a model manages its reminders with (contract sections 3 and 4)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from watchbell.errors import ToolAbortedError
from watchbell.reminders.arguments import (
    CreateArguments,
    DeleteArguments,
    Limits,
    ListArguments,
    decode_create,
    decode_delete,
    decode_list,
)
from watchbell.reminders.times import ZoneLookup
from watchbell.reminders.views import (
    AfterView,
    Answer,
    AtView,
    Deletion,
    EveryView,
    Failure,
    RefusedError,
    render_answer,
)
from watchbell.schedule.transactions import Transactions
from watchbell.tools.definition import Run, Tool, ToolExecution
from watchbell.tools.schema import derive_schema

TOOL_NAMES = ("schedule_create", "schedule_list", "schedule_delete")
"""The tools, in the order in which `schedule_tools` returns them."""

_logger = logging.getLogger("watchbell.schedule")

_CREATE = (
    "Create a durable reminder that comes back into this conversation as a message. Give the prompt and "
    "exactly one of after_seconds, at and every_seconds; leave the other two out. A wall-clock time needs "
    "the user's time zone: use at with date, time and time_zone, and ask when the zone is not known. The "
    "reminder fires while this session is open; when the session is not open at that time, it comes as "
    "soon as the session is opened again."
)
_LIST = (
    "List the active reminders of this session, each with its id, prompt, next time in UTC and whether it "
    "is overdue."
)
_DELETE = "Delete an active reminder of this session for good, by its id."


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

    async def create(execution: ToolExecution, text: str) -> Answer:
        return await transactions.create(decode_create(text, zones, limits), execution.signal)

    async def list_(execution: ToolExecution, text: str) -> Answer:
        decode_list(text)
        return await transactions.list(execution.signal)

    async def delete(execution: ToolExecution, text: str) -> Answer:
        return await transactions.delete(decode_delete(text), execution.signal)

    return _define(_answering(create, agent), _answering(list_, agent), _answering(delete, agent))


def catalog_tools() -> tuple[Tool, Tool, Tool]:
    """Return the three tools as definitions without a session; a call of one answers `internal_error`."""

    async def refuse(execution: ToolExecution, text: str) -> Answer:
        return Failure("internal_error", "This tool belongs to no session.")

    run = _answering(refuse, None)
    return _define(run, run, run)


def _define(create: Run, list_: Run, delete: Run) -> tuple[Tool, Tool, Tool]:
    create_name, list_name, delete_name = TOOL_NAMES
    views, failure = [_schema(shape) for shape in (AfterView, AtView, EveryView)], _schema(Failure)
    created = {"anyOf": [*views, failure]}
    listed = {"anyOf": [{"type": "array", "items": {"anyOf": views}}, failure]}
    deleted = {"anyOf": [_schema(Deletion), failure]}
    return (
        Tool(create_name, _CREATE, _schema(CreateArguments), created, create),
        Tool(list_name, _LIST, _schema(ListArguments), listed, list_),
        Tool(delete_name, _DELETE, _schema(DeleteArguments), deleted, delete),
    )


@cache
def _schema(shape: type) -> dict[str, Any]:
    return derive_schema("schedule", shape, docstrings=False)


def _answering(run: Callable[[ToolExecution, str], Awaitable[Answer]], agent: object | None) -> Run:
    """Return `run` as a tool has it: with JSON for an answer, refusals too, and for its own agent alone."""

    async def answer(execution: ToolExecution, text: str) -> Answer:
        if agent is not None and execution.agent is not agent:
            return Failure("internal_error", "This tool belongs to another agent's session.")
        try:
            return await run(execution, text)
        except RefusedError as refusal:
            return Failure(refusal.code, refusal.message)
        except ToolAbortedError:
            raise
        except Exception:
            _logger.exception("call %s failed", execution.call_id)
            return Failure("internal_error", "The call failed inside the program; tell the user.")

    async def render(execution: ToolExecution, text: str) -> Any:
        return render_answer(await answer(execution, text))

    return render
