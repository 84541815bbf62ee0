"""The promises of the package as a whole."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib import metadata
from pathlib import Path

import pytest

import watchbell

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(watchbell.__path__, "watchbell.")
    if not info.name.endswith(".__main__")
)
PUBLIC = ["watchbell", *(name for name in MODULES if not name.rpartition(".")[2].startswith("_"))]


def test_the_version_is_the_distributions() -> None:
    assert watchbell.__version__ == metadata.version("watchbell")


def test_the_package_tells_type_checkers_that_it_is_typed() -> None:
    assert (Path(watchbell.__path__[0]) / "py.typed").is_file()


@pytest.mark.parametrize("name", ["watchbell", *MODULES])
def test_every_module_imports_and_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(importlib.import_module(name)), f"{name} has no docstring"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_exists_once_and_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    promised = getattr(module, "__all__", [])
    assert len(promised) == len(set(promised)), "a name stands twice in __all__"
    missing = [public for public in promised if not hasattr(module, public)]
    assert not missing, f"{name}.__all__ promises {missing}"
    silent = [
        public
        for public in promised
        if (inspect.isclass(value := getattr(module, public)) or inspect.isroutine(value))
        and not (value.__doc__ or "").strip()
    ]
    assert not silent, f"no docstring: {silent}"
