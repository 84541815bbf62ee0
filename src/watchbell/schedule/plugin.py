"""Schedule as a plugin: gives every future root agent its reminders (contract section 7)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from watchbell.agent.events import AgentDisposed, AgentIdle
from watchbell.errors import CorruptLogError, ScheduleLogError, ToolConflictError
from watchbell.reminders.framing import PLUGIN_NAME
from watchbell.reminders.records import draft_change
from watchbell.reminders.recovery import MissingDispatches
from watchbell.reminders.rules import Limits, ZoneLookup
from watchbell.reminders.state import ScheduleState
from watchbell.schedule.owner import Owner
from watchbell.schedule.tools import catalog_tools, schedule_tools
from watchbell.schedule.transactions import Transactions
from watchbell.sessions.session import SLICE_EVENTS
from watchbell.zones import ZoneTable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from watchbell.agent.agent import Agent
    from watchbell.agent.inbox import Inbox
    from watchbell.agent.opening import Begin
    from watchbell.clock import Clock
    from watchbell.context import Context
    from watchbell.listeners import Subscription
    from watchbell.reminders.records import Dispatch
    from watchbell.sessions.session import Session

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

        async def prepare(session: Session) -> Begin | None:
            if session.header.delegation_depth > 0:
                return None
            history = History(session)
            await history.prepare()
            return partial(attach, history)

        def attach(history: History, agent: Agent, inbox: Inbox) -> None:
            if stop.is_over:
                return
            missing = history.missing(inbox)
            try:
                attached[agent] = Attachment(agent, history.state, missing, self._limits, self._zones)
            except ToolConflictError as error:
                _logger.error(
                    "session %s has no reminders, and those that it had are not delivered: %s, or load "
                    "Schedule only once; then open the session again",
                    agent.id,
                    error,
                )

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


class History:
    """What a session's log says of its reminders when its agent comes to be.

    Attributes:
        state: The fold of the log.
    """

    def __init__(self, session: Session) -> None:
        self.state = ScheduleState(session.header.owned_from)
        self._session = session
        self._missing = MissingDispatches(self.state, session.header.owned_from)

    async def prepare(self) -> None:
        """Read what is there, in slices; what follows is read in `missing`."""
        log = self._session.events
        try:
            for number, stop in enumerate(log.slices(0, SLICE_EVENTS)):
                if number:
                    await asyncio.sleep(0)
                self.state.advance(log, stop)
                self._missing.survey(log, stop)
            for start, stop in self._missing.take_spots():
                await asyncio.sleep(0)
                self._missing.look(log, start, stop)
        except ScheduleLogError:
            pass  # it comes again whenever the state is asked
        except CorruptLogError:
            # A message that cannot be read keeps the reminders away, but not the session: `missing` meets it.
            self._missing = MissingDispatches(self.state, self._session.header.owned_from)

    def missing(self, inbox: Inbox) -> list[Dispatch]:
        """Return the dispatches that a crash tore off their messages; none of an invalid history."""
        try:
            self.state.advance(self._session.events)
        except ScheduleLogError:
            return []  # the tools say so; the owner stays silent
        pending = (*inbox.next_turn, *inbox.next_step)
        return self._missing.advance(self._session.events).derive(pending)


class Attachment:
    """Schedule in one agent: its transactions, tools and owner, together from its beginning on."""

    def __init__(
        self,
        agent: Agent,
        state: ScheduleState,
        missing: Sequence[Dispatch],
        limits: Limits,
        zones: ZoneLookup,
    ) -> None:
        clock: Clock = agent.ctx.clock
        self._transactions = Transactions(agent.session, agent.ctx.sessions, clock, limits, state)
        # Before the driver may begin a turn.
        agent.session.append_batch([draft_change(change) for change in missing])
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
