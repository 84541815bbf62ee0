"""Which messages an agent must not lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchbell.log.messages import PluginSource

if TYPE_CHECKING:
    from watchbell.log.messages import Message

__all__ = ["Retention"]


class Retention:
    """Tells retained messages from others (contract section 5).

    A message's own source says so. The messages of some plugins count as well: other programs write them
    without the flag.

    Args:
        plugins: Names of these plugins, as sources have them.
    """

    __slots__ = ("_plugins",)

    def __init__(self, *plugins: str) -> None:
        self._plugins = set(plugins)

    def add(self, plugin: str) -> None:
        """Count the messages of a plugin as retained from now on."""
        self._plugins.add(plugin)

    def holds(self, message: Message) -> bool:
        """Whether nothing may discard the message while it is pending."""
        if message.retained:
            return True
        origin = message.origin
        return isinstance(origin, PluginSource) and origin.plugin in self._plugins
