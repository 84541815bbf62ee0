"""Instants as people read them: UTC always, local time with its zone and offset beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from watchbell.instants import Instant, render_instant

_UNITS = (("year", 365 * 86_400), ("day", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def render_utc(instant_ms: int) -> str:
    """Return an instant as canonical UTC; one that the calendar lacks as its number of milliseconds."""
    try:
        return render_instant(Instant(instant_ms))
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


def render_span(seconds: int) -> str:
    """Return a length of time by its two largest units: `2 days 3 h`, `4 min 10 s`, `0 s`."""
    parts: list[str] = []
    for name, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}{'s' if name in ('year', 'day') and count > 1 else ''}")
        elif parts:
            break  # nothing smaller is told once a unit is skipped
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def render_lateness(late_ms: int) -> str:
    """Return how late something came: `on time` within a second, else `3 s late`."""
    return "on time" if late_ms < 1000 else f"{render_span(late_ms // 1000)} late"
