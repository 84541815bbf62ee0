"""Which tools an agent has, and how a call becomes exactly one outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from weakref import WeakSet

from watchbell.context import Context
from watchbell.errors import ToolAbortedError, ToolConflictError
from watchbell.log.payloads import ToolSpec
from watchbell.log.values import encode_json
from watchbell.tools.definition import ErrorValue, Tool, ToolExecution

MAX_RESULT_BYTES = 64 * 1024
"""Most UTF-8 bytes of a result's text that a model gets, the note about a cut included."""

_NOTE_BYTES = 256
"""Room kept for that note."""

_logger = logging.getLogger("watchbell")


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to.

    Attributes:
        text: What the model reads: the value itself when it is text, else its compact JSON; cut at
            `MAX_RESULT_BYTES`.
        value: The canonical JSON value, whole.
        is_error: Whether the model should take it for an error.
        error: `{"name", "code"}` when the call did not run to its end, else None.
    """

    text: str
    value: object
    is_error: bool = False
    error: dict[str, str] | None = None


class _Offer:
    """Some tools of a scope, until it is called."""

    __slots__ = ("_tools", "_where")

    def __init__(self, where: dict[str, Tool], tools: tuple[Tool, ...]) -> None:
        self._where = where
        self._tools = tools

    @property
    def is_over(self) -> bool:
        """Whether they were withdrawn."""
        return not self._tools

    def __call__(self) -> None:
        for tool in self._tools:
            if self._where.get(tool.name) is tool:
                del self._where[tool.name]
        self._tools = ()


class ToolRegistry:
    """A scope of tools: its own, and those of the scopes above it.

    The host's registry holds what every agent gets; each agent has a child of it, and what is registered
    there that agent alone sees. No scope ever sees two tools of one name.
    """

    def __init__(self, parent: ToolRegistry | None = None) -> None:
        self._parent = parent
        self._own: dict[str, Tool] = {}
        self._children: WeakSet[ToolRegistry] = WeakSet()
        self._running: set[asyncio.Task[ToolOutcome]] = set()

    def child(self) -> ToolRegistry:
        """Return a new scope inside this one."""
        scope = ToolRegistry(self)
        self._children.add(scope)
        return scope

    def register(self, tool: Tool, ctx: Context) -> Callable[[], None]:
        """Offer `tool` in this scope until `ctx` ends, or the function returned is called.

        Raises:
            ToolConflictError: A scope that would see it has a tool of that name.
        """
        return self.register_all((tool,), ctx)

    def register_all(self, tools: Iterable[Tool], ctx: Context) -> Callable[[], None]:
        """Offer several tools, all or none of them, until `ctx` ends or the function returned is called.

        Raises:
            ToolConflictError: One name is taken, or stands twice; nothing was registered.
        """
        offered = tuple(tools)
        seen = {name for scope in self._related() for name in scope._own}
        for tool in offered:
            if tool.name in seen:
                raise ToolConflictError(f"a tool named {tool.name!r} is registered already; rename one")
            seen.add(tool.name)
        self._own.update((tool.name, tool) for tool in offered)
        offer = _Offer(self._own, offered)
        ctx.defer(offer)
        return offer

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name, None when this scope sees none."""
        for scope in self._upward():
            if name in scope._own:
                return scope._own[name]
        return None

    def tools(self) -> tuple[Tool, ...]:
        """Return every tool that this scope sees, by name."""
        seen = {name: tool for scope in self._upward() for name, tool in scope._own.items()}
        return tuple(seen[name] for name in sorted(seen))

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return what a model is told of `tools`, in the same order."""
        return tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in self.tools())

    async def execute(self, name: str, arguments: str, execution: ToolExecution) -> ToolOutcome:
        """Run one call of the tool `name` and return its one outcome.

        Whatever the tool does, there is an outcome: an unknown name gives `TOOL_NOT_FOUND`, an exception
        `TOOL_FAILED` (logged; the model learns its class and no more), an aborted signal `TOOL_ABORTED`. An
        abort is answered at once: the tool's task is cancelled and not waited for.

        Only the cancellation of the caller itself passes, as CancelledError; the tool's task is then
        cancelled too.
        """
        tool = self.find(name)
        if tool is None:
            return self._not_found(name)
        if execution.signal.aborted:
            return aborted_outcome()
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer() -> None:
            if not answered.done():
                answered.set_result(None)

        running = self._start(tool, arguments, execution, answer)
        withdraw = execution.signal.on_abort(answer)
        try:
            await answered
        finally:
            withdraw()
            running.cancel()
        return running.result() if running.done() else aborted_outcome()

    def _start(
        self, tool: Tool, arguments: str, execution: ToolExecution, answer: Callable[[], None]
    ) -> asyncio.Task[ToolOutcome]:
        """Run a call in a task of its own, which calls `answer` with its last step."""

        async def attempt() -> ToolOutcome:
            outcome = await _attempt(tool, arguments, execution)
            answer()
            return outcome

        def settle(task: asyncio.Task[ToolOutcome]) -> None:
            self._running.discard(task)
            answer()  # also of a task that was cancelled from outside, before it began

        running = asyncio.create_task(attempt(), name=f"tool {tool.name}")
        # The loop alone holds tasks weakly, and one that was told to stop may take its time.
        self._running.add(running)
        running.add_done_callback(settle)
        return running

    def _not_found(self, name: str) -> ToolOutcome:
        known = ", ".join(tool.name for tool in self.tools()) or "none"
        shown = name if len(name) <= 64 else f"{name[:64]}…"
        text = f"There is no tool named {shown!r}. Tools: {known}."
        return _error(text, "ToolNotFoundError", "TOOL_NOT_FOUND")

    def _upward(self) -> Iterator[ToolRegistry]:
        scope: ToolRegistry | None = self
        while scope is not None:
            yield scope
            scope = scope._parent

    def _related(self) -> Iterator[ToolRegistry]:
        yield from self._upward()
        below = list(self._children)
        while below:
            scope = below.pop()
            yield scope
            below.extend(scope._children)


async def _attempt(tool: Tool, arguments: str, execution: ToolExecution) -> ToolOutcome:
    try:
        value = await tool.run(execution, arguments)
        if isinstance(value, ErrorValue):
            return ToolOutcome(render_value(value.value), value.value, is_error=True)
        return ToolOutcome(render_value(value), value)
    except ToolAbortedError:
        return aborted_outcome()
    except asyncio.CancelledError:
        # Either the registry cancelled this task (nobody reads the outcome then, unless an abort and the
        # tool's end met), or something that the tool waited for was cancelled, which must not stop the turn.
        if execution.signal.aborted:
            return aborted_outcome()
        return failed_outcome(tool.name, "CancelledError")
    except Exception as error:
        _logger.exception("tool %s failed in call %s", tool.name, execution.call_id)
        return failed_outcome(tool.name, type(error).__name__)


def render_value(value: object) -> str:
    """Return the text of a JSON value for a model, cut at `MAX_RESULT_BYTES` with a note of how much.

    Raises:
        InvalidEventError: It is no JSON value.
    """
    text = value if isinstance(value, str) else encode_json(value).decode()
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= MAX_RESULT_BYTES:
        return text
    end = MAX_RESULT_BYTES - _NOTE_BYTES
    while raw[end] & 0xC0 == 0x80:  # a continuation byte: step back to where its character begins
        end -= 1
    shown = raw[:end].decode("utf-8", "surrogatepass")
    return f"{shown}\n[cut: the first {end} of {len(raw)} bytes are shown; ask for less, or for a part]"


def _error(text: str, name: str, code: str) -> ToolOutcome:
    return ToolOutcome(text, text, is_error=True, error={"name": name, "code": code})


def aborted_outcome() -> ToolOutcome:
    """What a call comes to whose turn was cancelled, or that was cancelled itself."""
    return _error("The call was cancelled.", "ToolAbortedError", ToolAbortedError.code)


def failed_outcome(name: str, kind: str) -> ToolOutcome:
    """What a call of tool `name` comes to that ended with an exception of class `kind`."""
    text = f"Tool {name} failed with {kind}; whether it had an effect is not known."
    return _error(text, kind, "TOOL_FAILED")
