"""JSON Schemas derived from types, in the form that a tool needs: one object, nothing referred to."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from watchbell.errors import ToolError
from watchbell.tools.definition import Schema


def derive_schema(name: str, shape: object, *, docstrings: bool = True) -> Schema:
    """Return the JSON Schema of a type, every struct inlined where it is used.

    Args:
        name: The tool's name, for errors.
        shape: The type.
        docstrings: Whether structs carry their names and docstrings. Without, the schema is the same in a
            process that strips docstrings; descriptions given by `msgspec.Meta` stay.

    Raises:
        ToolError: The type has no JSON Schema, or holds itself.
    """
    try:
        (schema,), components = msgspec.json.schema_components([shape], ref_template="{name}")
    except (TypeError, ValueError) as error:
        raise ToolError(f"tool {name!r}: {error}") from error
    if not docstrings:
        for component in components.values():
            component.pop("title", None)
            component.pop("description", None)
    inlined = _inline(name, schema, components, ())
    inlined.pop("title", None)
    return inlined


def _inline(name: str, node: Any, components: Schema, inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(name, item, components, inside) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Schema", node)
    target = schema.get("$ref")
    if target in components:
        if target in inside:
            raise ToolError(f"tool {name!r}: type {target} holds itself, which no provider's schema allows")
        return _inline(name, components[target], components, (*inside, target))
    return {
        key: _inline(name, value, components, inside)
        for key, value in schema.items()
        # A union's discriminator maps to the components that are inlined here. (A property may be called so.)
        if not (key == "discriminator" and "mapping" in value)
    }
