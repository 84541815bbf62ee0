"""What the machinery of one agent works on: its parts, what its log says, and who owns it when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from watchbell.agent._take_ups import TakeUps
from watchbell.agent.inbox import Inbox, Retention
from watchbell.context import Context
from watchbell.errors import AgentError
from watchbell.log.event import Event
from watchbell.log.messages import Message
from watchbell.log.payloads import AbortKind, TakeUp
from watchbell.log.projection import fold
from watchbell.log.transcript import Transcript
from watchbell.models.base import Answerer
from watchbell.sessions.live import Sessions
from watchbell.sessions.session import Session
from watchbell.tools.registry import ToolRegistry

Phase: TypeAlias = Literal["idle", "turn", "maintenance", "closed"]
"""What an agent does."""


class _Drive(Protocol):
    """What is asked of the driver, which stands above all this."""

    @property
    def is_running(self) -> bool: ...
    @property
    def is_caller(self) -> bool: ...
    def start(self) -> None: ...
    def cancel(self, kind: AbortKind) -> None: ...
    async def aclose(self) -> None: ...


class Reservation:
    """The right to the idle agent: until `release`, no turn begins and nobody else gets it."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core: Core | None = core

    def release(self) -> None:
        """Give the agent back; what came in meanwhile now opens its turn. Again, it does nothing."""
        core, self._core = self._core, None
        if core is not None:
            core.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class Core:
    """The parts of one agent, its log's projections, and who owns it: nobody, its driver, or who reserved it.

    Attributes:
        drive: Runs the turns, one at a time, while there is work. The driver sets itself.
        on_idle: Called each time the agent has become idle, and when its storage works again while it is.
        owes: Says whether something is owed; as long as it does, `when_idle` does not return.
        quiet_ids: Ids of messages that wait for a step without opening a turn for it.
        take_ups_wait: Whether no turn is taken up, as the storage did not confirm what there is.
        is_closing: Whether the agent was disposed, or is about to be.
    """

    session: Session
    ctx: Context
    tools: ToolRegistry
    model: Answerer
    system: str | None
    max_steps: int
    new_id: Callable[[], str]
    retention: Retention
    _inbox: Inbox
    _take_ups: TakeUps
    transcript: Transcript = field(default_factory=Transcript)
    drive: _Drive = field(init=False)
    on_idle: Callable[[], None] = field(init=False)
    owes: Callable[[], bool] = bool  # nothing
    quiet_ids: set[str] = field(default_factory=set[str])
    take_ups_wait: bool = False
    is_closing: bool = False
    _is_open: bool = False
    _reservation: Reservation | None = None
    _waiters: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])

    _thread: int = field(default_factory=get_ident)

    def __post_init__(self) -> None:
        self.ctx.defer(self.session.observe(self._on_events))

    @property
    def inbox(self) -> Inbox:
        """The pending messages, as of the log now."""
        self._advance()
        return self._inbox

    @property
    def has_waking_step(self) -> bool:
        """Whether a message waits for the next step that is not to wait silently."""
        return any(message.id not in self.quiet_ids for message in self.inbox.next_step)

    @property
    def has_work(self) -> bool:
        """Whether something is there that opens a turn."""
        return bool(self.inbox.next_turn) or self.has_waking_step or self.due_take_up() is not None

    @property
    def phase(self) -> Phase:
        """Who owns the agent now."""
        if self.is_closing:
            return "closed"
        if self._reservation is not None:
            return "maintenance"
        return "turn" if self.drive.is_running else "idle"

    def due_take_up(self) -> TakeUp | None:
        """Return the next turn to take up, None when none is due or they wait for the storage."""
        if self.take_ups_wait:
            return None
        self._advance()
        return self._take_ups.due()

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation so far, oldest message first."""
        return self.transcript.advance(self.session.events).messages

    def require_own_thread(self) -> None:
        """Refuse a call from another thread than the one that the agent's event loop runs in.

        Raises:
            AgentError: It is another one; nothing was changed.
        """
        if get_ident() != self._thread:
            raise AgentError(
                f"agent {self.session.id!r} lives in the thread of its event loop: from another one, hand "
                "the call over with loop.call_soon_threadsafe(agent.followup, text)"
            )

    def discard(self, messages: Sequence[Message]) -> None:
        """Take pending messages out of the inbox, save those that are retained."""
        ids = [message.id for message in messages if not self.retention.holds(message)]
        self.session.append_batch(self.inbox.remove(ids, canceled=True))

    async def flush(self) -> bool:
        """Pass the barrier: whether somebody acknowledged that the log is durable, and nobody failed."""
        sessions: Sessions = self.ctx.sessions
        try:
            return await sessions.flush(self.session)
        except Exception:  # noqa: BLE001 - a listener may be anybody's; whatever it raises, nothing is certain
            return False

    def open(self) -> None:
        """Let turns begin, now that everyone has heard of the agent."""
        self._is_open = True
        self.settle()

    def settle(self) -> None:
        """Begin a turn when there is cause and nobody is in the way; else tell who waits for idleness."""
        if self.is_closing or not self._is_open or self._reservation is not None or self.drive.is_running:
            return
        if self.has_work:
            self.drive.start()
            return
        self.wake_waiters()
        self.on_idle()

    def storage_healed(self) -> None:
        """Go on with what waited for the storage."""
        self.take_ups_wait = False
        self.settle()

    def reserve(self) -> Reservation | None:
        """Claim the idle agent; None when it is owned, input waits for a turn, or none may begin yet."""
        self.require_own_thread()
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
        """Return once nobody owns the agent, nothing waits to open a turn and nothing is owed.

        Of an agent that is closed it returns, too.
        """
        while not self.is_closing and (self._is_busy() or self.owes()):
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
        self.wake_waiters()
        await self.drive.aclose()

    def _advance(self) -> None:
        """Fold what is new into the inbox and the take-ups, which share its rows."""
        log = self.session.events
        if self._inbox.watermark < len(log):
            fold(log, (self._inbox, self._take_ups), len(log))

    def _is_busy(self) -> bool:
        return self._reservation is not None or self.drive.is_running or (self._is_open and self.has_work)

    def wake_waiters(self) -> None:
        """Have those who wait for an idle agent look again whether it is."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "agent/inbox/spliced":
                self.settle()
                return
