"""The conversation as a model sees it, derived from the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.events import SURFACE_TYPES, Message
from watchbell.log.projection import AnswerRow, EnteredMessageRow, ResultRow, read_rows

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog
    from watchbell.log.events import Event

__all__ = ["MALFORMED", "Transcript", "malformed", "surface_message"]

_decoder = msgspec.json.Decoder(EnteredMessageRow | AnswerRow | ResultRow)

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

    @property
    def watermark(self) -> int:
        """How many events have been folded or passed over."""
        return self._watermark

    def advance(self, log: EventLog, stop: int | None = None) -> Transcript:
        """Fold the events that came since the last call, as far as `stop`, and return itself.

        Raises:
            CorruptLogError: An event's payload is not what its type says.
        """
        stop = len(log) if stop is None else min(stop, len(log))
        if self._watermark < stop:
            for rows in read_rows(log, SURFACE_TYPES, _decoder, self._watermark, stop):
                for row in rows:
                    self._apply(row.seq, row.message.complete(), row.surface_op)
                    self._watermark = row.seq + 1
            self._watermark = stop
        return self

    def _apply(self, seq: int, message: Message, operation: Any) -> None:
        match operation:
            case {"start": int(start), "end": int(end)}:
                if not 0 <= start <= end <= len(self._messages):
                    raise CorruptLogError(
                        f"event {seq} replaces messages {start} to {end}, which are not there"
                    )
                self._messages[start:end] = [message]
            case _:
                self._messages.append(message)
