from __future__ import annotations

from pathlib import Path

import pytest

from watchbell.cli.local_zone import find_local_zone
from watchbell.zones import ZoneTable

ZONES = ZoneTable()


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
def test_the_variable_tz_decides_alone(value: str, name: str | None, tmp_path: Path) -> None:
    (tmp_path / "timezone").write_text("America/New_York\n")
    assert find_local_zone(ZONES, environment={"TZ": value}, etc=tmp_path) == name


def test_the_link_localtime_names_the_zone(tmp_path: Path) -> None:
    data = tmp_path / "usr/share/zoneinfo/America/Vancouver"
    data.parent.mkdir(parents=True)
    data.touch()
    (tmp_path / "localtime").symlink_to(data)
    (tmp_path / "timezone").write_text("Europe/Berlin")
    assert find_local_zone(ZONES, environment={}, etc=tmp_path) == "America/Vancouver"


def test_the_file_timezone_names_the_zone_when_localtime_is_a_copy(tmp_path: Path) -> None:
    (tmp_path / "localtime").touch()
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert find_local_zone(ZONES, environment={}, etc=tmp_path) == "Europe/Berlin"


def test_nothing_that_says_leaves_the_zone_unknown(tmp_path: Path) -> None:
    (tmp_path / "timezone").write_bytes(b"\xff")
    assert find_local_zone(ZONES, environment={}, etc=tmp_path) is None
