"""Opening a session for work: what recovery appends before it is published (contract section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.agent.inbox import Inbox
from watchbell.agent.take_ups import TakeUps
from watchbell.log.event import Draft
from watchbell.log.payloads import EndSeed
from watchbell.log.transcript import TranscriptLength
from watchbell.log.turns import close_open_turn

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog
    from watchbell.sessions.session import Session

__all__ = ["Opening", "plan_opening"]


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

    async def prepare(self) -> None:
        """Fold what the session has.

        Raises:
            CorruptLogError: An event that this depends on, or that the conversation does, cannot be read.
        """
        await self.session.fold(self.inbox, self.take_ups, TranscriptLength())


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
