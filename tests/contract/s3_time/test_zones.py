"""3. Time input: where zones come from

Every machine resolves a local time alike.
"""

from __future__ import annotations

import zoneinfo
from datetime import timedelta, timezone, tzinfo
from pathlib import Path

import pytest

from tests.contract.world import World, answer_of
from watchbell.zones import ZoneTable

VANCOUVER = {"date": "2027-01-15", "time": "09:00:00", "time_zone": "America/Vancouver"}


@pytest.mark.parametrize("with_files", [True, False])
def test_zones_come_from_the_pinned_wheel(with_files: bool, tmp_path: Path) -> None:
    """The rules of zones come from the pinned `tzdata` wheel's own files, whatever files the host has, and
    if it has none."""
    if with_files:
        (tmp_path / "America").mkdir()
        wheel = Path(ZoneTable().origin()) / "zoneinfo"
        (tmp_path / "America" / "Vancouver").write_bytes((wheel / "Asia" / "Tokyo").read_bytes())
    try:
        zoneinfo.reset_tzpath([str(tmp_path)])
        assert answer_of(World().create(at=VANCOUVER)) == "2027-01-15T16:00:00.000Z"
    finally:
        zoneinfo.reset_tzpath()


def test_zones_are_looked_up_where_the_caller_says() -> None:
    """The rules know no zone data of their own: where zones are looked up is handed to them."""

    class OneZone:
        def find(self, name: str) -> tzinfo | None:
            return timezone(timedelta(hours=1)) if name == "The/Moon" else None

    world = World()
    for zone, right in (("The/Moon", "2027-01-15T08:00:00.000Z"), ("Europe/Berlin", "invalid_time_zone")):
        arguments = {"prompt": "p", "at": {**VANCOUVER, "time_zone": zone}}
        assert answer_of(world.call("create", arguments, zones=OneZone())) == right


def test_a_stored_instant_is_not_computed_again() -> None:
    """A reminder keeps its instant when the data changes: nothing is computed again from a zone."""
    world = World()
    world.create(at=VANCOUVER)
    assert "America" not in str(world.changes())


def test_the_release_in_use_can_be_told() -> None:
    """`watchbell doctor` prints the release in use."""
    assert ZoneTable().release() == "2026f"
