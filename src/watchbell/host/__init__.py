"""Composition: a store, a model and plugins become a running program."""

from watchbell.host.host import Host
from watchbell.host.time_context import time_context

__all__ = ["Host", "time_context"]
