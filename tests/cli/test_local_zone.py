from __future__ import annotations

import zoneinfo

import pytest
import tzlocal

from watchbell.cli.local_zone import choose_zone
from watchbell.zones import ZoneTable

ZONES = ZoneTable()


def computer_says(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(tzlocal, "get_localzone_name", lambda: name)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":europe/berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/posix/Asia/Kolkata", "Asia/Kolkata"),
        ("UTC", "UTC"),
        ("", "UTC"),
        ("CET-1CEST", None),
        ("Nowhere/Land", None),
    ],
)
def test_the_variable_tz_decides_alone(value: str, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    computer_says(monkeypatch, "America/New_York")
    monkeypatch.setenv("TZ", value)
    assert choose_zone(ZONES, None) == name


@pytest.mark.parametrize(
    ("told", "name"),
    [("America/Vancouver", "America/Vancouver"), ("Etc/UTC", "Etc/UTC"), ("CET", None), (None, None)],
)
def test_without_tz_it_is_the_zone_of_the_computer(
    told: str | None, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    computer_says(monkeypatch, told)
    assert choose_zone(ZONES, None) == name


def test_files_that_contradict_each_other_leave_the_zone_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise zoneinfo.ZoneInfoNotFoundError("conflicting configurations")

    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(tzlocal, "get_localzone_name", fail)
    assert choose_zone(ZONES, None) is None


def test_the_zone_that_is_set_counts_in_the_spelling_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    computer_says(monkeypatch, "America/New_York")
    assert choose_zone(ZONES, "asia/kolkata") == "Asia/Kolkata"
    assert choose_zone(ZONES, "utc") == "UTC"
