"""The conversation as a model sees it, derived from the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.errors import CorruptLogError
from watchbell.log.events import SURFACE_TYPES, Message
from watchbell.log.values import decode_json

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog
    from watchbell.log.events import Event

__all__ = ["MALFORMED", "Transcript", "check_replacements", "malformed", "surface_message"]

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


class Transcript:
    """A projection: the messages of a log, in order, folded as far as the log was read.

    A surface event with `surfaceOp: "append"`, or without one, adds its message. One with
    `{"op": "replace", "start", "end"}` puts it in place of the messages `start <= i < end`, counted in the
    transcript as it stood: that is how a compaction's summary replaces what it sums up.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._watermark = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, oldest first."""
        return tuple(self._messages)

    def advance(self, log: EventLog) -> Transcript:
        """Fold the events that came since the last call, and return itself.

        Raises:
            CorruptLogError: An event's payload is not what its type says.
        """
        for event in log.select(SURFACE_TYPES, self._watermark):
            self._apply(event)
            self._watermark = event.seq + 1
        self._watermark = len(log)
        return self

    def _apply(self, event: Event) -> None:
        start, end = _replaced(event, len(self._messages))
        self._messages[start:end] = [surface_message(event)]


def check_replacements(log: EventLog) -> None:
    """Make sure that each replacement finds the messages that it replaces, without decoding a message.

    Raises:
        CorruptLogError: One does not.
    """
    length = 0
    for event in log.select(SURFACE_TYPES):
        start, end = _replaced(event, length)
        length += 1 - (end - start)


def _replaced(event: Event, length: int) -> tuple[int, int]:
    """Return which of `length` messages an event's own takes the place of: none at the end when appended."""
    if not event.surface_op or bytes(event.surface_op) == b'"append"':
        return length, length
    match decode_json(event.surface_op):
        case {"start": int(start), "end": int(end)}:
            if not 0 <= start <= end <= length:
                raise CorruptLogError(
                    f"event {event.seq} replaces messages {start} to {end}, which are not there"
                )
            return start, end
        case _:
            return length, length
