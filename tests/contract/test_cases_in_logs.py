"""The field cases about prompts and records in a log file, through `watchbell call`.

Names such as MOD-09 are ids of field cases, kept stable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.world import CORRUPT, SESSION, World, run_watchbell
from watchbell.storage.jsonl.store import JsonlStorage

CREATE = '{"prompt":"p","every_seconds":600}'


def list_of(session: str = SESSION) -> Any:
    """What a list answers."""
    printed = run_watchbell("call", session, "schedule_list", "--clock", "2026-12-01T00:00:00Z")
    assert printed.exit_code == 0
    return json.loads(printed.stdout)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_log_05_and_06_what_not_every_storage_holds_leaves_the_log_alone(
    compression: Any, tmp_path: Path
) -> None:
    world = World(storage=JsonlStorage(tmp_path, compression=compression))
    control = "a" + "".join(map(chr, range(1, 32))) + "\x7f\x85b"
    world.create(prompt=control, after_seconds=600)
    assert world.list()[0]["prompt"] == control
    (log,) = tmp_path.rglob("session.jsonl*")
    before = log.read_bytes()
    for prompt in ("\ud83d", "x\udc00y", "a\0b"):
        assert world.create(prompt=prompt, after_seconds=600)["code"] == "invalid_prompt"
    assert log.read_bytes() == before
    assert world.call("create", '{"prompt":"\\ud83d\\ude00","after_seconds":600}')["prompt"] == "\U0001f600"


TARGET = '"scheduledAt":"2026-12-01T00:10:00.000Z"'
REPEATED = [
    ('"id":"schedule-1"', '"id":"schedule-1","id":"schedule-9"'),
    ('"id":"schedule-1"', '"id":"schedule-1","id":"schedule-1"'),
    ('"scheduledAt":', f'{TARGET},"scheduledAt":'),
]
LOOK_ALIKES = [
    *(('"data":{"version":1', f'"data":{{"version":{version}') for version in ("true", "1.0", '"1"', "2")),
    *(('"everySeconds":600', f'"everySeconds":{seconds}') for seconds in ("300.0", "true", "299")),
    *((TARGET, f'"scheduledAt":"{instant}"') for instant in (
        "2026-12-01T00:10:00Z", "2026-12-01T00:10:00.000+00:00", "2027-02-30T00:00:00.000Z",
        "\uff12\uff10\uff12\uff16-12-01T00:10:00.000Z",
    )),
    ('"kind":"every"', '"kind":"every","zone":"UTC"'),
    ('"everySeconds":600,', ""),
    ('"prompt":"p"', '"prompt":" p"'),
    ('"id":"schedule-1"', '"id":"schedule-1 "'),
    ('"everySeconds":600', f'"everySeconds":{"9" * 4301}'),  # MOD-09
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [*REPEATED, *LOOK_ALIKES], ids=lambda text: text[:40])
def test_log_17_and_18_a_repeated_key_and_a_look_alike_are_corrupt(
    old: str, new: str, own_home: Path
) -> None:
    World(storage=JsonlStorage(own_home, compression="none")).call("create", CREATE)
    assert [view["id"] for view in list_of()] == ["schedule-1"]
    log = next(own_home.rglob("session.jsonl"))
    text = log.read_text(encoding="utf-8")
    assert text.count(old) == 1
    log.write_text(text.replace(old, new), encoding="utf-8")
    changed = log.read_bytes()
    assert list_of()["code"] == CORRUPT
    create = run_watchbell("call", SESSION, "schedule_create", CREATE)
    delete = run_watchbell("call", SESSION, "schedule_delete", '{"id":"schedule-1"}')
    assert [json.loads(printed.stdout)["code"] for printed in (create, delete)] == [CORRUPT] * 2
    assert log.read_bytes() == changed
