"""The durable inbox: what waits for an agent, folded from the log, and the events that change it.

Two lists: each message of `next-turn` opens a turn of its own; all of `next-step` enter with the next step,
whichever turn that is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from watchbell.errors import CorruptLogError
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, PluginSource
from watchbell.log.payloads import Splice
from watchbell.log.projection import (
    WORK,
    EnteredRow,
    Projection,
    SplicedRow,
    TurnEndRow,
    TurnStartRow,
    WorkRow,
)

Target = Literal["next-turn", "next-step"]


class Retention:
    """Tells retained messages from others (contract section 5).

    A message's own source says so. The messages of some plugins count as well: other programs write them
    without the flag.

    Args:
        plugins: Names of these plugins, as sources have them.
    """

    __slots__ = ("_plugins",)

    def __init__(self, *plugins: str) -> None:
        self._plugins = set(plugins)

    def add(self, plugin: str) -> None:
        """Count the messages of a plugin as retained from now on."""
        self._plugins.add(plugin)

    def holds(self, message: Message) -> bool:
        """Whether nothing may discard the message while it is pending."""
        if message.retained:
            return True
        origin = message.origin
        return isinstance(origin, PluginSource) and origin.plugin in self._plugins


class _Claim(msgspec.Struct, gc=False):
    """A message that a turn took from its list but that has not entered the conversation."""

    message: Message
    target: Target
    turn: int
    lost: bool = False


class Inbox(Projection[WorkRow]):
    """A projection of the pending messages of a session.

    Args:
        owned_from: Events before this seq are a parent's, whose pending messages a fork never inherits.
        retention: Tells which messages come back from whichever turn lost them.
    """

    reader = WORK

    def __init__(self, owned_from: int = 0, retention: Retention | None = None) -> None:
        super().__init__(owned_from)
        self._retention = retention or Retention()
        self._lists: dict[Target, list[Message]] = {"next-turn": [], "next-step": []}
        self._claims: dict[str, _Claim] = {}
        self._turn = 0

    @property
    def next_turn(self) -> tuple[Message, ...]:
        """Messages that each open a turn of their own, first one first."""
        return tuple(self._lists["next-turn"])

    @property
    def next_step(self) -> tuple[Message, ...]:
        """Messages that enter with the next step."""
        return tuple(self._lists["next-step"])

    def fold(self, rows: Sequence[WorkRow], log: EventLog) -> None:
        """Fold the next rows; `finish` has to follow before anything is asked.

        Raises:
            CorruptLogError: A splice does not fit the list that it changes.
        """
        claims = self._claims
        for row in rows:
            # `isinstance` takes several times as long for a struct's class.
            if type(row) is SplicedRow:
                self._splice(row)
            elif type(row) is EnteredRow:
                claims.pop(row.data.id, None)
            elif type(row) is TurnStartRow:
                self._turn = row.data.turn
            elif claims and type(row) is TurnEndRow:
                self._end_turn(is_loss=row.data.reason.is_loss)

    def finish(self, log: EventLog, stop: int) -> None:
        """Note that all events before `stop` were folded or passed over."""
        super().finish(log, stop)
        for messages in self._lists.values():
            messages[:] = [message.complete() for message in messages]
        for claim in self._claims.values():
            claim.message = claim.message.complete()

    def holds(self, message_id: str) -> bool:
        """Whether a message is pending."""
        return any(message.id == message_id for messages in self._lists.values() for message in messages)

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

    def returned(self, *, is_cut_off: bool = False) -> list[Draft]:
        """Return the events that put back what interrupted turns had claimed and not entered.

        Contract section 5: retained messages come back from whichever turn lost them, those of people only
        from the last turn.

        Args:
            is_cut_off: Whether the last turn is open yet and is about to be closed as interrupted.
        """
        lost: dict[Target, list[Message]] = {"next-turn": [], "next-step": []}
        for claim in self._claims.values():
            is_lost = claim.lost or is_cut_off
            if is_lost and (claim.turn == self._turn or self._retention.holds(claim.message)):
                lost[claim.target].append(claim.message)
        return [self.insert(messages, target, 0) for target, messages in lost.items() if messages]

    def _splice(self, row: SplicedRow) -> None:
        splice, claims = row.data, self._claims
        start, count = splice.start, splice.removed_count
        messages = self._lists[splice.target]
        if start + count > len(messages):
            raise CorruptLogError(
                f"event {row.seq} removes {count} messages at {start} of {len(messages)} in {splice.target}"
            )
        removed = messages[start : start + count]
        messages[start : start + count] = splice.inserted
        if claims:
            for message in splice.inserted:
                claims.pop(message.id, None)
        if removed and splice.outcome != "canceled":
            for message in removed:
                claims.setdefault(message.id, _Claim(message, splice.target, self._turn))

    def _end_turn(self, *, is_loss: bool) -> None:
        for message_id, claim in list(self._claims.items()):
            if is_loss:
                claim.lost = True
            elif not claim.lost:
                del self._claims[message_id]


def _removal(target: Target, start: int, count: int, *, canceled: bool) -> Draft:
    outcome = "canceled" if canceled else None
    splice = Splice(target=target, start=start, removed_count=count, inserted=(), outcome=outcome)
    return Draft("agent/inbox/spliced", splice)
