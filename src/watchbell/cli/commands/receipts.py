"""`watchbell receipts`: what a session's reminders came to, read back from its log."""

from __future__ import annotations

import asyncio

import msgspec

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line, print_table, shorten
from watchbell.cli.console.times import render_utc
from watchbell.cli.stored import fold_reminders, read_log_of
from watchbell.errors import CorruptLogError, ScheduleLogError
from watchbell.reminders.deliveries import Deliveries, Delivery

__all__ = ["receipts"]


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    prompt: str
    occurrence_at: str
    delivery_mode: str
    dispatched_at: str
    seq: int
    turn: int | None
    outcome: str
    inherited: bool


@guarded
def receipts(
    session: options.Session, as_json: options.Json = False, home: options.Home = options.DEFAULT_HOME
) -> int:
    """List what a session's reminders came to, in the order of delivery. Nothing is locked or written.

    Receipts that a fork has from its parent are marked; they stand as they stood when it was forked.
    Exits with 1 when the session's reminders cannot be read to their end.
    """
    stored = asyncio.run(read_log_of(home, session))
    try:
        deliveries = Deliveries(stored.header.owned_from).advance(stored.events).deliveries
        rows = list(map(_row, deliveries))
    except CorruptLogError as error:
        raise CorruptLogError(error.reason, path=stored.location) from error
    if as_json:
        print_json(rows)
    elif not rows:
        print_line("No reminder was delivered.")
    else:
        heads = ["ID", "OCCURRENCE", "DISPATCHED", "TURN", "OUTCOME", "PROMPT"]
        print_table(heads, list(map(_cells, rows)))
    try:
        fold_reminders(stored)
    except ScheduleLogError as error:
        print_error(f"session {session!r}: {error}")
        return 1
    return 0


def _row(delivery: Delivery) -> _Row:
    receipt = delivery.receipt
    return _Row(
        receipt.schedule_id,
        receipt.prompt,
        receipt.occurrence_at,
        receipt.mode,
        render_utc(delivery.dispatched_at_ms),
        delivery.seq,
        delivery.turn,
        delivery.outcome,
        delivery.inherited,
    )


def _cells(row: _Row) -> list[str]:
    return [
        shorten(row.id) + (" (inherited)" if row.inherited else ""),
        row.occurrence_at,
        row.dispatched_at,
        "-" if row.turn is None else str(row.turn),
        row.outcome,
        shorten(row.prompt),
    ]
