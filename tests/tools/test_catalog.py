from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from watchbell.tools.catalog import catalog, render_catalog_json, render_catalog_markdown
from watchbell.tools.function import tool

PROGRAM = """
from typing import Literal
from watchbell.tools.catalog import render_catalog_json
from watchbell.tools.function import tool

@tool
def paint(colours: set[Literal["red", "green", "blue"]], size: int | str | None = None) -> frozenset[str]:
    "Paints."
    return frozenset(colours)

print(render_catalog_json([paint]).decode())
"""


@tool
def second(text: str) -> str:
    """Comes second."""
    return text


@tool(name="first")
def unpromising() -> Any:
    """Comes first."""
    return None


def test_the_catalog_lists_tools_by_name_with_their_schemas() -> None:
    entries = catalog([second, unpromising])
    assert [entry["name"] for entry in entries] == ["first", "second"]
    assert list(entries[0]) == ["name", "description", "parameters", "output"]
    assert entries[1]["output"] == {"type": "string"}
    assert json.loads(render_catalog_json([second, unpromising])) == entries


def test_the_catalogs_bytes_do_not_change_from_process_to_process() -> None:
    runs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1


def test_the_page_has_a_section_and_the_schemas_of_each_tool() -> None:
    page = render_catalog_markdown([second, unpromising])
    assert page.startswith("# Tool catalog\n")
    assert page.index("## `first`") < page.index("## `second`")
    assert page.count("```json\n") == 3
    assert "Comes second." in page
