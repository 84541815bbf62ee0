from __future__ import annotations

from tests.cli.conftest import Watchbell
from watchbell.schedule.tools import TOOL_NAMES


def test_the_three_tools_are_listed(watchbell: Watchbell) -> None:
    out = watchbell("tools").out
    assert all(name in out for name in TOOL_NAMES)
    assert watchbell("tools", "--json").out.isascii()
