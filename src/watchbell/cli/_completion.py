"""What the shell offers when a session's id is to be typed."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import typer

from watchbell.cli.stored import open_store
from watchbell.errors import WatchbellError
from watchbell.host.settings import load_settings

# Shells part words at other characters, and would need quotes; a dash would begin an option.
_PLAIN = re.compile(r"(?!-)[\w@%+=.,/-]+")


def complete_session(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of stored sessions that begin with what was typed; no log is read."""
    try:
        ids = asyncio.run(_list(_home(ctx)))
    except (WatchbellError, OSError):
        return []  # a half-typed line is no place for an error
    return [name for name in ids if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _home(ctx: typer.Context) -> Path:
    """Return the home that the line being typed names, whether before or after the command."""
    home, config = _find_typed(ctx, "home"), _find_typed(ctx, "config")
    return load_settings(home=home, config=config, env=os.environ).settings.home


def _find_typed(ctx: typer.Context, option: str) -> Path | None:
    for level in filter(None, (ctx, ctx.parent)):
        source = level.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":  # a default is no word of the line
            return Path(level.params[option])
    return None


async def _list(home: Path) -> list[str]:
    async with open_store(home) as store:
        return [ref.session_id for ref in await store.list()]
