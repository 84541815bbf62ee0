"""What a call of a Schedule tool answers: views, deletions and failures (contract section 4).

The tools' published schemas are derived from these shapes, and each answer is one of them until
`render_answer` turns it into JSON data.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from watchbell.instants import Instant
from watchbell.reminders.records import AfterRecord, AtRecord, EveryRecord, Record, render_record

# fmt: off
ErrorCode: TypeAlias = Literal[
    "invalid_prompt", "invalid_selector", "invalid_rule", "invalid_time_zone",
    "not_future", "time_out_of_range", "frequency_too_high",
    "corrupt_schedule_log", "persistence_uncertain", "internal_error",
]
# fmt: on
"""The closed set of error codes that a Schedule tool answers with."""

Operation: TypeAlias = Literal["create", "list", "delete"]
"""What a call whose outcome is uncertain wanted to do."""

State: TypeAlias = Literal["scheduled", "overdue"]
DeliveryMode: TypeAlias = Literal["session-local"]


class AfterView(AfterRecord, frozen=True, gc=False, tag="after", kw_only=True):
    """A view of a reminder that was made from a delay."""

    state: State
    delivery_mode: DeliveryMode

    def __post_init__(self) -> None:
        """Check nothing: the record that it shows was checked."""


class AtView(AtRecord, frozen=True, gc=False, tag="at", kw_only=True):
    """A view of a reminder that was made from an explicit instant."""

    state: State
    delivery_mode: DeliveryMode

    def __post_init__(self) -> None:
        """Check nothing: the record that it shows was checked."""


class EveryView(EveryRecord, frozen=True, gc=False, tag="every", kw_only=True):
    """A view of a repeating reminder."""

    state: State
    delivery_mode: DeliveryMode

    def __post_init__(self) -> None:
        """Check nothing: the record that it shows was checked."""


View: TypeAlias = AfterView | AtView | EveryView


class Deletion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `schedule_delete` answers: whether there was such a reminder, and a code when there was none."""

    id: str
    deleted: bool
    code: Literal["schedule_not_found"] | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error as a value, with what it was about where the outcome is uncertain."""

    code: ErrorCode
    message: str
    operation: Operation | UnsetType = UNSET
    id: str | UnsetType = UNSET


Answer: TypeAlias = View | tuple[View, ...] | Deletion | Failure


class RefusedError(Exception):
    """A call that is refused.

    Attributes:
        code: One of the closed set.
        message: Stable text that tells the model how to repair the call.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code: ErrorCode = code
        self.message = message
        super().__init__(message)


def derive_view(record: Record, now: Instant) -> View:
    """Return what the tools show of an active record when the clock reads `now`."""
    state: State = "overdue" if now >= record.target_ms else "scheduled"
    head = (record.id, record.prompt, record.scheduled_at)
    match record:
        case AtRecord():
            return AtView(*head, state=state, delivery_mode="session-local")
        case AfterRecord(after_seconds=seconds):
            return AfterView(*head, after_seconds=seconds, state=state, delivery_mode="session-local")
        case EveryRecord(every_seconds=seconds):
            return EveryView(*head, every_seconds=seconds, state=state, delivery_mode="session-local")


def render_view(view: View) -> dict[str, str | int]:
    """Return a view as JSON data, with the keys of its record and then its own."""
    return {**render_record(view), "state": view.state, "deliveryMode": view.delivery_mode}


def render_answer(answer: Answer) -> Any:
    """Return an answer as the JSON data that the model gets."""
    if isinstance(answer, tuple):
        return [render_view(view) for view in answer]
    if isinstance(answer, Deletion | Failure):
        return msgspec.to_builtins(answer)
    return render_view(answer)
