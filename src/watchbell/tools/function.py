"""A tool made from an ordinary typed function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints, overload

import msgspec

from watchbell.errors import ToolError
from watchbell.log.values import decode_typed, to_plain
from watchbell.tools.definition import ErrorValue, Run, Tool, ToolExecution
from watchbell.tools.schema import derive_schema


@overload
def tool(function: Callable[..., object], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None
) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
) -> Tool | Callable[[Callable[..., object]], Tool]:
    '''Make a tool from a function, by its name, docstring and type hints.

    ```python
    @tool
    async def weather(city: str, days: int = 1) -> dict[str, str]:
        """The forecast for a city, one line a day."""
        return await forecast(city, days)
    ```

    Parameters become the JSON Schema and are decoded strictly, nothing is coerced; describe one with
    `Annotated[int, msgspec.Meta(description="1 to 7", ge=1, le=7)]`. Wrong arguments never reach the
    function: the model gets `{"code": "invalid_arguments", "message"}` and can repair its call. A first
    parameter of type `ToolExecution` gets the execution. The result is turned into plain JSON; structs and
    dataclasses are fine. A plain function runs on the event loop, so it must be quick.

    Args:
        function: The function, when the decorator is used bare.
        name: The tool's name, else the function's.
        description: What the model is told, else the docstring.

    Raises:
        ToolError: The function cannot become a tool; the message says why.
    '''
    if function is not None:
        return _make(function, name, description)
    return lambda made: _make(made, name, description)


def _make(function: Callable[..., object], name: str | None, description: str | None) -> Tool:
    called = name or getattr(function, "__name__", "")
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolError(f"tool {called!r}: {error}; its type hints must be known at run time") from error
    parameters = list(inspect.signature(function).parameters.values())
    wants_execution = bool(parameters) and hints.get(parameters[0].name) is ToolExecution
    arguments = _arguments(called, parameters[1:] if wants_execution else parameters, hints)
    return Tool(
        name=called,
        description=description or inspect.getdoc(function) or "",
        parameters=derive_schema(called, arguments),
        output=derive_schema(called, hints["return"]) if hints.get("return", Any) is not Any else None,
        run=_runner(function, arguments, wants_execution=wants_execution),
    )


def _arguments(
    name: str, parameters: list[inspect.Parameter], hints: dict[str, object]
) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolError(f"tool {name!r}: parameter {parameter.name!r} must be one that is passed by name")
        if parameter.name not in hints:
            raise ToolError(f"tool {name!r}: parameter {parameter.name!r} needs a type hint")
        default = () if parameter.default is parameter.empty else (parameter.default,)
        fields.append((parameter.name, hints[parameter.name], *default))
    try:
        return msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
    except TypeError as error:
        raise ToolError(f"tool {name!r}: {error}") from error


def _runner(
    function: Callable[..., object], arguments: type[msgspec.Struct], *, wants_execution: bool
) -> Run:
    has_required = any(field.required for field in msgspec.structs.fields(arguments))

    async def run(execution: ToolExecution, text: str) -> object:
        # Some models write nothing, or null, when there is nothing to say.
        given = "{}" if not has_required and text.strip() in ("", "null") else text
        try:
            decoded = decode_typed(given.encode("utf-8", "surrogatepass"), arguments)
        except ValueError as error:
            return ErrorValue({"code": "invalid_arguments", "message": f"{error}. Correct the call."})
        named = {field: getattr(decoded, field) for field in arguments.__struct_fields__}
        result = function(execution, **named) if wants_execution else function(**named)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, ErrorValue):
            return ErrorValue(msgspec.to_builtins(result.value, str_keys=True, enc_hook=to_plain))
        return msgspec.to_builtins(result, str_keys=True, enc_hook=to_plain)

    return run
