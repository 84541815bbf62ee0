"""`watchbell reminders`: what is still to come, in one session or in all."""

from __future__ import annotations

import asyncio
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from watchbell.cli import options
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
from watchbell.cli.local_zone import choose_zone
from watchbell.cli.stored import Reading, read_every, read_one
from watchbell.clock import wall_ms
from watchbell.instants import Instant
from watchbell.reminders.records import EveryRecord, Record
from watchbell.reminders.views import derive_view, render_view
from watchbell.zones import ZoneTable

_Pending: TypeAlias = tuple[str, Record]
"""A reminder, behind its session's id."""


@guarded
def reminders(
    session: options.OptionalSession = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Draw what is coming.")] = False,
    time_zone: options.TimeZone = None,
    config: options.Config = None,
    as_json: options.Json = False,
    home: options.GivenHome = None,
) -> int:
    """List active reminders by the instant at which they are due. Nothing is locked or written.

    Exits with 1 when a log could not be read; the others are listed all the same. With --json, such a log is
    an entry with its session, `code` and `reason`.
    """
    if timeline and as_json:
        raise typer.BadParameter("choose one of --timeline and --json", param_hint="--timeline")
    settings = options.find_settings(home, config, time_zone=time_zone).settings
    zones = ZoneTable()
    name = choose_zone(zones, settings.time_zone)
    zone = None if name is None else zones.find(name)
    pending, failures = asyncio.run(_read(settings.home, session))
    for failure in failures:
        print_error(failure.complaint)
    if as_json:
        print_json([*_describe(pending, zone), *(failure.fault for failure in failures)])
    elif not pending:
        if not failures:
            print_line("No reminders pending.")
    elif timeline:
        _draw(pending, zone)
    else:
        print_table(["SESSION", "ID", "STATE", "DUE", "UTC", "PROMPT"], _tell(pending, zone))
    return 1 if failures else 0


async def _read(home: Path, session: str | None) -> tuple[list[_Pending], list[Reading]]:
    """Return what is pending, earliest first, and what could not be read."""
    pending: list[_Pending] = []
    failures: list[Reading] = []

    def add(reading: Reading) -> None:
        if reading.reminders is None:
            failures.append(reading)
        else:
            pending.extend((reading.ref.session_id, record) for record in reading.reminders.records)

    if session is None:
        async for reading in read_every(home):
            add(reading)
    else:
        add(await read_one(home, session))
    return sorted(pending, key=lambda each: each[1].target_ms), failures


def _describe(pending: list[_Pending], zone: tzinfo | None) -> list[dict[str, object]]:
    now = Instant(wall_ms())
    return [
        {
            "session": name,
            **render_view(derive_view(record, now)),
            "local": render_local(record.target_ms, zone),
        }
        for name, record in pending
    ]


def _tell(pending: list[_Pending], zone: tzinfo | None) -> list[list[str]]:
    now_ms = wall_ms()
    return [
        [
            shorten(name),
            shorten(record.id),
            "overdue" if record.target_ms <= now_ms else "scheduled",
            render_local(record.target_ms, zone) + _tell_interval(record),
            record.scheduled_at,
            shorten(record.prompt),
        ]
        for name, record in pending
    ]


def _tell_interval(record: Record) -> str:
    return f" (every {record.every_seconds} s)" if isinstance(record, EveryRecord) else ""


def _draw(pending: list[_Pending], zone: tzinfo | None) -> None:
    coming = [
        Coming(
            f"{name} {record.id}",
            record.target_ms,
            record.prompt,
            record.every_seconds if isinstance(record, EveryRecord) else None,
        )
        for name, record in pending
    ]
    for line in draw_timeline(coming, wall_ms(), zone, screen_width(), blocks=can_print(BLOCKS)):
        print_line(line)
