"""What a log says, folded strictly and by nothing of the program under test.

Everything here is written from the contract's text and from the log format's, a second time.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

__all__ = ["MOST_TAKE_UPS", "Book", "Decision", "Key", "Turn", "to_ms"]

Key = tuple[str, str]
"""A reminder's id and one of its occurrences, canonical UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_RECORD_KEYS = {
    "after": {"id", "kind", "prompt", "afterSeconds", "scheduledAt"},
    "at": {"id", "kind", "prompt", "scheduledAt"},
    "every": {"id", "kind", "prompt", "everySeconds", "scheduledAt"},
}

MOST_TAKE_UPS = 3
"""How often a reminder that was cut off is taken up again (contract section 5)."""


@lru_cache(maxsize=4096)
def to_ms(text: str) -> int:
    """Read a canonical UTC instant as epoch milliseconds."""
    if not _INSTANT.fullmatch(text):
        raise ValueError(f"{text!r} is no canonical instant")
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


def _to_text(ms: int) -> str:
    """Write epoch milliseconds as a canonical UTC instant."""
    instant = _EPOCH + timedelta(milliseconds=ms)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.").zfill(20) + f"{ms % 1000:03}Z"


@dataclass(slots=True)
class Decision:
    """A reminder message when it first entered the inbox."""

    message_id: str
    keys: list[Key]
    seq: int
    time: int


@dataclass(slots=True)
class Turn:
    """A turn, and which reminder message it is about."""

    number: int
    start: int
    reminders: list[str] = field(default_factory=list[str])
    has_text: bool = False
    end: int | None = None
    reason: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_cancelled(self) -> bool:
        """Whether it says that a person cancelled it."""
        return self.reason.get("kind") == "aborted" and self.reason["reason"]["kind"] == "user"

    @property
    def is_unanswered(self) -> bool:
        """Whether it ended, without any text, in a way that says nobody meant it to."""
        kind = self.reason.get("kind")
        aborted = kind == "aborted" and self.reason["reason"]["kind"] == "disposed"
        uncertain = kind == "error" and self.reason["error"]["code"] == "PERSISTENCE_UNCERTAIN"
        return not self.has_text and (kind == "interrupted" or aborted or uncertain)


class Book:
    """Folds a log row by row; what cannot be is written into `wrongs`, as kind and text.

    Attributes:
        active: The active reminders' records by id.
        pending: Ids of pending messages, by list.
        decisions: Reminder messages by id.
        dispatched: How often each occurrence was dispatched.
        entered: How often each user message entered, by id.
        shown: How often each occurrence entered with a message.
        turns: The session's own turns.
        attempts: Take-ups by message id.
        created: Records by id, as created.
    """

    def __init__(self, owned_from: int = 0) -> None:
        self.owned_from = owned_from
        self.length = 0
        self.wrongs: list[tuple[str, str]] = []
        self.created: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, str] = {}
        self.active: dict[str, dict[str, Any]] = {}
        self.pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self.messages: dict[str, dict[str, Any]] = {}
        self.claimed: set[str] = set()
        self.decisions: dict[str, Decision] = {}
        self.dispatched: Counter[Key] = Counter()
        self.entered: Counter[str] = Counter()
        self.shown: Counter[Key] = Counter()
        self.turns: list[Turn] = []
        self.attempts: Counter[str] = Counter()
        self.turn: Turn | None = None
        self.step: int | None = None
        self._is_broken = False
        self._last_turn = 0
        self._last_step = 0
        self._taken_up: str | None = None
        self._calls: list[str] = []

    def add(self, type_: str, seq: int, time: int, data: Any) -> None:
        """Fold the next row; nothing any more after a gap."""
        if self._is_broken:
            return
        if seq != self.length:
            self._is_broken = True
            self._wrong("invalid", f"row {self.length} has seq {seq}; it and what follows are not read")
            return
        self.length += 1
        is_own = seq >= self.owned_from
        try:
            self._add_structure(type_, seq, data)
            if is_own:
                self._add_own(type_, seq, time, data)
        except (KeyError, TypeError, ValueError) as error:
            self._wrong("invalid", f"row {seq}, {type_}: {type(error).__name__} {error}")

    def last_turns(self) -> dict[str, Turn]:
        """Return the last turn of each retained message that had one."""
        return {message: turn for turn in self.turns for message in turn.reminders}

    def unanswered(self) -> dict[str, Turn]:
        """Return the reminder messages whose last turn is to be taken up again, with that turn."""
        return {
            message: turn
            for message, turn in self.last_turns().items()
            if turn.end is not None and turn.is_unanswered and self.attempts[message] < MOST_TAKE_UPS
        }

    def _wrong(self, kind: str, text: str) -> None:
        self.wrongs.append((kind, text))

    # --- turns, steps and the transcript

    def _add_structure(self, type_: str, seq: int, data: Any) -> None:
        match type_:
            case "turn/start":
                self._require(self.turn is None and data["turn"] == self._last_turn + 1, seq, "turn/start")
                self._last_turn, self._last_step = data["turn"], 0
                self.turn = Turn(data["turn"], seq)
                if seq >= self.owned_from:
                    self.turns.append(self.turn)
            case "turn/end":
                inside = self.turn is not None and self.step is None and data["turn"] == self.turn.number
                self._require(inside, seq, "turn/end")
                self._require(not self._calls, seq, "turn/end while calls have no result")
                if self.turn is not None:
                    self.turn.end, self.turn.reason = seq, data["reason"]
                self.turn = None
            case "step/start":
                inside = self.turn is not None and self.step is None and data["step"] == self._last_step + 1
                self._require(inside and data["turn"] == self._last_turn, seq, "step/start")
                self.step = self._last_step = data["step"]
            case "step/end":
                self._require(self.step is not None and data["step"] == self.step, seq, "step/end")
                self._require(not self._calls, seq, "step/end while calls have no result")
                self.step = None
            case "request/header":
                self._require(self.step is not None, seq, f"{type_} outside a step")
            case "user/message" | "assistant/message" | "tool/call" | "tool/result" | "assistant/chunk":
                self._require(self.step is not None, seq, f"{type_} outside a step")
                self._add_message(type_, seq, data)
            case _:
                pass

    def _add_message(self, type_: str, seq: int, data: Any) -> None:
        match type_:
            case "user/message":
                self._require(not self._calls, seq, "a user message while calls have no result")
                self._require(data["role"] == "user", seq, "a user message of another role")
            case "assistant/message":
                self._require(not self._calls, seq, "an answer while calls have no result")
                place = self._last_turn, self.step
                self._require((data["turn"], data["step"]) == place, seq, "an answer of another step")
                blocks = data["message"]["content"]
                self._calls = [block["id"] for block in blocks if block["type"] == "tool-call"]
                self._require(len(set(self._calls)) == len(self._calls), seq, "two calls of one id")
                self._note_text(any(block.get("text") for block in blocks if block["type"] == "text"))
            case "tool/result":
                call_id = data["message"]["source"]["callId"]
                self._require(call_id in self._calls, seq, f"a result for {call_id}, which nobody called")
                if call_id in self._calls:
                    self._calls.remove(call_id)
            case "assistant/chunk":
                chunk = data["chunk"]
                self._note_text(chunk["type"] == "text-delta" and bool(chunk.get("text")))
            case _:
                self._require(data["callId"] in self._calls, seq, "a call that the answer does not hold")

    def _note_text(self, has_text: bool) -> None:
        if has_text and self.turn is not None:
            self.turn.has_text = True

    def _require(self, holds: bool, seq: int, text: str) -> None:
        if not holds:
            self._wrong("invalid", f"row {seq}: {text}")

    # --- the inbox and take-ups

    def _add_own(self, type_: str, seq: int, time: int, data: Any) -> None:
        match type_:
            case "agent/inbox/spliced":
                self._splice(seq, time, data)
            case "user/message":
                self._enter(seq, data)
            case "watchbell/take-up":
                message_id = data["messageId"]
                self.attempts[message_id] += 1
                self._require(self.attempts[message_id] == data["attempt"], seq, "a take-up miscounted")
                self._require(data["attempt"] <= MOST_TAKE_UPS, seq, "taken up once too often")
                self._require(self.entered[message_id] == 1, seq, "taken up before it entered")
                last = self.last_turns().get(message_id)
                if last is None or not last.is_unanswered:
                    self._wrong("doubled", f"row {seq}: {message_id} is taken up, but was not cut off")
                self._taken_up = message_id
            case "turn/start":
                if self._taken_up is not None and self.turn is not None:
                    self.turn.reminders.append(self._taken_up)
                self._taken_up = None
            case "schedule/change":
                self._change(seq, data)
            case _:
                pass

    def _splice(self, seq: int, time: int, data: Any) -> None:
        messages = self.pending[data["target"]]
        start, count = data["start"], data.get("removedCount", 0)
        self._require(start + count <= len(messages), seq, "a splice that does not fit")
        removed = messages[start : start + count]
        if data.get("outcome") == "canceled":
            for message_id in removed:
                if _is_retained(self.messages[message_id]):
                    self._wrong("lost", f"row {seq}: reminder {message_id} was discarded")
        else:
            self.claimed.update(removed)
        for message in data["inserted"]:
            self._insert(seq, time, message)
        messages[start : start + count] = [message["id"] for message in data["inserted"]]

    def _insert(self, seq: int, time: int, message: dict[str, Any]) -> None:
        message_id = message["id"]
        everywhere = self.pending["next-turn"] + self.pending["next-step"]
        self._require(message_id not in everywhere, seq, f"message {message_id} is pending twice")
        self.messages[message_id] = message
        self.claimed.discard(message_id)
        if message["source"].get("plugin") != "schedule" or message_id in self.decisions:
            return
        keys = [(item["id"], item["occurrenceAt"]) for item in message["source"]["reminders"]]
        self.decisions[message_id] = Decision(message_id, keys, seq, time)
        self._require(
            self.turn is None and not self.pending["next-turn"], seq, "decided while the agent was busy"
        )
        for schedule_id, occurrence in keys:
            record = self.active.get(schedule_id)
            if record is None:
                how = self.ended.get(schedule_id, "never created")
                self._wrong("doubled", f"row {seq}: {schedule_id} was decided, but it is {how}")
            elif to_ms(occurrence) > time:
                late = to_ms(occurrence) - time
                self._wrong("early", f"row {seq}: {schedule_id} was decided {late} ms before {occurrence}")
            elif to_ms(occurrence) < to_ms(record["scheduledAt"]):
                self._wrong("doubled", f"row {seq}: {schedule_id} was decided for {occurrence} once more")

    def _enter(self, seq: int, message: dict[str, Any]) -> None:
        message_id = message["id"]
        self.entered[message_id] += 1
        self.claimed.discard(message_id)
        self._require(
            message_id not in self.pending["next-turn"], seq, f"{message_id} entered and is pending"
        )
        if message["source"].get("plugin") == "schedule":
            self._require(message_id in self.decisions, seq, f"{message_id} entered and was never decided")
            for item in message["source"]["reminders"]:
                self.shown[item["id"], item["occurrenceAt"]] += 1
        if self.turn is not None and _is_retained(message):
            self.turn.reminders.append(message_id)

    # --- Schedule

    def _change(self, seq: int, data: Any) -> None:
        self._require(data["version"] == 1, seq, "an unknown version")
        match data["operation"]:
            case "create":
                self._require(set(data) == {"version", "operation", "schedule"}, seq, "keys of a create")
                self._create(seq, data["schedule"])
            case "delete":
                self._require(set(data) == {"version", "operation", "id"}, seq, "keys of a delete")
                self._end(seq, data["id"], "deleted")
            case "dispatch":
                self._dispatch(seq, data)
            case other:
                self._wrong("invalid", f"row {seq}: operation {other}")

    def _create(self, seq: int, record: dict[str, Any]) -> None:
        schedule_id = record["id"]
        self._require(set(record) == _RECORD_KEYS[record["kind"]], seq, "keys of a record")
        self._require(schedule_id not in self.created, seq, f"{schedule_id} is used again")
        self._require(bool(record["prompt"].strip()), seq, "a blank prompt")
        to_ms(record["scheduledAt"])
        if record["kind"] == "every":
            self._require(
                type(record["everySeconds"]) is int and record["everySeconds"] >= 300, seq, "an interval"
            )
        self.created[schedule_id] = record
        self.active[schedule_id] = dict(record)

    def _end(self, seq: int, schedule_id: str, how: str) -> dict[str, Any] | None:
        record = self.active.pop(schedule_id, None)
        if record is None:
            before = self.ended.get(schedule_id, "never created")
            kind = "doubled" if how == "dispatched" and schedule_id in self.ended else "invalid"
            self._wrong(kind, f"row {seq}: {schedule_id} is {how}, and it was {before}")
        self.ended[schedule_id] = f"{how} at row {seq}"
        return record

    def _dispatch(self, seq: int, data: Any) -> None:
        record = self._end(seq, data["id"], "dispatched")
        keys = {"version", "operation", "id"}
        if record is None:
            return
        if record["kind"] != "every":
            self._require(set(data) == keys, seq, "keys of a dispatch")
            self.dispatched[record["id"], record["scheduledAt"]] += 1
            return
        self._require(set(data) == keys | {"acceptedAt"}, seq, "keys of a dispatch")
        target, accepted = to_ms(record["scheduledAt"]), to_ms(data["acceptedAt"])
        interval = record["everySeconds"] * 1000
        self._require(accepted >= target, seq, "accepted before its target")
        occurrence = target + (accepted - target) // interval * interval
        self.dispatched[record["id"], _to_text(occurrence)] += 1
        if occurrence + interval <= _LAST_MS:
            self.active[record["id"]] = {**record, "scheduledAt": _to_text(occurrence + interval)}


def _is_retained(message: dict[str, Any]) -> bool:
    """Whether it must not be lost: other programs leave the flag out of Schedule's messages."""
    return message["source"].get("plugin") == "schedule" or message["source"].get("retained") is True
