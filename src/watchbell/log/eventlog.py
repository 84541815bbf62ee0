"""The events of one session in memory: a growing sequence that decodes as little as possible.

Rows read from disk may be packed: one row then stands for a run of `assistant/chunk` events. They stay
packed here until somebody reads one of their events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

import msgspec

if TYPE_CHECKING:
    from watchbell.log.events import Event

__all__ = ["EventLog", "PackedRow"]


class PackedRow(msgspec.Struct, frozen=True, gc=False):
    """A run of `assistant/chunk` events that share one row.

    Attributes:
        seq: Seq of its first event.
        count: Number of its events.
        unpack: Makes the events, in order; `raw` is what it gets.
        raw: The row as it was read.
    """

    seq: int
    count: int
    raw: bytes
    unpack: Callable[[bytes], Sequence[Event]]

    @property
    def type(self) -> str:
        """The type of each of its events."""
        return "assistant/chunk"

    def events(self) -> Sequence[Event]:
        """Make the events of the row."""
        return self.unpack(self.raw)


class EventLog(Sequence["Event"]):
    """All events of a session, in order; `log[i].seq == i`.

    Only its session appends to it. Everyone else reads: by index, by iteration, or with `select`, which
    finds the events of some types without decoding the others.
    """

    __slots__ = ("_length", "_packed", "_rows", "_starts")

    def __init__(self, rows: Iterable[Event | PackedRow] = ()) -> None:
        self._rows: list[Event | PackedRow] = []
        self._starts: list[int] = []  # first seq of each row; empty while no row is packed
        self._packed = False
        self._length = 0
        self.extend(rows)

    def extend(self, rows: Iterable[Event | PackedRow]) -> None:
        """Add rows at the end.

        Raises:
            ValueError: A row does not begin at the next seq; the rows before it were added.
        """
        for row in rows:
            if row.seq != self._length:
                raise ValueError(f"expected seq {self._length}, found {row.seq}")
            count = 1
            if isinstance(row, PackedRow):
                count = row.count
                if not self._packed:
                    self._packed = True
                    self._starts = list(range(self._length))
            if self._packed:
                self._starts.append(row.seq)
            self._rows.append(row)
            self._length += count

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return list(self.span(start, stop))
            return [self[i] for i in range(start, stop, step)]
        seq = index + self._length if index < 0 else index
        if not 0 <= seq < self._length:
            raise IndexError(f"no event {index} in a log of {self._length}")
        row = self._rows[self._row_of(seq)]
        return row.events()[seq - row.seq] if isinstance(row, PackedRow) else row

    def __iter__(self) -> Iterator[Event]:
        return self.span(0, self._length)

    def span(self, start: int, stop: int | None = None) -> Iterator[Event]:
        """Iterate over the events `start <= seq < stop`; events appended meanwhile are not among them."""
        stop = self._length if stop is None else min(stop, self._length)
        if start >= stop:
            return
        for at in range(self._row_of(start), self._row_of(stop - 1) + 1):
            row = self._rows[at]
            if isinstance(row, PackedRow):
                yield from row.events()[max(0, start - row.seq) : stop - row.seq]
            else:
                yield row

    def select(self, types: frozenset[str], start: int = 0) -> Iterator[Event]:
        """Iterate over the events of `types` with `seq >= start`, decoding no other row."""
        if start >= self._length:
            return
        for at in range(self._row_of(start), len(self._rows)):
            row = self._rows[at]
            if row.type not in types:
                continue
            if isinstance(row, PackedRow):
                yield from row.events()[max(0, start - row.seq) :]
            else:
                yield row

    def select_back(self, types: frozenset[str], start: int = 0) -> Iterator[Event]:
        """Like `select`, from the newest event to the oldest."""
        if start >= self._length:
            return
        for at in range(len(self._rows) - 1, self._row_of(start) - 1, -1):
            row = self._rows[at]
            if row.type not in types:
                continue
            if isinstance(row, PackedRow):
                yield from reversed(row.events()[max(0, start - row.seq) :])
            else:
                yield row

    def prefix(self, length: int) -> EventLog:
        """Return a log of its own with the first `length` events."""
        if length >= self._length:
            return EventLog(self._rows)
        if length <= 0:
            return EventLog()
        last = self._row_of(length - 1)
        head = EventLog(self._rows[:last])
        head.extend(self.span(len(head), length))
        return head

    @property
    def last_type(self) -> str | None:
        """The type of the newest event, without unpacking it; None in an empty log."""
        return self._rows[-1].type if self._rows else None

    def rows(self) -> Iterator[Event | PackedRow]:
        """Iterate over the rows as they were read or appended."""
        return iter(self._rows)

    def _row_of(self, seq: int) -> int:
        return bisect_right(self._starts, seq) - 1 if self._packed else seq
