"""`watchbell reminders`: what is still to come, in one session or in all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchbell.cli.completion import complete_session
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import (
    can_print,
    print_error,
    print_json,
    print_line,
    print_table,
    screen_width,
    shorten,
)
from watchbell.cli.console.timeline import BLOCKS, Coming, draw_timeline
from watchbell.cli.console.times import render_local
from watchbell.cli.options import (
    ConfigOption,
    GivenHomeOption,
    JsonOption,
    TimeZoneOption,
    choose_zone,
    find_settings,
    require_session_id,
)
from watchbell.cli.stored import Reading, fold_reminders, open_store, read_every, read_one
from watchbell.clock import wall_ms
from watchbell.errors import ScheduleLogError
from watchbell.instants import Instant, decode_instant
from watchbell.reminders.views import derive_view, render_view
from watchbell.storage.base import SessionRef
from watchbell.zones import ZoneTable

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

__all__ = ["reminders"]


@guarded
def reminders(
    session: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_session,
            callback=require_session_id,
            help="Id of the session; all when omitted.",
        ),
    ] = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Draw what is coming.")] = False,
    time_zone: TimeZoneOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    home: GivenHomeOption = None,
) -> int:
    """List active reminders by the instant at which they are due. Nothing is locked or written.

    Exits with 1 when a log could not be read; the others are listed all the same.
    """
    if timeline and as_json:
        raise typer.BadParameter("choose one of --timeline and --json", param_hint="--timeline")
    settings = find_settings(home, config, time_zone=time_zone).settings
    zones = ZoneTable()
    name = choose_zone(settings, zones)
    zone = None if name is None else zones.find(name)
    readings = asyncio.run(_read(settings.home, session))
    rows, failures = _list(readings, zone)
    for failure in failures:
        print_error(failure)
    if as_json:
        print_json(rows)
    elif not rows:
        print_line("No reminders pending.")
    elif timeline:
        _draw(rows, zone)
    else:
        print_table(["SESSION", "ID", "STATE", "DUE", "UTC", "PROMPT"], list(map(_cells, rows)))
    return 1 if failures else 0


def _draw(rows: list[dict[str, Any]], zone: tzinfo | None) -> None:
    coming = [
        Coming(
            f"{row['session']} {row['id']}",
            decode_instant(row["scheduledAt"]),
            row["prompt"],
            row.get("everySeconds"),
        )
        for row in rows
    ]
    blocks = can_print(BLOCKS)
    for line in draw_timeline(coming, wall_ms(), zone, screen_width(), blocks=blocks):
        print_line(line)


async def _read(home: Path, session: str | None) -> list[Reading]:
    async with open_store(home) as store:
        if session is None:
            return [reading async for reading in read_every(store)]
        stored = await read_one(store, session)
        return [Reading(SessionRef(session, stored.location), stored)]


def _list(readings: list[Reading], zone: tzinfo | None) -> tuple[list[dict[str, Any]], list[str]]:
    now_ms = wall_ms()
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for reading in readings:
        if reading.log is None:
            about = f"session {reading.ref.session_id!r}: " if reading.ref.session_id else ""
            failures.append(f"{about}{reading.failure}")
            continue
        try:
            records = list(fold_reminders(reading.log).records)
        except ScheduleLogError as error:
            failures.append(f"session {reading.ref.session_id!r}: {error}")
            continue
        for record in records:
            local, view = render_local(record.target_ms, zone), derive_view(record, Instant(now_ms))
            rows.append({"session": reading.ref.session_id, **render_view(view), "local": local})
    rows.sort(key=lambda row: decode_instant(row["scheduledAt"]))
    return rows, failures


def _cells(row: dict[str, Any]) -> list[str]:
    every = f" (every {row['everySeconds']} s)" if "everySeconds" in row else ""
    return [
        shorten(row["session"]),
        shorten(row["id"]),
        row["state"],
        row["local"] + every,
        row["scheduledAt"],
        shorten(row["prompt"]),
    ]
