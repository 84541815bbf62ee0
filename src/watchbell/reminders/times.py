"""From what was asked for to a target, and from a target to its occurrences (contract section 3)."""

from __future__ import annotations

from datetime import tzinfo
from typing import Protocol, TypeAlias

import msgspec

from watchbell.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, Duration, Instant, render_instant
from watchbell.reminders.records import AfterRecord, AtRecord, EveryRecord, Record
from watchbell.reminders.views import RefusedError


class ZoneLookup(Protocol):
    """Finds time zones by name."""

    def find(self, name: str) -> tzinfo | None:
        """Return the zone of that name in any letter case, None when there is none."""
        ...


class After(msgspec.Struct, frozen=True):
    """Once, this many seconds from now."""

    seconds: int


class At(msgspec.Struct, frozen=True):
    """Once, at this instant, possibly outside the years that can be stored."""

    target: Instant


class Every(msgspec.Struct, frozen=True):
    """Again and again, this many seconds apart."""

    seconds: int


Selector: TypeAlias = After | At | Every


class CreateRequest(msgspec.Struct, frozen=True):
    """A well-formed call of `schedule_create`: what to say, trimmed, and when."""

    prompt: str
    selector: Selector


def resolve(request: CreateRequest, schedule_id: str, now: Instant) -> Record:
    """Return the record that a request makes when the clock reads `now`.

    Raises:
        RefusedError: The target is outside the years 0001 to 9999, or is not after now.
    """
    selector, prompt = request.selector, request.prompt
    target = selector.target if isinstance(selector, At) else Instant(now + selector.seconds * 1000)
    # An interval that is no safe number of milliseconds reaches beyond the calendar too.
    if not MIN_INSTANT_MS <= target <= MAX_INSTANT_MS:
        raise RefusedError("time_out_of_range", "The reminder must fall within the UTC years 0001 to 9999.")
    scheduled_at = render_instant(target)
    if target <= now:
        raise RefusedError(
            "not_future",
            f"The reminder would be due at {scheduled_at}, which is not in the future: "
            f"the clock reads {render_instant(now)} (UTC). Give a later time.",
        )
    match selector:
        case After():
            return AfterRecord(schedule_id, prompt, scheduled_at, after_seconds=selector.seconds)
        case Every():
            return EveryRecord(schedule_id, prompt, scheduled_at, every_seconds=selector.seconds)
        case At():
            return AtRecord(schedule_id, prompt, scheduled_at)


def occurrence_at(target: Instant, interval: Duration, now: Instant) -> tuple[Instant, Instant]:
    """Return a repeating reminder's latest occurrence and the one after it, by arithmetic alone.

    Args:
        target: Its earliest occurrence not yet dispatched.
        interval: How far apart its occurrences are.
        now: The time of the decision, not before the target.
    """
    occurrence = target + (now - target) // interval * interval
    return Instant(occurrence), Instant(occurrence + interval)
