"""3. Time input

How a model says when.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.world import T0, World, answer_of, later
from watchbell.zones import ZoneTable

RULE, ZONE, PAST, RANGE = "invalid_rule", "invalid_time_zone", "not_future", "time_out_of_range"
SAFE = 2**53 - 1


def answer(clock: str = T0, **selector: Any) -> str:
    """The target of a create, else its code; what is refused leaves no trace."""
    world = World()
    value = answer_of(world.create(clock=clock, **selector))
    assert len(world.changes()) == value.endswith("Z")
    return value


def answer_raw(name: str, written: str) -> str:
    """The answer to a create with a selector that is written so."""
    return answer_of(World().call("create", f'{{"prompt":"p","{name}":{written}}}'))


def local(moment: str, zone: Any = "UTC") -> dict[str, Any]:
    date, clock_time = moment.split(" ", 1)
    return {"date": date, "time": clock_time, "time_zone": zone}


# --- selectors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 2, 3])
def test_create_takes_exactly_one_selector(count: int) -> None:
    """`schedule_create` takes exactly one of `after_seconds`, `at` and `every_seconds`. None or several are
    `invalid_selector`."""
    selectors: dict[str, Any] = {"after_seconds": 600, "at": later(600), "every_seconds": 600}
    assert answer(T0, **dict(list(selectors.items())[:count])) == "invalid_selector"
    for name, value in selectors.items():
        assert answer(T0, **{name: value}) == later(600)


def test_a_delay_counts_from_the_creation() -> None:
    """`after_seconds`: the target is the time of the creation plus the delay."""
    assert answer(after_seconds=1) == later(1)
    assert answer("2026-12-01T12:34:56.789Z", after_seconds=86_400) == "2026-12-02T12:34:56.789Z"


@pytest.mark.parametrize("written", ["0", "-1", "0.5", str(SAFE + 1), f"-{SAFE}"])
def test_a_delay_is_a_positive_safe_integer(written: str) -> None:
    """A delay that is not a positive integer up to 2^53 - 1 is `invalid_rule`."""
    assert answer_raw("after_seconds", written) == RULE


def test_a_repeating_reminder_first_comes_one_interval_after_its_creation() -> None:
    """`every_seconds`: the first target is the time of the creation plus the interval."""
    assert answer(every_seconds=300) == later(300)


@pytest.mark.parametrize("seconds", [299, 1, 0, -300])
def test_an_interval_below_300_seconds_is_too_frequent(seconds: int) -> None:
    """An interval below 300 seconds is `frequency_too_high`."""
    assert answer(every_seconds=seconds) == "frequency_too_high"


@pytest.mark.parametrize("written", ["300.5", str(SAFE + 1), "1e400"])
def test_an_interval_is_a_safe_integer(written: str) -> None:
    """An interval that is not an integer up to 2^53 - 1 is `invalid_rule`."""
    assert answer_raw("every_seconds", written) == RULE


@pytest.mark.parametrize("seconds", [SAFE // 1000 + 1, SAFE])
def test_an_interval_of_more_milliseconds_than_are_safe_is_out_of_range(seconds: int) -> None:
    """An interval that is safe in seconds but not in milliseconds is `time_out_of_range`."""
    assert answer(every_seconds=seconds) == RANGE


# --- at, as text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "target"),
    [("Z", "09:00:00.000"), (".5Z", "09:00:00.500"), (".05Z", "09:00:00.050"), (".005Z", "09:00:00.005"),
     ("+02:00", "07:00:00.000"), (".123-05:30", "14:30:00.123")],
)  # fmt: skip
def test_at_as_text_is_a_date_a_time_and_an_offset(rest: str, target: str) -> None:
    """`at` as text is `YYYY-MM-DDTHH:mm:ss`, up to three fraction digits, and `Z` or `+HH:MM` or `-HH:MM`."""
    assert answer(at=f"2027-06-01T09:00:00{rest}") == f"2027-06-01T{target}Z"


OTHER_TEXTS = [
    "2027-06-01t09:00:00Z", "2027-06-01T09:00:00z", "2027-06-01 09:00:00Z", "2027-06-01T09:00:00.Z",
    "2027-06-01T09:00:00.0000Z", "2027-06-01T09:00:00,5Z", "2027-06-01T09:00Z", " 2027-06-01T09:00:00Z",
    "2027-06-01T09:00:00Z\n", "\uff12\uff10\uff12\uff17-06-01T09:00:00Z", "2027-06-01T\u0660\u0669:00:00Z",
    "20270601T090000Z", "2027-W22-2T09:00:00Z", "2027-06-01T09:00:00+05", "2027-06-01T09:00:00+0530",
    "2027-06-01T09:00:00+05:30:15", "tomorrow", "",
]  # fmt: skip


@pytest.mark.parametrize("at", OTHER_TEXTS)
def test_any_other_text_is_refused(at: str) -> None:
    """`T` and `Z` are upper case and digits are ASCII; any other text is `invalid_rule`."""
    assert answer(at=at) == RULE


@pytest.mark.parametrize(
    ("offset", "right"), [("+23:59", True), ("-23:59", True), ("+24:00", False), ("+05:60", False)]
)
def test_offsets_have_hours_to_23_and_minutes_to_59(offset: str, right: bool) -> None:
    """The hours of an offset are 00 to 23, its minutes 00 to 59."""
    assert (answer(at=f"2027-06-01T09:00:00{offset}") != RULE) is right


def test_the_offset_minus_zero_is_refused() -> None:
    """`-00:00` is refused: it says that the offset is not known."""
    assert answer(at="2027-06-01T09:00:00-00:00") == RULE
    assert answer(at="2027-06-01T09:00:00+00:00") == "2027-06-01T09:00:00.000Z"


@pytest.mark.parametrize("at", ["2027-06-01T09:00:00", "2027-06-01", "09:00:00"])
def test_text_without_an_offset_is_refused(at: str) -> None:
    """Text without an offset is refused: no zone is assumed."""
    assert answer(at=at) == RULE


# --- at, as an object ------------------------------------------------------------------------------------


def test_at_as_an_object_is_a_local_date_a_time_and_a_zone() -> None:
    """`at` as an object is `{"date": "YYYY-MM-DD", "time": "HH:mm:ss", "time_zone": ZONE}`, the time with up
    to three fraction digits."""
    assert answer(at=local("2027-06-01 09:00:00", "Asia/Tokyo")) == "2027-06-01T00:00:00.000Z"
    assert answer(at=local("2027-06-01 09:00:00.25", "Asia/Tokyo")) == "2027-06-01T00:00:00.250Z"


OTHER_SHAPES = [
    {"time": "x", "time_zone": "x"}, {"date": "x", "time_zone": "x"},
    {"date": "2027-06-01", "time": "09:00:00"},
    *(local("2027-06-01 09:00:00") | wrong
      for wrong in ({"fold": 1}, {"fold": None}, {"date": None}, {"date": 20270601}, {"time": 9})),
    *(local(f"2027-06-01 {time}") for time in ("9:00:00", "09:00", "09:00:00 AM", "09:00:00Z", "09:00:00\n")),
    *({}, [], 20270601, True, 1.5),
]  # fmt: skip


@pytest.mark.parametrize("at", OTHER_SHAPES)
def test_an_object_of_another_shape_is_refused(at: Any) -> None:
    """A missing, extra or wrong part is `invalid_rule`, and so is what is neither text nor an object."""
    assert answer(at=at) == RULE


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("UTC", "09:00"), ("Europe/Berlin", "07:00"), ("America/Argentina/Buenos_Aires", "12:00"),
     ("US/Pacific", "16:00"), ("Asia/Calcutta", "03:30"), ("Etc/GMT+5", "14:00")],
)  # fmt: skip
def test_a_zone_is_utc_or_an_iana_name_with_a_slash(zone: str, hours: str) -> None:
    """A zone is `UTC` or an IANA name with a slash, links among them such as `US/Pacific`, `Asia/Calcutta`
    and `Etc/GMT+5`."""
    assert answer(at=local("2027-06-01 09:00:00", zone)) == f"2027-06-01T{hours}:00.000Z"


OTHER_NAMES = ["EST", "GMT", "CET", "Japan", "Zulu", "Z", "+05:00", "GMT+5", "", " UTC", "Nope/Nope"]


@pytest.mark.parametrize("zone", [*OTHER_NAMES, None, True, 1, {}])
def test_other_names_are_no_zones(zone: Any) -> None:
    """One-word names and abbreviations, offsets, empty and unknown names, and what is no text, are
    `invalid_time_zone`."""
    assert answer(at=local("2027-06-01 09:00:00", zone)) == ZONE


@pytest.mark.parametrize("zone", ["europe/berlin", "EUROPE/BERLIN", "Europe/berlin"])
def test_letter_case_of_a_zone_does_not_matter(zone: str) -> None:
    """The letter case of a name does not matter."""
    assert answer(at=local("2027-06-01 09:00:00", zone)) == "2027-06-01T07:00:00.000Z"


@pytest.mark.parametrize(
    "zone", ["../tzdata/zoneinfo/Europe/Berlin", "Europe/../Europe/Berlin", "posix/Europe/Paris"]
)
def test_membership_is_checked_before_any_file_is_opened(zone: str, tmp_path: Path) -> None:
    """Whether a name is in the list is checked before any file is opened: a path is never followed."""
    (tmp_path / "zones").write_text("Europe/Berlin\n")
    assert ZoneTable(tmp_path).find(zone) is None  # there is no file that it could have opened
    assert answer(at=local("2027-06-01 09:00:00", zone)) == ZONE


@pytest.mark.parametrize(
    ("moment", "zone"),
    [("2027-03-28 02:30:00", "Europe/Berlin"), ("2027-10-03 02:15:00", "Australia/Lord_Howe"),
     ("2011-12-30 12:00:00", "Pacific/Apia")],
)  # fmt: skip
def test_a_local_time_that_clocks_skip_is_refused(moment: str, zone: str) -> None:
    """A local time inside a gap, where clocks go forward, is `invalid_rule`; it is not moved."""
    assert answer("2011-01-01T00:00:00.000Z", at=local(moment, zone)) == RULE


@pytest.mark.parametrize(
    ("moment", "zone", "target"),
    [
        ("2027-10-31 02:30:00", "Europe/Berlin", "2027-10-31T00:30:00.000Z"),
        ("2027-11-07 01:30:00", "America/New_York", "2027-11-07T05:30:00.000Z"),
        ("2027-04-04 01:45:00", "Australia/Lord_Howe", "2027-04-03T14:45:00.000Z"),
    ],
)
def test_of_a_time_shown_twice_the_earlier_is_taken(moment: str, zone: str, target: str) -> None:
    """Where clocks go back and show a local time twice, the earlier instant is taken."""
    assert answer(at=local(moment, zone)) == target


def test_the_earlier_instant_is_taken_even_when_it_is_over() -> None:
    """It stays the earlier one when that is over already: `not_future`, never the later one."""
    at = local("2027-11-07 01:30:00", "America/New_York")
    assert answer("2027-11-07T05:45:00.000Z", at=at) == PAST


def test_both_folds_are_tried_and_have_to_give_the_local_time_back() -> None:
    """A local time is resolved by trying both folds and keeping those that give it back: the one instant of a
    time is found also where only the second fold knows it."""
    at = local("2023-10-28 23:30:00", "America/Nuuk")
    assert answer("2023-10-20T00:00:00.000Z", at=at) == "2023-10-29T01:30:00.000Z"


# --- what no calendar has, and what is out of reach ------------------------------------------------------


@pytest.mark.parametrize(
    "moment",
    ["2027-02-29 09:00:00", "2027-06-31 09:00:00", "2027-13-01 09:00:00", "2027-00-10 09:00:00",
     "2027-06-01 24:00:00", "2027-06-01 09:60:00", "2028-12-31 23:59:60", "0000-01-01 00:00:00"],
)  # fmt: skip
def test_a_date_or_time_that_does_not_exist_is_refused(moment: str) -> None:
    """A date that the calendar does not have, hour 24, second 60 and year 0000 are `invalid_rule`, in either
    form."""
    assert answer(at=local(moment)) == RULE
    assert answer(at=moment.replace(" ", "T") + "Z") == RULE


@pytest.mark.parametrize(
    "at", [T0, "2026-12-01T05:30:00+05:30", "2025-01-01T09:00:00Z", "0001-01-01T00:00:00Z"]
)
def test_a_target_is_strictly_after_now(at: str) -> None:
    """A target that is not strictly after now is `not_future`."""
    assert answer(at=at) == PAST
    assert answer(at="2026-12-01T00:00:00.001Z") == "2026-12-01T00:00:00.001Z"


@pytest.mark.parametrize(
    "selector",
    [{"at": "0001-01-01T00:00:00+00:01"}, {"at": "9999-12-31T23:59:59.999-00:01"},
     {"at": local("0001-01-01 00:00:00", "Asia/Tokyo")},
     {"at": local("9999-12-31 23:59:59", "America/New_York")},
     {"after_seconds": SAFE}, {"every_seconds": 251_606_217_600}],
)  # fmt: skip
def test_a_target_lies_in_the_years_0001_to_9999(selector: dict[str, Any]) -> None:
    """A target outside the UTC years 0001 to 9999 is `time_out_of_range`."""
    assert answer(**selector) == RANGE
    assert answer(after_seconds=251_606_217_599) == "9999-12-31T23:59:59.000Z"


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system cannot set a process's zone")
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "nonsense"])
def test_no_zone_of_the_process_is_read(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Schedule code reads the zone of the process, browser, session or model: answers are the same under
    each."""
    said = [
        {"at": "2027-06-01T09:00:00"}, {"at": "2027-06-01T09:00:00+02:00"}, {"after_seconds": 86_400},
        {"at": local("2027-10-31 02:30:00", "Europe/Berlin")}, {"at": local("2027-06-01 09:00:00", "")},
    ]  # fmt: skip
    before = [answer(**selector) for selector in said]
    try:
        monkeypatch.setitem(os.environ, "TZ", zone)
        time.tzset()
        assert [answer(**selector) for selector in said] == before
    finally:
        monkeypatch.undo()
        time.tzset()


# --- numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["600", "600.0", "6e2", "6E+2", "0.6e3"])
def test_a_whole_number_may_be_written_with_a_point_or_an_exponent(written: str) -> None:
    """A whole number may be written `600.0` or `6e2`; the log holds `600`."""
    world = World()
    assert world.call("create", f'{{"prompt":"p","after_seconds":{written}}}')["afterSeconds"] == 600
    assert repr(world.changes()[0]["schedule"]["afterSeconds"]) == "600"


@pytest.mark.parametrize("written", ['"600"', "true", "false", "NaN", "Infinity", "[600]", "{}"])
def test_nothing_is_coerced_to_a_number(written: str) -> None:
    """Texts, booleans and NaN are wrong values, `invalid_rule`; nothing is coerced."""
    assert answer_raw("after_seconds", written) == answer_raw("every_seconds", written) == RULE


def test_a_number_of_thousands_of_digits_gets_its_own_answer() -> None:
    """A number of thousands of digits is one of these wrong values too, not a failure."""
    assert answer_raw("after_seconds", "9" * 5000) == answer_raw("every_seconds", "9" * 5000) == RULE


def test_a_repeated_key_gets_its_own_answer() -> None:
    """A repeated key is seen: `invalid_rule` inside `at`."""
    twice = '{"date":"2027-06-01","time":"09:00:00","time_zone":"UTC","time_zone":"UTC"}'
    assert answer_raw("at", twice) == RULE
