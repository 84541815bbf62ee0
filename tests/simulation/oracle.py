"""The oracle: says of a run what was promised and not kept. It knows the logs and the record only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.simulation.book import Book, to_ms
from tests.simulation.monitor import find_late
from tests.simulation.record import Create, Record

__all__ = ["KINDS", "Verdict", "Violation", "judge"]

KINDS = ("lost", "doubled", "early", "late", "silent", "unconfirmed", "invalid")
"""What can go wrong.

lost: a decided occurrence without its message, a confirmed change that is gone, a due one never decided.
doubled: an occurrence that came twice, or after its end. early: decided before its time. late: decided too
late. silent: a message that the model never got to see. unconfirmed: something was claimed, decided or asked
before it was on disk. invalid: a log or a conversation that a strict reader refuses.
"""


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that was not kept."""

    kind: str
    session: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the oracle says of a run.

    Attributes:
        violations: Everything that is wrong.
        occurrences: How many occurrences were decided, by the final logs.
    """

    violations: list[Violation]
    occurrences: int


def judge(logs: dict[str, list[dict[str, Any]]], record: Record, wall_ms: int) -> Verdict:
    """Judge a run.

    Args:
        logs: The rows of each final log, header first.
        record: What was done and seen.
        wall_ms: What the wall clock read when the program had come to rest, epoch milliseconds.
    """
    violations = [Violation(*fault) for fault in record.faults]
    violations += [Violation("late", session, text) for session, text in find_late(record)]
    occurrences = 0
    for session, rows in logs.items():
        case = _Case(session, rows, record, wall_ms)
        case.examine()
        violations += [Violation(kind, session, text) for kind, text in case.book.wrongs]
        occurrences += case.book.dispatched.total()
        violations += _examine_seed(session, rows, logs)
    violations += [
        Violation("lost", session, f"{durable} rows were durable, and there is no log")
        for session, durable in record.durable.items()
        if durable and session not in logs
    ]
    return Verdict(violations, occurrences)


def _examine_seed(
    session: str, rows: list[dict[str, Any]], logs: dict[str, list[dict[str, Any]]]
) -> list[Violation]:
    """A fork begins with its parent's rows, as far as the parent's log still goes."""
    header = rows[0]
    length, parent = header.get("seedLength", 0), logs.get(header.get("parentSession", ""))
    if not length or parent is None:
        return []
    seed, origin = rows[1 : length + 1], parent[1 : length + 1]
    if len(seed) != length or seed[: len(origin)] != origin[: len(seed)]:
        return [Violation("invalid", session, "its seed is not what its parent's log begins with")]
    return []


class _Case:
    """One session's final log."""

    def __init__(self, session: str, rows: list[dict[str, Any]], record: Record, wall_ms: int) -> None:
        self._session = session
        self._rows = rows[1:]
        self._record = record
        self._wall_ms = wall_ms
        self.book = Book(rows[0].get("seedLength", 0))

    def examine(self) -> None:
        """Fold the log, then look at what it came to."""
        for row in self._rows:
            self.book.add(row["type"], row["seq"], row["time"], row["data"])
        self._examine_rows()
        self._examine_keys()
        self._examine_calls()
        self._examine_rest()
        self._examine_turns()

    def _wrong(self, kind: str, text: str) -> None:
        self.book.wrongs.append((kind, text))

    def _examine_rows(self) -> None:
        """The rows are those that were seen to enter, and what was decided was due by the clock itself."""
        seen = self._record.rows.get(self._session, [])
        if [(row.type, row.seq, row.time, row.data) for row in seen] != [
            (row["type"], row["seq"], row["time"], row["data"]) for row in self._rows
        ]:
            self._wrong(
                "invalid", f"{len(self._rows)} rows are on disk that are not the {len(seen)} appended ones"
            )
            return
        for decision in self.book.decisions.values():
            read_ms = seen[decision.seq].wall_ms
            for schedule_id, occurrence in decision.keys:
                if to_ms(occurrence) > read_ms:
                    early_ms = to_ms(occurrence) - read_ms
                    text = f"{schedule_id} was decided {early_ms} ms before {occurrence} by the clock itself"
                    self._wrong("early", text)

    def _examine_keys(self) -> None:
        """Each dispatched occurrence entered the conversation once, or still waits to; nothing else did."""
        book = self.book
        waiting = self._waiting_keys()
        for key in sorted(book.dispatched.keys() | book.shown.keys()):
            times, shown = book.dispatched[key], book.shown[key]
            if times > 1 or shown + waiting[key] > 1:
                self._wrong("doubled", f"{key} was dispatched {times} times and shown {shown} times")
            elif times > shown + waiting[key]:
                self._wrong("lost", f"{key} was dispatched, and no message shows it")
            elif shown > times:
                self._wrong("doubled", f"{key} was shown, and is not dispatched")
        for message_id, count in book.entered.items():
            if count > 1:
                self._wrong("doubled", f"message {message_id} entered {count} times")
        decided = Counter(key for decision in book.decisions.values() for key in decision.keys)
        for key in sorted(decided.keys() - book.dispatched.keys()):
            self._wrong("lost", f"{key} was decided, and is not dispatched")

    def _waiting_keys(self) -> Counter[tuple[str, str]]:
        """Count the occurrences decided while the last process ended: their messages wait in the log."""
        book = self.book
        pending = [name for names in book.pending.values() for name in names if name in book.decisions]
        decisions = [book.decisions[name] for name in pending]
        return Counter(key for found in decisions if self._is_over(found.seq) for key in found.keys)

    def _examine_calls(self) -> None:
        """What was answered is in the log; what is uncertain is there wholly or not at all."""
        by_prompt: dict[str, list[dict[str, Any]]] = {}
        for found in self.book.created.values():
            by_prompt.setdefault(found["prompt"], []).append(found)
        for made in self._record.creates.values():
            if made.session == self._session:
                self._examine_create(made, by_prompt.get(made.prompt, []))
        for session, schedule_id in self._record.deleted:
            if session == self._session and not self.book.ended.get(schedule_id, "").startswith("deleted"):
                self._wrong("lost", f"the confirmed delete of {schedule_id} is not in the log")
        for session, ids in self._record.listed:
            if session == self._session and not self.book.created.keys() >= set(ids):
                self._wrong("unconfirmed", f"a list showed {ids}, of which some are not in the log")

    def _examine_create(self, made: Create, found: list[dict[str, Any]]) -> None:
        answer = made.answer or {}
        if len(found) > 1:
            self._wrong("doubled", f"{made.prompt!r} was created {len(found)} times")
        elif "scheduledAt" in answer:
            view = {key: value for key, value in answer.items() if key not in ("state", "deliveryMode")}
            if found != [view]:
                self._wrong("lost", f"{made.prompt!r} was answered with {view}, and the log has {found}")
        elif answer and answer["code"] != "persistence_uncertain" and found:
            self._wrong("invalid", f"{made.prompt!r} was refused with {answer['code']}, and is in the log")

    def _examine_rest(self) -> None:
        """Nothing is pending, claimed and not entered, open or overdue any more."""
        book = self.book
        for target, messages in book.pending.items():
            left = [
                name
                for name in messages
                if name not in book.decisions or not self._is_over(book.decisions[name].seq)
            ]
            if left:
                self._wrong("silent", f"{len(left)} messages are pending in {target}: {left[:3]}")
        if book.claimed:
            self._wrong("lost", f"claimed and never entered: {sorted(book.claimed)[:3]}")
        if book.turn is not None:
            self._wrong("invalid", f"turn {book.turn.number} has no end")
        for schedule_id, found in book.active.items():
            overdue_ms = self._wall_ms - to_ms(found["scheduledAt"])
            if overdue_ms > 1000:
                self._wrong("lost", f"{schedule_id} is overdue by {overdue_ms} ms and was not decided")

    def _examine_turns(self) -> None:
        """Each reminder reached the model, used up its takings-up, or was cancelled after it had entered."""
        asked = {
            name for request in self._record.requests.get(self._session, []) for name in request.message_ids
        }
        for message_id, turn in self.book.last_turns().items():
            kind = turn.reason.get("kind")
            if self._is_over(turn.end):
                continue
            if kind == "aborted" and turn.reason["reason"]["kind"] == "user":
                if not self._was_cancelled(turn.start, turn.end):
                    self._wrong("silent", f"{message_id}: turn {turn.number} was cancelled, and nobody did")
            elif turn.is_unanswered:
                if self.book.attempts[message_id] < 3:
                    tries = self.book.attempts[message_id]
                    self._wrong(
                        "silent", f"{message_id}: turn {turn.number} ended {kind}, taken up {tries} times"
                    )
            elif message_id not in asked:
                self._wrong(
                    "silent", f"{message_id}: turn {turn.number} ended {kind}, the model never saw it"
                )

    def _is_over(self, seq: int | None) -> bool:
        """Whether a row came when the last process was ending already."""
        rows = self._record.rows.get(self._session, [])
        return seq is not None and seq < len(rows) and rows[seq].at >= self._record.stopped_at

    def _was_cancelled(self, start: int, end: int | None) -> bool:
        rows = self._record.rows[self._session]
        begin, finish = rows[start].at, rows[start if end is None else end].at
        return any(session == self._session and begin <= at <= finish for session, at in self._record.cancels)
