"""Opening a session for work: what recovery appends before it is published (contract section 5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from watchbell.agent.inbox import Inbox
from watchbell.agent.takeups import TakeUps
from watchbell.log.events import Draft, EndSeed
from watchbell.log.projection import WORK_TYPES, read_rows, work_decoder
from watchbell.log.repair import close_open_turn
from watchbell.log.transcript import TranscriptLength

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchbell.log.eventlog import EventLog
    from watchbell.log.session import Session

__all__ = ["Opening", "fold_in_slices", "plan_opening"]

SLICE_EVENTS = 2_000
"""About how many events are folded before others get their turn: a millisecond or two."""


async def fold_in_slices(log: EventLog, *advances: Callable[[EventLog, int], object], start: int = 0) -> None:
    """Bring projections up to the end of a log, with pauses in which other agents go on.

    A log of less than a slice is folded without a pause.

    Args:
        log: The log; what it gains meanwhile is left to the next fold.
        advances: Each folds as far as the seq that it gets.
        start: How far they are already.
    """
    for number, stop in enumerate(log.slices(start, SLICE_EVENTS)):
        if number:
            await asyncio.sleep(0)
        for advance in advances:
            advance(log, stop)


class Opening:
    """A session on its way to its agent, with the projections that both the opening and the agent need.

    Attributes:
        session: The session.
        inbox: Its pending messages.
        take_ups: Its turns that have to be run again.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.inbox = Inbox(session.header.owned_from)
        self.take_ups = TakeUps(session.header.owned_from)
        self._folded = session.header.owned_from

    async def prepare(self) -> None:
        """Fold what the session has.

        Raises:
            CorruptLogError: An event that this depends on, or that the conversation does, cannot be read.
        """
        await fold_in_slices(self.session.events, self._fold_work, TranscriptLength().advance)
        self.inbox.finish(self._folded)
        self.take_ups.finish(self._folded)

    def _fold_work(self, log: EventLog, stop: int) -> None:
        # They share many rows, which so are decoded once.
        for rows in read_rows(log, WORK_TYPES, work_decoder, self._folded, stop):
            self.inbox.fold(rows)
            self.take_ups.fold(rows, log)
        self._folded = max(self._folded, stop)


def plan_opening(session: Session, inbox: Inbox | None = None) -> list[Draft]:
    """Return the one batch that makes a session ready for work; empty when it is ready as it is.

    In order: the closers of an interrupted turn, `session/end-seed` when due, then the messages that
    interrupted turns had claimed but never entered, back at the head of their lists.

    Args:
        session: The session.
        inbox: Its inbox, as far as it is folded already.

    Raises:
        CorruptLogError: An event that this depends on cannot be read.
    """
    closers = close_open_turn(session.events)
    inbox = Inbox(session.header.owned_from) if inbox is None else inbox.copy()
    returned = inbox.advance(_with(session.events, closers) if closers else session.events).returned()
    if not closers and not returned:
        return []
    end_seed = [Draft("session/end-seed", EndSeed())] if session.end_seed_due else []
    return [*closers, *end_seed, *returned]


def _with(log: EventLog, drafts: list[Draft]) -> EventLog:
    """Return a copy of a log as it will be with these events."""
    copy = log.prefix(len(log))
    copy.extend(draft.at(len(log) + i, 0) for i, draft in enumerate(drafts))
    return copy
