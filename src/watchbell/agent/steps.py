"""How pending messages enter a turn: assembled and checked by hooks first, then claimed in one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchbell.agent.events import StepPrepare
from watchbell.log.event import Draft
from watchbell.log.messages import Message
from watchbell.log.payloads import (
    Blocked,
    RequestContext,
    RequestHeader,
    StepMark,
    TakeUp,
    TurnEnd,
    TurnStart,
)
from watchbell.log.values import encode_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchbell.agent.agent import Agent
    from watchbell.agent.retention import Retention

__all__ = ["Entry", "StepPlan"]

_HEADER_TYPES = frozenset({"request/header", "request/context"})


class StepPlan:
    """A step that is about to begin; hooks (`StepPrepare`) may change it before anything is claimed.

    Attributes:
        messages: Pending messages that will enter, in order.
        head: Messages that hooks put before them.
        opens_turn: Whether this is the first step of a turn.
    """

    def __init__(self, messages: Sequence[Message], retention: Retention, *, opens_turn: bool) -> None:
        self._retention = retention
        self.messages = tuple(messages)
        self.head: list[Message] = []
        self.opens_turn = opens_turn
        self._rejected: set[str] = set()

    def reject(self, message: Message) -> bool:
        """Keep a message out of the conversation and discard it; a retained one cannot be (returns False)."""
        if self._retention.holds(message):
            return False
        self._rejected.add(message.id)
        return True

    @property
    def accepted(self) -> tuple[Message, ...]:
        """The messages that no hook rejected."""
        return tuple(message for message in self.messages if message.id not in self._rejected)

    @property
    def rejected(self) -> tuple[Message, ...]:
        """The messages that a hook rejected."""
        return tuple(message for message in self.messages if message.id in self._rejected)


class Entry:
    """Assembles steps and appends their beginnings for one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._session = agent.session
        self._header: bytes | None = None
        self._context: bytes | None = None
        self._was_open_before = False
        for event in self._session.events.select_back(_HEADER_TYPES):
            if event.type == "request/context" and self._context is None:
                self._context = bytes(event.raw)
            elif event.type == "request/header":
                self._was_open_before = True
            if self._was_open_before and self._context is not None:
                break

    def pending(self, *, opens_turn: bool) -> tuple[Message, ...]:
        """The pending messages that the next step would take: a new turn's first one, or a further one."""
        inbox = self._agent.inbox
        return (*inbox.next_turn[:1], *inbox.next_step) if opens_turn else inbox.next_step

    @property
    def has_hooks(self) -> bool:
        """Whether anybody wants to see what would enter."""
        return self._agent.ctx.has_handlers(StepPrepare)

    async def assemble(self, *, opens_turn: bool) -> StepPlan:
        """Return what would enter now, after the hooks have seen it."""
        plan = StepPlan(self.pending(opens_turn=opens_turn), self._agent.retention, opens_turn=opens_turn)
        await self._agent.ctx.gather(StepPrepare(self._agent, plan))
        return plan

    def is_current(self, plan: StepPlan) -> bool:
        """Whether the messages of a plan are still those that would enter."""
        return plan.messages == self.pending(opens_turn=plan.opens_turn)

    def discard(self, plan: StepPlan) -> None:
        """Take out of the inbox what hooks rejected."""
        rejected = [message.id for message in plan.rejected]
        self._session.append_batch(self._agent.inbox.remove(rejected, canceled=True))

    def enter_turn(self, number: int, plan: StepPlan, take_up: TakeUp | None = None) -> bool:
        """Append the beginning of turn `number` as one batch: claim, `step/start`, messages, request.

        Returns:
            Whether the turn is open; False when hooks rejected all that it had, which ends it `blocked`.
        """
        lead = [] if take_up is None else [Draft("watchbell/take-up", take_up, ignorable=True)]
        lead.append(Draft("turn/start", TurnStart(number)))
        if plan.rejected and not plan.accepted and take_up is None:
            discarded = self._agent.inbox.remove([m.id for m in plan.rejected], canceled=True)
            blocked = Draft("turn/end", TurnEnd(number, Blocked()))
            self._session.append_batch([*lead, *discarded, blocked])
            return False
        self._append_step(number, 1, plan, lead)
        return True

    def enter_step(self, turn: int, step: int, plan: StepPlan) -> None:
        """Append the beginning of a further step as one batch."""
        self._append_step(turn, step, plan, [])

    def _append_step(self, turn: int, step: int, plan: StepPlan, lead: list[Draft]) -> None:
        self.discard(plan)
        claims = self._agent.inbox.remove([message.id for message in plan.accepted])
        entered = [Draft("user/message", message, None, "append") for message in (*plan.head, *plan.accepted)]
        start = Draft("step/start", StepMark(turn, step))
        self._session.append_batch([*lead, *claims, start, *entered, *self._request_drafts()])

    def _request_drafts(self) -> list[Draft]:
        model, tools = self._agent.model, self._agent.tools.specs()
        header: dict[str, Any] = {"config": {"provider": model.provider, "model": model.model}}
        if self._agent.system is not None:
            header["system"] = self._agent.system
        if tools:
            header["tools"] = list(tools)
        drafts: list[Draft] = []
        encoded = encode_json(header)
        if encoded != self._header:
            reason = (
                "change" if self._header is not None else "resume" if self._was_open_before else "initial"
            )
            drafts.append(Draft("request/header", RequestHeader(header, reason)))
            self._header = encoded
        context = RequestContext(model.provider, model.model)
        if model.context_window is not None:
            context = RequestContext(model.provider, model.model, model.context_window)
        encoded = encode_json(context)
        if encoded != self._context:
            drafts.append(Draft("request/context", context))
            self._context = encoded
        return drafts
