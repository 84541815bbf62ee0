"""`watchbell call` is one tool call exactly as a model's, outside any turn."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Start, Store, read_events
from tests.contract.world import run_watchbell
from watchbell.cli.commands.call import decode_argument_text, decode_clock
from watchbell.log.event import Draft
from watchbell.log.payloads import StepMark, TurnStart
from watchbell.storage.jsonl.store import JsonlStorage

CREATE = '{"prompt":"p","after_seconds":600}'


def types_in(home: Path) -> list[str]:
    """The types of the events of session `s`."""
    return [event.type for event in read_events(home, "s")]


def test_it_prints_the_canonical_value_and_nothing_else() -> None:
    printed = run_watchbell(
        "call", "s", "schedule_create", CREATE, "--create", "--clock", "2026-12-01T00:00:00Z"
    )
    assert printed == (
        0,
        (
            b'{"id":"schedule-1","kind":"after","prompt":"p","afterSeconds":600,'
            b'"scheduledAt":"2026-12-01T00:10:00.000Z","state":"scheduled","deliveryMode":"session-local"}\n'
        ),
        "",
    )


def test_an_error_value_is_an_answer_and_leaves_no_session_behind(own_home: Path) -> None:
    printed = run_watchbell("call", "s", "schedule_create", "{}", "--create")
    assert (printed.exit_code, json.loads(printed.stdout)["code"]) == (0, "invalid_selector")
    assert not list(own_home.rglob("session*"))


def test_it_records_schedule_changes_alone(own_home: Path) -> None:
    run_watchbell("call", "s", "schedule_create", CREATE, "--create")
    run_watchbell("call", "s", "schedule_list")
    run_watchbell("call", "s", "schedule_delete", '{"id":"schedule-9"}')
    assert types_in(own_home) == ["schedule/change"]
    run_watchbell("call", "s", "schedule_delete", '{"id":"schedule-1"}')
    assert types_in(own_home) == ["schedule/change", "session/end-seed", "schedule/change"]


def test_nothing_is_delivered() -> None:
    run_watchbell("call", "s", "schedule_create", CREATE, "--create", "--clock", "2026-12-01T00:00:00Z")
    printed = run_watchbell("call", "s", "schedule_list", "--clock", "2027-01-01T00:00:00Z")
    assert [view["state"] for view in json.loads(printed.stdout)] == ["overdue"]


def test_a_session_that_does_not_exist_is_a_failure() -> None:
    printed = run_watchbell("call", "s", "schedule_list")
    assert (printed.exit_code, printed.stdout) == (1, "")
    assert "'s'" in printed.stderr


def test_a_tool_that_does_not_exist_is_wrong_usage() -> None:
    printed = run_watchbell("call", "s", "schedule_snooze", "{}", "--create")
    assert (printed.exit_code, printed.stdout) == (2, "")
    assert all(name in printed.stderr for name in ("schedule_create", "schedule_list", "schedule_delete"))


def test_the_settings_hold_for_a_call_too(own_home: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text('compression = "none"\nmax_active = 1\n', encoding="utf-8")
    options = ["--create", "--config", str(config), "--home", str(own_home)]
    codes = [
        json.loads(run_watchbell("call", "s", "schedule_create", CREATE, *options).stdout).get("code")
        for _ in range(2)
    ]
    assert codes == [None, "invalid_rule"]
    assert types_in(own_home) == ["schedule/change"]
    assert [path.name for path in own_home.rglob("session*") if path.is_file()] == ["session.jsonl"]


def test_a_terminal_gets_ascii_and_a_pipe_the_canonical_bytes(
    start: Start,
) -> None:
    prompt = "\x9b31m\x7f\u202egnp.exe\x1b"
    arguments = json.dumps({"prompt": prompt, "after_seconds": 60})
    piped = run_watchbell("call", "s", "schedule_create", arguments, "--create").stdout
    assert prompt[:-1] in piped
    ours, its = os.openpty()
    assert start("call", "s", "schedule_list", stdout=its).wait(timeout=20) == 0
    shown = os.read(ours, 65536).decode("ascii")
    os.close(ours)
    os.close(its)
    assert shown.rstrip().isprintable()
    assert json.loads(shown)[0]["prompt"] == prompt


@pytest.mark.parametrize("tool", ["schedule_create", "schedule_list", "schedule_delete"])
def test_a_session_that_is_open_elsewhere_is_refused_with_its_holder(tool: str, own_home: Path) -> None:
    run_watchbell("call", "s", "schedule_create", CREATE, "--create")

    async def hold() -> None:
        storage = JsonlStorage(own_home)
        _, writer = await storage.open("s")
        printed = await asyncio.to_thread(run_watchbell, "call", "s", tool, CREATE, "--create")
        await writer.close()
        await storage.aclose()
        assert (printed.exit_code, printed.stdout) == (1, "")
        assert f"process {os.getpid()}" in printed.stderr

    asyncio.run(hold())
    assert types_in(own_home) == ["schedule/change"]


def test_an_interrupted_turn_is_closed_before_the_first_change(own_home: Path, store: Store) -> None:
    store("s", Draft("turn/start", TurnStart(1)), Draft("step/start", StepMark(1, 1)))
    cut_off = ["turn/start", "step/start"]
    run_watchbell("call", "s", "schedule_list")
    run_watchbell("call", "s", "schedule_create", "{}")
    assert types_in(own_home) == cut_off
    printed = run_watchbell("call", "s", "schedule_create", CREATE)
    assert json.loads(printed.stdout)["id"] == "schedule-1"
    assert types_in(own_home) == [*cut_off, "step/end", "turn/end", "session/end-seed", "schedule/change"]
    assert run_watchbell("verify").exit_code == 0


def test_an_event_that_an_opening_cannot_read_is_damage_with_its_file(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    log = store("s", Draft("turn/start", []))
    printed = run_watchbell("call", "s", "schedule_list")
    assert json.loads(printed.stdout)["code"] == "corrupt_schedule_log"
    assert f"{log} is damaged: event 0 (turn/start) is malformed" in caplog.text


# --- arguments and the clock -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (CREATE.encode() + b"\n", None),
        (b"", "invalid_selector"),
        (b'{"prompt":"\xff","after_seconds":600}', "invalid_selector"),
        (b'{"prompt":"\xed\xa0\xbd","after_seconds":600}', "invalid_selector"),
        (CREATE.encode("utf-16"), "invalid_selector"),
        (b"\xef\xbb\xbf" + CREATE.encode(), "invalid_selector"),
    ],
)
def test_a_dash_reads_the_bytes_of_stdin(raw: bytes, code: str | None) -> None:
    printed = run_watchbell("call", "s", "schedule_create", "-", "--create", stdin=raw)
    assert printed.exit_code == 0
    assert json.loads(printed.stdout).get("code") == code


@pytest.mark.parametrize("half", [0xD83D, 0xDCFF])
def test_arguments_that_are_no_utf_8_are_no_json(half: int) -> None:
    printed = run_watchbell("call", "s", "schedule_create", CREATE.replace("p", chr(half), 1), "--create")
    assert json.loads(printed.stdout)["code"] == "invalid_selector"


def test_text_that_is_no_text_is_never_an_empty_call() -> None:
    assert decode_argument_text(b"{}") == "{}"
    assert decode_argument_text(b"\xff").strip() not in ("", "null")


@pytest.mark.parametrize(
    ("text", "instant_ms"),
    [
        ("2026-12-01T00:00:00Z", 1_796_083_200_000),
        ("2026-12-01t01:00:00+01:00", 1_796_083_200_000),
        ("2026-12-01 00:00:00.1239z", 1_796_083_200_123),
        ("2026-12-01T00:00:00.5-00:00", 1_796_083_200_500),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_the_clock_is_any_rfc_3339_instant(text: str, instant_ms: int) -> None:
    assert decode_clock(text).now_ms() == instant_ms


@pytest.mark.parametrize("text", ["", "now", "2026-12-01", "2026-12-01T00:00:00", "2026-13-01T00:00:00Z",
                                  "0001-01-01T00:00:00+00:01", "1796083200000"])  # fmt: skip
def test_any_other_clock_is_wrong_usage(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_clock(text)
    assert run_watchbell("call", "s", "schedule_list", "--create", f"--clock={text}").exit_code == 2


def test_a_session_made_before_1970_can_be_opened_again() -> None:
    options = ["--create", "--clock", "1950-12-01T00:00:00Z"]
    assert run_watchbell("call", "s", "schedule_create", CREATE, *options).exit_code == 0
    printed = run_watchbell("call", "s", "schedule_list", *options)
    assert json.loads(printed.stdout)[0]["scheduledAt"] == "1950-12-01T00:10:00.000Z"
