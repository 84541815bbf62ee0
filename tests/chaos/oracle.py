"""Judges final logs from their raw lines alone: nothing here is Watchbell's own reading of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import zstandard

KINDS = ("lost", "doubled", "silent", "early", "late", "invalid")
MOST_TAKE_UPS = 3


@dataclass
class Promise:
    """What the killer was told about one reminder.

    Attributes:
        id: Its id in the session.
        at: Its first target, canonical UTC.
        deleted: Whether its delete was answered.
        latest_ms: When its delivery has to be decided at the latest, epoch milliseconds; None: not judged.
    """

    id: str
    at: str
    deleted: bool = False
    latest_ms: int | None = None


@dataclass
class Verdict:
    """What logs came to.

    Attributes:
        occurrences: Decided occurrences.
        interrupted: Turns that the end of a process cut off.
        take_ups: Turns that were run again for that.
        given_up: Reminders that the model did not answer although they were taken up as often as may be.
        violations: Broken promises, each of one of the `KINDS`, with its session and what is wrong.
    """

    occurrences: int = 0
    interrupted: int = 0
    take_ups: int = 0
    given_up: int = 0
    violations: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Count another verdict in."""
        self.occurrences += other.occurrences
        self.interrupted += other.interrupted
        self.take_ups += other.take_ups
        self.given_up += other.given_up
        self.violations += other.violations

    def count(self, kind: str) -> int:
        """How many promises of this kind were broken."""
        return sum(violation[0] == kind for violation in self.violations)


@dataclass
class _Reminder:
    at_ms: int
    every_ms: int | None
    is_active: bool = True


@dataclass
class _Message:
    """A reminder's message and what its turns came to."""

    has_text: bool = False
    is_settled: bool = False
    take_ups: int = 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a zstd log; a torn last frame ends them."""
    text = b""
    rest = path.read_bytes()
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        lines = frame.decompress(rest)
        if not frame.eof:
            break
        text += lines
        rest = frame.unused_data
    return [json.loads(line) for line in text.decode().split("\n") if line]


def has_torn_tail(path: Path) -> bool:
    """Whether a log ends in the middle of a frame."""
    rest = path.read_bytes()
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        frame.decompress(rest)
        if not frame.eof:
            return True
        rest = frame.unused_data
    return False


def judge(session: str, rows: list[dict[str, Any]], promises: list[Promise], rested_ms: int) -> Verdict:
    """Judge the final log of a session that came to rest at `rested_ms`."""
    judgement = _Judgement(session)
    try:
        judgement.read(rows)
        judgement.compare(promises, rested_ms)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        judgement.blame("invalid", f"a row cannot be understood: {error!r}")
    return judgement.verdict


def to_ms(text: str) -> int:
    """Epoch milliseconds of a canonical instant."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class _Judgement:
    def __init__(self, session: str) -> None:
        self.verdict = Verdict()
        self._session = session
        self._reminders: dict[str, _Reminder] = {}
        self._decided: Counter[tuple[str, int]] = Counter()
        self._entered: Counter[tuple[str, int]] = Counter()
        self._decided_ms: dict[tuple[str, int], int] = {}
        self._messages: dict[str, _Message] = {}
        self._turn: list[str] | None = None  # the reminders' messages that the open turn is about
        self._taken_up: str | None = None
        self._has_text = False
        self._open_calls: list[str] = []

    def blame(self, kind: str, text: str) -> None:
        """Note a broken promise."""
        self.verdict.violations.append((kind, self._session, text))

    def read(self, rows: list[dict[str, Any]]) -> None:
        """Take every row in."""
        for seq, row in _numbered(rows[1:]):
            if row.get("seq", row.get("seq0")) != seq:
                self.blame("invalid", f"event {seq} is missing")
                return
            self._read_row(row)
        if self._turn is not None:
            self.blame("invalid", "the last turn has no end")

    def _read_row(self, row: dict[str, Any]) -> None:
        data = row["data"]
        match row["type"]:
            case "schedule/change":
                self._read_change(row["time"], data)
            case "user/message":
                self._read_message(row["time"], data)
            case "watchbell/take-up":
                self.verdict.take_ups += 1
                self._taken_up = data["messageId"]
                self._messages[data["messageId"]].take_ups += 1
            case "turn/start":
                if self._turn is not None:
                    self.blame("invalid", f"turn {data['turn']} begins inside another one")
                self._turn = [] if self._taken_up is None else [self._taken_up]
                self._taken_up, self._has_text = None, False
            case "turn/end":
                self._end_turn(data)
            case _:
                self._read_answer(row["type"], data)

    def _read_change(self, time_ms: int, change: dict[str, Any]) -> None:
        if change["operation"] == "create":
            record = change["schedule"]
            if record["id"] in self._reminders:
                self.blame("invalid", f"{record['id']} is created twice")
            every_ms = record["everySeconds"] * 1000 if record["kind"] == "every" else None
            self._reminders[record["id"]] = _Reminder(to_ms(record["scheduledAt"]), every_ms)
            return
        reminder = self._reminders[change["id"]]
        if not reminder.is_active:
            self.blame("doubled", f"{change['operation']} of {change['id']}, which has ended")
        if change["operation"] == "dispatch":
            accepted_ms = to_ms(change["acceptedAt"]) if "acceptedAt" in change else time_ms
            self._dispatch(change["id"], reminder, time_ms, accepted_ms)
        if change["operation"] == "delete" or reminder.every_ms is None:
            reminder.is_active = False

    def _dispatch(self, name: str, reminder: _Reminder, time_ms: int, accepted_ms: int) -> None:
        occurrence = reminder.at_ms
        if reminder.every_ms is not None:
            occurrence += max(0, accepted_ms - occurrence) // reminder.every_ms * reminder.every_ms
            reminder.at_ms = occurrence + reminder.every_ms
        self._decided[name, occurrence] += 1
        self._decided_ms[name, occurrence] = time_ms
        if min(time_ms, accepted_ms) < occurrence:
            self.blame("early", f"{name} of {occurrence} was decided at {min(time_ms, accepted_ms)}")

    def _read_message(self, time_ms: int, message: dict[str, Any]) -> None:
        source = message["source"]
        if source.get("plugin") != "schedule":
            return
        if message["id"] in self._messages:
            self.blame("doubled", f"message {message['id']} entered twice")
        self._messages[message["id"]] = _Message()
        if self._turn is None:
            self.blame("invalid", f"message {message['id']} entered outside a turn")
        else:
            self._turn.append(message["id"])
        for item in source["reminders"]:
            key = item["id"], to_ms(item["occurrenceAt"])
            self._entered[key] += 1
            if time_ms < key[1]:
                self.blame("early", f"{key[0]} of {key[1]} entered at {time_ms}")

    def _read_answer(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "text-chunks":
                self._has_text = True
            case "assistant/chunk":
                chunk = data["chunk"]
                self._has_text |= chunk["type"] == "text-delta" and bool(chunk["text"])
            case "assistant/message":
                blocks = data["message"]["content"]
                self._has_text |= any(block["type"] == "text" and block["text"] for block in blocks)
                self._open_calls += [block["id"] for block in blocks if block["type"] == "tool-call"]
            case "tool/result":
                self._open_calls.remove(data["message"]["source"]["callId"])
            case _:
                pass

    def _end_turn(self, end: dict[str, Any]) -> None:
        if self._open_calls:
            self.blame("invalid", f"turn {end['turn']} leaves calls without results: {self._open_calls}")
        reason = end["reason"]
        self.verdict.interrupted += reason["kind"] == "interrupted"
        by_person = reason["kind"] == "aborted" and reason["reason"]["kind"] == "user"
        for name in self._turn or ():
            message = self._messages[name]
            message.has_text |= self._has_text
            message.is_settled |= by_person or reason["kind"] == "completed"
        self._turn, self._open_calls = None, []

    def compare(self, promises: list[Promise], rested_ms: int) -> None:
        """Hold what was decided, entered and answered against each other and against what was promised."""
        self.verdict.occurrences = len(self._decided)
        self._compare_occurrences()
        self._compare_messages()
        for name, reminder in self._reminders.items():
            if reminder.is_active and reminder.at_ms < rested_ms:
                self.blame("lost", f"{name} of {reminder.at_ms} was still active at rest")
        for promise in promises:
            self._keep(promise)

    def _compare_occurrences(self) -> None:
        for key in self._decided.keys() | self._entered.keys():
            if not self._entered[key]:
                self.blame("lost", f"{key[0]} of {key[1]} was decided and never entered")
            if not self._decided[key]:
                self.blame("invalid", f"{key[0]} of {key[1]} entered and was never decided")
            if self._decided[key] > 1 or self._entered[key] > 1:
                self.blame("doubled", f"{key[0]} of {key[1]} came {self._entered[key]} times")

    def _compare_messages(self) -> None:
        for name, message in self._messages.items():
            if message.has_text or message.is_settled:
                continue
            if message.take_ups < MOST_TAKE_UPS:
                self.blame("silent", f"the model never answered message {name}")
            else:
                self.verdict.given_up += 1

    def _keep(self, promise: Promise) -> None:
        reminder = self._reminders.get(promise.id)
        if reminder is None:
            self.blame("lost", f"{promise.id} was answered as created and is not in the log")
        elif promise.deleted and reminder.is_active:
            self.blame("invalid", f"{promise.id} was answered as deleted and is active")
        key = promise.id, to_ms(promise.at)
        if promise.latest_ms is not None and self._decided_ms.get(key, 0) > promise.latest_ms:
            self.blame("late", f"{key[0]} of {key[1]} was decided at {self._decided_ms[key]}")


def _numbered(rows: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give each row the seq that it has to have; a row of packed chunks takes as many as it holds."""
    seq = 0
    for row in rows:
        yield seq, row
        seq += 1 if "seq" in row else len(row["data"]["dt"]) + 1
