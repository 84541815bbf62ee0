"""The message that a surface event carries, and what to say of an event that carries something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.errors import CorruptLogError
from watchbell.log.messages import Message

if TYPE_CHECKING:
    from watchbell.log.event import Event

__all__ = ["MALFORMED", "malformed", "surface_message"]

MALFORMED = (AttributeError, KeyError, TypeError, ValueError)
"""What reading a payload of another shape than its type's raises."""


def malformed(event: Event) -> CorruptLogError:
    """Make the error for an event whose payload has another shape than its type's."""
    return CorruptLogError(f"event {event.seq} ({event.type}) is malformed")


def surface_message(event: Event) -> Message:
    """Return the message that a `user/message`, `assistant/message` or `tool/result` event carries.

    Raises:
        CorruptLogError: Its payload is not what the type says.
    """
    try:
        data = event.data
        return Message.from_value(data if event.type == "user/message" else data["message"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(f"event {event.seq} ({event.type}) holds no message") from error
