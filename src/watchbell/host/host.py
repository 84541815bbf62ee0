"""A host: one process's agents over one store, composed in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self
from uuid import uuid4

from watchbell.agent.registry import AgentRegistry
from watchbell.agent.runner import TurnRunner
from watchbell.clock import Clock, SystemClock
from watchbell.context import Context, Plugin
from watchbell.models.base import ChatModel
from watchbell.sessions.live import Sessions
from watchbell.storage.base import SessionPersistence
from watchbell.tools.definition import Tool
from watchbell.tools.registry import ToolRegistry


class Host:
    """Everything that agents need, for as long as the `async with` block runs.

    ```python
    storage = JsonlStorage("~/.watchbell")
    async with Host(storage=storage, model=OfflineModel(), plugins=[schedule.plugin()]) as host:
        agent = await host.agents.create("standup")
        answer = await agent.ask("Remind me in 20 minutes to stretch.")
    ```

    Leaving the block disposes of every agent (a running turn is aborted and, if a reminder opened it, taken
    up again by the next resume), stores what is left and releases the store.

    Args:
        storage: Where the session logs are kept.
        model: Answers for every agent that is not given one of its own: a model, in our own loop, or a
            `TurnRunner`, which brings another loop.
        plugins: Installed in order, before the first agent.
        tools: Tools that every agent gets.
        system: System prompt of every agent that is not given one.
        max_steps: Steps after which a turn is stopped with error `STEP_LIMIT`.
        clock: Wall time; the system's by default.
        new_id: Makes the ids of sessions and messages that are not given one; random ones by default.
    """

    def __init__(
        self,
        *,
        storage: SessionPersistence,
        model: ChatModel | TurnRunner,
        plugins: Sequence[Plugin] = (),
        tools: Sequence[Tool] = (),
        system: str | None = None,
        max_steps: int = 64,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._storage = storage
        self._model = model
        self._plugins = tuple(plugins)
        self._tools = tuple(tools)
        self._system = system
        self._max_steps = max_steps
        self._clock = clock or SystemClock()
        self._new_id = new_id or (lambda: uuid4().hex)
        self._ctx = Context()

    @property
    def ctx(self) -> Context:
        """The host's context: its services and event bus."""
        return self._ctx

    @property
    def agents(self) -> AgentRegistry:
        """The live agents."""
        return self._ctx.agents

    @property
    def sessions(self) -> Sessions:
        """The live sessions."""
        return self._ctx.sessions

    async def __aenter__(self) -> Self:
        """Compose the host.

        Raises:
            CompositionError: A plugin requires what is not there. Nothing is left running.
        """
        ctx = self._ctx
        try:
            ctx.provide("clock", self._clock)
            ctx.provide("session_persistence", self._storage)
            ctx.defer_async(self._storage.aclose)
            sessions = Sessions(ctx, self._storage, self._clock, new_id=self._new_id)
            ctx.provide("sessions", sessions)
            ctx.defer_async(sessions.aclose)
            tools = ToolRegistry()
            ctx.provide("tools", tools)
            tools.register_all(self._tools, ctx)
            agents = AgentRegistry(
                ctx,
                model=self._model,
                system=self._system,
                max_steps=self._max_steps,
                new_id=self._new_id,
            )
            ctx.provide("agents", agents)
            for plugin in self._plugins:
                await ctx.load(plugin)
        except BaseException:
            await ctx.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Dispose of the agents, then of all else, in reverse order of composition. Again, it does nothing.

        Raises:
            PersistenceError: Last events of a session could not be stored; everything was released.
        """
        try:
            if self._ctx.has("agents"):
                await self.agents.aclose()
        finally:
            await self._ctx.aclose()
