"""The header of a session log: what stands before its events (log-format, "Header")."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

FORMAT_VERSION = 0
"""Version of the log format that is read and written."""


class SessionHeader(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """What stands in a log before its events; fixed for the life of the session.

    Attributes:
        id: Non-empty, unique in its home.
        created_at: Epoch milliseconds.
        cwd: Absolute path of the project that the session belongs to, None for none.
        parent_session: The session that this one was forked from.
        seed_length: How many of its first events were the parent's.
        origin: `subagent` for the session of a child agent.
        delegation_depth: 0 for a root session, parent's + 1 for a child agent's.
        agent_preset: Carried for other programs.
    """

    id: str
    created_at: int
    cwd: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None
    origin: Literal["subagent"] | None = None
    delegation_depth: int
    agent_preset: Any = None

    @property
    def owned_from(self) -> int:
        """Seq of the first event that is the session's own rather than its parent's."""
        return self.seed_length or 0
