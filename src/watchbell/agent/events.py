"""What agents tell on the bus of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from watchbell.agent.agent import Agent
    from watchbell.agent.steps import StepPlan

__all__ = ["AgentCreated", "AgentDisposed", "StepPrepare"]


class AgentCreated(msgspec.Struct, frozen=True):
    """An agent was made; its driver begins no turn before all have heard of it."""

    agent: Agent


class AgentDisposed(msgspec.Struct, frozen=True):
    """An agent has ended, and its session is closed."""

    agent: Agent


class StepPrepare(msgspec.Struct, frozen=True):
    """A step is about to begin: hooks, awaited, may change its plan before anything is claimed."""

    agent: Agent
    plan: StepPlan
