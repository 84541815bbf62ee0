from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Start, Watchbell, read_events


def test_the_demo_keeps_its_promise_and_leaves_the_log_to_look_at(
    start: Start, watchbell: Watchbell, tmp_path: Path
) -> None:
    demo = start("demo", "--home", str(tmp_path / "my home"))
    out, err = demo.communicate(timeout=90)
    assert (demo.returncode, err) == (0, "")
    assert "its exit code is -9" in out
    assert "schedule-2 has 1 dispatch, 1 message and 1 answer" in out
    line = out.rstrip().splitlines()[-1].strip()
    assert line.startswith("zstdcat '")
    assert line.endswith("""/demo/session.jsonl.zstd' | jq -r 'select(.type == "schedule/change")'""")
    changes = [
        event.data for event in read_events(tmp_path / "my home", "demo") if event.type == "schedule/change"
    ]
    assert [change["operation"] for change in changes] == ["create", "dispatch", "create", "dispatch"]
    if shutil.which("zstdcat") and shutil.which("jq"):
        shown = subprocess.run(["bash", "-c", f"{line} -c"], capture_output=True, check=True).stdout
        assert len([json.loads(row) for row in shown.splitlines()]) == 4


def test_a_demo_that_does_not_go_as_promised_fails(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("watchbell.cli.commands.demo.FIRST", "hello")
    ran = watchbell("demo", "--home", str(tmp_path))
    assert (ran.code, ran.err) == (1, "watchbell: the demo failed: the first reminder was not created\n")
