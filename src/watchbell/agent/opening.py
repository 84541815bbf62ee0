"""Opening a session for work: what is prepared, and what is appended before it is published (contract 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from watchbell.agent.agent import Agent
from watchbell.agent.inbox import Inbox
from watchbell.errors import CorruptLogError, LogError, PersistenceError, SessionError
from watchbell.log.event import Draft
from watchbell.log.payloads import EndSeed
from watchbell.log.turns import close_open_turn
from watchbell.sessions.live import Sessions
from watchbell.sessions.session import Session

Begin = Callable[[Agent, Inbox], None]
"""Begins a part of an agent that has just come to be, before a turn may begin; called with its inbox."""

Prepare = Callable[[Session], Awaitable[Begin | None]]
"""Awaited for each session that is opened for work, before anything is appended to it.

Here a part of the agent folds what it needs of the log, with `await session.fold(...)`, and returns how it
begins; None when the agent is to have no such part.
"""


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


async def place_damage(sessions: Sessions, session_id: str, error: CorruptLogError) -> CorruptLogError:
    """Return the error for damage that showed in the events of an opened log, with the log's place in it."""
    try:
        path = (await sessions.read(session_id)).location
    except (LogError, PersistenceError, SessionError):
        path = ""
    return CorruptLogError(error.reason, path=path or f"the log of session {session_id!r}")
