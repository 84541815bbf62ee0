"""The field cases about prompts and records in a log file, through `watchbell call`.

Names such as MOD-09 are ids of field cases, kept stable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.world import SESSION, World, run_watchbell
from watchbell.storage.jsonl.store import JsonlStorage

CORRUPT = "corrupt_schedule_log"
CREATE = '{"prompt":"p","every_seconds":600}'


def list_of(session: str = SESSION) -> Any:
    """What a list answers."""
    printed = run_watchbell("call", session, "schedule_list", "--clock", "2026-12-01T00:00:00Z")
    assert printed.exit_code == 0
    return json.loads(printed.stdout)


def plain_log(home: Path, *arguments: str) -> Path:
    """A plain log that the product wrote, with these creates."""
    world = World()
    world.storage = JsonlStorage(home, compression="none")
    for text in arguments:
        world.call("create", text)
    return next(home.rglob("session.jsonl"))


def rewrite(log: Path, old: str, new: str) -> None:
    """Change one thing in a log."""
    text = log.read_text(encoding="utf-8")
    assert text.count(old) == 1
    log.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("prompt", ["\\ud83d", "x\\udc00y", "a\\u0000b"])
def test_log_05_and_06_what_not_every_storage_holds_leaves_the_log_alone(
    compression: Any, prompt: str, tmp_path: Path
) -> None:
    world = World()
    world.storage = JsonlStorage(tmp_path, compression=compression)
    world.create(after_seconds=600)
    (log,) = tmp_path.rglob("session.jsonl*")
    before = log.read_bytes()
    refused = world.call("create", f'{{"prompt":"{prompt}","after_seconds":600}}')
    assert refused["code"] == "invalid_prompt"
    assert log.read_bytes() == before
    assert world.call("create", '{"prompt":"\\ud83d\\ude00","after_seconds":600}')["prompt"] == "\U0001f600"


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_log_06_other_control_characters_are_stored_exactly(compression: Any, tmp_path: Path) -> None:
    prompt = "a" + "".join(map(chr, range(1, 32))) + "\x7f\x85b"
    world = World()
    world.storage = JsonlStorage(tmp_path, compression=compression)
    world.create(prompt=prompt, after_seconds=600)
    assert world.list()[0]["prompt"] == prompt


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"id":"schedule-1"', '"id":"schedule-1","id":"schedule-9"'),
        ('"id":"schedule-1"', '"id":"schedule-1","id":"schedule-1"'),
        ('"scheduledAt":', '"scheduledAt":"2026-12-01T00:10:00.000Z","scheduledAt":'),
    ],
)
def test_log_17_the_same_key_twice_in_a_record_is_corrupt(old: str, new: str, own_home: Path) -> None:
    log = plain_log(own_home, CREATE)
    assert [view["id"] for view in list_of()] == ["schedule-1"]
    rewrite(log, old, new)
    assert list_of()["code"] == CORRUPT


TARGET = '"scheduledAt":"2026-12-01T00:10:00.000Z"'
LOOK_ALIKES = [
    *(('"data":{"version":1', f'"data":{{"version":{version}') for version in ("true", "1.0", '"1"', "2")),
    *(('"everySeconds":600', f'"everySeconds":{seconds}') for seconds in ("300.0", "true", "299")),
    *(
        (TARGET, f'"scheduledAt":"{instant}"')
        for instant in (
            "2026-12-01T00:10:00Z", "2026-12-01T00:10:00.000+00:00", "2027-02-30T00:00:00.000Z",
            "\uff12\uff10\uff12\uff16-12-01T00:10:00.000Z",
        )
    ),
    ('"kind":"every"', '"kind":"every","zone":"UTC"'),
    ('"everySeconds":600,', ""),
    ('"prompt":"p"', '"prompt":" p"'),
    ('"id":"schedule-1"', '"id":"schedule-1 "'),
    ('"everySeconds":600', f'"everySeconds":{"9" * 4301}'),  # MOD-09
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), LOOK_ALIKES, ids=lambda text: text[:40])
def test_log_18_a_look_alike_in_a_record_is_corrupt(old: str, new: str, own_home: Path) -> None:
    log = plain_log(own_home, CREATE)
    rewrite(log, old, new)
    changed = log.read_bytes()
    assert list_of()["code"] == CORRUPT
    create = run_watchbell("call", SESSION, "schedule_create", CREATE)
    delete = run_watchbell("call", SESSION, "schedule_delete", '{"id":"schedule-1"}')
    assert [json.loads(printed.stdout)["code"] for printed in (create, delete)] == [CORRUPT] * 2
    assert log.read_bytes() == changed
