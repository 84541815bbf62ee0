from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Watchbell
from watchbell.schedule.tools import TOOL_NAMES

PAGE = Path(__file__).parents[3] / "docs/tool-catalog.md"


def test_the_catalog_page_is_fresh(watchbell: Watchbell) -> None:
    """`watchbell tools --markdown > docs/tool-catalog.md` makes it."""
    assert watchbell("tools", "--markdown").out == PAGE.read_text(encoding="utf-8")


def test_the_three_tools_are_listed(watchbell: Watchbell) -> None:
    out = watchbell("tools").out
    assert all(name in out for name in TOOL_NAMES)


def test_json_is_ascii_and_the_same_each_time(watchbell: Watchbell) -> None:
    out = watchbell("tools", "--json").out
    assert out.isascii()
    assert [entry["name"] for entry in json.loads(out)] == sorted(TOOL_NAMES)
    assert watchbell("tools", "--json").out == out


def test_one_format_is_chosen(watchbell: Watchbell) -> None:
    assert watchbell("tools", "--json", "--markdown").code == 2
