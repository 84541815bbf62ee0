"""What a program is composed of: services, an event bus, scopes, and the plugins that use them.

A `Context` is a scope. What is provided, subscribed or loaded through it ends with it, in reverse order.
A child context sees its parent's services and shares its bus.

An event is an object, such as `AgentCreated(agent)`: its class says what happened, and whoever subscribes to
that class gets it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar, cast, runtime_checkable

from watchbell.errors import CompositionError
from watchbell.listeners import Subscription, Subscriptions

E = TypeVar("E")


class _Awaited:
    """What is to be called and awaited when a scope ends."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self.call = call


_Undo: TypeAlias = Callable[[], object] | _Awaited | AbstractAsyncContextManager[None]
_logger = logging.getLogger("watchbell")


@runtime_checkable
class Plugin(Protocol):
    """A part that can be installed into a context.

    Attributes:
        name: Names it in errors.
        requires: Services that must be there when it is loaded.
    """

    @property
    def name(self) -> str:
        """Names the plugin in errors."""
        ...

    @property
    def requires(self) -> tuple[str, ...]:
        """Services that must be there when it is loaded."""
        ...

    def install(self, ctx: Context) -> AbstractAsyncContextManager[None]:
        """Enter to install the plugin into `ctx`; leave to take it out again."""
        ...


_SWEEP_AT = 16
"""Fewest entries of what is to be undone before those are dropped that ended by themselves."""


class Context:
    """A scope of services, subscriptions and plugins.

    Use it as an async context manager, or call `aclose`. Services are read as attributes, such as
    `ctx.sessions`; asking for one that nobody provided raises CompositionError. A context stands below what
    it holds, so it cannot say of which type a service is: who takes one does (`sessions: Sessions =
    ctx.sessions`). A `Host` provides `clock`, `session_persistence`, `sessions`, `tools` and `agents`.
    """

    def __init__(self, parent: Context | None = None) -> None:
        self._parent = parent
        self._services: dict[str, object] = {}
        self._bus: dict[type, Subscriptions] = {} if parent is None else parent._bus
        self._undo: list[_Undo] = []  # an exit stack, made when the scope ends, costs ten times the memory
        self._sweep_at = _SWEEP_AT
        self._children: dict[Context, None] = {}
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        scope: Context | None = self
        while scope is not None:
            if name in scope._services:
                return scope._services[name]
            scope = scope._parent
        raise CompositionError(f"no service {name!r} in this context; install what provides it first")

    def has(self, name: str) -> bool:
        """Whether service `name` is there."""
        try:
            getattr(self, name)
        except CompositionError:
            return False
        return True

    def provide(self, name: str, service: object) -> None:
        """Offer a service to this scope and its children.

        Raises:
            CompositionError: This scope has one of that name.
        """
        if name in self._services:
            raise CompositionError(f"service {name!r} is provided twice")
        self._services[name] = service
        self.defer(partial(self._services.pop, name, None))

    def child(self) -> Context:
        """Return a new scope inside this one; it is closed by whoever made it, or with this one."""
        scope = Context(self)
        self._children[scope] = None
        return scope

    def defer(self, undo: Callable[[], object]) -> None:
        """Call `undo` when the scope ends. One that then `is_over` may be dropped before."""
        self._keep(undo)

    def defer_async(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Await `undo` when the scope ends."""
        self._keep(_Awaited(undo))

    async def load(self, plugin: Plugin) -> None:
        """Install a plugin until this scope ends.

        Raises:
            CompositionError: Something that it requires is missing; all of it is named.
        """
        missing = [name for name in plugin.requires if not self.has(name)]
        if missing:
            raise CompositionError(
                f"plugin {plugin.name!r} requires {', '.join(missing)}, which nothing provides"
            )
        installed = plugin.install(self)
        await installed.__aenter__()
        self._keep(installed)

    def on(self, event: type[E], handler: Callable[[E], object]) -> Callable[[], None]:
        """Call `handler` with each event of a class until the scope ends, or the function returned is called.

        What it returns is of use to those who `gather`; of an event that is awaited it returns an awaitable.
        """
        subscription = Subscription(self._bus.setdefault(event, {}), handler)
        self._keep(subscription)
        return subscription

    def has_handlers(self, event: type) -> bool:
        """Whether anybody has subscribed to the events of a class."""
        return bool(self._bus.get(event))

    def emit(self, event: object) -> None:
        """Call every handler of an event, in order of subscription; an exception is logged, no more."""
        for subscription in tuple(self._bus.get(type(event), ())):
            try:
                subscription.listener(event)
            except Exception:
                _logger.exception("a handler of %s failed", type(event).__name__)

    async def gather(self, event: object) -> list[object]:
        """Await every handler of an event, side by side, and return their results in order.

        All are awaited to their end before the first failure, if any, is raised.
        """
        subscriptions = tuple(self._bus.get(type(event), ()))  # a copy: some may end when they are called
        if not subscriptions:
            return []
        if len(subscriptions) == 1:
            (only,) = subscriptions
            return [await only.listener(event)]
        answers = [each.listener(event) for each in subscriptions]
        results: list[object] = await asyncio.gather(*answers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    async def aclose(self) -> None:
        """End the child scopes, then undo all that was installed, in reverse; again, it does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._parent is not None:
            self._parent._children.pop(self, None)
        async with AsyncExitStack() as ending:  # all of it is undone, whatever a part of it raises
            ending.push_async_callback(self._undo_all)
            for child in self._children:
                ending.push_async_callback(child.aclose)

    def _keep(self, undo: _Undo) -> None:
        """Undo this when the scope ends; what ended before then is not kept, as a scope can live for long."""
        if len(self._undo) >= self._sweep_at:
            self._undo = [each for each in self._undo if not getattr(each, "is_over", False)]
            self._sweep_at = max(_SWEEP_AT, 2 * len(self._undo))
        self._undo.append(undo)

    async def _undo_all(self) -> None:
        if not self._undo:
            return
        undone, self._undo = self._undo, []
        async with AsyncExitStack() as ending:
            ending.push_async_callback(self._undo_all)  # of what was installed meanwhile
            for undo in undone:
                if isinstance(undo, _Awaited):
                    ending.push_async_callback(undo.call)
                elif isinstance(undo, AbstractAsyncContextManager):
                    ending.push_async_exit(cast("AbstractAsyncContextManager[None]", undo))
                else:
                    ending.callback(undo)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
