"""Every example of README.md and docs/ runs, and prints what it shows.

- ```` ```python ```` is a whole program. It runs in a fresh folder.
- ```` ```console ```` shows commands after `$ ` (going on after `> `) and their output, in which `...` stands
  for any text. Without shown output a command only has to succeed. All commands of a block share a folder.
- ```` ```sh ```` is a script that has to succeed.
- A line `--8<-- "examples/NAME.py"` stands for that file, as it does on the site.
- `skip=REASON` after the language, with `-` for a blank, keeps a block from running; so does a command that
  fetches or builds the project itself. Other languages are not examples.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>python|console|sh)\b(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)``` *$",
    re.DOTALL | re.MULTILINE,
)
INCLUDED = re.compile(r'^--8<-- "(examples/[^"]+)"$', re.MULTILINE)
BUILDS_THE_PROJECT = re.compile(r"^(?:\$ )?(?:make|git|pip|pipx|uv|python3? -m (?:pip|venv))\s", re.MULTILINE)
TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Example:
    """One fenced block and where it stands."""

    place: str
    language: str
    info: str
    body: str

    @property
    def skip_reason(self) -> str | None:
        """Why the block does not run here, or None when it does."""
        if marked := re.search(r"\bskip=(\S+)", self.info):
            return marked[1].replace("-", " ")
        if self.language != "python" and BUILDS_THE_PROJECT.search(self.body):
            return "fetches or builds the project itself"
        return None


def examples_of(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    return [
        Example(
            place=f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}",
            language=block["language"],
            info=block["info"],
            body=INCLUDED.sub(
                lambda line: (ROOT / line[1]).read_text(encoding="utf-8"), textwrap.dedent(block["body"])
            ),
        )
        for block in FENCE.finditer(text)
    ]


EXAMPLES = [example for page in PAGES for example in examples_of(page)]


def run(command: list[str], folder: Path) -> str:
    """What the program prints, run in the folder as a user with an empty home would; it has to succeed."""
    environment = os.environ | {
        "COLUMNS": "100",
        "HOME": str(folder),
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "TERM": "dumb",
        "WATCHBELL_HOME": str(folder / "home"),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout}"
    return done.stdout


def commands_of(body: str) -> list[list[str]]:
    """Each command of a console block with the output shown under it, which may be empty."""
    assert body.startswith("$ "), "a console block starts with `$ `"
    commands: list[list[str]] = []
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append([line[2:], ""])
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1][0] += line[2:]
        else:
            commands[-1][1] += line
    return commands


def looks_like(shown: str, printed: str) -> bool:
    """Whether what was printed is what is shown, `...` standing for any text; blanks at line ends aside."""
    want, got = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n") for text in (shown, printed))
    return re.fullmatch(".*".join(map(re.escape, want.split("..."))), got, re.DOTALL) is not None


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.place)
def test_an_example_runs_and_prints_what_it_shows(example: Example, tmp_path: Path) -> None:
    if reason := example.skip_reason:
        pytest.skip(f"{example.place} {reason}")
    if example.language == "python":
        program = tmp_path / "example.py"
        program.write_text(example.body, encoding="utf-8")
        run([sys.executable, str(program)], tmp_path)
    elif example.language == "sh":
        run(["bash", "-euo", "pipefail", "-c", example.body], tmp_path)
    else:
        for command, shown in commands_of(example.body):
            printed = run(["bash", "-euo", "pipefail", "-c", command], tmp_path)
            assert not shown.strip() or looks_like(shown, printed), f"$ {command}{printed}"
