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

from watchbell import Host, schedule
from watchbell.cli.commands.call import call_tool
from watchbell.cli.main import app
from watchbell.instants import decode_instant, render_instant
from watchbell.log.event import Draft
from watchbell.log.header import SessionHeader
from watchbell.log.messages import Message
from watchbell.reminders.records import SCHEDULE_CHANGE
from watchbell.reminders.rules import Limits, ZoneLookup
from watchbell.storage.base import SessionPersistence
from watchbell.testing import MemoryDisk, MemoryStorage, ScriptedModel, SimulatedClock, simulate

T = TypeVar("T")
T0 = "2026-12-01T00:00:00.000Z"
"""What clocks read unless a test says otherwise."""

SESSION = "s"

PROGRAM = get_command(app)  # made once: that costs more than most commands


def later(seconds: float, start: str = T0) -> str:
    """Canonical UTC, this many seconds after an instant."""
    return render_instant(decode_instant(start) + round(seconds * 1000))


def record(kind: str = "after", schedule_id: str = "schedule-1", **changes: Any) -> dict[str, Any]:
    """A record as a log holds it; a key given as `...` is left out."""
    rule = {"after": {"afterSeconds": 600}, "at": {}, "every": {"everySeconds": 600}}
    head = {"id": schedule_id, "kind": kind, "prompt": "p", **rule.get(kind, {}), "scheduledAt": later(600)}
    return {key: value for key, value in (head | changes).items() if value is not ...}


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
    """One session on a disk in memory, unless `storage` is given another place.

    Args:
        rows: `schedule/change` payloads that its log holds from the beginning, as data or as raw JSON.
        seed_length: How many of them are a parent's.
    """

    def __init__(self, *rows: dict[str, Any] | str, seed_length: int | None = None) -> None:
        self.disk = MemoryDisk()
        self.storage: SessionPersistence = MemoryStorage(self.disk)
        if not rows and seed_length is None:
            return
        raws = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
        events = [
            Draft(SCHEDULE_CHANGE, msgspec.Raw(raw.encode())).at(seq, 0) for seq, raw in enumerate(raws)
        ]
        self.disk.headers[SESSION] = SessionHeader(
            id=SESSION, created_at=0, delegation_depth=0, seed_length=seed_length
        )
        self.disk.batches[SESSION] = [tuple(events)]

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
        return self.payloads(SCHEDULE_CHANGE)

    def payloads(self, event_type: str) -> list[Any]:
        """The payloads of the durable events of one type."""
        if SESSION not in self.disk.batches:
            return []
        events = self.disk.events(SESSION)
        return [json.loads(bytes(event.raw)) for event in events if event.type == event_type]

    def live(
        self, body: Callable[[Host, SimulatedClock], Awaitable[T]], *, start: str = T0, script: Any = ()
    ) -> T:
        """Run `body(host, clock)` in simulated time, in a host over this disk with Schedule in it."""

        async def main(clock: SimulatedClock) -> T:
            model = ScriptedModel(script)
            async with Host(
                storage=self.storage, model=model, plugins=[schedule.plugin()], clock=clock
            ) as host:
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
        try:
            code = PROGRAM.main(list(arguments), prog_name="watchbell")
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        return Printed(code or 0, printed.getvalue(), told_errors.getvalue().decode())
