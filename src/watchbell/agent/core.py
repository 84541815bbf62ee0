"""What the machinery of one agent works on: its parts, what its log says, and who may own it when."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from watchbell.log.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from watchbell.agent.inbox import Inbox, Retention
    from watchbell.agent.take_ups import TakeUps
    from watchbell.context import Context
    from watchbell.log.event import Event
    from watchbell.log.messages import Message
    from watchbell.log.payloads import AbortKind, TakeUp
    from watchbell.sessions.live import Sessions
    from watchbell.sessions.session import Session
    from watchbell.tools.registry import ToolRegistry

__all__ = ["Admission", "Answerer", "Core", "Drive", "Phase", "Reservation"]

Phase: TypeAlias = Literal["idle", "turn", "maintenance", "closed"]
"""What an agent does."""


class Drive(Protocol):
    """What runs an agent's turns, one at a time, while there is work."""

    @property
    def is_running(self) -> bool:
        """Whether a turn runs, is prepared, or waits for its next try."""
        ...

    @property
    def is_caller(self) -> bool:
        """Whether its own task asks, or one that began in it (a hook or tool): neither can wait for it."""
        ...

    def start(self) -> None:
        """Run turns until there is no work, then have the admission `settle`."""
        ...

    def cancel(self, kind: AbortKind) -> None:
        """Cancel the running turn, or what people had queued for the one that is about to begin."""
        ...

    async def aclose(self) -> None:
        """Abort the running turn as disposed and wait for its end, unless that would wait for the caller."""
        ...


class Reservation:
    """The right to the idle agent: until `release`, no turn begins and nobody else gets it."""

    __slots__ = ("_admission",)

    def __init__(self, admission: Admission) -> None:
        self._admission: Admission | None = admission

    def release(self) -> None:
        """Give the agent back; what came in meanwhile now opens its turn. Again, it does nothing."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Admission:
    """Lets turns of one agent begin when there is work and nobody is in the way.

    Args:
        has_work: Whether something is there that opens a turn.

    Attributes:
        drive: Runs the turns; it sets itself.
        on_idle: Called each time the agent has become idle, and when its storage works again while it is.
        is_closing: Whether the agent was disposed, or is about to be.
    """

    __slots__ = ("_has_work", "_is_open", "_reservation", "_waiters", "drive", "is_closing", "on_idle")

    drive: Drive
    on_idle: Callable[[], None]

    def __init__(self, has_work: Callable[[], bool]) -> None:
        self._has_work = has_work
        self._is_open = False
        self._reservation: Reservation | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.is_closing = False

    @property
    def phase(self) -> Phase:
        """Who owns the agent now."""
        if self.is_closing:
            return "closed"
        if self._reservation is not None:
            return "maintenance"
        return "turn" if self.drive.is_running else "idle"

    def open(self) -> None:
        """Let turns begin, now that everyone has heard of the agent."""
        self._is_open = True
        self.settle()

    def settle(self) -> None:
        """Begin a turn when there is cause and nobody is in the way; else tell who waits for idleness."""
        if self.is_closing or not self._is_open or self._reservation is not None or self.drive.is_running:
            return
        if self._has_work():
            self.drive.start()
            return
        self._wake_waiters()
        self.on_idle()

    def reserve(self) -> Reservation | None:
        """Claim the idle agent; None when it is owned, input waits for a turn, or none may begin yet."""
        if self.is_closing or not self._is_open or self._is_busy():
            return None
        self._reservation = Reservation(self)
        return self._reservation

    def release(self, reservation: Reservation) -> None:
        """Let turns begin again after `reservation`; one that was given back before does nothing."""
        if self._reservation is reservation:
            self._reservation = None
            self.settle()

    async def when_idle(self) -> None:
        """Return once nobody owns the agent and nothing waits to open a turn, or when it is closed."""
        while not self.is_closing and self._is_busy():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:  # it was given up; whoever wakes one forgets it
                    self._waiters.remove(waiter)

    async def aclose(self) -> None:
        """Abort the running turn, and begin no other one."""
        self.is_closing = True
        self._wake_waiters()
        await self.drive.aclose()

    def _is_busy(self) -> bool:
        return self._reservation is not None or self.drive.is_running or (self._is_open and self._has_work())

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Answerer(Protocol):
    """Who answers an agent's turns: a `ChatModel` or a `TurnRunner`, which have this in common."""

    @property
    def provider(self) -> str:
        """Who serves the model."""
        ...

    @property
    def model(self) -> str:
        """The model's name at its provider."""
        ...

    @property
    def context_window(self) -> int | None:
        """How many tokens a request and its answer may have together, None when unknown."""
        ...


class Core:
    """The parts of one agent, and what is derived from its log.

    Attributes:
        session: Its session.
        ctx: Its own scope; what is registered through it ends with the agent.
        tools: Its own tool scope.
        model: Who answers.
        system: The system prompt, None for none.
        max_steps: Steps after which a turn is stopped.
        new_id: Makes message ids.
        retention: Tells which messages must not be lost.
        transcript: The conversation, as far as it is folded.
        admission: Who owns the agent.
        quiet_ids: Ids of messages that wait for a step without opening a turn for it.
        take_ups_wait: Whether no turn is taken up, as the storage did not confirm what there is.
    """

    __slots__ = (
        "_inbox",
        "_take_ups",
        "admission",
        "ctx",
        "max_steps",
        "model",
        "new_id",
        "quiet_ids",
        "retention",
        "session",
        "system",
        "take_ups_wait",
        "tools",
        "transcript",
    )

    def __init__(
        self,
        session: Session,
        ctx: Context,
        *,
        inbox: Inbox,
        take_ups: TakeUps,
        retention: Retention,
        model: Answerer,
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
        self.transcript = Transcript()
        self.admission = Admission(self.has_work)
        self.quiet_ids: set[str] = set()
        self.take_ups_wait = False
        self._inbox = inbox
        self._take_ups = take_ups
        ctx.defer(session.observe(self._on_events))

    @property
    def inbox(self) -> Inbox:
        """The pending messages, as of the log now."""
        return self._inbox.advance(self.session.events)

    @property
    def has_waking_step(self) -> bool:
        """Whether a message waits for the next step that is not to wait silently."""
        return any(message.id not in self.quiet_ids for message in self.inbox.next_step)

    def has_work(self) -> bool:
        """Whether something is there that opens a turn."""
        return bool(self.inbox.next_turn) or self.has_waking_step or self.due_take_up() is not None

    def due_take_up(self) -> TakeUp | None:
        """Return the next turn to take up, None when none is due or they wait for the storage."""
        return None if self.take_ups_wait else self._take_ups.advance(self.session.events).due()

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation so far, oldest message first."""
        return self.transcript.advance(self.session.events).messages

    def discard(self, messages: Sequence[Message]) -> None:
        """Take pending messages out of the inbox, save those that are retained."""
        ids = [message.id for message in messages if not self.retention.holds(message)]
        self.session.append_batch(self.inbox.remove(ids, canceled=True))

    async def flush(self) -> bool:
        """Pass the barrier; returns whether somebody acknowledged that the whole log is durable.

        Raises:
            Exception: Whatever a listener of the barrier raised.
        """
        sessions: Sessions = self.ctx.sessions
        return await sessions.flush(self.session)

    def storage_healed(self) -> None:
        """Go on with what waited for the storage."""
        self.take_ups_wait = False
        self.admission.settle()

    def _on_events(self, events: Sequence[Event]) -> None:
        if any(event.type == "agent/inbox/spliced" for event in events):
            self.admission.settle()
