"""Who listens to something, and how that ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Subscription:
    """A listener among others, from when it is made until it is called.

    A class in place of a closure, and a mapping in place of a list: a program holds several for each of
    thousands of agents, and ends one without looking at the others.

    Attributes:
        listener: Who listens. It may stand among the others more than once; each time has its own end.
    """

    __slots__ = ("_others", "listener")

    def __init__(self, others: Subscriptions, listener: Callable[..., Any]) -> None:
        self.listener = listener
        self._others = others
        others[self] = None

    @property
    def is_over(self) -> bool:
        """Whether it was ended."""
        return self not in self._others

    def __call__(self) -> None:
        """End it; again, this does nothing."""
        self._others.pop(self, None)


Subscriptions = dict[Subscription, None]
"""All that listen to one thing, in the order in which they began. Go through a copy: some may end."""
