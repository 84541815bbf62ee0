"""How long to wait before the next try of something that fails: the one formula of the program."""

from __future__ import annotations

FIRST_SECONDS = 1.0
"""Pause after the first failure."""

LONGEST_SECONDS = 60.0
"""The longest pause that doubling leads to."""


def pause_seconds(failures: int, *, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> float:
    """Return how long to wait before the next try: `first` seconds, then twice as long each time.

    Args:
        failures: How many tries have failed in a row, from 1.
        first: Pause after the first failure, seconds.
        longest: No pause is longer, seconds.
    """
    # Beyond 64 doublings any pause is the longest, and floats need not hold the power.
    return min(longest, first * 2.0 ** min(failures - 1, 64))
