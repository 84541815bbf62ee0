"""What the adversary saw and did: all that the oracle knows besides the final logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Create", "Moment", "Record", "Request", "Row", "is_reminder"]

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


@dataclass(slots=True)
class Create:
    """A call of `schedule_create`; its prompt is its own.

    Attributes:
        session: Where it was made.
        prompt: What the reminder says.
        answer: The value, None while nothing came back.
        aborted: Whether it was answered as cancelled.
    """

    session: str
    prompt: str
    answer: dict[str, Any] | None = None
    aborted: bool = False


@dataclass(slots=True)
class Request:
    """A request that the model got: when, and the ids of the user messages in it."""

    at: float
    message_ids: frozenset[str]


@dataclass
class Record:
    """Everything that was seen and done in a run.

    Attributes:
        now: Reads true time (seconds) and the wall clock (epoch milliseconds).
        rows: The log of each session as far as it has come, durable or not.
        durable: How many rows of each are known to be durable.
        moments: What happened, in order.
        creates: Calls of `schedule_create`, by prompt.
        deleted: Session and id of each delete that was confirmed.
        listed: Session and ids of each list that was answered.
        cancels: Session and instant of each cancel by a person.
        requests: What the model was asked, by session.
        clock_rate: How fast the wall clock goes against true time.
        faults: What was wrong already when it happened, as kind, session and text.
        quiet_ids: Messages injected silently: they open no turn until their session is opened again.
        stopped_at: When the last process was told to end. What comes due while it ends is left.
        counts: Of anything worth counting.
    """

    now: Callable[[], tuple[float, int]]
    rows: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    durable: Counter[str] = field(default_factory=Counter[str])
    moments: list[Moment] = field(default_factory=list[Moment])
    creates: dict[str, Create] = field(default_factory=dict[str, Create])
    deleted: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    listed: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])
    cancels: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    requests: dict[str, list[Request]] = field(default_factory=dict[str, list[Request]])
    faults: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
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

    def opened(self, session: str, owned_from: int, loaded: list[Row]) -> None:
        """Take note of a log that becomes live: a prefix of what was appended, and all that was durable."""
        known = self.rows.setdefault(session, [])
        seen = known[: len(loaded)]
        if seen and [(row.type, row.time, row.data) for row in seen] != [
            (row.type, row.time, row.data) for row in loaded[: len(seen)]
        ]:
            self.faults.append(("invalid", session, "the log that was opened is not what was appended"))
        if len(loaded) < self.durable[session]:
            text = f"{self.durable[session]} rows were confirmed as durable, {len(loaded)} are there"
            self.faults.append(("unconfirmed", session, text))
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
            self.faults.append(("invalid", session, text))

    def wrote(self, session: str, length: int) -> None:
        """Take note that the first `length` rows are on disk."""
        self.durable[session] = max(self.durable[session], length)

    def asked(self, session: str, message_ids: frozenset[str]) -> None:
        """Take note of a request to the model; what it is asked about must be durable."""
        self.requests.setdefault(session, []).append(Request(self.now()[0], message_ids))
        for message_id in sorted(message_ids):
            seq = self._entered.get((session, message_id))
            if seq is not None and seq >= self.durable[session]:
                text = f"the model saw message {message_id} before it was on disk"
                self.faults.append(("unconfirmed", session, text))

    def _require_confirmed_changes(self, session: str, rows: list[Row]) -> None:
        """Nothing is decided on changes that the storage has not confirmed."""
        if not any(is_reminder(row) for row in rows):
            return
        log, durable = self.rows[session], self.durable[session]
        if any(row.type == "schedule/change" for row in log[durable : len(log) - len(rows)]):
            self.faults.append(
                ("unconfirmed", session, "an occurrence was decided on changes that are not on disk")
            )


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
