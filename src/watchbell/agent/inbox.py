"""The durable inbox: what waits for an agent, folded from the log, and the events that change it.

Two lists: each message of `next-turn` opens a turn of its own; all of `next-step` enter with the next step,
whichever turn that is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.events import Draft, Message, Splice
from watchbell.log.repair import INTERRUPTED
from watchbell.log.transcript import MALFORMED, malformed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from watchbell.log.eventlog import EventLog
    from watchbell.log.events import Event

__all__ = ["Inbox", "Target"]

Target = Literal["next-turn", "next-step"]
_TYPES = frozenset({"agent/inbox/spliced", "user/message", "turn/start", "turn/end"})


class _Claim(msgspec.Struct):
    """A message that a turn took from its list but that has not entered the conversation."""

    message: Message
    target: Target
    turn: int
    lost: bool = False


class Inbox:
    """A projection of the pending messages of a session, from `owned_from` on.

    A fork never inherits its parent's pending messages, hence `owned_from`.
    """

    def __init__(self, owned_from: int = 0) -> None:
        self._lists: dict[Target, list[Message]] = {"next-turn": [], "next-step": []}
        self._claims: dict[str, _Claim] = {}
        self._turn = 0
        self._watermark = owned_from

    @property
    def next_turn(self) -> tuple[Message, ...]:
        """Messages that each open a turn of their own, first one first."""
        return tuple(self._lists["next-turn"])

    @property
    def next_step(self) -> tuple[Message, ...]:
        """Messages that enter with the next step."""
        return tuple(self._lists["next-step"])

    def advance(self, log: EventLog) -> Inbox:
        """Fold the events that came since the last call, and return itself.

        Raises:
            CorruptLogError: A splice does not fit the list that it changes, or an event is malformed.
        """
        for event in log.select(_TYPES, self._watermark):
            self._watermark = event.seq + 1
            try:
                self._apply(event)
            except MALFORMED as error:
                raise malformed(event) from error
        self._watermark = len(log)
        return self

    def find(self, message_id: str) -> tuple[Target, int] | None:
        """Return the list and position of a pending message, None when it is not pending."""
        for target, messages in self._lists.items():
            for position, message in enumerate(messages):
                if message.id == message_id:
                    return target, position
        return None

    def insert(self, messages: Sequence[Message], target: Target, start: int | None = None) -> Draft:
        """Return the event that inserts messages, at the end when `start` is None."""
        at = len(self._lists[target]) if start is None else start
        return Draft("agent/inbox/spliced", Splice(target=target, start=at, inserted=tuple(messages)))

    def remove(self, message_ids: Iterable[str], *, canceled: bool = False) -> list[Draft]:
        """Return the events that take pending messages out, to claim them or to discard them.

        Neighbours go in one splice. Positions count as the lists stand while the events are applied in order.
        """
        wanted = set(message_ids)
        drafts: list[Draft] = []
        for target, messages in self._lists.items():
            kept = 0
            run = 0
            for message in [*messages, None]:
                if message is not None and message.id in wanted:
                    run += 1
                    continue
                if run:
                    drafts.append(_removal(target, kept, run, canceled=canceled))
                    run = 0
                kept += 1
        return drafts

    def returned(self) -> list[Draft]:
        """Return the events that put back what interrupted turns had claimed and not entered.

        Contract section 5: retained messages come back from whichever turn lost them, those of people only
        from the last turn.
        """
        lost: dict[Target, list[Message]] = {"next-turn": [], "next-step": []}
        for claim in self._claims.values():
            if claim.lost and (claim.message.retained or claim.turn == self._turn):
                lost[claim.target].append(claim.message)
        return [self.insert(messages, target, 0) for target, messages in lost.items() if messages]

    def _apply(self, event: Event) -> None:
        data = event.data
        match event.type:
            case "turn/start":
                self._turn = data["turn"]
            case "turn/end":
                self._end_turn(data["reason"])
            case "user/message":
                self._claims.pop(data["id"], None)
            case _:
                self._splice(event.seq, data)

    def _splice(self, seq: int, data: dict[str, Any]) -> None:
        target: Target = data["target"]
        start, count = data["start"], data.get("removedCount", 0)
        messages = self._lists[target]
        if start + count > len(messages):
            raise CorruptLogError(
                f"event {seq} removes {count} messages at {start} of {len(messages)} in {target}"
            )
        inserted = [Message.from_value(value) for value in data["inserted"]]
        removed = messages[start : start + count]
        messages[start : start + count] = inserted
        for message in inserted:
            self._claims.pop(message.id, None)
        if data.get("outcome") != "canceled":
            for message in removed:
                self._claims.setdefault(message.id, _Claim(message, target, self._turn))

    def _end_turn(self, reason: dict[str, Any]) -> None:
        lost = reason == INTERRUPTED or (
            reason["kind"] == "aborted" and reason.get("reason", {}).get("kind") == "disposed"
        )
        for message_id, claim in list(self._claims.items()):
            if claim.lost:
                continue
            if lost:
                claim.lost = True
            else:
                del self._claims[message_id]


def _removal(target: Target, start: int, count: int, *, canceled: bool) -> Draft:
    outcome: Any = "canceled" if canceled else msgspec.UNSET
    return Draft(
        "agent/inbox/spliced",
        Splice(target=target, start=start, removed_count=count, inserted=(), outcome=outcome),
    )
