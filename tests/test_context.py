"""A context gives services, carries events, and undoes in reverse what was done through it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from watchbell.context import Context, Plugin
from watchbell.errors import CompositionError


def awaited(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


class Rang(NamedTuple):
    """An event."""

    times: int


class Recorder:
    """A plugin that writes down when it comes and goes."""

    def __init__(self, name: str, seen: list[str], requires: tuple[str, ...] = ()) -> None:
        self.name = name
        self.requires = requires
        self.seen = seen

    @asynccontextmanager
    async def install(self, ctx: Context) -> AsyncIterator[None]:
        ctx.provide(self.name, self)
        self.seen.append(f"+{self.name}")
        yield
        self.seen.append(f"-{self.name}")


@awaited
async def test_a_service_is_seen_from_its_scope_and_below_until_that_ends() -> None:
    root = Context()
    root.provide("clock", "root's")
    async with root.child() as child:
        assert child.clock == "root's"
        child.provide("clock", "child's")
        child.provide("tools", "child's")
        assert child.child().clock == "child's"
        assert root.clock == "root's"
        assert not root.has("tools")
    assert not child.has("tools")
    assert child.clock == "root's"


def test_a_missing_service_is_named() -> None:
    ctx = Context()
    with pytest.raises(CompositionError, match="'sessions'"):
        _ = ctx.sessions
    assert not ctx.has("sessions")
    with pytest.raises(AttributeError):
        _ = ctx._nothing


def test_a_service_is_provided_once_in_a_scope() -> None:
    ctx = Context()
    ctx.provide("clock", 1)
    with pytest.raises(CompositionError, match="twice"):
        ctx.provide("clock", 2)
    assert ctx.has("clock")


@awaited
async def test_events_reach_every_scope_in_order_of_subscription() -> None:
    root, seen = Context(), list[str]()
    child = root.child()
    root.on(Rang, lambda rang: seen.append(f"root {rang.times}"))
    child.on(Rang, lambda rang: seen.append(f"child {rang.times}"))
    child.emit(Rang(1))
    await child.aclose()
    root.emit(Rang(2))
    root.emit("nobody listens")
    assert seen == ["root 1", "child 1", "root 2"]


@awaited
async def test_a_subscription_can_end_early_and_ends_nobody_elses() -> None:
    root, seen = Context(), list[Rang]()
    first, second = root.child(), root.child()
    end = first.on(Rang, seen.append)
    second.on(Rang, seen.append)
    end()
    end()
    await first.aclose()
    root.emit(Rang(1))
    assert seen == [Rang(1)]


def test_a_handler_may_end_its_subscription_while_it_is_called() -> None:
    ctx, seen = Context(), list[str]()

    def once(_: Rang) -> None:
        seen.append("once")
        end()

    end = ctx.on(Rang, once)
    ctx.on(Rang, lambda _: seen.append("always"))
    ctx.emit(Rang(1))
    ctx.emit(Rang(1))
    assert seen == ["once", "always", "always"]


@awaited
async def test_a_handler_may_end_its_subscription_when_it_is_gathered() -> None:
    ctx = Context()

    async def name(text: str) -> str:
        return text

    def once(_: Rang) -> Coroutine[Any, Any, str]:
        stop()
        return name("once")

    stop = ctx.on(Rang, once)
    ctx.on(Rang, lambda _: name("always"))
    assert await ctx.gather(Rang(1)) == ["once", "always"]
    assert await ctx.gather(Rang(1)) == ["always"]


@awaited
async def test_what_is_installed_while_a_scope_ends_ends_with_it() -> None:
    ctx = Context()
    heard: list[str] = []
    ctx.defer(lambda: ctx.defer(lambda: heard.append("late")))
    ctx.defer(lambda: ctx.on(Rang, lambda _: heard.append("rang")))
    await ctx.aclose()
    ctx.emit(Rang(1))
    assert heard == ["late"]


def test_a_handlers_exception_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    ctx, seen = Context(), list[str]()
    ctx.on(Rang, lambda rang: 1 / (rang.times - 1))
    ctx.on(Rang, lambda _: seen.append("next"))
    ctx.emit(Rang(1))
    assert seen == ["next"]
    assert "a handler of Rang failed" in caplog.text


@awaited
async def test_a_gathering_gives_all_results_in_order() -> None:
    ctx = Context()
    assert await ctx.gather(Rang(1)) == []

    async def slow(rang: Rang) -> str:
        await asyncio.sleep(0)
        return f"slow {rang.times}"

    async def fast(rang: Rang) -> str:
        return f"fast {rang.times}"

    ctx.on(Rang, slow)
    assert await ctx.gather(Rang(1)) == ["slow 1"]
    ctx.on(Rang, fast)
    assert await ctx.gather(Rang(2)) == ["slow 2", "fast 2"]


@awaited
async def test_a_gathering_fails_with_the_first_failure_after_all_have_ended() -> None:
    ctx, ended = Context(), list[str]()

    async def fail(_: Rang) -> None:
        raise LookupError("first")

    async def slow(_: Rang) -> None:
        for __ in range(5):
            await asyncio.sleep(0)
        ended.append("slow")
        raise KeyError("second")

    ctx.on(Rang, fail)
    with pytest.raises(LookupError, match="first"):
        await ctx.gather(Rang(1))
    ctx.on(Rang, slow)
    with pytest.raises(LookupError, match="first"):
        await ctx.gather(Rang(1))
    assert ended == ["slow"]


@awaited
async def test_a_plugin_is_installed_until_its_scope_ends_in_reverse_order() -> None:
    seen: list[str] = []
    async with Context() as ctx:
        first = Recorder("first", seen)
        assert isinstance(first, Plugin)
        await ctx.load(first)
        await ctx.load(Recorder("second", seen, ("first",)))
        ctx.defer(lambda: seen.append("-deferred"))
        child = ctx.child()
        await child.load(Recorder("third", seen, ("first", "second")))
    assert seen == ["+first", "+second", "+third", "-third", "-deferred", "-second", "-first"]


@awaited
async def test_all_that_a_plugin_misses_is_named_and_it_is_not_installed() -> None:
    ctx, seen = Context(), list[str]()
    ctx.provide("tools", 1)
    with pytest.raises(CompositionError, match="'schedule' requires sessions, agents,"):
        await ctx.load(Recorder("schedule", seen, ("sessions", "tools", "agents")))
    assert seen == []


@awaited
async def test_a_part_that_fails_to_end_does_not_keep_others_from_it() -> None:
    ended: list[str] = []

    async def fail() -> None:
        raise LookupError("broken end")

    root = Context()
    root.defer(lambda: ended.append("root"))
    for name in ("a", "b", "c"):
        child = root.child()
        child.defer(lambda name=name: ended.append(name))
        if name == "b":
            child.defer_async(fail)
    with pytest.raises(LookupError, match="broken end"):
        await root.aclose()
    await root.aclose()
    assert ended == ["c", "b", "a", "root"]


@awaited
async def test_a_scope_holds_nothing_of_those_who_came_and_went() -> None:
    """A host lives for as long as its program, and listeners of single connections do not."""

    class Visitor:
        def hear(self, _: Rang) -> None:
            """Listen."""

    seen: list[str] = []
    root = Context()
    root.defer(lambda: seen.append("first"))
    staying = Visitor()
    root.on(Rang, staying.hear)
    gone: list[weakref.ref[Visitor]] = []
    for number in range(1_000):
        visitor = Visitor()
        gone.append(weakref.ref(visitor))
        root.on(Rang, visitor.hear)()
        if number % 300 == 0:
            root.defer(partial(seen.append, f"{number}"))
    del visitor
    assert sum(ref() is not None for ref in gone) < 50
    await root.aclose()
    assert seen == ["900", "600", "300", "0", "first"]
    assert not root.has_handlers(Rang)
