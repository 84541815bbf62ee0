"""`watchbell demo`: a reminder comes back, and survives the death of its process, in about ten seconds.

Nothing is staged but the moment of the kill: the host that is killed thinks for a minute before it presents
its reminder. What is promised is then counted in the log on disk.
"""

from __future__ import annotations

import asyncio
import itertools
import shlex
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from watchbell.cli.chat.conversation import Conversation, Piece, Printer, is_reminder, print_piece
from watchbell.cli.chat.pending import PendingReminders
from watchbell.cli.commands.log import summarize
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_line
from watchbell.cli.console.signals import run_stoppable
from watchbell.cli.console.times import render_utc
from watchbell.cli.options import inherit_home
from watchbell.cli.program import Program
from watchbell.cli.stored import open_store
from watchbell.clock import wall_ms
from watchbell.errors import WatchbellError
from watchbell.host.settings import Settings
from watchbell.log.payloads import surface_message

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Coroutine, Iterable

    from watchbell.log.eventlog import EventLog
    from watchbell.sessions.session import Observer
    from watchbell.storage.base import StoredLog

__all__ = ["demo"]

FIRST = "Remind me in 3 seconds to stretch."
SECOND = "Remind me in 2 seconds to drink some water."
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 30.0
_TYPES = frozenset({"schedule/change", "user/message", "assistant/message"})
_JQ = """jq -r 'select(.type == "schedule/change")'"""


class _BrokenPromiseError(WatchbellError):
    """Something did not happen as the demo says that it does."""


class _Delivery(msgspec.Struct):
    """What a log holds of one reminder: the seqs of its events."""

    dispatches: list[int]
    messages: list[int]
    answers: list[int]


@guarded
def demo(
    home: Annotated[
        Path | None,
        typer.Option("--home", metavar="DIR", callback=inherit_home, help="A new temporary one by default."),
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
            self._watch(agent.session.observe)
            pending = PendingReminders(agent, host.ctx.clock, self._program.zone)
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
        delivery = _find_delivery((await self._read()).events, "schedule-2")
        _require(bool(delivery.dispatches) and not delivery.answers, "the kill missed the middle")
        self._say("The log on disk has the reminder's dispatch and its message, but no answer.")

    async def _show_resume(self) -> None:
        self._head("3. Resumed in this process, it arrives, once")
        async with self._program.host() as host:
            agent = await host.agents.resume(self._session_id)
            self._watch(agent.session.observe)
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
            if event.type == "schedule/change" or is_reminder(surface_message(event)):
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
            self._show(conversation.read(events.span(count)))
            count = len(events)
            if _find_delivery(events, "schedule-2").messages:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _watch(self, observe: Callable[[Observer], object]) -> None:
        """Show what is appended to a session."""
        conversation = Conversation(self._program.zone)
        observe(lambda events: self._show(conversation.read(events)))

    def _show(self, pieces: Iterable[Piece]) -> None:
        self._printer.show_all(pieces)
        sys.stdout.flush()

    async def _check(self, schedule_id: str) -> None:
        """Count in the log on disk: one dispatch, then one message, then one answer."""
        found = _find_delivery((await self._read()).events, schedule_id)
        counts = (len(found.dispatches), len(found.messages), len(found.answers))
        _require(
            counts == (1, 1, 1), f"{schedule_id}: dispatches, messages, answers were {counts}, not 1 each"
        )
        _require(found.dispatches < found.messages < found.answers, f"{schedule_id}: not in order")
        self._say(f"Counted on disk: {schedule_id} has 1 dispatch, 1 message and 1 answer.")

    async def _choose_id(self) -> str:
        async with open_store(self._program.home) as store:
            taken = {ref.session_id for ref in await store.list()}
        names = itertools.chain(["demo"], (f"demo-{number}" for number in itertools.count(2)))
        return next(name for name in names if name not in taken)

    async def _read(self) -> StoredLog:
        async with open_store(self._program.home) as store:
            return await store.read(self._session_id)

    def _head(self, text: str) -> None:
        print_line(f"\n{text}", style="bold", multiline=True)

    def _say(self, text: str) -> None:
        print_line(text, multiline=True)
        sys.stdout.flush()


def _find_delivery(events: EventLog, schedule_id: str) -> _Delivery:
    """Return the dispatches, messages and answers of a one-shot reminder."""
    found = _Delivery([], [], [])
    is_opened = False
    for event in events.select(_TYPES):
        match event.type:
            case "schedule/change":
                if event.data["operation"] == "dispatch" and event.data["id"] == schedule_id:
                    found.dispatches.append(event.seq)
            case "user/message":
                message = surface_message(event)
                if is_reminder(message):
                    is_opened = [due["id"] for due in message.source["reminders"]] == [schedule_id]
                    found.messages.extend([event.seq] if is_opened else [])
                elif message.is_from_person:
                    is_opened = False
            case _:
                if is_opened and surface_message(event).text:
                    found.answers.append(event.seq)
    return found


async def _within(work: Coroutine[Any, Any, None], failure: str) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await work
    except TimeoutError as error:
        raise _BrokenPromiseError(f"the demo failed: {failure} within {_PATIENCE_SECONDS:.0f} s") from error


def _require(is_so: bool, failure: str) -> None:
    if not is_so:
        raise _BrokenPromiseError(f"the demo failed: {failure}")
