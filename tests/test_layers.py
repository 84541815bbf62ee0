"""The import contracts forget no module, and no module or function outgrows its reader."""

from __future__ import annotations

import ast
import pkgutil
from configparser import ConfigParser
from pathlib import Path

import watchbell

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 40
REASON = "Longer than other"  # what a docstring says of an exception, with why
SOURCES = sorted(Path(watchbell.__file__).parent.rglob("*.py"))
CONTRACTS = Path(__file__).parents[1] / ".importlinter"
NO_LAYER = {
    "watchbell",  # names what is public, from all layers
    "watchbell.__main__",  # starts the CLI
    "watchbell.testing",  # stands beside the layers; nothing imports it
}


def test_every_module_has_its_layer() -> None:
    config = ConfigParser()
    config.read_string(CONTRACTS.read_text(encoding="utf-8"))
    layers = config["importlinter:contract:layers"]["layers"].replace("|", " ").replace(":", " ").split()
    modules = {info.name for info in pkgutil.walk_packages(watchbell.__path__, "watchbell.")} - NO_LAYER
    without = {
        name
        for name in modules
        if not any(f"{name}.".startswith(f"{layer}.") for layer in [*layers, "watchbell.testing"])
    }
    assert not without, f"give it a layer in .importlinter: {without}"


def test_a_module_is_no_longer_than_400_lines_unless_it_says_why() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    long = {path: text for path, text in sources.items() if text.count("\n") > MAX_MODULE_LINES}
    assert not [path.name for path, text in long.items() if REASON not in (_docstring(ast.parse(text)))]


def test_a_function_fits_on_a_screen_unless_it_says_why() -> None:
    functions = [
        (f"{path.name}: {node.name}", node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = [
        (name, node)
        for name, node in functions
        if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not [name for name, node in long if REASON not in _docstring(node)]


def _docstring(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return ast.get_docstring(node) or ""
