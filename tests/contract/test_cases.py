"""The field cases, each through `watchbell call … --clock …`, in one process, under each zone and locale.

Names such as IN-05 are ids of field cases, kept stable.
"""

from __future__ import annotations

import contextlib
import json
import locale
import time
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.contract.cases_input import INPUT_CASES, Step
from tests.contract.cases_model import MODEL_CASES
from tests.contract.world import World, run_watchbell
from watchbell.zones import ZoneTable

CASES = {**INPUT_CASES, **MODEL_CASES}
WHEEL = Path(ZoneTable().origin()) / "zoneinfo"

pytestmark = pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system cannot set a process's zone")


@pytest.fixture(
    params=["UTC C", "Pacific/Auckland C.UTF-8", "nonsense tr_TR.UTF-8", "America/New_York POSIX"]
)
def surroundings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone and locale of a process."""
    zone, language = request.param.split()
    kept = locale.setlocale(locale.LC_ALL)
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        patched.setenv("LC_ALL", language)
        time.tzset()
        with contextlib.suppress(locale.Error):  # one that this computer does not have
            locale.setlocale(locale.LC_ALL, "")
        yield
    locale.setlocale(locale.LC_ALL, kept)
    time.tzset()


def stored(home: Path, session: str) -> bytes:
    """The bytes of a session's log; none while nothing is stored."""
    logs = [log for log in home.rglob("session.jsonl*") if log.parent.name == session]
    return logs[0].read_bytes() if logs else b""


def changes(raw: bytes) -> list[dict[str, Any]]:
    text = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read().decode()
    rows = [json.loads(line) for line in text.split("\n") if line]
    return [row["data"] for row in rows if row["type"] == "schedule/change"]


def answer(session: str, step: Step) -> str:
    """Make a call and shorten its answer to what cases state."""
    arguments, stdin = step.text, None
    if isinstance(arguments, bytes) or len(arguments) > 1000:
        stdin = arguments if isinstance(arguments, bytes) else arguments.encode()
        arguments = "-"
    options = ["--create", "--clock", step.clock]
    printed = run_watchbell("call", session, f"schedule_{step.tool}", arguments, *options, stdin=stdin)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert printed.stdout.endswith("\n")
    value = json.loads(printed.stdout)
    assert printed.stdout == json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    if isinstance(value, list):
        return f"[{' '.join(view['id'] for view in value)}]"
    return value.get("scheduledAt") or value.get("code") or "deleted"


def come_out_right(name: str, home: Path) -> None:
    """Make the calls of a case, in one session; what is refused leaves its log alone."""
    targets: list[str] = []
    for number, step in enumerate(CASES[name]):
        before = stored(home, name)
        assert answer(name, step) == step.right, f"call {number}: {step.text[:200]!r}"
        if step.right.endswith("Z"):
            targets.append(step.right)
        else:
            assert stored(home, name) == before, "a refused call wrote something"
    raw = stored(home, name)
    written = changes(raw) if raw else []
    assert [change["schedule"]["scheduledAt"] for change in written] == targets


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("name", CASES)
def test_a_case_comes_out_right_under_every_zone_and_locale(name: str, own_home: Path) -> None:
    come_out_right(name, own_home)


@pytest.mark.parametrize("host", ["old", "none"])
@pytest.mark.parametrize("name", ["IN-05", "IN-25"])
def test_a_case_comes_out_right_whatever_zone_files_the_host_has(
    name: str, host: str, own_home: Path, tmp_path: Path
) -> None:
    if host == "old":  # other rules under the same names, and names that the wheel does not have
        for copy, original in {
            "America/Vancouver": "America/Los_Angeles", "America/Edmonton": "America/Denver",
            "America/Winnipeg": "America/Chicago", "America/Inuvik": "America/Denver",
            "right/America/New_York": "America/New_York", "posix/Europe/Paris": "Europe/Paris",
            "posixrules": "America/New_York", "localtime": "Asia/Tokyo",
        }.items():  # fmt: skip
            (tmp_path / copy).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / copy).write_bytes((WHEEL / original).read_bytes())
    try:
        zoneinfo.reset_tzpath([str(tmp_path)])
        come_out_right(name, own_home)
    finally:
        zoneinfo.reset_tzpath()


def test_the_log_holds_whole_numbers_however_they_were_written(own_home: Path) -> None:
    come_out_right("MOD-06", own_home)
    written = changes(stored(own_home, "MOD-06"))
    numbers = [list(change["schedule"].values())[3] for change in written]
    assert [repr(number) for number in numbers] == ["600", "600", "1000", "1", "300", "300"]


def test_a_day_after_a_clock_change_the_next_target_is_86400_seconds_later() -> None:
    world = World()
    world.create(every_seconds=86_400, clock="2027-11-06T15:00:00.000Z")
    assert len(world.live_for(86_401, start="2027-11-06T15:00:00.000Z")) == 1
    assert [view["scheduledAt"] for view in world.list()] == ["2027-11-08T15:00:00.000Z"]
