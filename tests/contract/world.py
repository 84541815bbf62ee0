"""What the contract's tests stand on: one session in memory, called as by a model, and a host to live in."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
from typer.main import get_command
from typer.testing import CliRunner

from tests.program import store
from watchbell import Host, schedule
from watchbell.cli.commands.call import call_tool
from watchbell.cli.main import app
from watchbell.instants import Instant, decode_instant, render_instant
from watchbell.log.event import Draft
from watchbell.log.messages import Message
from watchbell.reminders.arguments import Limits
from watchbell.reminders.records import SCHEDULE_CHANGE
from watchbell.reminders.times import ZoneLookup
from watchbell.storage.base import SessionPersistence
from watchbell.testing import MemoryDisk, MemoryStorage, ScriptedModel, SimulatedClock, simulate

T = TypeVar("T")
T0 = "2026-12-01T00:00:00.000Z"
"""What clocks read unless a test says otherwise."""

SESSION = "s"
CORRUPT = "corrupt_schedule_log"

PROGRAM = get_command(app)  # made once: that costs more than most commands


def later(seconds: float, start: str = T0) -> str:
    """Canonical UTC, this many seconds after an instant."""
    return render_instant(Instant(decode_instant(start) + round(seconds * 1000)))


def without_ellipses(row: dict[str, Any]) -> dict[str, Any]:
    """The row without the keys that are given as `...`."""
    return {key: value for key, value in row.items() if value is not ...}


def record(kind: str = "after", schedule_id: str = "schedule-1", **changes: Any) -> dict[str, Any]:
    """A record as a log holds it, without the keys that are given as `...`."""
    rule = {"after": {"afterSeconds": 600}, "at": {}, "every": {"everySeconds": 600}}
    head = {"id": schedule_id, "kind": kind, "prompt": "p", **rule.get(kind, {}), "scheduledAt": later(600)}
    return without_ellipses(head | changes)


def create_row(kind: str = "after", schedule_id: str = "schedule-1", **changes: Any) -> dict[str, Any]:
    """A create as a log holds it."""
    return {"version": 1, "operation": "create", "schedule": record(kind, schedule_id, **changes)}


def delete_row(schedule_id: str = "schedule-1") -> dict[str, Any]:
    """A delete as a log holds it."""
    return {"version": 1, "operation": "delete", "id": schedule_id}


def dispatch_row(schedule_id: str = "schedule-1", accepted_at: str | None = None) -> dict[str, Any]:
    """A dispatch as a log holds it."""
    row = {"version": 1, "operation": "dispatch", "id": schedule_id}
    return row if accepted_at is None else {**row, "acceptedAt": accepted_at}


class World:
    """One session on a disk in memory.

    Args:
        rows: `schedule/change` payloads that its log holds from the beginning, as data or as raw JSON.
        seed_length: How many of them are a parent's.
        storage: Where the session is kept instead.
    """

    def __init__(
        self,
        *rows: dict[str, Any] | str,
        seed_length: int | None = None,
        storage: SessionPersistence | None = None,
    ) -> None:
        self.disk = MemoryDisk()
        self.storage = storage or MemoryStorage(self.disk)
        raws = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
        if rows:
            drafts = [Draft(SCHEDULE_CHANGE, msgspec.Raw(raw.encode())) for raw in raws]
            store(self.disk, *drafts, seed_length=seed_length)

    def call(
        self,
        tool: str,
        arguments: dict[str, Any] | str = "{}",
        *,
        clock: str = T0,
        limits: Limits | None = None,
        zones: ZoneLookup | None = None,
    ) -> Any:
        """One call of `schedule_<tool>`, outside any turn; its canonical value."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)

        async def main(wall: SimulatedClock) -> Any:
            options = {"clock": wall, "create": True, "limits": limits, "zones": zones}
            return await call_tool(self.storage, SESSION, f"schedule_{tool}", text, **options)

        return simulate(main, start=decode_instant(clock))

    def create(self, *, clock: str = T0, **arguments: Any) -> Any:
        """One call of `schedule_create`, the prompt `p` unless it is given."""
        return self.call("create", {"prompt": "p", **arguments}, clock=clock)

    def list(self, *, clock: str = T0) -> Any:
        """One call of `schedule_list`."""
        return self.call("list", clock=clock)

    def delete(self, schedule_id: str, *, clock: str = T0) -> Any:
        """One call of `schedule_delete`."""
        return self.call("delete", {"id": schedule_id}, clock=clock)

    def changes(self) -> list[dict[str, Any]]:
        """The payloads of the `schedule/change` events that are durable, keys in their order."""
        events = self.disk.events(SESSION) if SESSION in self.disk.batches else []
        return [json.loads(bytes(event.raw)) for event in events if event.type == SCHEDULE_CHANGE]

    def live(
        self, body: Callable[[Host, SimulatedClock], Awaitable[T]], *, start: str = T0, script: Any = ()
    ) -> T:
        """Run `body(host, clock)` in simulated time, in a host over this disk with Schedule in it."""

        async def main(clock: SimulatedClock) -> T:
            model, plugins = ScriptedModel(script), [schedule.plugin()]
            async with Host(storage=self.storage, model=model, plugins=plugins, clock=clock) as host:
                return await body(host, clock)

        return simulate(main, start=decode_instant(start))

    def live_for(self, seconds: float, *, start: str = T0) -> list[Message]:
        """Have the session live for a while, nobody speaking, and return the reminders delivered to it."""

        async def body(host: Host, clock: SimulatedClock) -> list[Message]:
            agent = await host.agents.open(SESSION)
            await asyncio.sleep(seconds)
            await agent.when_idle()
            return [message for message in agent.transcript() if message.source.get("plugin") == "schedule"]

        return self.live(body, start=start)


def code_of(*rows: dict[str, Any] | str, seed_length: int | None = None) -> str | None:
    """What a list answers about a log: the code, or None when it lists."""
    value = World(*rows, seed_length=seed_length).list()
    return value["code"] if isinstance(value, dict) else None


def answer_of(value: Any) -> str:
    """The target of a call that succeeded, else its code."""
    return value.get("scheduledAt") or value["code"]


class Printed(NamedTuple):
    """How `watchbell` ended, in this process, and what it printed."""

    exit_code: int
    stdout_bytes: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode()


def run_watchbell(*arguments: str, stdin: bytes | None = None) -> Printed:
    """Run the program in this process, without a process of its own."""
    with CliRunner().isolation(input=stdin) as (printed, told_errors, _):
        code: Any
        try:
            code = PROGRAM.main(list(arguments), prog_name="watchbell")
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        return Printed(int(code or 0), printed.getvalue(), told_errors.getvalue().decode())
