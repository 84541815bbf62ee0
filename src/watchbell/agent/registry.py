"""The live agents of a program: how they come to be, from new, stored or forked sessions, and end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from watchbell.agent._take_ups import TakeUps
from watchbell.agent.agent import Agent
from watchbell.agent.core import Core
from watchbell.agent.driver import Driver
from watchbell.agent.events import AgentCreated, AgentDisposed, AgentIdle
from watchbell.agent.inbox import Inbox, Retention
from watchbell.agent.opening import Begin, Prepare, place_damage, plan_opening
from watchbell.agent.runner import TurnRunner
from watchbell.agent.steps import Requests, StepAssembler
from watchbell.context import Context
from watchbell.errors import AgentClosedError, CorruptLogError, PersistenceError, SessionNotFoundError
from watchbell.listeners import Subscription, Subscriptions
from watchbell.log.transcript import TranscriptLength
from watchbell.models.base import Answerer, ChatModel
from watchbell.sessions.events import SessionHealed
from watchbell.sessions.session import Session

_logger = logging.getLogger("watchbell.agent")


class _Live(NamedTuple):
    agent: Agent
    core: Core


class AgentRegistry:
    """Service `ctx.agents`.

    Every agent is announced with the bus event `AgentCreated`, handled to its end before the agent's driver
    may begin a turn, and with `AgentDisposed` once it has ended.

    Args:
        ctx: The program's context, with `sessions` and `tools`.
        model: Answers for agents that are not given one of their own: a model, in our own loop, or a
            `TurnRunner`, which brings another loop.
        system: System prompt of agents that are not given one.
        max_steps: Steps after which a turn is stopped.
        new_id: Makes message ids; random ones by default.
    """

    def __init__(
        self,
        ctx: Context,
        *,
        model: ChatModel | TurnRunner,
        system: str | None = None,
        max_steps: int = 64,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._ctx = ctx
        self._model = model
        self._system = system
        self._max_steps = max_steps
        self._new_id = new_id
        self._live: dict[str, _Live] = {}
        self._opening: dict[str, asyncio.Event] = {}
        self._retention = Retention()
        self._parts: Subscriptions = {}
        # Once for all: with thousands of agents each would hear of every other one's session.
        ctx.on(SessionHealed, self._on_healed)

    @property
    def live(self) -> tuple[Agent, ...]:
        """The agents that live now, oldest first."""
        return tuple(live.agent for live in self._live.values())

    def get(self, session_id: str) -> Agent | None:
        """Return the live agent of a session, None when there is none."""
        live = self._live.get(session_id)
        return None if live is None else live.agent

    def retain(self, plugin: str) -> None:
        """Count the messages of a plugin as retained, whether or not their source says so."""
        self._retention.add(plugin)

    def hold_idle(self, agent: Agent, owes: Callable[[], bool]) -> None:
        """Keep `when_idle` of an agent from returning while `owes()` says that something is owed.

        The idle agent can still be claimed meanwhile. `recheck_idle` has to follow whenever that changes.
        """
        self._live[agent.id].core.owes = owes

    def recheck_idle(self, agent: Agent) -> None:
        """Have those who wait for an agent to be idle look again whether it is."""
        live = self._live.get(agent.id)
        if live is not None:
            live.core.wake_waiters()

    def equip(self, prepare: Prepare) -> Subscription:
        """Have something live in every agent that is opened from now on.

        Returns:
            A function that ends this, for agents that are opened later.
        """
        return Subscription(self._parts, prepare)

    async def create(
        self,
        session_id: str | None = None,
        *,
        cwd: str | None = None,
        model: ChatModel | TurnRunner | None = None,
        system: str | None = None,
    ) -> Agent:
        """Begin a new session and its agent; nothing is stored before its first event.

        Raises:
            SessionExistsError: The id is taken.
            SettingsError: The id is empty or `cwd` is not absolute.
        """
        session = await self._ctx.sessions.create(session_id, cwd=cwd)
        return await self._open(session, self._ctx, model, system)

    async def resume(
        self, session_id: str, *, model: ChatModel | TurnRunner | None = None, system: str | None = None
    ) -> Agent:
        """Open a stored session for work: repair what a crash left, then go on with what is pending.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionLockedError: It is open elsewhere.
            CorruptLogError, UnsupportedLogError: Its log cannot be used; it is as it was.
        """
        session = await self._ctx.sessions.resume(session_id)
        return await self._open(session, self._ctx, model, system)

    async def open(
        self,
        session_id: str,
        *,
        cwd: str | None = None,
        model: ChatModel | TurnRunner | None = None,
        system: str | None = None,
    ) -> Agent:
        """Return the live agent of a session, else resume the session when it exists, else create it.

        Who asks at the same time gets the same agent. One that lives keeps the model and the system prompt
        that it has.
        """
        while (opening := self._opening.get(session_id)) is not None:
            await opening.wait()
        agent = self.get(session_id)
        if agent is not None and agent.phase != "closed":
            return agent
        opening = self._opening[session_id] = asyncio.Event()
        try:
            with contextlib.suppress(SessionNotFoundError):
                return await self.resume(session_id, model=model, system=system)
            return await self.create(session_id, cwd=cwd, model=model, system=system)
        finally:
            del self._opening[session_id]
            opening.set()

    async def fork(
        self,
        parent: Agent | str,
        session_id: str | None = None,
        *,
        at: int | None = None,
        model: ChatModel | TurnRunner | None = None,
        system: str | None = None,
    ) -> Agent:
        """Begin a session with the first `at` events of another one (all when None).

        The fork has its parent's conversation, but none of its reminders and pending messages.

        Raises:
            ValueError: `at` is not within the parent's log.
        """
        source = parent.session if isinstance(parent, Agent) else parent
        session = await self._ctx.sessions.fork(source, session_id, at=at)
        return await self._open(session, self._ctx, model, system)

    async def create_child(
        self,
        parent: Agent,
        session_id: str | None = None,
        *,
        model: ChatModel | TurnRunner | None = None,
        system: str | None = None,
    ) -> Agent:
        """Begin a child agent with a session of its own; it ends with its parent.

        Raises:
            AgentClosedError: The parent was disposed.
        """
        header = parent.session.header
        session = await self._ctx.sessions.create(
            session_id,
            cwd=header.cwd,
            parent_session=parent.id,
            origin="subagent",
            delegation_depth=header.delegation_depth + 1,
        )
        if parent.phase == "closed":
            await self._ctx.sessions.close(session)
            raise AgentClosedError(f"agent {parent.id!r} was disposed; it can have no more children")
        return await self._open(session, parent.ctx, model or self._live[parent.id].core.model, system)

    async def aclose(self) -> None:
        """Dispose of all agents, newest first.

        Raises:
            PersistenceError: Last events of some could not be stored; all were disposed of all the same.
        """
        failures: list[PersistenceError] = []
        for agent in reversed(self.live):
            try:
                await agent.aclose()
            except PersistenceError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _open(
        self, session: Session, scope: Context, model: Answerer | None, system: str | None
    ) -> Agent:
        """Make the agent of an opened session; what was made of it is undone when that fails."""
        ctx = scope.child()
        ctx.defer_async(lambda: self._end(session))
        try:
            return await self._make(session, ctx, model, system)
        except CorruptLogError as error:
            await ctx.aclose()
            raise await place_damage(self._ctx.sessions, session.id, error) from error
        except BaseException:
            await ctx.aclose()
            raise

    async def _make(
        self, session: Session, ctx: Context, model: Answerer | None, system: str | None
    ) -> Agent:
        """Fold what the agent needs, repair the log, and announce the agent without a pause after that."""
        owned_from, requests = session.header.owned_from, Requests()
        inbox, take_ups = Inbox(owned_from, self._retention), TakeUps(owned_from, self._retention)
        await session.fold(inbox, take_ups, requests, TranscriptLength())
        begins = [await each.listener(session) for each in tuple(self._parts)]
        session.append_batch(plan_opening(session, inbox))
        core = Core(
            session,
            ctx,
            ctx.tools.child(),
            model=model or self._model,
            system=self._system if system is None else system,
            max_steps=self._max_steps,
            new_id=self._new_id,
            retention=self._retention,
            _inbox=inbox,
            _take_ups=take_ups,
        )
        agent = Agent(core)
        Driver(agent, core, StepAssembler(agent, core, requests))
        core.on_idle = partial(self._ctx.emit, AgentIdle(agent))
        self._live[session.id] = _Live(agent, core)
        for begin in begins:
            _begin(begin, agent, core.inbox)
        self._ctx.emit(AgentCreated(agent))
        core.open()
        return agent

    def _on_healed(self, event: SessionHealed) -> None:
        live = self._live.get(event.session.id)
        if live is not None and live.core.session is event.session:
            live.core.storage_healed()

    async def _end(self, session: Session) -> None:
        """Close the session of an agent that ended, or never began; all else of its scope was undone."""
        live = self._live.get(session.id)
        if live is not None:
            await live.core.aclose()
            del self._live[session.id]
        try:
            await self._ctx.sessions.close(session)
        finally:
            if live is not None:
                self._ctx.emit(AgentDisposed(live.agent))


def _begin(begin: Begin | None, agent: Agent, inbox: Inbox) -> None:
    if begin is not None:
        try:
            begin(agent, inbox)
        except Exception:
            _logger.exception("session %s: a part of its agent could not begin", agent.id)
