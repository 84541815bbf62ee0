"""Which IANA time zone this computer is in: messages that a person sends say so (contract section 8)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from watchbell.zones import ZoneTable

__all__ = ["find_local_zone"]

_MARK = "zoneinfo/"
_VARIANTS = ("posix/", "right/")


def find_local_zone(
    zones: ZoneTable, *, environment: Mapping[str, str] = os.environ, etc: Path = Path("/etc")
) -> str | None:
    """Return the name of this computer's zone, None when nothing says which it is.

    It is looked for in the variable `TZ`, where the link `localtime` leads, and in the file `timezone`. `TZ`,
    when it is set, decides alone, as it does for every other program.

    Args:
        zones: Only names that are listed there count.
        environment: The environment variables.
        etc: The directory with `localtime` and `timezone`.
    """
    if "TZ" in environment:
        return _listed(zones, environment["TZ"].removeprefix(":") or "UTC")
    for name in (_linked_name(etc / "localtime"), _written_name(etc / "timezone")):
        if name is not None and (found := _listed(zones, name)) is not None:
            return found
    return None


def _listed(zones: ZoneTable, name: str) -> str | None:
    """Return the list's own spelling of a zone that was named, or told by the path of its file."""
    _, _, after = name.rpartition(_MARK) if _MARK in name else ("", "", name)
    for variant in _VARIANTS:
        after = after.removeprefix(variant)
    zone = zones.find(after)
    return None if zone is None else getattr(zone, "key", "UTC")


def _linked_name(path: Path) -> str | None:
    try:
        target = path.resolve(strict=True).as_posix()
    except (OSError, RuntimeError):
        return None
    return target if _MARK in target else None


def _written_name(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None
