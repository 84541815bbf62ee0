"""What a tool is, and what it learns about the call that it answers.

A `Tool` is a name, two JSON Schemas and a function over the model's raw argument text. `tool` in
`watchbell.tools.function` makes one from an ordinary typed function.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from watchbell.errors import InvalidEventError, ToolAbortedError, ToolError
from watchbell.listeners import Subscription, Subscriptions
from watchbell.log.values import decode_json, encode_json

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, as decoded JSON."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROOT_KEYWORDS_REFUSED = ("$ref", "allOf", "anyOf", "enum", "not", "oneOf")
_logger = logging.getLogger("watchbell")


class AbortSignal:
    """Tells a running call that nobody wants its answer any more; once aborted it stays so.

    It belongs to one event loop and is not thread-safe.
    """

    __slots__ = ("_aborted", "_callbacks")

    def __init__(self) -> None:
        self._aborted = False
        self._callbacks: Subscriptions = {}

    @property
    def aborted(self) -> bool:
        """Whether `abort` was called."""
        return self._aborted

    def abort(self) -> None:
        """Wake every waiter and call the callbacks, in order of subscription. Again, it does nothing."""
        if self._aborted:
            return
        self._aborted = True
        callbacks, self._callbacks = self._callbacks, {}
        for callback in tuple(callbacks):
            if callback in callbacks:  # none before it has withdrawn it
                _call(callback.listener)

    async def wait(self) -> None:
        """Wait until the signal is aborted."""
        if self._aborted:
            return
        reached = asyncio.get_running_loop().create_future()
        withdraw = self.on_abort(lambda: reached.done() or reached.set_result(None))
        try:
            await reached
        finally:
            withdraw()

    def raise_if_aborted(self) -> None:
        """Do nothing unless aborted.

        Raises:
            ToolAbortedError: The signal is aborted.
        """
        if self.aborted:
            raise ToolAbortedError("the call was cancelled")

    def on_abort(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on abort, at once if that was already; its exception is logged, no more.

        Returns:
            A function that withdraws the callback.
        """
        if self.aborted:
            _call(callback)
            return lambda: None
        return Subscription(self._callbacks, callback)


@dataclass(frozen=True, slots=True, eq=False)
class ToolExecution:
    """One call, as the tool sees it.

    Attributes:
        agent: The agent that makes the call; tools compare it by identity.
        call_id: The model's id of the call, unique within its answer.
        signal: Aborted when the call's turn is cancelled. A call that has had no effect yet then raises
            ToolAbortedError; one that must finish what it began does so in a task of its own.
    """

    agent: object
    call_id: str
    signal: AbortSignal


@dataclass(frozen=True, slots=True)
class ErrorValue:
    """What a tool returns in place of a plain value to have the result marked as an error for the model.

    Attributes:
        value: The JSON value that the model gets, by custom `{"code", "message"}`.
    """

    value: object


Run = Callable[[ToolExecution, str], Awaitable[object]]
"""Runs a call on the model's own argument text; gives the canonical JSON value, or an `ErrorValue` of one."""


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """Something that a model can call.

    The schemas are copied, equal ones once for all tools that have them, so nobody may change a tool's own.
    They use only what the big providers accept in a tool's parameters: an object at the root, with no
    `oneOf`, `anyOf`, `allOf`, `enum`, `not` or `$ref` there (contract section 4).

    Attributes:
        name: 1 to 64 of `A-Z a-z 0-9 _ -`.
        description: Tells the model when and how to call it; not blank.
        parameters: JSON Schema of the arguments.
        output: JSON Schema of the value, None when nothing is promised.
        run: Runs a call. It gets the raw argument text, which may be anything a model can write.

    Raises:
        ToolError: One of them cannot be used.
    """

    name: str
    description: str
    parameters: Schema
    output: Schema | None
    run: Run

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ToolError(f"tool name {self.name!r} must be 1 to 64 of A-Z a-z 0-9 _ -")
        if not self.description.strip():
            raise ToolError(f"tool {self.name!r} needs a description; the model has nothing else to go by")
        object.__setattr__(self, "parameters", _copy_schema(self.name, self.parameters))
        if self.output is not None:
            object.__setattr__(self, "output", _copy_schema(self.name, self.output))
        if self.parameters.get("type") != "object":
            raise ToolError(f"the parameters of tool {self.name!r} must be of type object at the root")
        refused = [word for word in _ROOT_KEYWORDS_REFUSED if word in self.parameters]
        if refused:
            raise ToolError(f"the parameters of tool {self.name!r} have {', '.join(refused)} at the root")


def _copy_schema(name: str, schema: Schema) -> Schema:
    try:
        return _decode_schema(encode_json(schema))
    except InvalidEventError as error:
        raise ToolError(f"a schema of tool {name!r} is {error}") from error


@lru_cache(maxsize=256)
def _decode_schema(text: bytes) -> Schema:
    """Decode a schema; tools that have the same one share it, as those of thousands of agents do."""
    return decode_json(text)


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        _logger.exception("a callback of an abort signal failed")
