"""Every link from one page of the repository to another leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives the page's headings."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken: list[str] = []
    for inline, reference in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = inline or reference
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors_of(file)):
            broken.append(target)
    assert not broken
