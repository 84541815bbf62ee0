"""The events of one session in memory: a growing sequence that decodes as little as possible.

Rows read from disk stay the text that they are until somebody reads one of their events; packed ones, each of
which stands for a run of `assistant/chunk` events, until somebody reads one of that run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, overload

import msgspec

from watchbell.log.event import Event

_encode = msgspec.json.Encoder().encode


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


class Rows(Protocol):
    """A stretch of a log: rows with contiguous seqs, at least one.

    Attributes:
        first: Seq of the first event.
        length: Number of events.
    """

    first: int
    length: int

    @property
    def may_replace(self) -> bool:
        """Whether an event may replace messages of the transcript, not only add one."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Event | PackedRow:
        """Row `number`, from 0."""
        ...

    def row_of(self, seq: int) -> int:
        """Number of the row that holds event `seq`."""
        ...

    def find(self, types: frozenset[str], start: int, stop: int) -> Sequence[int]:
        """Numbers of the rows of `types` with `start <= number < stop`, in order."""
        ...

    def lines(self, types: frozenset[str], start: int, stop: int, /) -> bytes:
        """The text of those rows, each with its line end."""
        ...


class _Appended:
    """Rows that are objects already: what was appended since the log was read."""

    __slots__ = ("_packed", "_rows", "_starts", "first", "length")

    may_replace = True

    def __init__(self, first: int) -> None:
        self.first = first
        self.length = 0
        self._rows: list[Event | PackedRow] = []
        self._starts: list[int] = []  # first seq of each row; empty while no row is packed
        self._packed = False

    def add(self, row: Event | PackedRow) -> None:
        count = 1
        if isinstance(row, PackedRow):
            count = row.count
            if not self._packed:
                self._packed = True
                self._starts = list(range(self.first, self.first + self.length))
        if self._packed:
            self._starts.append(row.seq)
        self._rows.append(row)
        self.length += count

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Event | PackedRow:
        return self._rows[number]

    def row_of(self, seq: int) -> int:
        return bisect_right(self._starts, seq) - 1 if self._packed else seq - self.first

    def find(self, types: frozenset[str], start: int, stop: int) -> Sequence[int]:
        return [at for at, row in enumerate(self._rows[start:stop], start) if row.type in types]

    def lines(self, types: frozenset[str], start: int, stop: int) -> bytes:
        rows = [row for row in self._rows[start:stop] if row.type in types]
        texts = [row.raw if isinstance(row, PackedRow) else _encode(row) for row in rows]
        # A payload that came in from outside may span lines; between values any white space is as good.
        return b"".join([text.replace(b"\n", b" ") + b"\n" for text in texts])


class EventLog(Sequence["Event"]):
    """All events of a session, in order; `log[i].seq == i`.

    Only its session appends to it. Everyone else reads: by index, by iteration, with `select`, which finds
    the events of some types without decoding the others, or with `lines`, which leaves that to the caller.
    """

    __slots__ = ("_appended", "_firsts", "_length", "_parts")

    def __init__(self, rows: Iterable[Event | PackedRow] = ()) -> None:
        self._parts: list[Rows] = []
        self._firsts: list[int] = []  # first seq of each part
        self._appended: _Appended | None = None  # the last part, when it is one that grows
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
            part = self._appended
            if part is None:
                part = _Appended(self._length)
                self._add(part)
                self._appended = part
            part.add(row)
            self._length += row.count if isinstance(row, PackedRow) else 1

    def extend_rows(self, rows: Rows) -> None:
        """Add a stretch of rows at the end; it does not change any more.

        Raises:
            ValueError: It does not begin at the next seq.
        """
        if rows.first != self._length:
            raise ValueError(f"expected seq {self._length}, found {rows.first}")
        self._add(rows)
        self._length += rows.length

    def _add(self, part: Rows) -> None:
        self._firsts.append(self._length)
        self._parts.append(part)
        self._appended = None

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
        part = self._parts[self._part_of(seq)]
        row = part[part.row_of(seq)]
        return row.events()[seq - row.seq] if isinstance(row, PackedRow) else row

    def __iter__(self) -> Iterator[Event]:
        return self.span(0, self._length)

    def span(self, start: int, stop: int | None = None) -> Iterator[Event]:
        """Iterate over the events `start <= seq < stop`; events appended meanwhile are not among them."""
        stop = self._length if stop is None else min(stop, self._length)
        for part, low, high in self._stretches(start, stop):
            for number in range(low, high):
                yield from _events(part[number], start, stop)

    def select(self, types: frozenset[str], start: int = 0, stop: int | None = None) -> Iterator[Event]:
        """Iterate over the events of `types` with `start <= seq < stop`, decoding no other row."""
        stop = self._length if stop is None else min(stop, self._length)
        for part, low, high in self._stretches(start, stop):
            for number in part.find(types, low, high):
                yield from _events(part[number], start, stop)

    def select_back(self, types: frozenset[str], start: int = 0) -> Iterator[Event]:
        """Like `select`, from the newest event to the oldest."""
        for part, low, high in reversed(list(self._stretches(start, self._length))):
            for number in reversed(part.find(types, low, high)):
                yield from reversed(_events(part[number], start, self._length))

    def lines(
        self, types: frozenset[str], start: int = 0, stop: int | None = None, *, replacing: bool = False
    ) -> Iterator[bytes]:
        """Iterate over the text of the rows of `types` with `start <= seq < stop`, many rows at a time.

        Each row has its line end. No packed row may be among them: `assistant/chunk` is not asked for here.
        With `replacing`, stretches are left out of which no event replaces messages of the transcript.
        """
        stop = self._length if stop is None else min(stop, self._length)
        for part, low, high in self._stretches(start, stop):
            if not replacing or part.may_replace:
                lines = part.lines(types, low, high)
                if lines:
                    yield lines

    def count_rows(self, types: frozenset[str], start: int, stop: int) -> int:
        """Count the rows of `types` with `start <= seq < stop`, without reading them."""
        stop = min(stop, self._length)
        return sum(len(part.find(types, low, high)) for part, low, high in self._stretches(start, stop))

    def slices(self, start: int, least: int) -> Iterator[int]:
        """Cut the events from `start` on into pieces, where stretches end that were read.

        Args:
            start: Where the first piece begins.
            least: Fewest events of a piece but the last one. It has a stretch more at most.

        Yields:
            Seq of the event after each piece.
        """
        end = self._length
        for part in tuple(self._parts):
            part_end = min(part.first + part.length, end)
            if isinstance(part, _Appended):
                while part_end - start > least:
                    start += least
                    yield start
            elif least <= part_end - start and part_end < end:
                start = part_end
                yield start
        if start < end:
            yield end

    def prefix(self, length: int) -> EventLog:
        """Return a log of its own with the first `length` events."""
        head = EventLog()
        for part in self._parts:
            if isinstance(part, _Appended) or part.first + part.length > length:
                break
            head.extend_rows(part)
        for part, low, high in self._stretches(len(head), min(length, self._length)):
            for number in range(low, high):
                row = part[number]
                whole = not isinstance(row, PackedRow) or row.seq + row.count <= length
                head.extend([row] if whole else _events(row, 0, length))
        return head

    @property
    def last_type(self) -> str | None:
        """The type of the newest event, without unpacking it; None in an empty log."""
        if not self._parts:
            return None
        part = self._parts[-1]
        return part[len(part) - 1].type

    def rows(self) -> Iterator[Event | PackedRow]:
        """Iterate over the rows as they were read or appended."""
        for part in self._parts:
            for number in range(len(part)):
                yield part[number]

    def _part_of(self, seq: int) -> int:
        return bisect_right(self._firsts, seq) - 1

    def _stretches(self, start: int, stop: int) -> Iterator[tuple[Rows, int, int]]:
        """The parts that hold events `start <= seq < stop`, each with the numbers of its rows that do."""
        start = max(start, 0)
        if start >= stop:
            return
        for part in self._parts[self._part_of(start) : self._part_of(stop - 1) + 1]:
            low = part.row_of(start) if start > part.first else 0
            end = part.first + part.length
            yield part, low, len(part) if stop >= end else part.row_of(stop - 1) + 1


def _events(row: Event | PackedRow, start: int, stop: int) -> Sequence[Event]:
    if isinstance(row, PackedRow):
        return row.events()[max(0, start - row.seq) : stop - row.seq]
    return (row,)
