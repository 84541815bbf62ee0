"""Tools as providers want to be told of them: three projections of the one definition.

- `full`: the schema as it is defined.
- `strict`: OpenAI's structured outputs. Every object is closed and lists all its properties as required;
  those that may be left out may be null instead. Hosts differ in the bounds that they take, so these are told
  in the description. A tool that cannot be written so is sent in full, without the flag.
- `narrow`: the part of OpenAPI 3.0 that Gemini takes: `type`, `format`, `description`, `nullable`, `enum`,
  `properties`, `items`, `required` and `anyOf`, the last always alone in its schema.

What a call's arguments must be is decided by the tool's own reader and does not depend on the dialect.
"""

from __future__ import annotations

from typing import Any, cast

from watchbell.log.payloads import ToolSpec
from watchbell.models.openai.providers import Dialect

_Schema = dict[str, Any]

_STRICT_KEPT = ("type", "description", "enum")
_STRICT_DROPPED = {
    "$schema", "default", "deprecated", "discriminator", "examples", "exclusiveMaximum", "exclusiveMinimum",
    "format", "maximum", "maxItems", "maxLength", "maxProperties", "minimum", "minItems", "minLength",
    "minProperties", "multipleOf", "pattern", "readOnly", "title", "uniqueItems", "writeOnly",
}  # fmt: skip
_STRICT_READ = {"additionalProperties", "anyOf", "const", "items", "oneOf", "properties", "required"}
_NARROW_FORMATS = {"date-time", "double", "enum", "float", "int32", "int64"}
_BOUNDS = {
    "minimum": "At least {}.", "exclusiveMinimum": "More than {}.", "maximum": "At most {}.",
    "exclusiveMaximum": "Less than {}.", "pattern": "It matches {}.", "format": "Its format is {}.",
    "minLength": "At least {} characters.", "maxLength": "At most {} characters.",
    "minItems": "At least {} items.", "maxItems": "At most {} items.", "multipleOf": "A multiple of {}.",
}  # fmt: skip


class _InexpressibleError(Exception):
    """The strict dialect has no words for a schema."""


def project_tool(spec: ToolSpec, dialect: Dialect) -> _Schema:
    """Return a tool as an entry of a request's `tools`; `spec` is left as it is."""
    function: _Schema = {"name": spec.name, "description": spec.description}
    if dialect == "narrow":
        # Gemini refuses an object without properties; no parameters at all mean the same.
        if spec.parameters.get("properties"):
            function["parameters"] = _narrow(spec.parameters)
    elif dialect == "strict":
        try:
            function |= {"parameters": _strict(spec.parameters), "strict": True}
        except _InexpressibleError:
            function["parameters"] = spec.parameters
    else:
        function["parameters"] = spec.parameters
    return {"type": "function", "function": function}


# --- strict ----------------------------------------------------------------------------------------------


def _strict(schema: _Schema) -> _Schema:
    if schema.keys() - _STRICT_DROPPED - _STRICT_READ - set(_STRICT_KEPT):
        raise _InexpressibleError
    strict = {key: schema[key] for key in _STRICT_KEPT if key in schema}
    if "const" in schema:
        strict["enum"] = [schema["const"]]
    _tell_bounds(schema, strict)
    if choices := _choices(schema):
        return {**strict, "anyOf": [_strict(choice) for choice in choices]}
    kinds = _kinds(schema)
    if not kinds:
        raise _InexpressibleError
    strict["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "object" in kinds:
        strict |= _strict_object(schema)
    if "array" in kinds:
        if not isinstance(schema.get("items"), dict):
            raise _InexpressibleError
        strict["items"] = _strict(schema["items"])
    return strict


def _strict_object(schema: _Schema) -> _Schema:
    # A map from any text to something: closing it would leave nothing to say.
    is_map = (
        isinstance(schema.get("additionalProperties"), dict) or schema.get("additionalProperties") is True
    )
    if is_map or ("properties" not in schema and "additionalProperties" not in schema):
        raise _InexpressibleError
    required = schema.get("required", ())
    properties = {
        name: _strict(part) if name in required else _or_null(_strict(part))
        for name, part in schema.get("properties", {}).items()
    }
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def _or_null(schema: _Schema) -> _Schema:
    if "anyOf" in schema:
        if any("null" in _kinds(choice) for choice in schema["anyOf"]):
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    kinds = _kinds(schema)
    if "null" in kinds:
        return schema
    if "object" in kinds:
        told = {"description": schema["description"]} if "description" in schema else {}
        rest = {key: value for key, value in schema.items() if key != "description"}
        return {**told, "anyOf": [rest, {"type": "null"}]}
    nullable = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable


# --- narrow ----------------------------------------------------------------------------------------------


def _narrow(schema: _Schema) -> _Schema:
    choices = _choices(schema) or [{**schema, "type": kind} for kind in _kinds(schema)]
    others = [choice for choice in choices if _kinds(choice) != ["null"]]
    is_nullable = len(others) < len(choices)
    if len(others) > 1:
        return {"anyOf": [_narrow_choice(schema, choice, is_nullable) for choice in others]}
    if _choices(schema) and others:
        return _narrow_choice(schema, others[0], is_nullable)
    return _narrow_plain(schema, others[0]["type"] if others else "string", is_nullable)


def _narrow_choice(parent: _Schema, choice: _Schema, is_nullable: bool) -> _Schema:
    """A branch of a union; the union's description, which may not stand beside `anyOf`, goes along."""
    described = choice if "description" in choice or "description" not in parent else {
        **choice, "description": parent["description"],
    }  # fmt: skip
    narrow = _narrow(described)
    if is_nullable:
        for part in narrow.get("anyOf", [narrow]):
            part["nullable"] = True
    return narrow


def _narrow_plain(schema: _Schema, kind: str, is_nullable: bool) -> _Schema:
    narrow: _Schema = {"type": kind}
    if schema.get("format") in _NARROW_FORMATS:
        narrow["format"] = schema["format"]
    if "description" in schema:
        narrow["description"] = schema["description"]
    _tell_bounds({key: bound for key, bound in schema.items() if key not in narrow}, narrow)
    if is_nullable:
        narrow["nullable"] = True
    allowed = [schema["const"]] if "const" in schema else schema.get("enum", [])
    # Gemini knows enumerations of text only.
    if kind == "string" and (words := [word for word in allowed if isinstance(word, str)]):
        narrow["enum"] = words
    if kind == "object" and schema.get("properties"):
        narrow["properties"] = {name: _narrow(part) for name, part in schema["properties"].items()}
        if required := [name for name in schema.get("required", ()) if name in narrow["properties"]]:
            narrow["required"] = required
    if kind == "array":
        items = schema.get("items")
        narrow["items"] = _narrow(cast("_Schema", items)) if isinstance(items, dict) else {"type": "string"}
    return narrow


# --- both ------------------------------------------------------------------------------------------------


def _choices(schema: _Schema) -> list[_Schema]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _kinds(schema: _Schema) -> list[str]:
    """The JSON types that a schema names, or that the values which it lists have."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return list(cast("list[str]", kind))
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return list(dict.fromkeys(names[type(value)] for value in values if type(value) in names))


def _tell_bounds(schema: _Schema, projected: _Schema) -> None:
    """Say in the description what a dialect has no keyword for; the tool's reader enforces it anyway."""
    told = [text.format(schema[key]) for key, text in _BOUNDS.items() if key in schema]
    if told:
        projected["description"] = " ".join(
            [*([schema["description"]] if "description" in schema else []), *told]
        )
