"""The judge: says what was promised and not kept. It knows the final logs and the evidence only.

Nothing here is Watchbell's own reading of a log: the rules are written from the contract's text once more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.judge.book import MOST_TAKE_UPS, Book, Key, to_ms
from tests.judge.evidence import Create, Evidence, Violation
from tests.judge.reader import Rows

__all__ = ["KINDS", "Verdict", "judge"]

KINDS = ("lost", "doubled", "early", "late", "silent", "unconfirmed", "invalid")
"""What can go wrong.

lost: a decided occurrence without its message, a confirmed change that is gone, a due one never decided.
doubled: an occurrence that came twice, or after its end. early: decided before its time. late: decided too
late. silent: a message that the model never got to see. unconfirmed: something was claimed, decided or asked
before it was on disk. invalid: a log or a conversation that a strict reader refuses.
"""


@dataclass
class Verdict:
    """What logs came to.

    Attributes:
        violations: Everything that is wrong.
        occurrences: How many occurrences were decided.
        interrupted: Turns that the end of a process cut off.
        take_ups: Turns that were run again for that.
        given_up: Reminders that the model did not answer although they were taken up as often as may be.
    """

    violations: list[Violation] = field(default_factory=list[Violation])
    occurrences: int = 0
    interrupted: int = 0
    take_ups: int = 0
    given_up: int = 0

    def add(self, other: Verdict) -> None:
        """Count another verdict in."""
        self.violations += other.violations
        self.occurrences += other.occurrences
        self.interrupted += other.interrupted
        self.take_ups += other.take_ups
        self.given_up += other.given_up

    def count(self, kind: str) -> int:
        """Count the violations of a kind."""
        return sum(violation.kind == kind for violation in self.violations)


def judge(logs: dict[str, Rows], evidence: Evidence, rested_ms: int) -> Verdict:
    """Judge final logs.

    Args:
        logs: The rows of each, header first.
        evidence: What was done and seen.
        rested_ms: What the wall clock read when the program had come to rest, epoch milliseconds.
    """
    verdict = Verdict()
    books: dict[str, Book] = {}
    for session, rows in logs.items():
        case = _Case(session, rows, evidence, rested_ms, verdict)
        books[session] = case.book
        case.examine()
        verdict.violations += _examine_seed(session, rows, logs)
    for made in evidence.creates.values():
        if made.session not in logs and "scheduledAt" in (made.answer or {}):
            text = f"{made.prompt!r} was answered as created, and there is no log"
            verdict.violations.append(Violation("lost", made.session, text))
    verdict.violations += evidence.find_wrongs(logs, books)
    return verdict


def _examine_seed(session: str, rows: Rows, logs: dict[str, Rows]) -> list[Violation]:
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

    def __init__(
        self, session: str, rows: Rows, evidence: Evidence, rested_ms: int, verdict: Verdict
    ) -> None:
        self._session = session
        self._evidence = evidence
        self._rested_ms = rested_ms
        self._verdict = verdict
        self.book = Book(rows[0].get("seedLength", 0))
        for row in rows[1:]:
            self.book.add(row["type"], row["seq"], row["time"], row["data"])

    def examine(self) -> None:
        """Look at what the log came to."""
        book, verdict = self.book, self._verdict
        for kind, text in book.wrongs:
            self._wrong(kind, text)
        verdict.occurrences += book.dispatched.total()
        verdict.interrupted += sum(turn.reason.get("kind") == "interrupted" for turn in book.turns)
        verdict.take_ups += book.attempts.total()
        self._examine_keys()
        self._examine_calls()
        self._examine_rest()
        self._examine_turns()

    def _wrong(self, kind: str, text: str) -> None:
        self._verdict.violations.append(Violation(kind, self._session, text))

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

    def _waiting_keys(self) -> Counter[Key]:
        """Count the occurrences decided while the last process ended: their messages wait in the log."""
        book = self.book
        pending = [name for names in book.pending.values() for name in names if name in book.decisions]
        return Counter(key for name in pending if self._came_last(name) for key in book.decisions[name].keys)

    def _came_last(self, message_id: str) -> bool:
        decision = self.book.decisions.get(message_id)
        return decision is not None and self._evidence.is_over(self._session, decision.seq)

    def _examine_calls(self) -> None:
        """What was answered is in the log; what is uncertain is there wholly or not at all."""
        by_prompt: dict[str, list[dict[str, Any]]] = {}
        for found in self.book.created.values():
            by_prompt.setdefault(found["prompt"], []).append(found)
        for made in self._evidence.creates.values():
            if made.session == self._session:
                self._examine_create(made, by_prompt.get(made.prompt, []))
        for session, schedule_id in self._evidence.deleted:
            if session == self._session and not self.book.ended.get(schedule_id, "").startswith("deleted"):
                self._wrong("lost", f"the confirmed delete of {schedule_id} is not in the log")
        for session, ids in self._evidence.listed:
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
            self._examine_delay(made, (answer["id"], answer["scheduledAt"]))
        elif answer and answer["code"] != "persistence_uncertain" and found:
            self._wrong("invalid", f"{made.prompt!r} was refused with {answer['code']}, and is in the log")

    def _examine_delay(self, made: Create, key: Key) -> None:
        for decision in self.book.decisions.values():
            if made.latest_ms is not None and key in decision.keys and decision.time > made.latest_ms:
                late_ms = decision.time - made.latest_ms
                self._wrong("late", f"{key} was decided {late_ms} ms after the latest moment for it")

    def _examine_rest(self) -> None:
        """Nothing is pending, claimed and not entered, open or overdue any more."""
        book = self.book
        for target, messages in book.pending.items():
            left = [name for name in messages if not self._came_last(name)]
            if left:
                self._wrong("silent", f"{len(left)} messages are pending in {target}: {left[:3]}")
        if book.claimed:
            self._wrong("lost", f"claimed and never entered: {sorted(book.claimed)[:3]}")
        if book.turn is not None:
            self._wrong("invalid", f"turn {book.turn.number} has no end")
        for schedule_id, found in book.active.items():
            overdue_ms = self._rested_ms - to_ms(found["scheduledAt"])
            if overdue_ms > self._evidence.slack_ms:
                self._wrong("lost", f"{schedule_id} is overdue by {overdue_ms} ms and was not decided")

    def _examine_turns(self) -> None:
        """Each reminder reached the model, used up its takings-up, or was cancelled after it had entered."""
        evidence, session = self._evidence, self._session
        for message_id, turn in self.book.last_turns().items():
            tries = self.book.attempts[message_id]
            what = f"{message_id}: turn {turn.number}"
            if turn.end is None or evidence.is_over(session, turn.end):
                continue
            if turn.is_cancelled:
                if not evidence.was_cancelled(session, turn):
                    self._wrong("silent", f"{what} was cancelled, and nobody did")
            elif turn.is_unanswered:
                if tries < MOST_TAKE_UPS:
                    self._wrong("silent", f"{what} ended {turn.reason['kind']}, taken up {tries} times")
                else:
                    self._verdict.given_up += 1
            elif not evidence.was_asked(session, message_id, turn):
                self._wrong("silent", f"{what} ended {turn.reason['kind']}, the model never saw it")
