"""The options that several commands share, and how their values are found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from watchbell.cli.local_zone import find_local_zone
from watchbell.zones import ZoneTable

__all__ = [
    "DEFAULT_HOME",
    "HomeOption",
    "JsonOption",
    "ModelOption",
    "TimeZoneOption",
    "choose_home",
    "choose_zone",
]

DEFAULT_HOME = Path("~/.watchbell")
"""Where sessions are kept when neither `--home` nor WATCHBELL_HOME says."""


def choose_home(ctx: typer.Context, given: Path) -> Path:
    """Return the home: of the command, of `watchbell` before it, of WATCHBELL_HOME, or the default."""
    if given != DEFAULT_HOME:
        chosen = given
    elif isinstance(ctx.obj, Path):
        chosen = ctx.obj
    else:
        chosen = Path(os.environ.get("WATCHBELL_HOME") or DEFAULT_HOME)
    return chosen.expanduser().absolute()


def choose_zone(name: str | None, zones: ZoneTable) -> str | None:
    """Return the zone that `--time-zone` names, else this computer's; None when that is unknown.

    Raises:
        typer.BadParameter: There is no zone of that name.
    """
    if name is None:
        return find_local_zone(zones)
    zone = zones.find(name)
    if zone is None:
        raise typer.BadParameter(
            f"{name!r} is no IANA time zone such as Europe/Berlin, nor UTC", param_hint="--time-zone"
        )
    return getattr(zone, "key", "UTC")


HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        metavar="DIR",
        callback=choose_home,
        show_default="$WATCHBELL_HOME, else ~/.watchbell",
        help="Where the sessions are.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in pure ASCII.")]
ModelOption = Annotated[
    str, typer.Option("--model", metavar="NAME", help="Who answers; `offline` needs no account.")
]
TimeZoneOption = Annotated[
    str | None,
    typer.Option("--time-zone", metavar="ZONE", help="Your IANA time zone; this computer's by default."),
]
