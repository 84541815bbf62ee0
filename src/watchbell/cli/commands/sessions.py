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


class _Row(msgspec.Struct, frozen=True):
    id: str
    updated_at: str
    failure: str
    cells: list[str]
    data: dict[str, object]


@guarded
def sessions(as_json: options.Json = False, home: options.Home = options.DEFAULT_HOME) -> int:
    """List the stored sessions, latest activity last. Nothing is locked or written.

    Exits with 1 when a log could not be read, or its reminders are invalid; it is listed all the same.
    """
    rows = sorted(asyncio.run(_read(home)), key=lambda row: (row.updated_at, row.id))
    if as_json:
        print_json([row.data for row in rows])
    elif not rows:
        print_line(f"No sessions yet in {home}.")
    else:
        heads = ["SESSION", "EVENTS", "REMINDERS", "LAST EVENT", "PROJECT"]
        print_table(heads, [row.cells for row in rows])
    return 1 if any(row.failure for row in rows) else 0


async def _read(home: Path) -> list[_Row]:
    return [_describe(reading) async for reading in read_every(home)]


def _describe(reading: Reading) -> _Row:
    session_id, failure = reading.ref.session_id, reading.failure
    data: dict[str, object] = {"id": session_id, "log": reading.ref.location}
    if reading.log is None:
        cells = [shorten(session_id or "-"), "-", "-", "-", failure]
        return _Row(
            session_id,
            "",
            failure,
            cells,
            {**data, "updatedAt": None, "failure": failure, "code": reading.code},
        )
    header, events = reading.log.header, reading.log.events
    last_ms = events[-1].time if len(events) else header.created_at
    updated_at, updated_local = render_utc(last_ms), render_local(last_ms, None)
    counts, told = None, "invalid"
    if reading.reminders is not None:
        now_ms = wall_ms()
        overdue = sum(record.target_ms <= now_ms for record in reading.reminders.records)
        counts = {"active": len(reading.reminders), "overdue": overdue}
        told = f"{counts['active']} ({overdue} overdue)" if overdue else str(counts["active"])
    data |= {
        "cwd": header.cwd,
        "parentSession": header.parent_session,
        "createdAt": render_utc(header.created_at),
        "updatedAt": updated_at,
        "updatedLocal": updated_local,
        "events": len(events),
        "reminders": counts,
        "failure": failure or None,
        "code": reading.code or None,
    }
    cells = [shorten(session_id), str(len(events)), told, updated_local, shorten(header.cwd or "-")]
    return _Row(session_id, updated_at, failure, cells, data)
