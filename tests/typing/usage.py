"""Public usage as a type checker sees it: never run, checked by `make types`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, assert_type

from msgspec import Meta

import watchbell
from watchbell import (
    AbortSignal,
    Agent,
    AgentBusyError,
    AgentRegistry,
    AnswerRecorder,
    ChatModel,
    Clock,
    Context,
    CorruptLogError,
    ErrorValue,
    Event,
    Host,
    JsonlStorage,
    Message,
    ModelError,
    ModelRequest,
    OfflineModel,
    OpenAIModel,
    Plugin,
    Reservation,
    Session,
    SessionHeader,
    SessionPersistence,
    Sessions,
    SystemClock,
    TextBlock,
    Tool,
    ToolExecution,
    ToolOutcome,
    ToolRegistry,
    TurnRecorder,
    TurnRunner,
    schedule,
    time_context,
    tool,
)
from watchbell.agent.events import AgentCreated
from watchbell.errors import ScheduleLogError, WatchbellError
from watchbell.host.settings import Settings, build_model, load_settings
from watchbell.log.messages import BlockEnd, BlockStart, Chunk, Finish, FinishReason, TextDelta
from watchbell.testing import (
    FaultyPersistence,
    MemoryDisk,
    MemoryStorage,
    ScriptedModel,
    SimulatedClock,
    SimulatedMachine,
    call,
    fail,
    hang,
    say,
    simulate,
    think,
)

assert_type(watchbell.__version__, str)


def every_error_has_one_base(error: ScheduleLogError) -> WatchbellError:
    """One `except WatchbellError` catches all that is raised on purpose."""
    return error


def damage_says_where(error: CorruptLogError) -> tuple[str | None, int | None, str]:
    """A damaged log is named, and the place in it."""
    assert_type(error.offset, int | None)
    return error.path, error.offset, error.reason


# --- tools -----------------------------------------------------------------------------------------------


@tool
async def weather(city: str, days: Annotated[int, Meta(ge=1, le=7)] = 1) -> dict[str, str] | ErrorValue:
    """The forecast for a city."""
    if not city:
        return ErrorValue({"code": "no_city", "message": "name a city"})
    return {city: f"sun for {days} days"}


@tool(name="who", description="Say who calls.")
def who(execution: ToolExecution) -> str:
    """Plain functions are fine, too."""
    execution.signal.raise_if_aborted()
    return execution.call_id


assert_type(weather, Tool)
assert_type(who, Tool)


# --- a host ----------------------------------------------------------------------------------------------


async def compose(home: Path) -> str:
    """Compose a program, talk to an agent, look at what came of it."""
    async with Host(
        storage=JsonlStorage(home, compression="none"),
        model=OpenAIModel("deepseek-chat", api_key="key", extra={"temperature": 0.2}),
        plugins=[
            schedule.plugin(limits=schedule.Limits(max_active=10)),
            schedule.invariant(),
            time_context(time_zone="Europe/Berlin"),
        ],
        tools=[weather, who],
        system="Be brief.",
        clock=SystemClock(),
    ) as host:
        assert_type(host, Host)
        assert_type(host.agents, AgentRegistry)
        assert_type(host.sessions, Sessions)
        assert_type(host.ctx, Context)
        agent = await host.agents.open("standup", model=OfflineModel())
        assert_type(agent, Agent)
        assert_type(agent.session, Session)
        assert_type(agent.session.header, SessionHeader)
        assert_type(agent.tools, ToolRegistry)
        assert_type(agent.followup("hello", source={"kind": "user", "timeZone": "Europe/Berlin"}), Message)
        agent.steer("quick")
        agent.steer("by the way", wake=False)
        await agent.when_idle()
        agent.cancel(discard_pending=True)
        stop = agent.session.observe(seen)
        stop()
        fork = await host.agents.fork(agent, at=3)
        child = await host.agents.create_child(fork, system="Be a child.")
        assert_type(child.session.header.delegation_depth, int)
        await child.aclose()
        return agent.transcript()[-1].text


def seen(events: Sequence[Event]) -> None:
    """An observer gets each batch."""
    for event in events:
        assert_type(event.seq, int)


async def claim(agent: Agent) -> int | None:
    """The idle agent can be had, for work in which no turn may begin."""

    async def work() -> int:
        await asyncio.sleep(0)
        return 1

    reservation = agent.reserve_turn_admission()
    assert_type(reservation, Reservation | None)
    if reservation is not None:
        with reservation:
            return 0
    try:
        return assert_type(await agent.run_maintenance(work), int)
    except AgentBusyError:
        return None


def receipts(agent: Agent, dispatch_seq: int) -> str | None:
    """Receipts are derived from the events alone."""
    owned_from = agent.session.header.owned_from
    receipt = schedule.schedule_reminder_presentation(agent.session.events, dispatch_seq, owned_from)
    return None if receipt is None else receipt.prompt


def settings(home: Path) -> ChatModel:
    """The program's settings are a program's, too."""
    effective = load_settings(home=home, env={}, flags={"model": "offline"})
    assert_type(effective.settings, Settings)
    return build_model(effective.settings)


# --- what can be brought along ---------------------------------------------------------------------------


class Parrot:
    """A model of one's own."""

    provider = "zoo"
    model = "parrot"
    context_window: int | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Say it again."""
        text = request.messages[-1].text
        yield BlockStart(0, "text")
        yield TextDelta(0, text)
        yield BlockEnd(0, TextBlock(text))
        yield Finish(FinishReason("stop"))


class Loop:
    """A loop of one's own."""

    provider = "elsewhere"
    model = "loop"
    context_window: int | None = None

    async def run_turn(self, turn: TurnRecorder) -> None:
        """Answer with a call, then with text."""
        assert_type(turn.signal, AbortSignal)
        assert_type(turn.tools, tuple[Tool, ...])
        async with turn.answer() as answer:
            assert_type(answer, AnswerRecorder)
            answer.reasoning("Hm.")
            answer.call("a", "weather", '{"city": "Berlin"}')
            answer.call("b", "theirs", "{}")
            answer.usage({"outputTokens": 3})
        assert_type(await turn.call("a"), ToolOutcome)
        assert_type(await turn.watch("b", theirs), float)
        async with turn.answer() as answer:
            assert_type(answer.entered, tuple[Message, ...])
            answer.text("Sun.")
        if not turn.transcript():
            raise ModelError("nothing was said", code="EMPTY_ANSWER")


async def theirs() -> float:
    """A tool of the other loop."""
    return 0.5


class Rang(NamedTuple):
    """An event of one's own."""

    agent: Agent


class Bell:
    """A plugin of one's own."""

    name = "bell"
    requires = ("agents",)

    def install(self, ctx: Context) -> AbstractAsyncContextManager[None]:
        """Ring for each new agent."""

        @asynccontextmanager
        async def installed() -> AsyncGenerator[None]:
            def ring(event: AgentCreated) -> None:
                ctx.emit(Rang(event.agent))

            stop = ctx.on(AgentCreated, ring)
            yield
            stop()

        return installed()


parrot: ChatModel = Parrot()
loop: TurnRunner = Loop()
bell: Plugin = Bell()
clock: Clock = SimulatedClock("2030-01-01T00:00:00Z")
stores: list[SessionPersistence] = [JsonlStorage("home"), MemoryStorage(), FaultyPersistence(MemoryStorage())]
hosts = [Host(storage=stores[0], model=parrot), Host(storage=stores[1], model=loop, plugins=[bell])]


# --- watchbell.testing -----------------------------------------------------------------------------------


async def simulated(clock: SimulatedClock) -> Literal["done"]:
    """What `simulate` runs, it returns."""
    model = ScriptedModel(
        [say("hello"), [think("hm"), call("weather", {"city": "Berlin"})], fail("QUOTA"), hang()]
    )
    async with Host(storage=MemoryStorage(MemoryDisk()), model=model, clock=clock) as host:
        agent = await host.agents.create()
        agent.followup("hello")
        await asyncio.sleep(3600)
        clock.step(-60)
        assert_type(model.requests, list[ModelRequest])
        return "done"


def run_simulated(root: Path) -> str:
    """A simulation in memory, and one on a machine that outlives its processes."""
    machine = SimulatedMachine(root, seed=7)

    async def process() -> None:
        machine.kill(after=100)

    machine.run(process)
    return assert_type(simulate(simulated), Literal["done"])
