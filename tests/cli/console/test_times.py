from __future__ import annotations

from datetime import UTC

from watchbell.cli.console.times import render_local, render_moment, render_utc
from watchbell.instants import MAX_INSTANT_MS, decode_instant
from watchbell.zones import ZoneTable

VANCOUVER_NINE = decode_instant("2027-01-15T16:00:00.000Z")


def test_a_local_time_carries_its_offset_and_zone() -> None:
    kolkata = ZoneTable().find("Asia/Kolkata")
    assert render_local(VANCOUVER_NINE, kolkata) == "2027-01-15 21:30:00 +05:30 Asia/Kolkata"
    assert render_local(VANCOUVER_NINE, UTC) == "2027-01-15 16:00:00 +00:00 UTC"


def test_utc_always_stands_beside_it() -> None:
    told = render_moment(VANCOUVER_NINE, ZoneTable().find("Europe/Berlin"))
    assert told == "2027-01-15 17:00:00 +01:00 Europe/Berlin (2027-01-15T16:00:00.000Z)"


def test_an_instant_without_a_local_date_is_told_as_utc() -> None:
    assert render_local(MAX_INSTANT_MS, ZoneTable().find("Asia/Kolkata")) == "9999-12-31T23:59:59.999Z"


def test_a_number_beyond_the_calendar_is_told_as_it_is() -> None:
    assert render_utc(MAX_INSTANT_MS + 1) == "253402300800000 ms"
