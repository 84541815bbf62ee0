from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from watchbell.context import Context
from watchbell.errors import ToolAbortedError, ToolConflictError
from watchbell.tools.definition import AbortSignal, ErrorValue, Tool, ToolExecution
from watchbell.tools.registry import MAX_RESULT_BYTES, ToolOutcome, ToolRegistry

Body = Callable[[ToolExecution, str], Awaitable[Any]]
ABORTED = {"name": "ToolAbortedError", "code": "TOOL_ABORTED"}


async def echo(execution: ToolExecution, text: str) -> str:
    return text


def make(name: str, run: Body = echo) -> Tool:
    return Tool(name, f"Runs {name}.", {"type": "object", "properties": {}}, None, run)


def names(registry: ToolRegistry) -> list[str]:
    return [tool.name for tool in registry.tools()]


def execution() -> ToolExecution:
    return ToolExecution(object(), "call-1", AbortSignal())


def outcome_of(run: Body, arguments: str = "{}") -> ToolOutcome:
    registry = ToolRegistry()
    registry.register(make("it", run), Context())
    return asyncio.run(registry.execute("it", arguments, execution()))


def returns(value: Any) -> Body:
    async def run(execution: ToolExecution, text: str) -> Any:
        return value

    return run


def raises(error: BaseException) -> Body:
    async def run(execution: ToolExecution, text: str) -> Any:
        raise error

    return run


# --- scopes ----------------------------------------------------------------------------------------------


def test_an_agents_scope_sees_the_hosts_tools_and_its_own_by_name() -> None:
    host = ToolRegistry()
    one, other = host.child(), host.child()
    ctx = Context()
    host.register(make("shared"), ctx)
    one.register(make("alone"), ctx)
    assert names(one) == ["alone", "shared"]
    assert names(other) == names(host) == ["shared"]
    assert other.find("alone") is None
    assert [(spec.name, spec.description) for spec in one.specs()] == [
        ("alone", "Runs alone."),
        ("shared", "Runs shared."),
    ]


def test_a_tool_ends_with_the_context_that_registered_it() -> None:
    async def scenario() -> None:
        registry = ToolRegistry()
        async with Context() as ctx:
            registry.register_all((make("a"), make("b")), ctx)
            assert names(registry) == ["a", "b"]
        assert names(registry) == []

    asyncio.run(scenario())


def test_a_tool_that_was_withdrawn_early_does_not_take_its_successor_along() -> None:
    async def scenario() -> None:
        registry = ToolRegistry()
        successor = make("a")
        async with Context() as lasting:
            async with Context() as ctx:
                withdraw = registry.register(make("a"), ctx)
                withdraw()
                registry.register(successor, lasting)
            assert registry.find("a") is successor

    asyncio.run(scenario())


def test_a_context_holds_no_tools_that_came_and_went() -> None:
    registry, ctx = ToolRegistry(), Context()
    gone: list[weakref.ref[Body]] = []
    for number in range(200):
        run = returns(number)
        gone.append(weakref.ref(run))
        registry.register(make("a", run), ctx)()
    del run
    assert sum(ref() is not None for ref in gone) < 50
    assert names(registry) == []


@pytest.mark.parametrize("first", ["host", "agent"])
def test_two_tools_of_one_name_are_never_visible_in_one_scope(first: str) -> None:
    host = ToolRegistry()
    scopes = {"host": host, "agent": host.child()}
    scopes[first].register(make("a"), Context())
    second = scopes["agent" if first == "host" else "host"]
    with pytest.raises(ToolConflictError, match="'a'"):
        second.register(make("a"), Context())


def test_two_agents_may_have_tools_of_one_name() -> None:
    host = ToolRegistry()
    one, other = host.child(), host.child()
    one.register(make("a"), Context())
    other.register(make("a"), Context())
    assert one.find("a") is not other.find("a")


@pytest.mark.parametrize("offered", [("x", "taken", "y"), ("x", "y", "x")])
def test_a_conflict_on_one_tool_registers_none_of_them(offered: tuple[str, ...]) -> None:
    registry = ToolRegistry()
    registry.register(make("taken"), Context())
    with pytest.raises(ToolConflictError):
        registry.register_all(map(make, offered), Context())
    assert names(registry) == ["taken"]


# --- outcomes --------------------------------------------------------------------------------------------


def test_a_tool_gets_the_raw_argument_text() -> None:
    assert outcome_of(echo, ' {"a":1, "a":2').text == ' {"a":1, "a":2'


def test_a_value_is_shown_as_compact_json_in_its_own_key_order() -> None:
    value = {"z": 1, "a": ["ü", None, True]}
    assert outcome_of(returns(value)) == ToolOutcome('{"z":1,"a":["ü",null,true]}', value)


def test_an_error_value_is_marked_as_an_error_that_ran_to_its_end() -> None:
    value = {"code": "no_such_city", "message": "There is none."}
    outcome = outcome_of(returns(ErrorValue(value)))
    assert outcome == ToolOutcome('{"code":"no_such_city","message":"There is none."}', value, is_error=True)
    assert outcome.error is None


def test_an_unknown_tool_is_answered_with_the_names_that_are_known() -> None:
    registry = ToolRegistry()
    registry.register_all((make("b"), make("a")), Context())
    outcome = asyncio.run(registry.execute("c", "{}", execution()))
    assert outcome.text == "There is no tool named 'c'. Tools: a, b."
    assert outcome.is_error
    assert outcome.error == {"name": "ToolNotFoundError", "code": "TOOL_NOT_FOUND"}


def test_a_runaway_tool_name_is_not_repeated_whole() -> None:
    outcome = asyncio.run(ToolRegistry().execute("x" * 100_000, "{}", execution()))
    assert outcome.text.endswith("…'. Tools: none.")
    assert len(outcome.text) < 200


def test_an_exception_is_logged_and_the_model_learns_its_class_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcome = outcome_of(raises(OSError("/home/someone/secret")))
    assert outcome.text == "Tool it failed with OSError; whether it had an effect is not known."
    assert outcome.is_error
    assert outcome.error == {"name": "OSError", "code": "TOOL_FAILED"}
    assert "/home/someone/secret" in caplog.text


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (returns(object()), "InvalidEventError"),  # it is not JSON
        (lambda execution, text: text, "TypeError"),  # it is not async
        (raises(asyncio.CancelledError()), "CancelledError"),  # nobody asked for that
    ],
)
def test_what_a_tool_must_not_do_is_a_failure_of_the_tool(run: Body, name: str) -> None:
    assert outcome_of(run).error == {"name": name, "code": "TOOL_FAILED"}


# --- aborts ----------------------------------------------------------------------------------------------


async def call_and_abort(run: Body) -> ToolOutcome:
    registry, call = ToolRegistry(), execution()
    registry.register(make("it", run), Context())
    asyncio.get_running_loop().call_soon(call.signal.abort)
    outcome = await registry.execute("it", "{}", call)
    await asyncio.sleep(0)
    return outcome


def waits(ended: list[str]) -> Body:
    async def run(execution: ToolExecution, text: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("tool")

    return run


def test_a_call_that_was_aborted_before_it_began_is_not_run() -> None:
    async def scenario() -> ToolOutcome:
        registry = ToolRegistry()
        registry.register(make("it", raises(AssertionError("it ran"))), Context())
        call = execution()
        call.signal.abort()
        return await registry.execute("it", "{}", call)

    text = "The call was cancelled."
    assert asyncio.run(scenario()) == ToolOutcome(text, text, is_error=True, error=ABORTED)


def test_a_tool_that_gives_up_on_an_abort_has_the_same_outcome() -> None:
    assert outcome_of(raises(ToolAbortedError("stopped"))).error == ABORTED


def test_an_abort_is_answered_at_once_by_a_tool_that_waits() -> None:
    ended: list[str] = []
    assert asyncio.run(call_and_abort(waits(ended))).error == ABORTED
    assert ended == ["tool"]


def test_an_abort_is_answered_at_once_although_the_tool_goes_on() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        steps: list[str] = []

        async def run(execution: ToolExecution, text: str) -> str:
            while not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    steps.append("ignored")
            steps.append("ended")
            return "too late"

        assert (await call_and_abort(run)).error == ABORTED
        assert steps == ["ignored"]
        go_on.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert steps == ["ignored", "ended"]

    asyncio.run(scenario())


def test_what_a_tool_shields_runs_to_its_end_after_an_abort() -> None:
    async def scenario() -> None:
        done = asyncio.Event()

        async def commit() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            done.set()

        async def run(execution: ToolExecution, text: str) -> None:
            await asyncio.shield(asyncio.create_task(commit()))

        assert (await call_and_abort(run)).error == ABORTED
        await done.wait()

    asyncio.run(scenario())


def test_a_tool_that_ended_before_the_abort_keeps_its_outcome() -> None:
    async def run(execution: ToolExecution, text: str) -> str:
        execution.signal.abort()
        return "done"

    assert outcome_of(run).text == "done"


def test_a_cancellation_of_the_caller_passes_and_takes_the_tool_along() -> None:
    ended: list[str] = []

    async def scenario() -> None:
        registry = ToolRegistry()
        registry.register(make("it", waits(ended)), Context())
        caller = asyncio.create_task(registry.execute("it", "{}", execution()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert ended == ["tool"]


# --- the result policy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, MAX_RESULT_BYTES])
def test_a_result_of_64_kib_is_shown_whole(size: int) -> None:
    text = "x" * size
    assert outcome_of(returns(text)) == ToolOutcome(text, text)


@pytest.mark.parametrize("mark", ["x", "é", "€", "𝄞", "\ud83d"])
@pytest.mark.parametrize("lead", ["", "a", "ab", "abc"])
def test_a_longer_result_is_cut_at_a_character_and_says_so(mark: str, lead: str) -> None:
    value = lead + mark * MAX_RESULT_BYTES
    whole = len(value.encode("utf-8", "surrogatepass"))
    if whole == MAX_RESULT_BYTES:
        value += mark
        whole += 1
    outcome = outcome_of(returns(value))
    shown, _, note = outcome.text.rpartition("\n")
    assert value.startswith(shown)
    assert len(outcome.text.encode("utf-8", "surrogatepass")) <= MAX_RESULT_BYTES
    given = len(shown.encode("utf-8", "surrogatepass"))
    assert given > MAX_RESULT_BYTES - 300
    assert note == f"[cut: the first {given} of {whole} bytes are shown; ask for less, or for a part]"
    assert outcome.value == value
