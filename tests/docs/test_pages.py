"""The pages that are rendered say what they are rendered from, and leave nothing out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import watchbell
import watchbell.errors
import watchbell.schedule
from tests.docs import render_contract, render_costs, render_reference


def test_the_contracts_page_is_fresh() -> None:
    assert render_contract.PAGE.read_text(encoding="utf-8") == render_contract.render(), "run `make contract`"


@pytest.mark.parametrize("path", render_contract.section_files(), ids=lambda path: path.stem)
def test_each_test_of_the_contract_states_its_clause(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    tests = render_contract.tests_of(module)
    assert tests
    assert [test.name for test in tests if not ast.get_docstring(test)] == []


def test_the_page_of_costs_is_fresh() -> None:
    try:
        count = render_costs.load_counter()
    except ImportError:
        pytest.skip("the tokenizer bpe-openai, of the dev extra, is not installed")
    assert render_costs.PAGE.read_text(encoding="utf-8") == render_costs.render(count), "run `make costs`"


def test_its_bytes_are_fresh_also_where_no_tokenizer_is_installed() -> None:
    pages = [render_costs.PAGE.read_text(encoding="utf-8"), render_costs.render(lambda _: 0)]
    kept, rendered = (re.sub(r"\| [\d,]+ \|$", "|", page, flags=re.MULTILINE) for page in pages)
    assert kept == rendered, "run `make costs`"


@pytest.mark.parametrize("page", render_reference.PAGES)
def test_a_page_of_the_reference_is_fresh(page: str) -> None:
    kept = (render_reference.REFERENCE / page).read_text(encoding="utf-8")
    assert kept == render_reference.PAGES[page](), "run `make reference`"


def test_every_promised_name_has_its_section() -> None:
    shown = {name for names in render_reference.SECTIONS.values() for name in names}
    public = set(watchbell.__all__) - set(watchbell.errors.__all__) - {"schedule"}
    assert sorted((public | {f"schedule.{name}" for name in watchbell.schedule.__all__}) - shown) == []
