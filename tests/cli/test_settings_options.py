"""Settings as commands get them: their rank, what `watchbell config` shows, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Watchbell, read_events


def test_later_sources_win_and_each_value_names_its_source(
    watchbell: Watchbell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "watchbell.toml").write_text('model = "of-file"\nmax_active = 7\ntime_zone = "Asia/Kolkata"\n')
    monkeypatch.setenv("WATCHBELL_MODEL", "of-environment")
    told = json.loads(watchbell("config", "--time-zone", "UTC", "--json").out)
    assert told["model"] == {"value": "of-environment", "origin": "$WATCHBELL_MODEL"}
    assert told["max_active"] == {"value": "7", "origin": str(home / "watchbell.toml")}
    assert told["time_zone"] == {"value": "UTC", "origin": "--time-zone"}
    assert told["compression"]["origin"] == "default"


def test_a_secret_is_never_shown(watchbell: Watchbell, home: Path) -> None:
    (home / "watchbell.toml").write_text('model = "gpt-4.1-mini"\napi_key = "sk-very-secret"\n')
    for arguments in (("config",), ("config", "--json"), ("doctor",), ("doctor", "--json")):
        ran = watchbell(*arguments)
        assert "very-secret" not in ran.out + ran.err
    assert "********" in watchbell("config").out


def test_an_unknown_setting_fails_with_a_suggestion(watchbell: Watchbell, home: Path) -> None:
    (home / "watchbell.toml").write_text('modle = "x"\n')
    for command in (("config",), ("chat",), ("sessions",)):
        ran = watchbell(*command)
        assert ran.code == 1
        assert "did you mean 'model'?" in ran.err


def test_the_file_may_be_anywhere_and_set_the_home(
    watchbell: Watchbell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHBELL_HOME")
    file = tmp_path / "own.toml"
    file.write_text('home = "here"\ncompression = "none"\nsystem = "Be brief."\n')
    assert watchbell("run", "a", "hello", "--config", str(file)).code == 0
    assert list((tmp_path / "here").glob("sessions/*/a/session.jsonl"))
    header = next(e for e in read_events(tmp_path / "here", "a") if e.type == "request/header")
    assert header.data["header"]["system"] == "Be brief."
    assert "a  " in watchbell("--config", str(file), "sessions").out


def test_the_cap_on_reminders_is_the_one_that_is_set(
    watchbell: Watchbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHBELL_MAX_ACTIVE", "1")
    assert "schedule-1" in watchbell("run", "a", "remind me in 5 hours to stretch").out
    assert (
        len(json.loads(watchbell("run", "a", "remind me in 6 hours to rest", "--json").out)["pending"]) == 1
    )


def test_a_model_without_its_key_fails_before_a_session_begins(watchbell: Watchbell, home: Path) -> None:
    ran = watchbell("run", "a", "hello", "--model", "gpt-4.1-mini")
    assert ran.code == 1
    assert "OPENAI_API_KEY" in ran.err
    assert not (home / "sessions").exists()
