from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import FUTURE, Start, Store, Watchbell, create
from tests.logs import create as log_create
from tests.logs import place, units
from watchbell.log.event import Draft
from watchbell.log.payloads import EndSeed, Failed, StepMark, TurnEnd, TurnFailure, TurnStart


def replace(path: Path, data: bytes) -> None:
    """Put another file in the place of a log, in one step."""
    other = path.with_name("other")
    other.write_bytes(data)
    other.rename(path)


def test_each_event_is_one_row_with_its_time_in_utc(watchbell: Watchbell, store: Store) -> None:
    error = Failed(TurnFailure("no\nmore", "LIMIT"))
    store(
        "a",
        Draft("turn/start", TurnStart(1)),
        Draft("step/start", StepMark(1, 1)),
        Draft("turn/end", TurnEnd(1, error)),
        create("x", "z", FUTURE),
    )
    assert watchbell("log", "a").out.splitlines() == [
        "    0  2020-09-13T12:26:40.000Z  turn/start           turn 1",
        "    1  2020-09-13T12:26:40.001Z  step/start           turn 1 step 1",
        "    2  2020-09-13T12:26:40.002Z  turn/end             turn 1 error LIMIT: no\\nmore",
        "    3  2020-09-13T12:26:40.003Z  schedule/change      create x (at) at 2999-12-31T23:00:00.000Z: z",
    ]


def test_types_are_chosen_by_name_or_pattern(watchbell: Watchbell, store: Store) -> None:
    store("a", Draft("turn/start", TurnStart(1)), create("schedule-1"), Draft("session/end-seed", EndSeed()))
    assert len(watchbell("log", "a", "--type", "schedule/*").out.splitlines()) == 1
    assert (
        len(watchbell("log", "a", "--type", "turn/start", "--type", "session/end-seed").out.splitlines()) == 2
    )
    assert watchbell("log", "a", "--type", "nothing").out == ""


def test_json_rows_are_the_events_in_ascii(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1", "✓ 日本 😀", FUTURE), Draft("watchbell/x", {"odd": 1}, ignorable=True))
    out = watchbell("log", "a", "--json").out
    assert out.isascii()
    first, second = map(json.loads, out.splitlines())
    assert first["data"]["schedule"]["prompt"] == "✓ 日本 😀"
    assert (second["seq"], second["type"], second["ignorable"]) == (1, "watchbell/x", True)


def test_a_payload_of_another_shape_is_shown_as_its_json(watchbell: Watchbell, store: Store) -> None:
    store("a", Draft("todo/write", {"items": ["\x1b"]}), Draft("turn/end", {"odd": True}))
    first, second = watchbell("log", "a").out.splitlines()
    assert first.endswith('{"items": ["\\u001b"]}')
    assert second.endswith('{"odd": true}')


def test_reading_a_torn_log_changes_nothing_and_says_so(watchbell: Watchbell, store: Store) -> None:
    path = store("a", create("schedule-1", at=FUTURE))
    assert watchbell("run", "a", "hello").code == 0
    path.write_bytes(path.read_bytes()[:-5])
    before = path.stat()
    ran = watchbell("log", "a")
    assert (ran.code, ran.out.splitlines()[0][:5]) == (0, "    0")
    assert "torn last batch" in ran.err
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert not list(path.parent.glob("torn-*"))


def test_a_damaged_log_fails_in_one_line(watchbell: Watchbell, store: Store) -> None:
    store("a", create("schedule-1")).write_bytes(b"\0" * 100)
    ran = watchbell("log", "a")
    assert ran.code == 1
    assert ran.err.startswith("watchbell: ")
    assert ran.err.count("\n") == 1


def test_following_shows_what_another_process_appends_and_ends_quietly(
    store: Store, start: Start, watchbell: Watchbell
) -> None:
    store("a", create("schedule-1", at=FUTURE))
    following = start("log", "a", "--follow", "--type", "schedule/change")
    assert "create schedule-1" in following.stdout.readline()
    assert watchbell("run", "a", "cancel schedule-1").code == 0
    assert "delete schedule-1" in following.stdout.readline()
    following.send_signal(2)
    rest, errors = following.communicate(timeout=20)
    assert (rest, errors, following.returncode) == ("", "", 130)


def test_following_starts_over_where_a_replaced_log_differs(home: Path, start: Start) -> None:
    parts = units("zstd", [log_create(1)], [log_create(2)])
    path = place(home, b"".join(parts), session_id="s")
    following = start("log", "s", "--follow")
    for number in (1, 2):
        assert f"create schedule-{number}" in following.stdout.readline()
    replace(path, b"".join(units("zstd", [log_create(1)], [log_create(7)], [log_create(8)])))
    assert "replaced or cut back; it is shown again from event 1 on" in following.stderr.readline()
    for number in (7, 8):
        assert f"create schedule-{number}" in following.stdout.readline()


def test_following_says_nothing_of_a_copy_that_only_goes_on(home: Path, start: Start) -> None:
    parts = units("zstd", [log_create(1)], [log_create(2)])
    path = place(home, b"".join(parts[:2]), session_id="s")
    following = start("log", "s", "--follow")
    assert "create schedule-1" in following.stdout.readline()
    replace(path, b"".join(parts))
    assert "create schedule-2" in following.stdout.readline()
    following.send_signal(2)
    assert following.communicate(timeout=20) == ("", "")


def test_a_log_is_read_while_another_process_has_it_open(
    home: Path, start: Start, watchbell: Watchbell
) -> None:
    chat = start("chat", "a")
    chat.say("remind me in 5 hours to stretch")
    assert "schedule_create" in chat.stdout.readline()
    assert "create schedule-1" in watchbell("log", "a", "--type", "schedule/*").out
    ran = watchbell("run", "a", "hello")
    assert ran.code == 1
    assert f"open in process {chat.pid}" in ran.err
