"""The conversation as a model sees it, derived from the event log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.event import SURFACE_TYPES
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message
from watchbell.log.projection import (
    AnswerRow,
    EnteredMessageRow,
    Projection,
    Reader,
    ResultRow,
    SurfaceOp,
    SurfaceRow,
)

_MESSAGES = Reader(SURFACE_TYPES, msgspec.json.Decoder(EnteredMessageRow | AnswerRow | ResultRow))
_REPLACEMENTS = Reader(SURFACE_TYPES, msgspec.json.Decoder(SurfaceRow), replacing=True)


class Transcript(Projection[EnteredMessageRow | AnswerRow | ResultRow]):
    """The messages of a log, in order.

    A surface event with `surfaceOp: "append"`, or without one, adds its message. One with
    `{"op": "replace", "start", "end"}` puts it in place of the messages `start <= i < end`, counted in the
    transcript as it stood: that is how a compaction's summary replaces what it sums up.
    """

    reader = _MESSAGES

    def __init__(self) -> None:
        super().__init__()
        self._messages: list[Message] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, oldest first."""
        return tuple(self._messages)

    def fold(self, rows: Sequence[EnteredMessageRow | AnswerRow | ResultRow], log: EventLog) -> None:
        """Fold the next messages.

        Raises:
            CorruptLogError: A replacement does not fit.
        """
        for row in rows:
            start, end = _replaced(row.seq, row.surface_op, len(self._messages))
            self._messages[start:end] = [row.message.complete()]


class TranscriptLength(Projection[SurfaceRow]):
    """How many messages a log's transcript has, without decoding one.

    Folding it makes sure that each replacement finds the messages that it replaces.
    """

    reader = _REPLACEMENTS

    def __init__(self) -> None:
        super().__init__()
        self._length = 0
        self._counted = 0

    def __len__(self) -> int:
        return self._length

    def fold(self, rows: Sequence[SurfaceRow], log: EventLog) -> None:
        """Fold the next rows that may replace messages; those between them only append.

        Raises:
            CorruptLogError: A replacement does not fit.
        """
        for row in rows:
            self._count_to(log, row.seq)
            start, end = _replaced(row.seq, row.surface_op, self._length)
            self._length += 1 - (end - start)
            self._counted = row.seq + 1

    def finish(self, log: EventLog, stop: int) -> None:
        """Count what only appended."""
        self._count_to(log, stop)
        super().finish(log, stop)

    def _count_to(self, log: EventLog, stop: int) -> None:
        self._length += log.count_rows(SURFACE_TYPES, self._counted, stop)
        self._counted = stop


def _replaced(seq: int, operation: SurfaceOp, length: int) -> tuple[int, int]:
    """Return which of `length` messages an event's own takes the place of: none at the end when appended."""
    if operation == "append":
        return length, length
    start, end = operation.start, operation.end
    if not 0 <= start <= end <= length:
        raise CorruptLogError(f"event {seq} replaces messages {start} to {end}, which are not there")
    return start, end
