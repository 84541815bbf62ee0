"""The handle of a live agent: what callers say to it, and who may own it when."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context as Variables
from typing import TYPE_CHECKING, Any, Self, TypeVar

from watchbell.agent.driver import Driver
from watchbell.errors import AgentBusyError, AgentClosedError, InvalidEventError, PersistenceError
from watchbell.listeners import Subscription
from watchbell.log.messages import Message, TextBlock
from watchbell.log.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from watchbell.agent.inbox import Inbox, Target
    from watchbell.agent.retention import Retention
    from watchbell.agent.runner import TurnRunner
    from watchbell.agent.take_ups import TakeUps
    from watchbell.context import Context
    from watchbell.listeners import Subscriptions
    from watchbell.log.event import Event
    from watchbell.log.payloads import AbortKind
    from watchbell.models.base import ChatModel
    from watchbell.sessions.live import Sessions
    from watchbell.sessions.session import Session
    from watchbell.tools.registry import ToolRegistry

__all__ = ["Agent", "Reservation"]

T = TypeVar("T")
PERSON: dict[str, Any] = {"kind": "user"}
_logger = logging.getLogger("watchbell.agent")


class Reservation:
    """The right to the idle agent: until `release`, no turn begins and nobody else gets it."""

    def __init__(self, agent: Agent) -> None:
        self._agent: Agent | None = agent

    def release(self) -> None:
        """Give the agent back; what came in meanwhile now opens its turn. Again, it does nothing."""
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.end_reservation(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Agent:
    """A live agent over one session. Made by the registry (`ctx.agents`), never directly.

    Attributes:
        session: Its session.
        ctx: Its own scope; what is registered through it ends with the agent.
        tools: Its own tool scope; tools registered in it are seen by this agent alone.
        model: Who answers: a model in our own loop, or another framework's loop.
        system: The system prompt, None for none.
        max_steps: Steps after which a turn is stopped with error `STEP_LIMIT`.
    """

    def __init__(
        self,
        session: Session,
        ctx: Context,
        *,
        inbox: Inbox,
        take_ups: TakeUps,
        retention: Retention,
        model: ChatModel | TurnRunner,
        system: str | None,
        max_steps: int,
        new_id: Callable[[], str],
    ) -> None:
        self.session = session
        self.ctx = ctx
        self.tools: ToolRegistry = ctx.tools.child()
        self.model = model
        self.system = system
        self.max_steps = max_steps
        self.new_id = new_id
        self.retention = retention
        self._inbox = inbox
        self._transcript = Transcript()
        self._reservation: Reservation | None = None
        self._quiet: set[str] = set()
        self._started = False
        self._closing = False
        self._ending: asyncio.Task[None] | None = None
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._idle_listeners: Subscriptions = {}
        self._driver = Driver(self, take_ups)
        ctx.defer(session.observe(self._on_events))

    def __repr__(self) -> str:
        return f"Agent({self.id!r}, {self.phase})"

    @property
    def id(self) -> str:
        """The id of its session."""
        return self.session.id

    @property
    def sessions(self) -> Sessions:
        """The live sessions of the program."""
        return self.ctx.sessions

    @property
    def is_root(self) -> bool:
        """Whether it is nobody's child."""
        return self.session.header.delegation_depth == 0

    @property
    def is_closing(self) -> bool:
        """Whether it was disposed, or is about to be."""
        return self._closing

    @property
    def phase(self) -> str:
        """What it does: `idle`, `turn`, `maintenance` or `closed`."""
        if self._closing:
            return "closed"
        if self._reservation is not None:
            return "maintenance"
        return "turn" if self._driver.is_running else "idle"

    @property
    def inbox(self) -> Inbox:
        """The pending messages, as of the log now."""
        return self._inbox.advance(self.session.events)

    @property
    def has_waking_step(self) -> bool:
        """Whether a message waits for the next step that was not injected silently."""
        return any(message.id not in self._quiet for message in self.inbox.next_step)

    def transcript(self) -> tuple[Message, ...]:
        """Return the conversation so far, oldest message first."""
        return self._transcript.advance(self.session.events).messages

    async def read_transcript(self) -> tuple[Message, ...]:
        """Return the conversation so far like `transcript`; what is long and unread is read in slices."""
        await self.session.fold(self._transcript)
        return self.transcript()

    def followup(self, content: str | Message, *, source: dict[str, Any] | None = None) -> Message:
        """Queue a message that opens a turn of its own, after all that is queued before it.

        Returns:
            The message as it entered the inbox.

        Raises:
            AgentClosedError: The agent was disposed.
        """
        return self.send(content, "next-turn", source=source)

    def steer(self, content: str | Message, *, source: dict[str, Any] | None = None) -> Message:
        """Put a message into the running turn, at its next step; an idle agent begins a turn with it."""
        return self.send(content, "next-step", source=source)

    def inject(self, content: str | Message, *, source: dict[str, Any] | None = None) -> Message:
        """Leave a message for the next step, whenever that comes, without opening a turn for it.

        The silence lasts as long as this agent lives: a resumed session opens a turn for whatever is pending.
        """
        return self.send(content, "next-step", source=source, wake=False)

    def send(
        self,
        content: str | Message,
        target: Target,
        *,
        source: dict[str, Any] | None = None,
        wake: bool = True,
    ) -> Message:
        """Append a message to a pending list; `followup`, `steer` and `inject` are its common forms.

        Raises:
            AgentClosedError: The agent was disposed.
            InvalidEventError: The message has no id, one that is pending already, or is not of role `user`.
        """
        if self._closing:
            raise AgentClosedError(f"agent {self.id!r} was disposed; resume its session for a new one")
        message = content
        if isinstance(message, str):
            message = Message(
                self.new_id(), "user", PERSON if source is None else source, (TextBlock(message),)
            )
        inbox = self.inbox
        if message.role != "user" or not message.id or inbox.find(message.id) is not None:
            raise InvalidEventError(
                f"message {message.id!r} needs role user, and an id that no pending one has"
            )
        if not wake:
            self._quiet.add(message.id)
        self.session.append_batch([inbox.insert([message], target)])
        return message

    def cancel(self, *, discard_pending: bool = False, kind: AbortKind = "user") -> None:
        """Cancel the running turn; each of its tool calls still gets a result.

        Args:
            discard_pending: Drop the messages that wait, too. Retained ones (reminders) always stay.
            kind: Who cancelled: `user`, `parent` or `hook`.
        """
        if discard_pending and not self._closing:
            inbox = self.inbox
            pending = [m.id for m in (*inbox.next_turn, *inbox.next_step) if not self.retention.holds(m)]
            self.session.append_batch(inbox.remove(pending, canceled=True))
        self._driver.cancel(kind)

    async def when_idle(self) -> None:
        """Return once no turn runs, nothing waits to open one and nobody holds the agent.

        Of a disposed agent it returns at once.
        """
        while not self._closing and self._is_busy():
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._idle_waiters:  # it was given up; whoever wakes one forgets it
                    self._idle_waiters.remove(waiter)

    def on_idle(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` each time the agent has become idle, and when its storage works again while it is.

        The function returned ends that.
        """
        return Subscription(self._idle_listeners, listener)

    def reserve_turn_admission(self) -> Reservation | None:
        """Claim the idle agent, or return None when a turn or another task owns it or input waits for a turn.

        Input that comes while it is held is kept, and opens its turn on release.
        """
        if self._closing or not self._started or self._is_busy():
            return None
        self._reservation = Reservation(self)
        return self._reservation

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
        if self._driver.is_caller:
            if self._ending is None:
                self._closing = True
                # Without the caller's context variables: this task is none of the turn's.
                self._ending = asyncio.create_task(self._end_quietly(), context=Variables())
        elif self._ending is not None:
            await asyncio.wait([self._ending])
        else:
            await self._end()

    async def stop(self) -> None:
        """Abort the turn and begin no other one; `aclose` goes on to take the scope down."""
        self._closing = True
        self._wake_waiters()
        await self._driver.aclose()

    def start(self) -> None:
        """Let turns begin. The registry calls it once everyone has heard of the agent."""
        self._started = True
        self.settle()

    def storage_healed(self) -> None:
        """Go on with what waited for the storage. The registry calls it."""
        self._driver.storage_healed()
        self.settle()

    def settle(self) -> None:
        """Begin a turn when there is cause and nobody is in the way; else tell who waits for idleness."""
        if self._closing or not self._started or self._reservation is not None or self._driver.is_running:
            return
        if self._driver.has_work:
            self._driver.start()
            return
        self._wake_waiters()
        for subscription in tuple(self._idle_listeners):
            subscription.listener()

    def _wake_waiters(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _end(self) -> None:
        try:
            await self.stop()
        finally:
            await self.ctx.aclose()

    async def _end_quietly(self) -> None:
        try:
            await self._end()
        except PersistenceError:
            _logger.exception("session %s: not all of it could be stored", self.id)

    def _is_busy(self) -> bool:
        return (
            self._reservation is not None
            or self._driver.is_running
            or (self._started and self._driver.has_work)
        )

    def end_reservation(self, reservation: Reservation) -> None:
        """Let turns begin again after `reservation`; one that was given back before does nothing."""
        if self._reservation is reservation:
            self._reservation = None
            self.settle()

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "agent/inbox/spliced":
                self.settle()
                return
