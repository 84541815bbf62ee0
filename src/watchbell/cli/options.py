"""The options that several commands share, and the settings that come of them and of all other sources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from watchbell.cli.completion import complete_session
from watchbell.cli.local_zone import find_local_zone
from watchbell.errors import SettingsError
from watchbell.host.settings import DEFAULT_HOME, load_settings
from watchbell.zones import ZoneTable

if TYPE_CHECKING:
    from watchbell.host.settings import Effective, Settings

__all__ = [
    "DEFAULT_HOME",
    "BaseUrlOption",
    "ConfigOption",
    "GivenHomeOption",
    "HomeOption",
    "JsonOption",
    "ModelOption",
    "ProgramOptions",
    "SessionArgument",
    "TimeZoneOption",
    "choose_zone",
    "find_settings",
    "inherit_home",
    "require_session_id",
]


class ProgramOptions(msgspec.Struct, frozen=True):
    """The options that stand before the command; the command's own come first."""

    home: Path | None = None
    config: Path | None = None


def find_settings(home: Path | None = None, config: Path | None = None, **flags: Any) -> Effective:
    """Return the effective settings of a command that was given these options; None says nothing.

    Raises:
        typer.BadParameter: An option's value cannot be used.
        SettingsError: What the file or the environment says cannot be used.
    """
    try:
        return load_settings(home=home, config=config, env=os.environ, flags=flags)
    except SettingsError as error:
        if str(error).startswith("--"):
            raise typer.BadParameter(str(error)) from error
        raise


def choose_zone(settings: Settings, zones: ZoneTable) -> str | None:
    """Return the person's zone: the one that is set, else this computer's; None when that is unknown."""
    if settings.time_zone is None:
        return find_local_zone(zones)
    return getattr(zones.find(settings.time_zone), "key", "UTC")


def inherit_home(ctx: typer.Context, given: Path | None) -> Path | None:
    """Return the home that the command was given, else the one before it; None when there is neither."""
    return given or (ctx.obj.home if isinstance(ctx.obj, ProgramOptions) else None)


def _inherit_config(ctx: typer.Context, given: Path | None) -> Path | None:
    return given or (ctx.obj.config if isinstance(ctx.obj, ProgramOptions) else None)


def _choose_home(ctx: typer.Context, given: Path) -> Path:
    home = inherit_home(ctx, None if given == DEFAULT_HOME else given)
    return find_settings(home, _inherit_config(ctx, None)).settings.home


_HOME: dict[str, Any] = {
    "metavar": "DIR",
    "show_default": "$WATCHBELL_HOME, else ~/.watchbell",
    "help": "Where the sessions are.",
}

HomeOption = Annotated[Path, typer.Option("--home", callback=_choose_home, **_HOME)]
"""For a command that needs no other setting; what arrives is the absolute path."""

GivenHomeOption = Annotated[Path | None, typer.Option("--home", callback=inherit_home, **_HOME)]
"""For a command that finds its settings by itself."""

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=_inherit_config,
        show_default="watchbell.toml in the home",
        help="The settings file.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in pure ASCII.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        show_default="offline",
        help="Who answers: a model's name, or `offline`, which needs no account.",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="An OpenAI-compatible API, such as http://localhost:8000/v1."
    ),
]
TimeZoneOption = Annotated[
    str | None,
    typer.Option("--time-zone", metavar="ZONE", help="Your IANA time zone; this computer's by default."),
]


def require_session_id(given: str | None) -> str | None:
    """Return the id of a session as it was given; None when none was.

    Raises:
        typer.BadParameter: It is empty.
    """
    if given == "":
        raise typer.BadParameter("the id of a session is not empty")
    return given


SessionArgument = Annotated[
    str,
    typer.Argument(autocompletion=complete_session, callback=require_session_id, help="Id of the session."),
]
