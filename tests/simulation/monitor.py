"""Watches, moment by moment, that what is due is decided in time, and that work does not lie about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.judge.book import Book, to_ms
from tests.judge.evidence import Violation

__all__ = ["Kind", "Moment", "Row", "find_late"]

Kind: TypeAlias = Literal[
    "open",  # a log was opened, or begun; `value` is the length of its seed, and the rows it had
    "alive",  # its agent may work
    "append",  # `value`: the rows
    "write",  # a write began
    "written",  # it ended; `value` is whether it succeeded
    "gone",  # its agent is being disposed
    "step",  # the wall clock was set, everywhere
    "end",  # the process ended, however
]


BOUND_SECONDS = 1.0
"""An idle, living agent over healthy storage decides what is due within this time (contract section 5)."""

_SLACK_SECONDS = 0.002  # times are cut to whole milliseconds


@dataclass(slots=True)
class Row:
    """One row as it entered a live log: its JSON envelope, the instant, and what the wall clock read."""

    type: str
    seq: int
    time: int
    data: Any
    at: float
    wall_ms: int


@dataclass(slots=True)
class Moment:
    """Something that happened.

    Attributes:
        at: Seconds since the run began, true time.
        wall_ms: What the wall clock reads, after a step the new reading.
        session: Whose it is, None for everything at once.
        kind: What happened.
        value: More about it.
    """

    at: float
    wall_ms: int
    session: str | None
    kind: Kind
    value: Any = None


def find_late(moments: list[Moment], quiet_ids: set[str], clock_rate: float) -> Iterator[Violation]:
    """Find each time that something due was left lying too long."""
    watches: dict[str, _Watch] = {}
    for moment in moments:
        if moment.session is not None and moment.session not in watches:
            watches[moment.session] = _Watch(quiet_ids, clock_rate)
        for session, watch in watches.items():
            if moment.session not in (None, session):
                continue
            text = watch.pass_to(moment)
            if text is not None:
                yield Violation("late", session, text)
            watch.take(moment)
        if moment.kind == "end":
            watches.clear()


class _Watch:
    """One session in one process's life."""

    def __init__(self, quiet_ids: set[str], clock_rate: float) -> None:
        self._quiet_ids = quiet_ids
        self._clock_rate = clock_rate
        self._book = Book()
        self._waking_at_open: set[str] = set()
        self._is_alive = False
        self._writes = 0
        self._is_failing = False
        self._at = 0.0
        self._wall_ms = 0
        self._target: int | None = None
        self._is_busy = False
        self._due_since: float | None = None

    def pass_to(self, moment: Moment) -> str | None:
        """Let time pass up to a moment; return what is wrong when it was too long."""
        target = self._target
        if target is None or not self._is_ready():
            return None
        if self._due_since is None:
            since = self._at + max(0, target - self._wall_ms) / 1000 / self._clock_rate
            self._due_since = since if since <= moment.at else None
        if self._due_since is None or moment.at - self._due_since <= BOUND_SECONDS + _SLACK_SECONDS:
            return None
        waited, self._due_since = moment.at - self._due_since, None
        due = [name for name, found in self._book.active.items() if to_ms(found["scheduledAt"]) == target]
        return f"{', '.join(due)} lay due for {waited:.3f} s until {moment.at:.3f} s"

    def take(self, moment: Moment) -> None:
        """Take in what happened."""
        match moment.kind:
            case "open":
                self._open(*moment.value)
            case "append":
                self._append(moment.value)
            case "alive":
                self._is_alive = True
            case "gone":
                self._is_alive = False
            case "write":
                self._writes += 1
            case "written":
                self._writes -= 1
                self._is_failing = not moment.value
            case _:
                pass
        self._at, self._wall_ms = moment.at, moment.wall_ms
        target = self._target
        if target is None or not self._is_ready() or moment.wall_ms < target:
            self._due_since = None
        elif self._due_since is None:
            self._due_since = moment.at

    def _open(self, owned_from: int, rows: list[Row]) -> None:
        self._writes, self._is_failing, self._is_alive = 0, False, False
        self._book = Book(owned_from)
        self._waking_at_open = {row_id for row in rows for row_id in _inserted_ids(row)}
        self._append(rows)

    def _append(self, rows: list[Row]) -> None:
        decided = len(self._book.decisions)
        for row in rows:
            self._book.add(row.type, row.seq, row.time, row.data)
        if len(self._book.decisions) > decided:
            self._due_since = None
        self._target = min(
            (to_ms(found["scheduledAt"]) for found in self._book.active.values()), default=None
        )
        self._is_busy = self._find_work()

    def _is_ready(self) -> bool:
        """Whether nothing but the program itself stands between a due reminder and its decision."""
        return self._is_alive and self._writes == 0 and not self._is_failing and not self._is_busy

    def _find_work(self) -> bool:
        book = self._book
        if book.turn is not None or book.pending["next-turn"] or book.unanswered():
            return True
        return any(
            name not in self._quiet_ids or name in self._waking_at_open for name in book.pending["next-step"]
        )


def _inserted_ids(row: Row) -> list[str]:
    return [message["id"] for message in row.data["inserted"]] if row.type == "agent/inbox/spliced" else []
