"""The options that several commands share, and the settings that come of them and of all other sources."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from watchbell.cli._completion import complete_session
from watchbell.errors import SettingsError
from watchbell.host.settings import DEFAULT_HOME, Effective, load_settings


class ProgramOptions(msgspec.Struct, frozen=True):
    """The options that stand before the command; the command's own come first."""

    home: Path | None = None
    config: Path | None = None


def find_settings(home: Path | None = None, config: Path | None = None, **flags: str | None) -> Effective:
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


def inherit_home(ctx: typer.Context, given: Path | None) -> Path | None:
    """Return the home that the command was given, else the one before it; None when there is neither."""
    return given or (ctx.obj.home if isinstance(ctx.obj, ProgramOptions) else None)


def _inherit_config(ctx: typer.Context, given: Path | None) -> Path | None:
    return given or (ctx.obj.config if isinstance(ctx.obj, ProgramOptions) else None)


def _choose_home(ctx: typer.Context, given: Path) -> Path:
    home = inherit_home(ctx, None if given == DEFAULT_HOME else given)
    return find_settings(home, _inherit_config(ctx, None)).settings.home


def _require_session_id(given: str | None) -> str | None:
    if given == "":
        raise typer.BadParameter("the id of a session is not empty")
    return given


def _home(callback: Callable[..., Path | None]) -> object:
    return typer.Option(
        "--home",
        callback=callback,
        metavar="DIR",
        show_default="$WATCHBELL_HOME, else ~/.watchbell",
        help="Where the sessions are.",
    )


def _session(told: str) -> object:
    return typer.Argument(autocompletion=complete_session, callback=_require_session_id, help=told)


Home = Annotated[Path, _home(_choose_home)]
"""For a command that needs no other setting; what arrives is the absolute path."""

GivenHome = Annotated[Path | None, _home(inherit_home)]
"""For a command that finds its settings by itself."""

Session = Annotated[str, _session("Id of the session.")]
OptionalSession = Annotated[str | None, _session("Id of the session; all when omitted.")]
NewSession = Annotated[str, _session("Id of the session; a new one is begun.")]

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=_inherit_config,
        show_default="watchbell.toml in the home",
        help="The settings file.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, in pure ASCII.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        show_default="offline",
        help="Who answers: a model's name, or `offline`, which needs no account.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="An OpenAI-compatible API, such as http://localhost:8000/v1."
    ),
]
TimeZone = Annotated[
    str | None,
    typer.Option("--time-zone", metavar="ZONE", help="Your IANA time zone; this computer's by default."),
]
