"""How a step begins: assembled and checked by hooks first, then claimed and written in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from watchbell.agent._abort import raise_if_aborted, until_aborted
from watchbell.agent.agent import Agent
from watchbell.agent.core import Core
from watchbell.agent.events import StepPlan, StepPrepare
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
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
from watchbell.log.projection import AnyRow, Projection, Reader
from watchbell.log.values import encode_json
from watchbell.tools.definition import AbortSignal


class _HeaderRow(AnyRow, frozen=True, gc=False, tag_field="type", tag="request/header"):
    pass


class _ContextRow(AnyRow, frozen=True, gc=False, tag_field="type", tag="request/context"):
    data: Any


_RequestRow: TypeAlias = _HeaderRow | _ContextRow
_READER = Reader(
    frozenset({"request/header", "request/context"}), msgspec.json.Decoder[_RequestRow](_RequestRow)
)


class Requests(Projection[_RequestRow]):
    """A projection: which model the log named last. Folded once; then the agent writes these events itself.

    The first request of an agent always writes its header: earlier ones are not compared with it.
    """

    reader = _READER

    def __init__(self) -> None:
        super().__init__()
        self._header: bytes | None = None
        self._context: bytes | None = None
        self._was_open_before = False

    def fold(self, rows: Sequence[_RequestRow], log: EventLog) -> None:
        """Fold the next rows of `log`."""
        for row in rows:
            if isinstance(row, _ContextRow):
                self._context = encode_json(row.data)
            else:
                self._was_open_before = True

    def drafts(self, core: Core) -> list[Draft]:
        """Return what has to be written before the next request of an agent."""
        model, tools = core.model, core.tools.specs()
        header: dict[str, Any] = {"config": {"provider": model.provider, "model": model.model}}
        if core.system is not None:
            header["system"] = core.system
        if tools:
            header["tools"] = list(tools)
        context = RequestContext(model.provider, model.model, model.context_window)
        drafts: list[Draft] = []
        encoded = encode_json(header)
        if encoded != self._header:
            first = "resume" if self._was_open_before else "initial"
            reason = first if self._header is None else "change"
            drafts.append(Draft("request/header", RequestHeader(header, reason)))
            self._header = encoded
        encoded = encode_json(context)
        if encoded != self._context:
            drafts.append(Draft("request/context", context))
            self._context = encoded
        return drafts


@dataclass(slots=True, eq=False)
class StepAssembler:
    """Assembles steps and appends their beginnings for one agent."""

    _agent: Agent
    _core: Core
    _requests: Requests

    def pending(self, *, opens_turn: bool) -> tuple[Message, ...]:
        """The pending messages that the next step would take: a new turn's first one, or a further one."""
        inbox = self._core.inbox
        return (*inbox.next_turn[:1], *inbox.next_step) if opens_turn else inbox.next_step

    async def prepare(self, signal: AbortSignal, *, opens_turn: bool) -> StepPlan:
        """Assemble the next step, anew until its messages did not change meanwhile.

        Nothing may be awaited between the return and the claim of these messages.

        Raises:
            TurnAbortedError: The turn was cancelled.
        """
        while True:
            assembling = self.assemble(opens_turn=opens_turn)
            # Without hooks it waits for nothing, so that it needs no task.
            has_hooks = self._core.ctx.has_handlers(StepPrepare)
            plan = await (until_aborted(signal, assembling) if has_hooks else assembling)
            raise_if_aborted(signal)  # while the end of the assembling was on its way here
            if self.is_current(plan):
                return plan

    async def assemble(self, *, opens_turn: bool) -> StepPlan:
        """Return what would enter now, after the hooks have seen it."""
        plan = StepPlan(self.pending(opens_turn=opens_turn), self._core, opens_turn=opens_turn)
        await self._core.ctx.gather(StepPrepare(self._agent, plan))
        return plan

    def is_current(self, plan: StepPlan) -> bool:
        """Whether the messages of a plan are still those that would enter."""
        return plan.messages == self.pending(opens_turn=plan.opens_turn)

    def enter_turn(self, number: int, plan: StepPlan, take_up: TakeUp | None = None) -> bool:
        """Append the beginning of turn `number` as one batch: claim, `step/start`, messages, request.

        Returns:
            Whether the turn is open; False when hooks rejected all that it had, which ends it `blocked`.
        """
        lead = [] if take_up is None else [Draft("watchbell/take-up", take_up, ignorable=True)]
        lead.append(Draft("turn/start", TurnStart(number)))
        if plan.rejected and not plan.accepted and take_up is None:
            discarded = self._core.inbox.remove([message.id for message in plan.rejected], canceled=True)
            blocked = Draft("turn/end", TurnEnd(number, Blocked()))
            self._core.session.append_batch([*lead, *discarded, blocked])
            return False
        self.enter_step(number, 1, plan, lead)
        return True

    def enter_step(self, turn: int, step: int, plan: StepPlan, lead: Sequence[Draft] = ()) -> None:
        """Append the beginning of a step as one batch, after what leads it."""
        core = self._core
        core.discard(plan.rejected)
        claims = core.inbox.remove([message.id for message in plan.accepted])
        entered = [Draft("user/message", message, None, "append") for message in (*plan.head, *plan.accepted)]
        start = Draft("step/start", StepMark(turn, step))
        core.session.append_batch([*lead, *claims, start, *entered, *self._requests.drafts(core)])
