"""What is to be delivered next, and the changes that record it (contract section 5)."""

from __future__ import annotations

import json
from typing import TypeAlias

import msgspec

from watchbell.instants import Instant, render_instant
from watchbell.reminders.records import Dispatch, EveryRecord, Record
from watchbell.reminders.state import ScheduleState
from watchbell.reminders.times import occurrence_at

MAX_BATCH_BYTES = 32 * 1024 * 1024
"""Most bytes that the reminders of one batch take in the row of their message; a row may have twice that."""


class OneShot(msgspec.Struct, frozen=True):
    """A decision to deliver one due one-shot reminder; its occurrence is its target."""

    record: Record


class Batch(msgspec.Struct, frozen=True):
    """A decision to deliver the overdue repeating reminders at once.

    Attributes:
        items: Each record with its latest occurrence, in target, then create order; the first that fit into
            `MAX_BATCH_BYTES`, and one at least.
        accepted_at: When it was decided.
    """

    items: tuple[tuple[EveryRecord, Instant], ...]
    accepted_at: Instant


Decision: TypeAlias = OneShot | Batch


def decide(state: ScheduleState, now: Instant) -> Decision | None:
    """Return what is to be delivered next, None when nothing is due at `now`.

    Due one-shots go first, one at a time; without one, all overdue repeating reminders go together, as far
    as one row of the log holds them: the rest are still overdue afterwards, and are the next decision.
    """
    one_shot = state.first_one_shot()
    if one_shot is not None and one_shot.target_ms <= now:
        return OneShot(one_shot)
    overdue = _fitting(state.overdue_repeating(now))
    if not overdue:
        return None
    items = ((record, occurrence_at(record.target_ms, record.interval_ms, now)[0]) for record in overdue)
    return Batch(tuple(items), now)


def _fitting(overdue: list[EveryRecord]) -> list[EveryRecord]:
    """Return the first of them that surely fit into `MAX_BATCH_BYTES`, and one at least."""
    length = 0
    for count, record in enumerate(overdue):
        length += _framed_bytes(record)
        if count and length > MAX_BATCH_BYTES:
            return overdue[:count]
    return overdue


def _framed_bytes(record: Record) -> int:
    """Return at least the bytes that a reminder takes in the row of its message.

    There its prompt is a JSON string within a JSON string, and its id stands in the text and in the source.
    """
    prompt, schedule_id = (len(json.dumps(json.dumps(text))) for text in (record.prompt, record.id))
    return prompt + 2 * schedule_id + 256


def derive_dispatches(decision: Decision) -> tuple[Dispatch, ...]:
    """Return the changes that record a delivery, in its order."""
    if isinstance(decision, OneShot):
        return (Dispatch(decision.record.id),)
    accepted_at = render_instant(decision.accepted_at)
    return tuple(Dispatch(record.id, accepted_at) for record, _ in decision.items)
