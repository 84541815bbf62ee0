"""Instants as people read them: UTC always, local time with its zone and offset beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from watchbell.schedule.protocol import render_instant

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = ["render_local", "render_moment", "render_utc"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def render_utc(instant_ms: int) -> str:
    """Return an instant as canonical UTC; one that the calendar lacks as its number of milliseconds."""
    try:
        return render_instant(instant_ms)
    except ValueError:
        return f"{instant_ms} ms"


def render_local(instant_ms: int, zone: tzinfo | None) -> str:
    """Return an instant in a zone, to the second: `2027-01-15 08:00:00 -08:00 America/Vancouver`.

    Args:
        instant_ms: Epoch milliseconds.
        zone: The zone; None for this computer's own, of which the offset alone is told.
    """
    try:
        local = (_EPOCH + timedelta(seconds=instant_ms // 1000)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return render_utc(instant_ms)  # at the calendar's ends some zones have no date for it
    text = local.isoformat(sep=" ", timespec="seconds")
    name = getattr(zone, "key", "UTC" if zone is UTC else "")
    return f"{text[:19]} {text[19:]} {name}".rstrip()


def render_moment(instant_ms: int, zone: tzinfo | None) -> str:
    """Return an instant in a zone and, in brackets, as UTC."""
    return f"{render_local(instant_ms, zone)} ({render_utc(instant_ms)})"
