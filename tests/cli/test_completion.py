"""Completion, by the protocol that the shells' scripts speak, and once through bash itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import FUTURE, Store, create


def complete(shell: str, line: str) -> list[str]:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_TYPER_COMPLETE_ARGS": line}
    environment = {**os.environ, **words, "_WATCHBELL_COMPLETE": f"complete_{shell}"}
    environment["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    done = subprocess.run(
        [sys.executable, "-m", "watchbell"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_session_ids_are_offered_to_each_shell(store: Store, shell: str) -> None:
    for name in ("standup", "stand-in", "other", "with space", "--dashed"):
        store(name, create("schedule-1", at=FUTURE))
    offered = " ".join(complete(shell, "watchbell log sta"))
    assert "standup" in offered
    assert "stand-in" in offered
    assert "other" not in offered
    assert "with" not in " ".join(complete(shell, "watchbell log "))
    assert "--dashed" not in complete(shell, "watchbell log -") + complete(shell, "watchbell log ")


@pytest.mark.parametrize("command", ["chat", "run", "reminders", "log", "receipts", "call"])
def test_every_command_about_a_session_offers_them(store: Store, command: str) -> None:
    store("standup", create("schedule-1", at=FUTURE))
    assert complete("bash", f"watchbell {command} s") == ["standup"]


def test_the_home_on_the_line_counts(store: Store, tmp_path: Path) -> None:
    store("standup", create("schedule-1", at=FUTURE))
    assert complete("bash", f"watchbell --home {tmp_path} log ") == []
    assert complete("bash", f"watchbell log --home {tmp_path} ") == []


def test_bash_completes_with_the_script_that_is_installed(store: Store, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    store("standup", create("schedule-1", at=FUTURE))
    program = tmp_path / "watchbell"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m watchbell "$@"\n')
    program.chmod(0o755)
    script = subprocess.run(
        [program],
        env={**os.environ, "_WATCHBELL_COMPLETE": "source_bash"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    line = (
        'COMP_WORDS=(watchbell log st); COMP_CWORD=2; _watchbell_completion watchbell; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{line}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["standup"]
