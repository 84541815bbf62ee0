"""Renders what the reference says of the Python API: `make reference`.

`python.md` and `testing.md` hold every promised name with its signature and its docstring, `modules.md` the
modules that other folders may import. The pages are read on a code host as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

import watchbell

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

SECTIONS = {
    "A program": ["Host", "AgentRegistry", "Agent", "Answer", "Reservation"],
    "Schedule and the time": [
        "schedule.plugin",
        "schedule.invariant",
        "schedule.Limits",
        "schedule.schedule_reminder_presentation",
        "time_context",
    ],
    "Tools": [
        "tool",
        "Tool",
        "ToolExecution",
        "AbortSignal",
        "ErrorValue",
        "ToolOutcome",
        "ToolRegistry",
        "ToolSpec",
    ],
    "Models": [
        "OpenAIModel",
        "OfflineModel",
        "ChatModel",
        "ModelRequest",
        "host.settings.load_settings",
        "host.settings.build_model",
        "host.settings.Settings",
        "host.settings.Effective",
    ],
    "Another framework's loop": ["TurnRunner", "TurnRecorder", "AnswerRecorder"],
    "Sessions and their logs": [
        "JsonlStorage",
        "SessionPersistence",
        "Sessions",
        "Session",
        "SessionHeader",
        "Event",
        "Message",
        "TextBlock",
        "ReasoningBlock",
        "ToolCallBlock",
        "ToolResultBlock",
    ],
    "Composition": ["Context", "Plugin", "Clock", "SystemClock"],
}
"""The promised names, as `python.md` groups them; the errors follow by themselves."""

Documented = griffe.Object | griffe.Alias


@cache
def load() -> griffe.Module:
    """Read the package's source, without importing it."""
    place = str(Path(watchbell.__file__).parents[1])
    package = griffe.load("watchbell", search_paths=[place], docstring_parser="google")
    assert isinstance(package, griffe.Module)
    return package


def render_api() -> str:
    """Return the page of what `import watchbell` offers."""
    parts = [
        "# The Python API",
        """What `import watchbell` offers, from the docstrings. Names that do not stand here or on the page of
[`watchbell.testing`](testing.md) may change in any release.""",
    ]
    for heading, names in SECTIONS.items():
        parts.append(f"## {heading}")
        for name in names:
            parts += _tell(load()[name], f"watchbell.{name}")
    errors = load()["errors"]
    parts += ["## Errors", _text(errors)]
    for name in errors.exports or ():
        parts += _tell(errors[str(name)], f"watchbell.{name}")
    return "\n\n".join(parts) + "\n"


def render_testing() -> str:
    """Return the page of `watchbell.testing`."""
    testing = load()["testing"]
    parts = [
        "# `watchbell.testing`",
        "What a test of an agent needs; [how to use it](../how-to/test-your-agent.md).",
        _text(testing),
    ]
    for name in testing.exports or ():
        parts += _tell(testing[str(name)], f"watchbell.testing.{name}")
    parts += ["## The contract of a store", _text(testing["storage_contract"])]
    return "\n\n".join(parts) + "\n"


def render_modules() -> str:
    """Return the page of the modules: what each is for, folder by folder."""
    parts = [
        "# The modules",
        """Every module that others than its own folder may import, and what it owns. Only the names on the
[page of the API](python.md) and the one of [`watchbell.testing`](testing.md) are promised; a module whose
name begins with `_` is its folder's own business. What may import what is
[part of the design](../design.md).""",
    ]
    folders: dict[str, list[str]] = {}
    for module in _modules(load()):
        folder = module.path if module.is_package or module.is_subpackage else module.path.rpartition(".")[0]
        line = _text(module).partition("\n\n")[0].replace("\n", " ")
        folders.setdefault(folder, []).append(f"| `{module.path}` | {line} |")
    for folder, lines in folders.items():
        parts += [f"## `{folder}`", "\n".join(["| module | what it owns |", "|---|---|", *lines])]
    return "\n\n".join(parts) + "\n"


def _modules(package: griffe.Module) -> Iterator[griffe.Module]:
    yield package
    for name in sorted(package.modules):
        module = package.modules[name]
        if isinstance(module, griffe.Module) and not name.startswith("_"):
            yield from _modules(module)


def _tell(item: Documented, path: str) -> Iterator[str]:
    """Yield the parts that tell of a class or a function."""
    yield f"### `{path}`"
    item = item.final_target if isinstance(item, griffe.Alias) else item
    yield from _signature(item)
    yield from _describe(item)
    if isinstance(item, griffe.Class):
        members = [member for member in item.members.values() if _is_public(member)]
        yield from (f"**`{member.name}`**{_kind(member)} {_brief(member)}" for member in members)


def _is_public(member: Documented) -> bool:
    return not member.name.startswith("_") and not member.is_alias and member.docstring is not None


def _kind(member: Documented) -> str:
    if isinstance(member, griffe.Function):
        return f"`({_parameters(member)})`{'' if not member.returns else f' → `{member.returns}`'}:"
    annotation = getattr(member, "annotation", None)
    return f" (`{annotation}`):" if annotation else ":"


def _brief(member: Documented) -> str:
    return "\n\n".join(_describe(member))


def _signature(item: Documented) -> Iterator[str]:
    function: Any = item.members.get("__init__") if isinstance(item, griffe.Class) else item
    if isinstance(function, griffe.Function):
        returns = f" -> {function.returns}" if function.returns and function is item else ""
        yield f"```text\n{item.name}({_parameters(function)}){returns}\n```"


def _parameters(function: griffe.Function) -> str:
    texts: list[str] = []
    keyword_only = False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            keyword_only = True
            texts.append("*")
        default = "" if parameter.default is None else f"={parameter.default}"
        texts.append(f"{parameter.name}{default}")
    return ", ".join(texts)


def _describe(item: Documented) -> Iterator[str]:
    """Yield the parts of a docstring: its text, and its sections as lists."""
    for section in item.docstring.parsed if item.docstring is not None else ():
        value: Any = section.value
        if section.kind is griffe.DocstringSectionKind.text:
            yield value.replace("```python", "```python skip=a-part-of-a-program")
        elif section.kind in _LISTS:
            yield f"{_LISTS[section.kind]}:\n\n" + "\n".join(map(_point, value))


_LISTS = {
    griffe.DocstringSectionKind.parameters: "Arguments",
    griffe.DocstringSectionKind.attributes: "Attributes",
    griffe.DocstringSectionKind.returns: "Returns",
    griffe.DocstringSectionKind.yields: "Yields",
    griffe.DocstringSectionKind.raises: "Raises",
}


def _point(element: Any) -> str:
    is_raise = isinstance(element, griffe.DocstringRaise)
    name = str(element.annotation).strip("()") if is_raise else getattr(element, "name", "")
    text = " ".join(element.description.split())
    return f"- `{name}`: {text}" if name else f"- {text}"


def _text(item: Documented) -> str:
    text = item.docstring.value if item.docstring is not None else ""
    return text.replace("```python", "```python skip=a-part-of-a-program")


PAGES = {"python.md": render_api, "testing.md": render_testing, "modules.md": render_modules}


def main(pages: Iterable[str] = PAGES) -> None:
    """Write the pages."""
    for name in pages:
        (REFERENCE / name).write_text(PAGES[name](), encoding="utf-8")


if __name__ == "__main__":
    main()
