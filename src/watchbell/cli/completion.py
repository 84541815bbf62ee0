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

__all__ = ["complete_session"]

# The shells part words at other characters, and would need quotes.
_PLAIN = re.compile(r"[\w@%+=.,/-]+")


def complete_session(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of stored sessions that begin with what was typed; no log is read."""
    try:
        ids = asyncio.run(_list(_home(ctx)))
    except (WatchbellError, OSError):
        return []  # a half-typed line is no place for an error
    return [name for name in ids if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _home(ctx: typer.Context) -> Path:
    """Return the home that the line being typed names, whether before or after the command."""
    outer = {} if ctx.parent is None else ctx.parent.params
    given = ctx.params.get("home") or outer.get("home")
    config = ctx.params.get("config") or outer.get("config")
    return load_settings(
        home=None if given is None else Path(given),
        config=None if config is None else Path(config),
        env=os.environ,
    ).settings.home


async def _list(home: Path) -> list[str]:
    async with open_store(home) as store:
        return [ref.session_id for ref in await store.list()]
