"""Local times resolve as the transitions of their zone say, in every zone of the list."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.zone_files import Transitions, read_transitions, resolve
from watchbell.instants import WallTime, resolve_wall_time
from watchbell.zones import ZoneTable

ZONES = ZoneTable()
ROOT = Path(ZONES.origin())
NAMES = [name for name in (ROOT / "zones").read_text().split() if ZONES.find(name) is not None]
FROM_MS, TO_MS = 0, 4_133_980_799_999  # 1970 to 2100


@cache
def transitions_of(name: str) -> Transitions:
    return read_transitions((ROOT / "zoneinfo" / name).read_bytes(), 2102)


def check(name: str, wall_ms: int) -> None:
    zone = ZONES.find(name)
    assert zone is not None
    assert resolve_wall_time(WallTime(wall_ms), zone) == resolve(transitions_of(name), wall_ms)


@settings(max_examples=1500)
@given(st.sampled_from(NAMES), st.integers(FROM_MS, TO_MS))
def test_any_local_time_resolves_as_the_transitions_say(name: str, wall_ms: int) -> None:
    check(name, wall_ms)


@settings(max_examples=1500)
@given(st.data(), st.sampled_from(NAMES), st.integers(-7_200_000, 7_200_000))
def test_a_local_time_near_a_transition_resolves_as_the_transitions_say(
    data: st.DataObject, name: str, away_ms: int
) -> None:
    seconds = [second for second, _ in transitions_of(name) if FROM_MS <= second * 1000 <= TO_MS]
    if not seconds:
        return
    second = data.draw(st.sampled_from(seconds))
    before = max(pair for pair in transitions_of(name) if pair[0] < second)[1]
    check(name, (second + before) * 1000 + away_ms)


def test_edges_of_every_zones_transitions_resolve_as_those_say() -> None:
    for name in NAMES:
        found = transitions_of(name)
        recent = [pair for pair in found if 1_700_000_000 <= pair[0] <= 1_900_000_000]
        for second, offset in recent:
            before = max(pair for pair in found if pair[0] < second)[1]
            for edge in (second + before, second + offset):
                for step in (-1, 0, 1):
                    check(name, edge * 1000 + step)
