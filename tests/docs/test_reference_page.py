"""The reference of the Python API leaves no public name out."""

from __future__ import annotations

import re
from pathlib import Path

import watchbell
import watchbell.errors
import watchbell.schedule

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"


def test_every_public_name_stands_on_the_page() -> None:
    shown = set(re.findall(r"^::: (\S+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE))
    assert "watchbell.errors" in shown, "which has every error"
    public = {f"watchbell.{name}" for name in watchbell.__all__ if name not in watchbell.errors.__all__}
    public |= {f"watchbell.schedule.{name}" for name in watchbell.schedule.__all__}
    assert sorted(public - {"watchbell.schedule"} - shown) == []
