from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from watchbell.cli.console.output import wrap
from watchbell.cli.console.timeline import Coming, draw_timeline
from watchbell.cli.console.times import render_lateness, render_span

NOW = 1_800_000_000_000
HOUR = 3_600_000


def draw(*coming: Coming, width: int = 80, blocks: bool = True) -> list[str]:
    return list(draw_timeline(coming, NOW, UTC, width, blocks=blocks))


def bars(lines: list[str]) -> list[int]:
    return [line.count("#") for line in lines if line.startswith("#")]


def test_later_reminders_have_longer_bars_and_minutes_and_years_both_fit() -> None:
    coming = [Coming(f"a {n}", NOW + ms, "x") for n, ms in enumerate((60_000, HOUR, 24 * HOUR, 9000 * HOUR))]
    lengths = bars(draw(*coming, blocks=False))
    assert lengths == sorted(lengths)
    assert len(set(lengths)) == 4
    assert lengths[0] >= 3


def test_what_is_overdue_says_so_and_has_no_bar() -> None:
    assert "2 h overdue" in draw(Coming("a b", NOW - 2 * HOUR, "x"))


def test_a_repeating_reminder_says_how_often() -> None:
    assert draw(Coming("a b", NOW + HOUR, "x", 1800))[-3].endswith("in 1 h, every 30 min")


def test_times_are_local_with_zone_and_utc() -> None:
    lines = draw_timeline(
        [Coming("a b", 1_799_999_999_000 + HOUR, "x")], NOW, ZoneInfo("Asia/Kolkata"), 100, blocks=True
    )
    assert any("+05:30 Asia/Kolkata (2027-01-15T08:59:59.000Z)" in line for line in lines)


def test_a_console_without_block_characters_gets_ascii() -> None:
    assert all(line.isascii() for line in draw(Coming("a b", NOW + HOUR, "x"), blocks=False))


def test_a_prompt_cannot_draw_on_the_terminal() -> None:
    assert not any("\x1b" in line for line in draw(Coming("a\x1b b", NOW + HOUR, "\x1b[2J\nx")))


@given(
    st.lists(st.integers(-(10**12), 10**14), max_size=5),
    st.integers(40, 120),
    st.text(max_size=60),
    st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(deltas: list[int], width: int, prompt: str, blocks: bool) -> None:
    coming = [Coming("main schedule-1", NOW + delta, prompt) for delta in deltas]
    for line in draw(*coming, width=width, blocks=blocks):
        assert cell_len(line) <= width


@given(st.text(), st.integers(2, 40))
@example("00 \x1f", 2)  # white space to Python, and a word without a width
def test_wrapped_lines_fit_and_lose_no_word(text: str, width: int) -> None:
    parts = wrap(text, width)
    assert all(cell_len(part) <= width for part in parts)
    assert "".join("".join(parts).split(" ")) == "".join(text.split(" "))


def test_wrapping_keeps_the_indentation() -> None:
    assert wrap("    if x: return a long thing", 16) == ["    if x: return", "a long thing"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (250, "4 min 10 s"),
        (3605, "1 h"),
        (90_000, "1 day 1 h"),
        (172_800, "2 days"),
    ],
)
def test_a_span_is_told_by_its_two_largest_units(seconds: int, told: str) -> None:
    assert render_span(seconds) == told


def test_lateness_counts_from_a_second_on() -> None:
    assert [render_lateness(ms) for ms in (-5, 999, 1000, 125_000)] == [
        "on time",
        "on time",
        "1 s late",
        "2 min 5 s late",
    ]
