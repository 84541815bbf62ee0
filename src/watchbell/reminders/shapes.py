"""The shapes of what a model sends to the Schedule tools and of what it gets back (contract section 4).

Each shape is defined here once, or in `watchbell.schedule.protocol` where a log holds it too. Calls are read
by these definitions and the tools' published JSON Schemas are derived from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from watchbell.reminders.records import (
    MAX_SAFE_INTEGER,
    MIN_EVERY_INTERVAL_SECONDS,
    AfterRecord,
    AtRecord,
    EveryRecord,
)

__all__ = [
    "AfterView",
    "AtView",
    "CreateArguments",
    "DeleteArguments",
    "Deletion",
    "ErrorCode",
    "EveryView",
    "Failure",
    "ListArguments",
    "LocalTime",
    "Operation",
    "error_value",
]

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


# --- what a model sends ----------------------------------------------------------------------------------


class LocalTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A date and a time of day as clocks in a time zone show them."""

    date: Annotated[str, Meta(description="YYYY-MM-DD")]
    time: Annotated[str, Meta(description="HH:mm:ss, up to three fraction digits allowed")]
    time_zone: Annotated[str, Meta(description="IANA name such as Europe/Berlin, or UTC")]


class CreateArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of `schedule_create`: the prompt and exactly one of the others, its selectors."""

    prompt: Annotated[
        str, Meta(description="What to remind of, as it should be put to the user when it is due.")
    ]
    after_seconds: (
        Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER, description="Once, this many seconds from now.")]
        | UnsetType
    ) = UNSET
    at: Annotated[
        Annotated[str, Meta(description="An instant with its offset, such as 2027-06-01T09:00:00+02:00.")]
        | LocalTime
        | UnsetType,
        Meta(
            description="Once, at this time: text with an offset, or an object with a local date and time "
            "and its time zone."
        ),
    ] = UNSET
    every_seconds: (
        Annotated[
            int,
            Meta(
                ge=MIN_EVERY_INTERVAL_SECONDS,
                le=MAX_SAFE_INTEGER // 1000,
                description="Again and again, this many seconds apart, first one interval from now.",
            ),
        ]
        | UnsetType
    ) = UNSET


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `schedule_list`: none."""


class DeleteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `schedule_delete`."""

    id: Annotated[str, Meta(description="The id, as schedule_list shows it.")]


# --- what it gets ----------------------------------------------------------------------------------------


class AfterView(AfterRecord, frozen=True, gc=False, tag="after", kw_only=True):
    """A view of a reminder that was made from a delay."""

    state: State
    delivery_mode: DeliveryMode


class AtView(AtRecord, frozen=True, gc=False, tag="at", kw_only=True):
    """A view of a reminder that was made from an explicit instant."""

    state: State
    delivery_mode: DeliveryMode


class EveryView(EveryRecord, frozen=True, gc=False, tag="every", kw_only=True):
    """A view of a repeating reminder."""

    state: State
    delivery_mode: DeliveryMode


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


def error_value(
    code: ErrorCode,
    message: str,
    operation: Operation | UnsetType = UNSET,
    schedule_id: str | UnsetType = UNSET,
) -> dict[str, Any]:
    """Return an error as the tools give it to the model."""
    return msgspec.to_builtins(Failure(code, message, operation, schedule_id))
