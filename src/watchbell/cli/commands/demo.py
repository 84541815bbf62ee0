"""`watchbell demo`: a reminder comes back, and survives the death of its process, in about ten seconds.

Nothing is staged but the moment of the kill: the host that is killed thinks for a minute before it presents
its reminder. What is promised is then counted in the log on disk.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from watchbell.cli import options
from watchbell.cli.chat.conversation import (
    Conversation,
    Piece,
    Printer,
    find_dues,
    print_piece,
)
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.commands.log import summarize
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_line
from watchbell.cli.console.signals import run_stoppable
from watchbell.cli.console.times import render_utc
from watchbell.cli.program import Program
from watchbell.cli.stored import find_free_id, open_store, read_log_of
from watchbell.clock import wall_ms
from watchbell.errors import WatchbellError
from watchbell.host.settings import Settings
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Chunk
from watchbell.log.payloads import surface_message
from watchbell.models.base import ModelRequest
from watchbell.offline.model import OfflineModel
from watchbell.reminders.records import Dispatch, decode_change
from watchbell.storage.base import StoredLog

FIRST = "Remind me in 3 seconds to stretch."
SECOND = "Remind me in 2 seconds to drink some water."
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 60.0
"""How long the killed host's model thinks about a reminder: long enough to be killed in the middle."""

_TYPES = frozenset({"schedule/change", "user/message", "assistant/message"})
_JQ = """jq -r 'select(.type == "schedule/change")'"""


class _BrokenPromiseError(WatchbellError):
    """Something did not happen as the demo says that it does."""


@guarded
def demo(
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", metavar="DIR", callback=options.inherit_home, help="A new temporary one by default."
        ),
    ] = None,
) -> int:
    """Watch a reminder come back, and survive a kill; offline, in about ten seconds.

    Exits with 1 if anything is not as promised.
    """
    chosen = (home or Path(tempfile.mkdtemp(prefix="watchbell-demo-"))).expanduser().absolute()
    return run_stoppable(_Demo(Program.compose(Settings(home=chosen))).show())


class _Demo:
    """The demo over one new session."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._session_id = ""
        self._printer = Printer()

    async def show(self) -> int:
        """Show everything, and check it."""
        self._session_id = await self._choose_id()
        self._say(
            f"Session {self._session_id} in {self._program.home}, answered by the offline model (no key)."
        )
        await self._show_reminder()
        await self._show_kill()
        await self._show_resume()
        self._end(await self._read())
        return 0

    async def _show_reminder(self) -> None:
        self._head("1. A reminder comes back")
        async with self._program.host() as host:
            agent = await host.agents.create(self._session_id, cwd=str(Path.cwd()))
            Conversation(self._program.zone).watch(agent.session, self._show)
            pending = PendingReminders(agent, self._program.zone)
            print_piece(Piece("person", FIRST))
            agent.followup(FIRST, source=self._program.person)
            await agent.when_idle()
            _require(len(pending.records()) == 1, "the first reminder was not created")
            self._say("The agent is idle. Waiting ...")
            await _within(pending.one_shots_delivered(), "the first reminder did not come")
        await self._check("schedule-1")
        self._say("It came as a user message of its own, and opened a turn of its own.")

    async def _show_kill(self) -> None:
        self._head("2. Its process is killed in the middle of the next one")
        before = len((await self._read()).events)
        host = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "watchbell", "demo-host", self._session_id, SECOND,
            "--home", str(self._program.home), stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self._say(
                f"Process {host.pid} now has the session open. Its model thinks for a minute about a "
                "reminder, so that the kill falls into that."
            )
            print_piece(Piece("person", SECOND))
            await _within(self._follow_until_entered(host, before), "the second reminder did not come")
            host.kill()
            self._say(
                f"Killed process {host.pid} at {render_utc(wall_ms())}; its exit code is {await host.wait()}."
            )
        finally:
            with suppress(ProcessLookupError):
                host.kill()
        found = _follow_reminder((await self._read()).events, "schedule-2")
        _require("dispatch" in found and "answer" not in found, "the kill missed the middle")
        self._say("The log on disk has the reminder's dispatch and its message, but no answer.")

    async def _show_resume(self) -> None:
        self._head("3. Resumed in this process, it arrives, once")
        async with self._program.host() as host:
            agent = await host.agents.resume(self._session_id)
            Conversation(self._program.zone).watch(agent.session, self._show)
            await agent.when_idle()
        await self._check("schedule-2")
        length = len((await self._read()).events)
        async with self._program.host() as host:
            agent = await host.agents.resume(self._session_id)
            await agent.when_idle()
        _require(len((await self._read()).events) == length, "another resume brought something again")
        self._say("Resumed once more: nothing comes a second time.")

    def _end(self, stored: StoredLog) -> None:
        self._head("The log has it all")
        for event in stored.events.select(frozenset({"schedule/change", "user/message"})):
            if event.type == "schedule/change" or find_dues(surface_message(event)) is not None:
                print_line(f"{event.seq:>5}  {event.type}  {summarize(event)}", style="dim")
        path = shlex.quote(stored.location)
        self._say(
            f"\nIt is {stored.location}. To see the changes of the schedule:\n\n  zstdcat {path} | {_JQ}"
        )

    async def _follow_until_entered(self, host: Process, count: int) -> None:
        """Show what the host stores until the reminder's message has entered its turn."""
        conversation = Conversation(self._program.zone)
        while True:
            _require(host.returncode is None, f"the host process ended by itself, code {host.returncode}")
            events = (await self._read()).events
            for piece in conversation.read(events.span(count)):
                self._show(piece)
            count = len(events)
            if "message" in _follow_reminder(events, "schedule-2"):
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _show(self, piece: Piece) -> None:
        self._printer.show(piece)
        sys.stdout.flush()

    async def _check(self, schedule_id: str) -> None:
        """Count in the log on disk: one dispatch, then one message, then one answer."""
        found = _follow_reminder((await self._read()).events, schedule_id)
        _require(found == ["dispatch", "message", "answer"], f"{schedule_id}: the log has {found}")
        self._say(f"Counted on disk: {schedule_id} has 1 dispatch, 1 message and 1 answer.")

    async def _choose_id(self) -> str:
        async with open_store(self._program.home) as store:
            return find_free_id("demo", [ref.session_id for ref in await store.list()])

    async def _read(self) -> StoredLog:
        return await read_log_of(self._program.home, self._session_id)

    def _head(self, text: str) -> None:
        print_line(f"\n{text}", style="bold", multiline=True)

    def _say(self, text: str) -> None:
        print_line(text, multiline=True)
        sys.stdout.flush()


def _follow_reminder(events: EventLog, schedule_id: str) -> list[str]:
    """Return what a log holds of a one-shot reminder, in order: each dispatch, message and answer."""
    found: list[str] = []
    is_opened = False
    for event in events.select(_TYPES):
        match event.type:
            case "schedule/change":
                change = decode_change(event.raw)
                if isinstance(change, Dispatch) and change.id == schedule_id:
                    found.append("dispatch")
            case "user/message":
                message = surface_message(event)
                if (dues := find_dues(message)) is not None:
                    is_opened = [due.schedule_id for due in dues] == [schedule_id]
                    found += ["message"] if is_opened else []
                elif message.is_from_person:
                    is_opened = False
            case _:
                if is_opened and surface_message(event).text:
                    found.append("answer")
    return found


async def _within(work: Awaitable[None], failure: str) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await work
    except TimeoutError as error:
        raise _BrokenPromiseError(f"the demo failed: {failure} within {_PATIENCE_SECONDS:.0f} s") from error


def _require(is_so: bool, failure: str) -> None:
    if not is_so:
        raise _BrokenPromiseError(f"the demo failed: {failure}")


# --- the host process that the demo starts in order to kill it ---------------------------------------------


@guarded
def demo_host(
    session: Annotated[str, typer.Argument()],
    text: Annotated[str, typer.Argument()],
    home: options.Home = options.DEFAULT_HOME,
) -> int:
    """Resume a session, say one thing, and begin to answer the reminder that comes of it."""
    return run_stoppable(_serve(Program.compose(Settings(home=home)), session, text))


async def _serve(program: Program, session_id: str, text: str) -> int:
    async with program.host() as host:
        agent = await host.agents.resume(session_id, model=_ThoughtfulModel())
        agent.followup(text, source=program.person)
        await asyncio.sleep(PAUSE_SECONDS)
    return 0


class _ThoughtfulModel(OfflineModel):
    """The offline model, but it thinks for a long time before it presents a reminder."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        if find_dues(request.messages[-1]) is not None:
            await asyncio.sleep(PAUSE_SECONDS)
        async for chunk in super().stream(request):
            yield chunk
