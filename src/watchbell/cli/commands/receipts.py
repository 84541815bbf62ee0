"""`watchbell receipts`: what a session's reminders came to, read back from its log."""

from __future__ import annotations

import asyncio

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line, print_table, shorten
from watchbell.cli.console.times import render_utc
from watchbell.cli.stored import fold_reminders, read_log_of
from watchbell.errors import CorruptLogError, ScheduleLogError
from watchbell.reminders.deliveries import Deliveries, Delivery


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
    except CorruptLogError as error:
        raise CorruptLogError(error.reason, path=stored.location) from error
    if as_json:
        print_json(list(map(_describe, deliveries)))
    elif not deliveries:
        print_line("No reminder was delivered.")
    else:
        heads = ["ID", "OCCURRENCE", "DISPATCHED", "TURN", "OUTCOME", "PROMPT"]
        print_table(heads, list(map(_cells, deliveries)))
    try:
        fold_reminders(stored)
    except ScheduleLogError as error:
        print_error(f"session {session!r}: {error}")
        return 1
    return 0


def _describe(delivery: Delivery) -> dict[str, object]:
    return {
        "id": delivery.receipt.schedule_id,
        "prompt": delivery.receipt.prompt,
        "occurrenceAt": delivery.receipt.occurrence_at,
        "deliveryMode": delivery.receipt.mode,
        "dispatchedAt": render_utc(delivery.dispatched_at_ms),
        "seq": delivery.seq,
        "turn": delivery.turn,
        "outcome": delivery.outcome,
        "inherited": delivery.inherited,
    }


def _cells(delivery: Delivery) -> list[str]:
    return [
        shorten(delivery.receipt.schedule_id) + (" (inherited)" if delivery.inherited else ""),
        delivery.receipt.occurrence_at,
        render_utc(delivery.dispatched_at_ms),
        "-" if delivery.turn is None else str(delivery.turn),
        delivery.outcome,
        shorten(delivery.receipt.prompt),
    ]
