"""What agents tell on the bus of a context, and the plan of a step, which hooks may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from watchbell.agent.agent import Agent
from watchbell.agent.core import Core
from watchbell.log.messages import Message, TextBlock


class AgentCreated(msgspec.Struct, frozen=True):
    """An agent was made; its driver begins no turn before all have heard of it."""

    agent: Agent


class AgentIdle(msgspec.Struct, frozen=True):
    """An agent has become idle, or its storage works again while it is."""

    agent: Agent


class AgentDisposed(msgspec.Struct, frozen=True):
    """An agent has ended, and its session is closed."""

    agent: Agent


class StepPlan:
    """A step that is about to begin; hooks (`StepPrepare`) may change it before anything is claimed.

    Attributes:
        messages: Pending messages that will enter, in order.
        head: Messages that hooks put before them.
        opens_turn: Whether this is the first step of a turn.
    """

    def __init__(self, messages: Sequence[Message], core: Core, *, opens_turn: bool) -> None:
        self._core = core
        self.messages = tuple(messages)
        self.head: list[Message] = []
        self.opens_turn = opens_turn
        self._rejected: set[str] = set()

    def put_first(self, text: str, source: Mapping[str, object]) -> None:
        """Put a message before the others, after those that were put there already."""
        self.head.append(Message(self._core.new_id(), "user", dict(source), (TextBlock(text),)))

    def reject(self, message: Message) -> bool:
        """Keep a message out of the conversation and discard it; a retained one cannot be (returns False)."""
        if self._core.retention.holds(message):
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


class StepPrepare(msgspec.Struct, frozen=True):
    """A step is about to begin: hooks, awaited, may change its plan before anything is claimed."""

    agent: Agent
    plan: StepPlan
