"""Renders `docs/reference/contract.md` from the contract's tests: `python -m tests.docs.render_contract`.

Each file of `ORDER` is a section: its docstring is the heading and what stands under it, and each test's
docstring is a clause, in order. A comment `# --- title ---` between tests begins a part of the section.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "contract"
PAGE = ROOT / "docs" / "reference" / "contract.md"
INTRO = """\
# The Schedule contract, clause by clause

What Watchbell's Schedule promises. Each clause is the docstring of the test that proves it, whose name stands
behind it; `make test` runs them all, and `make contract` renders this page from them.
"""

_PART = re.compile(r"^# --- (.+?) -+$")


ORDER = [
    "s1_what_it_is/test_what_it_is",
    "s2_protocol/test_protocol",
    "s2_protocol/test_replay",
    "s3_time/test_time_input",
    "s3_time/test_zones",
    "s4_tools/test_tools",
    "s4_tools/test_checks",
    "s4_tools/test_transactions",
    "s4_tools/test_appending",
    "s5_delivery/test_delivery",
    "s5_delivery/test_decision",
    "s5_delivery/test_never_twice",
    "s5_delivery/test_opening",
    "s5_delivery/test_so",
    "s5_delivery/test_framing",
    "s6_receipts/test_receipts",
    "s7_composition/test_composition",
    "s8_time_context/test_time_context",
    "s9_costs/test_costs",
]
"""The files of the contract's tests, in the order of the contract."""


def section_files() -> list[Path]:
    """Return the files in their order, and make sure that none is left out."""
    listed = [TESTS / f"{name}.py" for name in ORDER]
    assert sorted(listed) == sorted(TESTS.glob("s*/test_*.py")), "a file is missing in ORDER, or is gone"
    return listed


def tests_of(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the tests of a file, in their order."""
    functions = (node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [function for function in functions if function.name.startswith("test_")]


def render() -> str:
    """The page."""
    return "\n".join([INTRO, *(line for path in section_files() for line in _section(path))])


def _section(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    module = ast.parse(source)
    title, _, under = (ast.get_docstring(module) or path.stem).partition("\n")
    yield f"## {title.rstrip('.')}\n"
    if under.strip():
        yield f"{under.strip()}\n"
    lines = source.splitlines()
    read = 0
    for test in tests_of(module):
        parts = [match[1] for line in lines[read : test.lineno] if (match := _PART.match(line))]
        if parts:
            yield f"### {parts[-1][0].upper()}{parts[-1][1:]}\n"
        read = test.lineno
        yield _clause(path, test)


def _clause(path: Path, test: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    clause = ast.get_docstring(test) or test.name.replace("_", " ")
    text = "\n  ".join(clause.splitlines())
    return f"- {text}\n  ([`{test.name}`](../../{path.relative_to(ROOT)}))\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
