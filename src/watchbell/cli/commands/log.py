"""`watchbell log`: a session's events, one row each."""

from __future__ import annotations

import asyncio
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line, shorten
from watchbell.cli.console.progress import Progress
from watchbell.cli.console.times import render_utc
from watchbell.cli.options import DEFAULT_HOME, HomeOption, JsonOption, SessionArgument
from watchbell.cli.stored import open_store, read_one
from watchbell.errors import LogError
from watchbell.log.codec import encode_rows
from watchbell.log.event import Event
from watchbell.log.messages import ToolCallBlock, ToolResultBlock
from watchbell.log.payloads import surface_message
from watchbell.storage.jsonl.tail import LogTail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from watchbell.log.eventlog import EventLog

__all__ = ["log", "summarize"]

POLL_SECONDS = 0.2
"""How often `--follow` looks whether the file has changed."""


@guarded
def log(
    session: SessionArgument,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only this type, such as `schedule/*`; may be repeated."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is appended, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
    home: HomeOption = DEFAULT_HOME,
) -> int:
    """Print a session's events: number, time in UTC, type, and what it is about.

    Nothing is locked or written. With --json each line is one event as it stands in the log.
    """
    asyncio.run(_print(home, session, tuple(types or ()), follow=follow, as_json=as_json))
    return 0


async def _print(home: Path, session: str, types: tuple[str, ...], *, follow: bool, as_json: bool) -> None:
    async with open_store(home) as store:
        with Progress(f"Reading session {session}"):
            stored = await read_one(store, session)
    if follow:
        await _follow(LogTail(Path(stored.location)), types, as_json=as_json)
        return
    _print_events(stored.events, types, as_json=as_json)
    if stored.torn is not None:
        print_error(f"warning: left out a torn last batch, at byte {stored.torn.offset}")


async def _follow(tail: LogTail, types: tuple[str, ...], *, as_json: bool) -> None:
    shown, count = tail.events, 0
    while True:
        if tail.read():
            if tail.events is not shown:
                same = _common(shown, tail.events, count)
                if same < count:
                    print_error(f"the log was replaced or cut back; it is shown again from event {same} on")
                shown, count = tail.events, same
            _print_events(shown.span(count), types, as_json=as_json)
            count = len(shown)
        await asyncio.sleep(POLL_SECONDS)


def _common(before: EventLog, after: EventLog, count: int) -> int:
    """Return how many of the first `count` events, which were shown, the log still begins with."""
    pairs = zip(before.span(0, count), after, strict=False)
    return next((number for number, (old, new) in enumerate(pairs) if old != new), min(count, len(after)))


def _print_events(events: Iterable[Event], types: tuple[str, ...], *, as_json: bool) -> None:
    for event in events:
        if types and not any(fnmatchcase(event.type, wanted) for wanted in types):
            continue
        if as_json:
            print_json(json.loads(encode_rows([event])), indent=None)
        else:
            print_line(
                f"{event.seq:>5}  {render_utc(event.time)}  {event.type:<19}  {summarize(event)}".rstrip()
            )
    sys.stdout.flush()


def summarize(event: Event) -> str:
    """Return what an event is about, on one line; what no rule here knows is shown as its JSON."""
    data: Any = event.data
    tell = _TELL.get(event.type, _tell_json)
    try:
        return shorten(tell(event, data))
    except (KeyError, TypeError, AttributeError, ValueError, LogError):
        return shorten(_tell_json(event, data))


def _tell_json(event: Event, data: Any) -> str:
    return json.dumps(data, ensure_ascii=False) if data else ""


def _tell_message(event: Event, data: dict[str, Any]) -> str:
    message = surface_message(event)
    return f"{message.source.get('plugin') or message.source['kind']}: {message.text}"


def _tell_chunk(event: Event, data: dict[str, Any]) -> str:
    chunk = data["chunk"]
    told = chunk.get("text", chunk.get("argumentsDelta", ""))
    return f"{data['turn']}.{data['step']} {chunk['type']} {told}"


def _tell_answer(event: Event, data: dict[str, Any]) -> str:
    message = surface_message(event)
    calls = [block.name for block in message.content if isinstance(block, ToolCallBlock)]
    parts = [message.text, f"(calls {', '.join(calls)})" if calls else ""]
    return " ".join(filter(None, parts))


def _tell_result(event: Event, data: dict[str, Any]) -> str:
    blocks = [block for block in surface_message(event).content if isinstance(block, ToolResultBlock)]
    return " ".join(part.text for block in blocks for part in block.content)


def _tell_turn_end(event: Event, data: dict[str, Any]) -> str:
    match data["reason"]:
        case {"kind": "error", "error": {"code": code, "message": message}}:
            ended = f"error {code}: {message}"
        case {"kind": "aborted", "reason": {"kind": by}}:
            ended = f"aborted by {by}"
        case reason:
            ended = reason["kind"]
    return f"turn {data['turn']} {ended}"


def _tell_change(event: Event, data: dict[str, Any]) -> str:
    if data["operation"] == "create":
        record = data["schedule"]
        return f"create {record['id']} ({record['kind']}) at {record['scheduledAt']}: {record['prompt']}"
    accepted = f", accepted at {data['acceptedAt']}" if "acceptedAt" in data else ""
    return f"{data['operation']} {data['id']}{accepted}"


def _tell_splice(event: Event, data: dict[str, Any]) -> str:
    inserted = [f"+{message['id']}" for message in data["inserted"]]
    removed = [f"-{data['removedCount']}"] if data.get("removedCount") else []
    return " ".join([data["target"], *removed, *inserted, data.get("outcome", "")]).rstrip()


def _tell_header(event: Event, data: dict[str, Any]) -> str:
    config = data["header"]["config"]
    return f"{config['provider']} {config['model']} ({data['reason']})"


_TELL: dict[str, Callable[[Event, Any], str]] = {
    "agent/inbox/spliced": _tell_splice,
    "assistant/chunk": _tell_chunk,
    "assistant/message": _tell_answer,
    "request/header": _tell_header,
    "schedule/change": _tell_change,
    "step/end": lambda _, data: f"turn {data['turn']} step {data['step']}",
    "step/start": lambda _, data: f"turn {data['turn']} step {data['step']}",
    "tool/call": lambda _, data: f"{data['name']} {data['arguments']}",
    "tool/result": _tell_result,
    "turn/end": _tell_turn_end,
    "turn/start": lambda _, data: f"turn {data['turn']}",
    "user/message": _tell_message,
}
