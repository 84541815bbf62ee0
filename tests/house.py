"""`make house`: whether the code keeps to its plan, measured (design.md). Quick, and a part of `make lint`.

It prints each measure with its bound, and names what is beyond it; then it exits with 1.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "watchbell"
REFERENCE = ROOT / "docs" / "reference"
PROMISING = ("watchbell", "watchbell.schedule", "watchbell.testing")
"""Packages whose `__all__` is what users may rely on."""

MODULE_LINES, FUNCTION_LINES, NAME_LENGTH = 400, 40, 70
FOLDER_FILES, ANY_LINES = 15, 119
SOURCE_LINES, TEST_LINES = 20_900, 30_400


class Module(NamedTuple):
    """One file of Python."""

    name: str
    path: Path
    text: str
    tree: ast.Module


class Measure(NamedTuple):
    """What was counted, how much of it may be, and where it is too much."""

    what: str
    value: int
    bound: int
    where: list[str]


def read_modules(folder: Path, base: Path) -> list[Module]:
    """Read every module below `folder`; names count from `base`."""
    modules: list[Module] = []
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        modules.append(Module(name, path, text, ast.parse(text)))
    return modules


def imports_of(module: Module, names: set[str]) -> set[str]:
    """Return the modules of ours that a module imports, also inside functions and for type checkers only."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                inner if (inner := f"{node.module}.{alias.name}") in names else node.module
                for alias in node.names
            }
    return (found & names) - {module.name}


def find_circles(graph: dict[str, set[str]]) -> list[str]:
    """Return the first import circle, if there is one. (A package's `__init__` counts as a module.)"""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" → ".join(error.args[1])]
    return []


def functions_of(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield each function of a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines, those of its decorators left out."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def promised_names(modules: Iterable[Module]) -> set[str]:
    """Return what the promising packages list in `__all__`, with the package's name before each."""
    names: set[str] = set()
    for module in modules:
        for node in module.tree.body:
            if module.name in PROMISING and isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
                names |= {f"{module.name}.{ast.literal_eval(item)}" for item in node.value.elts}
    return names


def find_undocumented(modules: list[Module]) -> list[str]:
    """Return the promised names and public modules that no page of the reference has."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    mentioned = set(re.findall(r"[\w.]+", pages))
    names = {name for name in promised_names(modules) if name not in mentioned}
    public = {module.name for module in modules if not re.search(r"\._|^watchbell$", module.name)}
    return sorted(names | {name for name in public if name not in mentioned})


def find_trespassers(graph: dict[str, set[str]]) -> list[str]:
    """Return the imports of a module with an underscore from outside its folder."""
    return [
        f"{importer} imports {name}"
        for importer, imported in sorted(graph.items())
        for name in sorted(imported)
        if name.rpartition(".")[2].startswith("_")
        and not importer.startswith(f"{name.rpartition('.')[0]}.")
        and importer != name.rpartition(".")[0]
    ]


def count_any(module: Module) -> int:
    """Count the lines that name `Any`."""
    return len(re.findall(r"^.*\bAny\b.*$", module.text, re.MULTILINE))


def measure() -> list[Measure]:
    """Take every measure."""
    modules = read_modules(SOURCE, SOURCE.parent)
    tests = read_modules(ROOT / "tests", ROOT)
    names = {module.name for module in modules}
    graph = {module.name: imports_of(module, names) for module in modules}
    circles, trespassers = find_circles(graph), find_trespassers(graph)
    long_modules = {m.name: m.text.count("\n") for m in modules}
    long_functions = {f"{m.name}: {f.name}": lines_of(f) for m in modules for f in functions_of(m)}
    folders: dict[str, int] = {}
    for module in modules:
        folder = str(module.path.parent.relative_to(ROOT))
        folders[folder] = folders.get(folder, 0) + 1
    long_names = {f"{m.name}: {f.name}": len(f.name) for m in tests for f in functions_of(m)}
    long_names = {name: length for name, length in long_names.items() if ": test_" in name}
    undocumented = find_undocumented(modules)
    return [
        Measure("import circles", len(circles), 0, circles),
        Measure("imports of what is another folder's own", len(trespassers), 0, trespassers),
        _worst("lines of the longest module", long_modules, MODULE_LINES),
        _worst("lines of the longest function", long_functions, FUNCTION_LINES),
        _worst("files of the fullest folder", folders, FOLDER_FILES),
        _worst("characters of the longest name of a test", long_names, NAME_LENGTH),
        Measure("names and modules that the reference lacks", len(undocumented), 0, undocumented),
        Measure("lines of src that say Any", sum(map(count_any, modules)), ANY_LINES, []),
        Measure("lines of src", sum(m.text.count("\n") for m in modules), SOURCE_LINES, []),
        Measure("lines of tests", sum(m.text.count("\n") for m in tests), TEST_LINES, []),
    ]


def _worst(what: str, sizes: dict[str, int], bound: int) -> Measure:
    where = [f"{name} ({size})" for name, size in sizes.items() if size > bound]
    return Measure(what, max(sizes.values()), bound, where)


def main() -> int:
    """Print the measures, and return the exit code."""
    failed = 0
    for what, value, bound, where in measure():
        is_kept = value <= bound
        failed += not is_kept
        print(f"{'kept' if is_kept else 'BROKEN':<7} {what}: {value:,} (at most {bound:,})")  # noqa: T201 - its output
        for place in () if is_kept else where:
            print(f"          {place}")  # noqa: T201 - its output
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
