"""Opening a session for work: what recovery appends before anything is published (contract section 5). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.agent.inbox import Inbox
from watchbell.log.events import Draft, EndSeed
from watchbell.log.repair import close_open_turn

if TYPE_CHECKING:
    from watchbell.log.eventlog import EventLog
    from watchbell.log.session import Session

__all__ = ["plan_opening"]


def plan_opening(session: Session) -> list[Draft]:
    """Return the one batch that makes a session ready for work; empty when it is ready as it is.

    In order: the closers of an interrupted turn, `session/end-seed` when due, then the messages that
    interrupted turns had claimed but never entered, back at the head of their lists.
    """
    closers = close_open_turn(session.events)
    log = _with(session.events, closers) if closers else session.events
    returned = Inbox(session.header.owned_from).advance(log).returned()
    if not closers and not returned:
        return []
    end_seed = [Draft("session/end-seed", EndSeed())] if session.end_seed_due else []
    return [*closers, *end_seed, *returned]


def _with(log: EventLog, drafts: list[Draft]) -> EventLog:
    """Return a copy of a log as it will be with these events."""
    copy = log.prefix(len(log))
    copy.extend(draft.at(len(log) + i, 0) for i, draft in enumerate(drafts))
    return copy
