from __future__ import annotations

import zoneinfo

import pytest
import tzlocal

from watchbell.cli.local_zone import choose_zone
from watchbell.zones import ZoneTable

ZONES = ZoneTable()


@pytest.mark.parametrize(
    ("variable", "computer", "name"),
    [
        ("Europe/Berlin", "America/New_York", "Europe/Berlin"),
        (":europe/berlin", "America/New_York", "Europe/Berlin"),
        ("/usr/share/zoneinfo/posix/Asia/Kolkata", "America/New_York", "Asia/Kolkata"),
        ("UTC", "America/New_York", "UTC"),
        ("", "America/New_York", "UTC"),
        ("CET-1CEST", "America/New_York", None),
        ("Nowhere/Land", "America/New_York", None),
        (None, "America/Vancouver", "America/Vancouver"),
        (None, "Etc/UTC", "Etc/UTC"),
        (None, "CET", None),
        (None, None, None),
    ],
)
def test_the_variable_tz_decides_alone_and_else_the_computer(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, computer: str | None, name: str | None
) -> None:
    monkeypatch.setattr(tzlocal, "get_localzone_name", lambda: computer)
    if variable is None:
        monkeypatch.delenv("TZ", raising=False)
    else:
        monkeypatch.setenv("TZ", variable)
    assert choose_zone(ZONES, None) == name


def test_files_that_contradict_each_other_leave_the_zone_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise zoneinfo.ZoneInfoNotFoundError("conflicting configurations")

    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(tzlocal, "get_localzone_name", fail)
    assert choose_zone(ZONES, None) is None


def test_the_zone_that_is_set_counts_in_the_spelling_of_the_list() -> None:
    assert choose_zone(ZONES, "asia/kolkata") == "Asia/Kolkata"
    assert choose_zone(ZONES, "utc") == "UTC"
