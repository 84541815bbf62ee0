"""The handle of a live agent: what callers say to it, and how they wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context as Variables
from typing import TypeVar

import msgspec

from watchbell.agent.asking import Answer, answer_to
from watchbell.agent.core import Core, Phase, Reservation
from watchbell.agent.inbox import Target
from watchbell.context import Context
from watchbell.errors import AgentBusyError, AgentClosedError, InvalidEventError, PersistenceError
from watchbell.log.event import Draft
from watchbell.log.messages import Message, PersonSource, TextBlock
from watchbell.log.payloads import AbortKind
from watchbell.sessions.session import Session
from watchbell.tools.registry import ToolRegistry

T = TypeVar("T")
_PERSON: dict[str, object] = msgspec.to_builtins(PersonSource())
_logger = logging.getLogger("watchbell.agent")


class Agent:
    """A live agent over one session. Made by the registry (`ctx.agents`), never directly."""

    __slots__ = ("__weakref__", "_core", "_ending")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ending: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"Agent({self.id!r}, {self.phase})"

    @property
    def id(self) -> str:
        """The id of its session."""
        return self._core.session.id

    @property
    def session(self) -> Session:
        """Its session."""
        return self._core.session

    @property
    def ctx(self) -> Context:
        """Its own scope; what is registered through it ends with the agent."""
        return self._core.ctx

    @property
    def tools(self) -> ToolRegistry:
        """Its own tool scope; tools registered in it are seen by this agent alone."""
        return self._core.tools

    @property
    def phase(self) -> Phase:
        """What it does: `idle`, `turn`, `maintenance` or `closed`."""
        return self._core.phase

    def transcript(self) -> tuple[Message, ...]:
        """Return the conversation so far, oldest message first."""
        return self._core.messages()

    def followup(
        self,
        content: str | Message,
        *,
        source: Mapping[str, object] | None = None,
        also: Sequence[Draft] = (),
    ) -> Message:
        """Queue a message that opens a turn of its own, after all that is queued before it.

        Args:
            content: The text of a person's message, or a whole message.
            source: Who wrote the text; a person when None.
            also: Events that belong to the message: they follow it in the same batch.

        Returns:
            The message as it entered the inbox.

        Raises:
            AgentClosedError: The agent was disposed.
            AgentError: The call comes from another thread than the one of the agent's event loop.
            InvalidEventError: The message has no id, one that is pending already, or is not of role `user`.
        """
        return self._send(content, "next-turn", source, also)

    async def ask(self, text: str, *, source: Mapping[str, object] | None = None) -> Answer:
        """Queue a person's text as `followup` does, and return the answer of the turn that it opens.

        What is queued before it is answered first. Cancelling the caller leaves the turn alone.

        Args:
            text: What to say.
            source: Who says it; a person when None.

        Raises:
            TurnError: The turn failed or was cancelled, or the text was withdrawn before it got one.
            AgentBusyError: A hook or tool of the agent's own turn asks, which cannot wait for the next one.
            AgentClosedError: The agent was disposed, before or meanwhile.
            AgentError: The call comes from another thread than the one of the agent's event loop.
        """
        if self._core.drive.is_caller:
            raise AgentBusyError(f"agent {self.id!r} cannot be asked in its own turn; use followup()")
        return await answer_to(self._core, self.followup(text, source=source))

    def steer(
        self, content: str | Message, *, source: Mapping[str, object] | None = None, wake: bool = True
    ) -> Message:
        """Put a message into the running turn, at its next step; an idle agent begins a turn with it.

        Without `wake` no turn is opened, or goes on, for it: it waits for the next step, whenever that comes.
        That lasts as long as this agent lives; a resumed session opens a turn for whatever is pending. All
        else is as with `followup`.
        """
        return self._send(content, "next-step", source, wake=wake)

    def cancel(self, *, discard_pending: bool = False, kind: AbortKind = "user") -> None:
        """Cancel the running turn; each of its tool calls still gets a result.

        Args:
            discard_pending: Drop the messages that wait, too. Retained ones (reminders) always stay.
            kind: Who cancelled: `user`, `parent` or `hook`.
        """
        core = self._core
        core.require_own_thread()
        if discard_pending and not core.is_closing:
            inbox = core.inbox
            core.discard((*inbox.next_turn, *inbox.next_step))
        core.drive.cancel(kind)

    async def when_idle(self) -> None:
        """Return once no turn runs, nothing waits to open one, nobody holds the agent and nothing is owed.

        Reminders that are due are owed: they have been delivered and answered by then, however many. What
        the storage holds up is not waited for. Of a disposed agent it returns at once.
        """
        await self._core.when_idle()

    def reserve_turn_admission(self) -> Reservation | None:
        """Claim the idle agent, or return None when a turn or another task owns it or input waits for a turn.

        Input that comes while it is held is kept, and opens its turn on release.
        """
        return self._core.reserve()

    async def run_maintenance(self, task: Callable[[], Awaitable[T]]) -> T:
        """Run `task` while no turn can begin.

        Raises:
            AgentBusyError: The agent could not be claimed; at once, and `task` was not called.
        """
        reservation = self.reserve_turn_admission()
        if reservation is None:
            raise AgentBusyError(f"agent {self.id!r} is busy; wait for when_idle() and try again")
        with reservation:
            return await task()

    async def aclose(self) -> None:
        """Dispose of the agent: abort its turn, take its scope down, store and close its session.

        A hook or tool of the agent's own turn cannot wait for that: called there, it returns at once, and the
        rest follows when the turn has ended.

        Raises:
            PersistenceError: Its last events could not be stored; everything else was released.
        """
        core = self._core
        if core.drive.is_caller:
            if self._ending is None:
                core.is_closing = True
                # Without the caller's context variables: this task is none of the turn's.
                self._ending = asyncio.create_task(self._end_quietly(), context=Variables())
        elif self._ending is not None:
            await asyncio.wait([self._ending])
        else:
            await self._end()

    async def _end(self) -> None:
        try:
            await self._core.aclose()
        finally:
            await self.ctx.aclose()

    async def _end_quietly(self) -> None:
        try:
            await self._end()
        except PersistenceError:
            _logger.exception("session %s: not all of it could be stored", self.id)

    def _send(
        self,
        content: str | Message,
        target: Target,
        source: Mapping[str, object] | None,
        also: Sequence[Draft] = (),
        *,
        wake: bool = True,
    ) -> Message:
        core = self._core
        core.require_own_thread()
        if core.is_closing:
            raise AgentClosedError(f"agent {self.id!r} was disposed; resume its session for a new one")
        message = content
        if isinstance(message, str):
            written = _PERSON if source is None else dict(source)
            message = Message(core.new_id(), "user", written, (TextBlock(message),))
        inbox = core.inbox
        if message.role != "user" or not message.id or inbox.holds(message.id):
            raise InvalidEventError(
                f"message {message.id!r} needs role user, and an id that no pending one has"
            )
        if not wake:
            core.quiet_ids.add(message.id)
        core.session.append_batch([inbox.insert([message], target), *also])
        return message
