"""An instant has one text, and a calendar with two ends."""

from __future__ import annotations

import pytest

from watchbell.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, Instant, decode_instant, render_instant


@pytest.mark.parametrize(
    ("instant_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_796_036_425_787, "2026-11-30T11:00:25.787Z"),
        (951_782_400_001, "2000-02-29T00:00:00.001Z"),
        (MIN_INSTANT_MS, "0001-01-01T00:00:00.000Z"),
        (MAX_INSTANT_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_an_instant_has_one_text(instant_ms: int, text: str) -> None:
    assert render_instant(Instant(instant_ms)) == text
    assert decode_instant(text) == instant_ms


@pytest.mark.parametrize("instant_ms", [MIN_INSTANT_MS - 1, MAX_INSTANT_MS + 1])
def test_an_instant_beyond_the_calendar_has_no_text(instant_ms: int) -> None:
    with pytest.raises(ValueError, match="0001 to 9999"):
        render_instant(Instant(instant_ms))
