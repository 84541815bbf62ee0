"""What the adversary saw and did: all that the judge knows besides the final logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.judge.book import Book, Turn, to_ms
from tests.judge.evidence import Evidence, Violation
from tests.judge.reader import Rows
from tests.simulation.monitor import Kind, Moment, Row, find_late

__all__ = ["Record", "is_reminder"]


@dataclass(kw_only=True)
class Record(Evidence):
    """Everything that was seen and done in a run.

    Attributes:
        now: Reads true time (seconds) and the wall clock (epoch milliseconds).
        rows: The log of each session as far as it has come, durable or not.
        durable: How many rows of each are known to be durable.
        moments: What happened, in order.
        cancels: Session and instant of each cancel by a person.
        shown: Ids of the messages that the model was asked about, by session.
        clock_rate: How fast the wall clock goes against true time.
        faults: What was wrong already when it happened.
        quiet_ids: Messages injected silently: they open no turn until their session is opened again.
        stopped_at: When the last process was told to end. What comes due while it ends is left.
        counts: Of anything worth counting.
    """

    now: Callable[[], tuple[float, int]]
    rows: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    durable: Counter[str] = field(default_factory=Counter[str])
    moments: list[Moment] = field(default_factory=list[Moment])
    cancels: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    shown: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    faults: list[Violation] = field(default_factory=list[Violation])
    slack_ms: int = 1000
    quiet_ids: set[str] = field(default_factory=set[str])
    clock_rate: float = 1.0
    stopped_at: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])
    _entered: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    _going: set[str] = field(default_factory=set[str])

    def note(self, session: str | None, kind: Kind, value: Any = None) -> None:
        """Write down what happens now."""
        at, wall_ms = self.now()
        self.moments.append(Moment(at, wall_ms, session, kind, value))
        if session is not None and kind == "gone":
            self._going.add(session)
        elif session is not None and kind == "open":
            self._going.discard(session)

    def blame(self, kind: str, session: str, text: str) -> None:
        """Write down that something is wrong."""
        self.faults.append(Violation(kind, session, text))

    def opened(self, session: str, owned_from: int, loaded: list[Row]) -> None:
        """Take note of a log that becomes live: a prefix of what was appended, and all that was durable."""
        known = self.rows.setdefault(session, [])
        seen = known[: len(loaded)]
        if seen and [(row.type, row.time, row.data) for row in seen] != [
            (row.type, row.time, row.data) for row in loaded[: len(seen)]
        ]:
            self.blame("invalid", session, "the log that was opened is not what was appended")
        if len(loaded) < self.durable[session]:
            text = f"{self.durable[session]} rows were confirmed as durable, {len(loaded)} are there"
            self.blame("unconfirmed", session, text)
        self.rows[session] = [*seen, *loaded[len(seen) :]]
        self.durable[session] = len(loaded)
        self._entered = {
            key: seq for key, seq in self._entered.items() if key[0] != session or seq < len(loaded)
        }
        self.note(session, "open", (owned_from, self.rows[session].copy()))

    def appended(self, session: str, rows: list[Row]) -> None:
        """Take note of rows that entered a live log."""
        self.rows[session] += rows
        for row in rows:
            if row.type == "user/message":
                self._entered[session, row.data["id"]] = row.seq
        self.note(session, "append", rows)
        self._require_confirmed_changes(session, rows)
        if session not in self._going and any(is_disposal(row) for row in rows):
            text = "a turn ended as aborted by disposal, and nobody disposed of the agent"
            self.blame("invalid", session, text)

    def wrote(self, session: str, length: int) -> None:
        """Take note that the first `length` rows are on disk."""
        self.durable[session] = max(self.durable[session], length)

    def asked(self, session: str, message_ids: frozenset[str]) -> None:
        """Take note of a request to the model; what it is asked about must be durable."""
        self.shown.setdefault(session, set()).update(message_ids)
        for message_id in sorted(message_ids):
            seq = self._entered.get((session, message_id))
            if seq is not None and seq >= self.durable[session]:
                text = f"the model saw message {message_id} before it was on disk"
                self.blame("unconfirmed", session, text)

    def is_over(self, session: str, seq: int | None) -> bool:
        rows = self.rows.get(session, [])
        return seq is not None and seq < len(rows) and rows[seq].at >= self.stopped_at

    def was_cancelled(self, session: str, turn: Turn) -> bool:
        rows = self.rows[session]
        begin, finish = rows[turn.start].at, rows[turn.start if turn.end is None else turn.end].at
        return any(name == session and begin <= at <= finish for name, at in self.cancels)

    def was_asked(self, session: str, message_id: str, turn: Turn) -> bool:
        return message_id in self.shown.get(session, ())

    def find_wrongs(self, logs: dict[str, Rows], books: dict[str, Book]) -> Iterator[Violation]:
        """Find what was wrong at the time, what came late, and what is not in the logs as it was seen."""
        yield from self.faults
        yield from find_late(self.moments, self.quiet_ids, self.clock_rate)
        for session, rows in logs.items():
            yield from self._compare(session, rows[1:], books[session])
        for session, durable in self.durable.items():
            if durable and session not in logs:
                yield Violation("lost", session, f"{durable} rows were durable, and there is no log")

    def _compare(self, session: str, rows: Rows, book: Book) -> Iterator[Violation]:
        """The rows are those that were seen to enter, and what was decided was due by the clock itself."""
        seen = self.rows.get(session, [])
        if [(row.type, row.seq, row.time, row.data) for row in seen] != [
            (row["type"], row["seq"], row["time"], row["data"]) for row in rows
        ]:
            text = f"{len(rows)} rows are on disk that are not the {len(seen)} appended ones"
            yield Violation("invalid", session, text)
            return
        for decision in book.decisions.values():
            for schedule_id, occurrence in decision.keys:
                early_ms = to_ms(occurrence) - seen[decision.seq].wall_ms
                if early_ms > 0:
                    text = f"{schedule_id} was decided {early_ms} ms before {occurrence} by the clock itself"
                    yield Violation("early", session, text)

    def _require_confirmed_changes(self, session: str, rows: list[Row]) -> None:
        """Nothing is decided on changes that the storage has not confirmed."""
        if not any(is_reminder(row) for row in rows):
            return
        log, durable = self.rows[session], self.durable[session]
        if any(row.type == "schedule/change" for row in log[durable : len(log) - len(rows)]):
            self.blame("unconfirmed", session, "an occurrence was decided on changes that are not on disk")


def is_reminder(row: Row) -> bool:
    """Whether a row puts a reminder's message into the inbox."""
    if row.type != "agent/inbox/spliced":
        return False
    return any(message["source"].get("plugin") == "schedule" for message in row.data["inserted"])


def is_disposal(row: Row) -> bool:
    """Whether a row ends a turn because its agent is disposed of."""
    if row.type != "turn/end" or row.data["reason"]["kind"] != "aborted":
        return False
    return row.data["reason"]["reason"]["kind"] == "disposed"
