"""Time zones come from the wheel alone, by a list of names."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchbell.errors import WatchbellError, ZoneDataError
from watchbell.zones import ZoneTable

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def zones() -> ZoneTable:
    return ZoneTable()


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("UTC", 0),
        ("Utc", 0),
        ("Etc/UTC", 0),
        ("Asia/Tokyo", 9),
        ("asia/tokyo", 9),
        ("AMERICA/NEW_YORK", -5),
        ("US/Pacific", -8),
        ("Asia/Calcutta", 5.5),
        ("Etc/GMT+5", -5),
        ("Etc/GMT-14", 14),
        ("America/Argentina/Buenos_Aires", -3),
    ],
)
def test_a_zone_is_found_in_any_letter_case(zones: ZoneTable, name: str, hours: float) -> None:
    zone = zones.find(name)
    assert zone is not None
    assert zone.utcoffset(NOON.replace(tzinfo=None)) == timedelta(hours=hours)


NO_ZONES = """
EST EST5EDT PST CET GMT Z Zulu Japan GB-Eire Factory localtime posixrules UCT Universal GMT+0
Nope/Nope Etc/Unknown Etc/GMT+15 GMT+5 UTC+5 +05:00 right/America/New_York posix/Europe/Paris
Europe /Europe/Berlin Europe/Berlin/ Europe//Berlin ../zoneinfo/Europe/Berlin Europe/../Europe/Berlin
zoneinfo/Europe/Berlin Europe\\Berlin
"""


@pytest.mark.parametrize(
    "name",
    [
        *NO_ZONES.split(),
        "",
        " UTC",
        "UTC ",
        "UTC\n",
        "Eastern Standard Time",
        "Europe/Berlin\n",
        "Europe/Berlin\0",
    ],
)
def test_other_names_are_no_zones(zones: ZoneTable, name: str) -> None:
    assert zones.find(name) is None


def test_letters_that_only_look_alike_in_lower_case_do_not_match(zones: ZoneTable) -> None:
    assert zones.find("Asia/Karachi") is not None
    assert zones.find("Asia/\u212aarachi") is None


def test_every_listed_name_with_a_slash_loads(zones: ZoneTable) -> None:
    listed = (Path(zones.origin()) / "zones").read_text().split()
    names = [name for name in listed if "/" in name]
    assert len(names) > 500
    assert all(zones.find(name) is not None for name in names)


def test_a_zone_is_loaded_once(zones: ZoneTable) -> None:
    assert zones.find("Europe/Berlin") is zones.find("europe/BERLIN")


def test_the_hosts_zone_files_play_no_part(tmp_path: Path) -> None:
    (tmp_path / "America").mkdir()
    utc = (Path(ZoneTable().origin()) / "zoneinfo" / "Etc" / "UTC").read_bytes()
    (tmp_path / "America" / "Vancouver").write_bytes(utc)
    try:
        zoneinfo.reset_tzpath([str(tmp_path)])
        zone = ZoneTable().find("America/Vancouver")
    finally:
        zoneinfo.reset_tzpath()
    assert zone is not None
    # British Columbia stays at UTC-7 from 2026 on; data from before that release says -8.
    assert zone.utcoffset(NOON.replace(tzinfo=None)) == timedelta(hours=-7)


def test_the_release_and_the_origin_are_told(zones: ZoneTable) -> None:
    assert re.fullmatch(r"20[0-9]{2}[a-z]", zones.release())
    assert zones.release()[:4] == importlib.metadata.version("tzdata")[:4]
    assert Path(zones.origin()).is_dir()
    zones.check()


def test_without_data_utc_still_works_and_other_names_tell_what_is_missing(tmp_path: Path) -> None:
    bare = ZoneTable(tmp_path)
    assert bare.find("UTC") is UTC
    assert bare.find("EST") is None
    for use in (lambda: bare.find("Asia/Tokyo"), bare.check):
        with pytest.raises(ZoneDataError, match="tzdata"):
            use()


def test_a_listed_zone_without_its_file_or_with_a_damaged_one_tells_so(tmp_path: Path) -> None:
    (tmp_path / "zones").write_text("Asia/Tokyo\nAsia/Seoul\n")
    (tmp_path / "zoneinfo" / "Asia").mkdir(parents=True)
    (tmp_path / "zoneinfo" / "Asia" / "Seoul").write_bytes(b"TZif")
    bare = ZoneTable(tmp_path)
    for name in ("Asia/Tokyo", "Asia/Seoul"):
        with pytest.raises(ZoneDataError, match=name):
            bare.find(name)
    with pytest.raises(ZoneDataError, match="Etc/UTC"):
        bare.check()


def test_without_the_package_its_name_is_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tzdata", None)
    bare = ZoneTable()
    assert bare.find("utc") is UTC
    for use in (lambda: bare.find("Asia/Tokyo"), bare.release, bare.origin, bare.check):
        with pytest.raises(WatchbellError, match="tzdata"):
            use()
