"""`watchbell sessions`: what is stored."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_json, print_line, print_table, shorten
from watchbell.cli.console.times import render_local, render_utc
from watchbell.cli.options import DEFAULT_HOME, HomeOption, JsonOption
from watchbell.cli.stored import fold_reminders, open_store, read_every
from watchbell.clock import wall_ms
from watchbell.errors import ScheduleLogError

if TYPE_CHECKING:
    from pathlib import Path

    from watchbell.cli.stored import Reading

__all__ = ["sessions"]


@guarded
def sessions(as_json: JsonOption = False, home: HomeOption = DEFAULT_HOME) -> int:
    """List the stored sessions, latest activity last. Nothing is locked or written.

    Exits with 1 when a log could not be read, or its reminders are invalid; it is listed all the same.
    """
    rows = sorted(asyncio.run(_read(home)), key=lambda row: (row["updatedAt"] or "", row["id"]))
    if as_json:
        print_json(rows)
    elif not rows:
        print_line(f"No sessions yet in {home}.")
    else:
        print_table(["SESSION", "EVENTS", "REMINDERS", "LAST EVENT", "PROJECT"], list(map(_cells, rows)))
    return 1 if any(row["failure"] for row in rows) else 0


async def _read(home: Path) -> list[dict[str, Any]]:
    async with open_store(home) as store:
        return [_describe(reading) async for reading in read_every(store)]


def _describe(reading: Reading) -> dict[str, Any]:
    row: dict[str, Any] = {"id": reading.ref.session_id, "log": reading.ref.location}
    stored = reading.log
    if stored is None:
        return {**row, "updatedAt": None, "failure": reading.failure}
    header = stored.header
    failure, reminders = None, None
    try:
        reminders = _count(fold_reminders(stored).records)
    except ScheduleLogError as error:
        failure = str(error)
    last_ms = stored.events[-1].time if len(stored.events) else header.created_at
    return {
        **row,
        "cwd": header.cwd,
        "parentSession": header.parent_session,
        "createdAt": render_utc(header.created_at),
        "updatedAt": render_utc(last_ms),
        "updatedLocal": render_local(last_ms, None),
        "events": len(stored.events),
        "reminders": reminders,
        "failure": failure,
    }


def _count(records: Any) -> dict[str, int]:
    now_ms = wall_ms()
    targets = [record.target_ms for record in records]
    return {"active": len(targets), "overdue": sum(target <= now_ms for target in targets)}


def _cells(row: dict[str, Any]) -> list[str]:
    if "events" not in row:
        return [shorten(row["id"] or "-"), "-", "-", "-", row["failure"]]
    reminders = row["reminders"]
    if reminders is None:
        told = "invalid"
    else:
        told = str(reminders["active"])
        told += f" ({reminders['overdue']} overdue)" if reminders["overdue"] else ""
    return [shorten(row["id"]), str(row["events"]), told, row["updatedLocal"], shorten(row["cwd"] or "-")]
