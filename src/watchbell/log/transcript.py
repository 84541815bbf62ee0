"""The conversation as a model sees it, derived from the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.events import SURFACE_TYPES, Message
from watchbell.log.projection import AnswerRow, EnteredMessageRow, ResultRow, SurfaceRow, read_rows

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog

__all__ = ["Transcript", "TranscriptLength"]

_decoder = msgspec.json.Decoder(EnteredMessageRow | AnswerRow | ResultRow)
_length_decoder = msgspec.json.Decoder(SurfaceRow)


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
        start, end = _replaced(seq, operation, len(self._messages))
        self._messages[start:end] = [message]


class TranscriptLength:
    """A projection: how many messages a log's transcript has, without decoding one.

    Folding it makes sure that each replacement finds the messages that it replaces.
    """

    def __init__(self) -> None:
        self._length = 0
        self._watermark = 0

    def __len__(self) -> int:
        return self._length

    def advance(self, log: EventLog, stop: int | None = None) -> TranscriptLength:
        """Fold the events that came since the last call, as far as `stop`, and return itself.

        Raises:
            CorruptLogError: A replacement does not fit.
        """
        stop = len(log) if stop is None else min(stop, len(log))
        if self._watermark < stop:
            for rows in read_rows(log, SURFACE_TYPES, _length_decoder, self._watermark, stop, replacing=True):
                for row in rows:
                    self._pass_to(log, row.seq)
                    start, end = _replaced(row.seq, row.surface_op, self._length)
                    self._length += 1 - (end - start)
                    self._watermark = row.seq + 1
            self._pass_to(log, stop)
        return self

    def _pass_to(self, log: EventLog, stop: int) -> None:
        """Count what was not read, as it only appends."""
        self._length += log.count_rows(SURFACE_TYPES, self._watermark, stop)
        self._watermark = stop


def _replaced(seq: int, operation: Any, length: int) -> tuple[int, int]:
    """Return which of `length` messages an event's own takes the place of: none at the end when appended."""
    match operation:
        case {"start": int(start), "end": int(end)}:
            if not 0 <= start <= end <= length:
                raise CorruptLogError(f"event {seq} replaces messages {start} to {end}, which are not there")
            return start, end
        case _:
            return length, length
