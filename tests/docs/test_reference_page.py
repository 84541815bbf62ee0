"""The reference of the Python API is what the docstrings say, and leaves no promised name out."""

from __future__ import annotations

import pytest

import watchbell
import watchbell.errors
import watchbell.schedule
from tests.docs.render_reference import PAGES, REFERENCE, SECTIONS


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_reference_is_fresh(page: str) -> None:
    assert (REFERENCE / page).read_text(encoding="utf-8") == PAGES[page](), "run `make reference`"


def test_every_promised_name_has_its_section() -> None:
    shown = {name for names in SECTIONS.values() for name in names}
    public = set(watchbell.__all__) - set(watchbell.errors.__all__) - {"schedule"}
    assert sorted((public | {f"schedule.{name}" for name in watchbell.schedule.__all__}) - shown) == []
