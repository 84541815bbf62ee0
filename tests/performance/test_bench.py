"""The benchmarks' command says what it measured and what not, whatever goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks", *arguments]


def places() -> dict[str, str]:
    """The environment in which the command is found, from any directory."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def bench(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        check=False,
        cwd=home,
        env=places(),
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("arguments", [("reply",), ("idle", "latency-1"), ("idle", "--runs", "0")])
def test_what_it_cannot_measure_is_refused_at_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = bench(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_case_that_fails_takes_no_other_along_and_shows(tmp_path: Path) -> None:
    """As where no peer is installed."""
    (tmp_path / "apscheduler.py").write_text("raise ImportError('not here')\n")
    done = bench(tmp_path, "peers-memory", "resume-10k-none", "--runs", "2")
    assert done.returncode == 1
    assert "peers-memory failed" in done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert {"name", "value", "unit", "ratio_to", "baseline"} == set(figures[0])
    assert "resume until armed, 10k, none" in [figure["name"] for figure in figures]
    assert "not measured  one agent, lateness of admission, p50" in done.stdout
    assert list(tmp_path.glob(".bench-*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signal")
def test_an_interrupted_run_shows_what_it_has_and_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("resume-10k-none", "idle"),
        cwd=tmp_path,
        env=places(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.rstrip().endswith(": idle"):
                break
        os.killpg(running.pid, signal.SIGINT)
        output, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert '"resume until armed, 10k, none"' in output
    assert list(tmp_path.glob(".bench-*")) == []
