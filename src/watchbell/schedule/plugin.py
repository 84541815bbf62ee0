"""Schedule as a plugin: gives every future root agent its reminders (contract section 7)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from watchbell.agent.agent import Agent
from watchbell.agent.events import AgentDisposed, AgentIdle
from watchbell.agent.inbox import Inbox
from watchbell.agent.opening import Begin
from watchbell.clock import Clock
from watchbell.context import Context
from watchbell.errors import CorruptLogError, ScheduleLogError, ToolConflictError
from watchbell.listeners import Subscription
from watchbell.log.eventlog import EventLog
from watchbell.reminders.arguments import Limits
from watchbell.reminders.deliveries import MissingDispatches
from watchbell.reminders.framing import PLUGIN_NAME
from watchbell.reminders.records import Dispatch, draft_change
from watchbell.reminders.state import ScheduleState
from watchbell.reminders.times import ZoneLookup
from watchbell.schedule.owner import Owner
from watchbell.schedule.tools import catalog_tools, schedule_tools
from watchbell.schedule.transactions import Transactions
from watchbell.sessions.session import Session
from watchbell.zones import ZoneTable

_logger = logging.getLogger("watchbell.schedule")
_NO_REMINDERS = (
    "session %s has no reminders, and those that it had are not delivered: %s, or load Schedule only once; "
    "then open the session again"
)


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

        async def prepare(session: Session) -> Begin | None:
            if session.header.delegation_depth > 0:
                return None
            owned_from = session.header.owned_from
            state, missing = ScheduleState(owned_from), MissingDispatches(owned_from)
            # What cannot be read keeps the reminders away, and not the session: `attach` meets it again.
            with suppress(ScheduleLogError, CorruptLogError):
                await session.fold(state)
                if len(state):  # else nothing can lack its dispatch
                    await session.fold(missing)
            return partial(attach, state, missing)

        def attach(state: ScheduleState, missing: MissingDispatches, agent: Agent, inbox: Inbox) -> None:
            if stop.is_over:
                return
            dispatches = _complete(agent.session.events, state, missing, inbox)
            try:
                attached[agent] = Attachment(agent, state, dispatches, self._limits, self._zones)
            except ToolConflictError as error:
                _logger.error(_NO_REMINDERS, agent.id, error)

        def on_idle(event: AgentIdle) -> None:
            if event.agent in attached:
                attached[event.agent].owner.on_idle()

        catalog_tools()  # their schemas take ten milliseconds, which no resume shall spend
        ctx.agents.retain(PLUGIN_NAME)
        stop: Subscription = ctx.agents.equip(prepare)
        stop_hearing = ctx.on(AgentIdle, on_idle)
        forget = ctx.on(AgentDisposed, lambda event: attached.pop(event.agent, None))
        try:
            yield
        finally:
            stop()
            stop_hearing()
            for attachment in tuple(attached.values()):
                await attachment.aclose()
            forget()


def _complete(
    log: EventLog, state: ScheduleState, missing: MissingDispatches, inbox: Inbox
) -> list[Dispatch]:
    """Return the dispatches that a crash tore off their messages.

    Raises:
        CorruptLogError: A message cannot be read.
    """
    try:
        state.advance(log)
    except ScheduleLogError:
        return []  # the tools say so; the owner stays silent
    if not len(state):
        return []
    return missing.advance(log).derive(state, (*inbox.next_turn, *inbox.next_step))


class Attachment:
    """Schedule in one agent: its transactions, tools and owner, together from its beginning on."""

    def __init__(
        self,
        agent: Agent,
        state: ScheduleState,
        dispatches: Sequence[Dispatch],
        limits: Limits,
        zones: ZoneLookup,
    ) -> None:
        clock: Clock = agent.ctx.clock
        self._transactions = Transactions(agent.session, agent.ctx.sessions, clock, limits, state)
        # Before the driver may begin a turn.
        agent.session.append_batch([draft_change(change) for change in dispatches])
        tools = schedule_tools(self._transactions, zones, limits, agent=agent)
        self._withdraw = agent.tools.register_all(tools, agent.ctx)
        self.owner = Owner(agent, self._transactions, clock)
        agent.ctx.defer_async(self.aclose)
        self.owner.request()

    async def aclose(self) -> None:
        """Take the tools away, start nothing new and wait for what is in flight; again, it does nothing."""
        self._withdraw()
        await self.owner.aclose()
        await self._transactions.aclose()
