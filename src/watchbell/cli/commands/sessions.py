"""`watchbell sessions`: what is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_json, print_line, print_table, shorten
from watchbell.cli.console.times import render_local, render_utc
from watchbell.cli.stored import Reading, read_every
from watchbell.clock import wall_ms
from watchbell.reminders.state import ScheduleState


class _Counts(msgspec.Struct, frozen=True):
    active: int
    overdue: int


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    log: str
    cwd: str | None
    parent_session: str | None
    created_at: str
    updated_at: str
    updated_local: str
    events: int
    reminders: _Counts | None
    failure: str | None


class _UnreadRow(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    log: str
    updated_at: None
    failure: str


@guarded
def sessions(as_json: options.Json = False, home: options.Home = options.DEFAULT_HOME) -> int:
    """List the stored sessions, latest activity last. Nothing is locked or written.

    Exits with 1 when a log could not be read, or its reminders are invalid; it is listed all the same.
    """
    rows = sorted(asyncio.run(_read(home)), key=lambda row: (row.updated_at or "", row.id))
    if as_json:
        print_json(rows)
    elif not rows:
        print_line(f"No sessions yet in {home}.")
    else:
        print_table(["SESSION", "EVENTS", "REMINDERS", "LAST EVENT", "PROJECT"], list(map(_cells, rows)))
    return 1 if any(row.failure for row in rows) else 0


async def _read(home: Path) -> list[_Row | _UnreadRow]:
    return [_describe(reading) async for reading in read_every(home)]


def _describe(reading: Reading) -> _Row | _UnreadRow:
    ref, stored = reading.ref, reading.log
    if stored is None:
        return _UnreadRow(ref.session_id, ref.location, None, reading.failure)
    header = stored.header
    last_ms = stored.events[-1].time if len(stored.events) else header.created_at
    return _Row(
        ref.session_id,
        ref.location,
        header.cwd,
        header.parent_session,
        render_utc(header.created_at),
        render_utc(last_ms),
        render_local(last_ms, None),
        len(stored.events),
        None if reading.reminders is None else _count(reading.reminders),
        reading.failure or None,
    )


def _count(reminders: ScheduleState) -> _Counts:
    now_ms = wall_ms()
    return _Counts(len(reminders), sum(record.target_ms <= now_ms for record in reminders.records))


def _cells(row: _Row | _UnreadRow) -> list[str]:
    if isinstance(row, _UnreadRow):
        return [shorten(row.id or "-"), "-", "-", "-", row.failure]
    counts = row.reminders
    if counts is None:
        told = "invalid"
    else:
        told = f"{counts.active} ({counts.overdue} overdue)" if counts.overdue else str(counts.active)
    return [shorten(row.id), str(row.events), told, row.updated_local, shorten(row.cwd or "-")]
