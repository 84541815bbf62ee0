"""What makes a site of pages that are written to be read in the repository, too."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BESIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the repository's root, and where they stand on the site."""

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z][a-z+.-]*:|#)<?([^)\s>]+)>?\)")
_FENCE_INFO = re.compile(r"^( *```[\w-]+) [^\n]*$", re.MULTILINE)


def on_config(config: Any) -> None:
    """List every page: what a folder holds, in order of name."""
    config.nav = [
        {"Watchbell": "index.md"},
        "quickstart.md",
        {"How to": _pages("how-to")},
        {"Explanation": ["design.md", *_pages("explanation")]},
        {"Reference": [*_pages("reference"), "tool-catalog.md"]},
        {"Project": ["changelog.md", "contributing.md", "dependencies.md"]},
    ]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand beside `docs/`."""
    for source, page in BESIDE.items():
        text = _for_site((ROOT / source).read_text(encoding="utf-8"), source, page)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Adapt a page of `docs/`."""
    if page.file.src_uri in BESIDE.values():
        return markdown
    return _for_site(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def _pages(folder: str) -> list[str]:
    return sorted(str(path.relative_to(DOCS)) for path in (DOCS / folder).glob("*.md"))


def _for_site(markdown: str, source: str, page: str) -> str:
    """Return a page's text with links as they are on the site, and code blocks without notes for the tests.

    A link to a file that is not on the site becomes its text alone.
    """

    def relink(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        path, hash_sign, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if there in BESIDE:
            on_site = BESIDE[there]
        elif there.startswith("docs/") and there.endswith(".md"):
            on_site = there.removeprefix("docs/")
        else:
            return text
        return f"[{text}]({posixpath.relpath(on_site, posixpath.dirname(page) or '.')}{hash_sign}{anchor})"

    return _LINK.sub(relink, _FENCE_INFO.sub(r"\1", markdown))
