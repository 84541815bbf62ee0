"""Durable reminders: `schedule.plugin()` gives them to every root agent of a host.

The names are found when they are first used: the pure modules of this package stand below the agent, and
importing one of them must not bring in the shell above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchbell.schedule.invariant import invariant
    from watchbell.schedule.plugin import plugin
    from watchbell.schedule.receipts import schedule_reminder_presentation
    from watchbell.schedule.rules import Limits

__all__ = ["Limits", "invariant", "plugin", "schedule_reminder_presentation"]

_HOMES = {
    "Limits": "rules",
    "invariant": "invariant",
    "plugin": "plugin",
    "schedule_reminder_presentation": "receipts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
