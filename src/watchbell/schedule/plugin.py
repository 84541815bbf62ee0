"""Schedule as a plugin: gives every future root agent its reminders (contract section 7)."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from watchbell.errors import ScheduleLogError, ToolConflictError
from watchbell.schedule.owner import Owner
from watchbell.schedule.protocol import draft_change
from watchbell.schedule.recovery import derive_missing_dispatches
from watchbell.schedule.rules import Limits, ZoneLookup
from watchbell.schedule.tools import schedule_tools
from watchbell.schedule.transactions import Transactions
from watchbell.zones import ZoneTable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from watchbell.agent.agent import Agent
    from watchbell.context import Context

__all__ = ["SchedulePlugin", "plugin"]

_logger = logging.getLogger("watchbell.schedule")


def plugin(*, limits: Limits | None = None, zones: ZoneLookup | None = None) -> SchedulePlugin:
    """Return the Schedule plugin.

    Args:
        limits: Caps on creation; 16 KiB a prompt and 1,000 active reminders a session by default.
        zones: Where time zones are looked up; the tzdata wheel by default.
    """
    return SchedulePlugin(limits or Limits(), zones or ZoneTable())


class SchedulePlugin:
    """Installs tools, recovery and an owner into each root agent that is created while it is loaded."""

    name = "schedule"
    requires = ("sessions", "agents", "tools", "session_persistence")

    def __init__(self, limits: Limits, zones: ZoneLookup) -> None:
        self._limits = limits
        self._zones = zones

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncGenerator[None]:
        """Attach Schedule to the agents that `ctx` announces from now on, until this is left."""
        attached: dict[Agent, Attachment] = {}

        def attach(agent: Agent) -> None:
            if not agent.is_root:
                return
            try:
                attached[agent] = Attachment(agent, self._limits, self._zones)
            except ToolConflictError as error:
                _logger.error(
                    "session %s has no reminders, and those that it had are not delivered: %s, or load "
                    "Schedule only once; then open the session again",
                    agent.id,
                    error,
                )

        def detach(agent: Agent) -> None:
            attached.pop(agent, None)

        stop = ctx.on("agent/created", attach)
        forget = ctx.on("agent/disposed", detach)
        try:
            yield
        finally:
            stop()
            for attachment in tuple(attached.values()):
                await attachment.aclose()
            forget()


class Attachment:
    """Schedule in one agent: its transactions, tools and owner, together from `agent/created` on."""

    def __init__(self, agent: Agent, limits: Limits, zones: ZoneLookup) -> None:
        clock = agent.ctx.clock
        self._transactions = Transactions(agent.session, agent.sessions, clock, limits)
        _append_missing_dispatches(agent, self._transactions)
        tools = schedule_tools(self._transactions, zones, limits, agent=agent)
        self._withdraw = agent.tools.register_all(tools, agent.ctx)
        self._owner = Owner(agent, self._transactions, clock)
        agent.ctx.defer_async(self.aclose)
        self._owner.request()

    async def aclose(self) -> None:
        """Take the tools away, start nothing new and wait for what is in flight; again, it does nothing."""
        self._withdraw()
        await self._owner.aclose()
        await self._transactions.aclose()


def _append_missing_dispatches(agent: Agent, transactions: Transactions) -> None:
    """Complete the deliveries that a crash tore apart, before the driver may begin a turn."""
    session, state = agent.session, transactions.state
    try:
        state.advance(session.events)
    except ScheduleLogError:
        return  # the tools say so; the owner stays silent
    inbox = agent.inbox
    pending = (*inbox.next_turn, *inbox.next_step)
    missing = derive_missing_dispatches(state, session.events, pending, session.header.owned_from)
    session.append_batch([draft_change(change) for change in missing])
