"""The page of the contract says what the contract's tests say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.render_contract import PAGE, render, section_files


def test_the_contracts_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make contract`"


@pytest.mark.parametrize("path", section_files(), ids=lambda path: path.stem)
def test_each_test_of_the_contract_states_its_clause(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    tests = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    silent = [test.name for test in tests if test.name.startswith("test_") and not ast.get_docstring(test)]
    assert not silent
