"""Which IANA time zone this computer is in: messages that a person sends say so (contract section 8)."""

from __future__ import annotations

import logging
import os
from zoneinfo import ZoneInfoNotFoundError

from watchbell.zones import ZoneTable


def choose_zone(zones: ZoneTable, wanted: str | None) -> str | None:
    """Return the person's zone in the list's own spelling; None when nothing says which it is.

    Args:
        zones: Only names that are listed there count.
        wanted: The zone that is set, None for this computer's.
    """
    zone = zones.find(_find_local_name() or "" if wanted is None else wanted)
    return None if zone is None else getattr(zone, "key", "UTC")


def _find_local_name() -> str | None:
    """Return what this computer calls its zone. `TZ` alone decides when it is set, as for other programs."""
    if "TZ" in os.environ:
        name = os.environ["TZ"].removeprefix(":") or "UTC"
        return name.rpartition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    import tzlocal  # slow to import, and only needed here

    logging.getLogger("tzlocal").setLevel(logging.ERROR)  # which file it follows is nobody's worry
    try:
        return tzlocal.get_localzone_name()
    except ZoneInfoNotFoundError:
        return None
