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
from typing import Any

from watchbell.errors import InvalidEventError, ToolAbortedError, ToolError
from watchbell.log.values import decode_json, encode_json

__all__ = ["AbortSignal", "ErrorValue", "Run", "Tool", "ToolExecution"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROOT_KEYWORDS_REFUSED = ("$ref", "allOf", "anyOf", "enum", "not", "oneOf")
_logger = logging.getLogger("watchbell")


class AbortSignal:
    """Tells a running call that nobody wants its answer any more; once aborted it stays so.

    It belongs to one event loop and is not thread-safe.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def aborted(self) -> bool:
        """Whether `abort` was called."""
        return self._event.is_set()

    def abort(self) -> None:
        """Wake every waiter and call the callbacks, in order of subscription. Again, it does nothing."""
        if self.aborted:
            return
        self._event.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            _call(callback)

    async def wait(self) -> None:
        """Wait until the signal is aborted."""
        await self._event.wait()

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
        self._callbacks.append(callback)

        def withdraw() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return withdraw


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

    value: Any


Run = Callable[[ToolExecution, str], Awaitable[Any]]
"""Runs a call on the model's own argument text; gives the canonical JSON value, or an `ErrorValue` of one."""


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """Something that a model can call.

    The schemas are copied, and use only what the big providers accept in a tool's parameters: an object at
    the root, with no `oneOf`, `anyOf`, `allOf`, `enum`, `not` or `$ref` there (contract section 4).

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
    parameters: dict[str, Any]
    output: dict[str, Any] | None
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


def _copy_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    try:
        return decode_json(encode_json(schema))
    except InvalidEventError as error:
        raise ToolError(f"a schema of tool {name!r} is {error}") from error


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        _logger.exception("a callback of an abort signal failed")
