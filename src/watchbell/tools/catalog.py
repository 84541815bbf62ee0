"""The tool catalog: each tool with its schemas, the same bytes in every process (contract section 4)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from watchbell.log.values import encode_json
from watchbell.tools.definition import Schema, Tool


def catalog(tools: Iterable[Tool]) -> list[Schema]:
    """Return `name`, `description`, `parameters` and `output` of each tool, by name."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "output": tool.output,
        }
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]


def render_catalog_json(tools: Iterable[Tool]) -> bytes:
    """Return the catalog as indented JSON that ends with a line end."""
    return msgspec.json.format(encode_json(catalog(tools)), indent=2) + b"\n"


def render_catalog_markdown(tools: Iterable[Tool]) -> str:
    """Return the catalog as the page `docs/tool-catalog.md`."""
    intro = (
        "# Tool catalog\n\n"
        "What a model is told of each tool, and what each one answers. "
        "`watchbell tools --json` prints the same.\n"
    )
    return "\n".join([intro, *(_section(entry) for entry in catalog(tools))])


def _section(entry: Schema) -> str:
    lines = [
        f"## `{entry['name']}`",
        "",
        entry["description"],
        "",
        "Parameters:",
        "",
        _fence(entry["parameters"]),
    ]
    if entry["output"] is not None:
        lines += ["", "Output:", "", _fence(entry["output"])]
    return "\n".join([*lines, ""])


def _fence(schema: Schema) -> str:
    return f"```json\n{msgspec.json.format(encode_json(schema), indent=2).decode()}\n```"
