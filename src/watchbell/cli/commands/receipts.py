"""`watchbell receipts`: what a session's reminders came to, read back from its log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line, print_table, shorten
from watchbell.cli.console.times import render_utc
from watchbell.cli.stored import Reading, read_one
from watchbell.errors import CorruptLogError
from watchbell.reminders.deliveries import Deliveries, Delivery


@guarded
def receipts(
    session: options.Session, as_json: options.Json = False, home: options.Home = options.DEFAULT_HOME
) -> int:
    """List what a session's reminders came to, in the order of delivery. Nothing is locked or written.

    Receipts that a fork has from its parent are marked; they stand as they stood when it was forked.
    Exits with 1 when the session's reminders cannot be read to their end; with --json, the last entry has the
    `code` and `reason` of that.
    """
    deliveries, reading = _fold(asyncio.run(read_one(home, session)))
    faults = [reading.fault] if reading.failure else []
    if as_json:
        print_json([*map(_describe, deliveries), *faults])
    elif not deliveries and not faults:
        print_line("No reminder was delivered.")
    elif deliveries:
        heads = ["ID", "OCCURRENCE", "DISPATCHED", "TURN", "OUTCOME", "PROMPT"]
        print_table(heads, list(map(_cells, deliveries)))
    if faults:
        # What is wrong with a log as a whole names its file already.
        print_error(reading.failure if reading.log is None else reading.complaint)
    return 1 if faults else 0


def _fold(reading: Reading) -> tuple[Sequence[Delivery], Reading]:
    """Return what was delivered as far as it can be told, and the reading with what came to light."""
    stored = reading.log
    if stored is None:
        return [], reading
    try:
        return Deliveries(stored.header.owned_from).advance(stored.events).deliveries, reading
    except CorruptLogError as error:
        failure = CorruptLogError(error.reason, path=stored.location)
        return [], Reading.failed(reading.ref, failure)


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
