"""What recovery appends to a session before it is published (contract section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.log.event import Draft
from watchbell.log.payloads import EndSeed
from watchbell.log.turns import close_open_turn

if TYPE_CHECKING:
    from watchbell.agent.inbox import Inbox
    from watchbell.sessions.session import Session

__all__ = ["plan_opening"]


def plan_opening(session: Session, inbox: Inbox) -> list[Draft]:
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
    returned = inbox.advance(session.events).returned(is_cut_off=bool(closers))
    if not closers and not returned:
        return []
    end_seed = [Draft("session/end-seed", EndSeed())] if session.end_seed_due else []
    return [*closers, *end_seed, *returned]
