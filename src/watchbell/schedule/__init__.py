"""Durable reminders: `schedule.plugin()` gives them to every root agent of a host.

`plugin` and `invariant` are functions here and modules of this package too. The modules are imported first of
all, so that the functions' names stand whatever anybody imports later; nothing below this package imports it.
"""

from __future__ import annotations

from watchbell.reminders.arguments import Limits
from watchbell.reminders.deliveries import schedule_reminder_presentation
from watchbell.schedule.invariant import invariant
from watchbell.schedule.plugin import plugin

__all__ = ["Limits", "invariant", "plugin", "schedule_reminder_presentation"]
