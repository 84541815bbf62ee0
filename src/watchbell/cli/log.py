"""`watchbell log`: a session's events, one row each."""

from __future__ import annotations

import asyncio
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchbell.cli.guard import guarded
from watchbell.cli.options import DEFAULT_HOME, HomeOption, JsonOption
from watchbell.cli.output import print_error, print_json, print_line, shorten
from watchbell.cli.stored import open_store, read_one
from watchbell.cli.times import render_utc
from watchbell.log.codec import encode_rows
from watchbell.log.events import Event, ToolResultBlock
from watchbell.log.transcript import surface_message

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["log", "summarize"]

POLL_SECONDS = 0.2
"""How often `--follow` looks whether the file has changed."""


@guarded
def log(
    session: Annotated[str, typer.Argument(help="Id of the session.")],
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
    """Print a session's events: number, time in UTC, type, and what it is about. Nothing is locked or written.

    With --json each line is one event as it stands in the log.
    """
    asyncio.run(_print(home, session, tuple(types or ()), follow=follow, as_json=as_json))
    return 0


async def _print(home: Path, session: str, types: tuple[str, ...], *, follow: bool, as_json: bool) -> None:
    async with open_store(home) as store:
        seen = None
        count = 0
        while True:
            stored = await read_one(store, session)
            if seen is None and stored.torn is not None and not follow:
                where = f"at byte {stored.torn.offset}"
                print_error(f"warning: a torn last batch {where} was left out; opening the session sets it aside")
            _print_events(stored.events.span(count), types, as_json=as_json)
            count = len(stored.events)
            if not follow:
                return
            seen = await _changed(Path(stored.location), seen)


async def _changed(path: Path, seen: tuple[int, int] | None) -> tuple[int, int]:
    """Return size and time of change of a file once they are others than `seen`."""
    while True:
        stat = path.stat()
        now = (stat.st_size, stat.st_mtime_ns)
        if now != seen:
            return now
        await asyncio.sleep(POLL_SECONDS)


def _print_events(events: Iterable[Event], types: tuple[str, ...], *, as_json: bool) -> None:
    for event in events:
        if types and not any(fnmatchcase(event.type, wanted) for wanted in types):
            continue
        if as_json:
            print_json(json.loads(encode_rows([event])), indent=None)
        else:
            print_line(f"{event.seq:>5}  {render_utc(event.time)}  {event.type:<19}  {summarize(event)}".rstrip())
    sys.stdout.flush()


def summarize(event: Event) -> str:
    """Return what an event is about, on one line; what no rule below knows is shown as its JSON."""
    data: Any = event.data
    try:
        return shorten(_tell(event, data))
    except (KeyError, TypeError, AttributeError, ValueError):
        return shorten(json.dumps(data, ensure_ascii=False))


def _tell(event: Event, data: dict[str, Any]) -> str:
    match event.type:
        case "user/message":
            message = surface_message(event)
            return f"{message.source.get('plugin') or message.source['kind']}: {message.text}"
        case "assistant/message":
            return _tell_answer(event)
        case "assistant/chunk":
            chunk = data["chunk"]
            told = chunk.get("text", chunk.get("argumentsDelta", ""))
            return f"{data['turn']}.{data['step']} {chunk['type']} {told}"
        case "tool/call":
            return f"{data['name']} {data['arguments']}"
        case "tool/result":
            blocks = [block for block in surface_message(event).content if isinstance(block, ToolResultBlock)]
            return " ".join(part.text for block in blocks for part in block.content)
        case "turn/start":
            return f"turn {data['turn']}"
        case "turn/end":
            return f"turn {data['turn']} {_tell_reason(data['reason'])}"
        case "step/start" | "step/end":
            return f"turn {data['turn']} step {data['step']}"
        case "schedule/change":
            return _tell_change(data)
        case "agent/inbox/spliced":
            return _tell_splice(data)
        case "request/header":
            config = data["header"]["config"]
            return f"{config['provider']} {config['model']} ({data['reason']})"
        case _:
            return json.dumps(data, ensure_ascii=False) if data else ""


def _tell_answer(event: Event) -> str:
    message = surface_message(event)
    calls = [block.name for block in message.content if hasattr(block, "arguments")]
    parts = [message.text, f"(calls {', '.join(calls)})" if calls else ""]
    return " ".join(filter(None, parts))


def _tell_reason(reason: dict[str, Any]) -> str:
    match reason:
        case {"kind": "error", "error": {"code": code, "message": message}}:
            return f"error {code}: {message}"
        case {"kind": "aborted", "reason": {"kind": by}}:
            return f"aborted by {by}"
        case _:
            return reason["kind"]


def _tell_change(data: dict[str, Any]) -> str:
    if data["operation"] == "create":
        record = data["schedule"]
        return f"create {record['id']} ({record['kind']}) at {record['scheduledAt']}: {record['prompt']}"
    accepted = f", accepted at {data['acceptedAt']}" if "acceptedAt" in data else ""
    return f"{data['operation']} {data['id']}{accepted}"


def _tell_splice(data: dict[str, Any]) -> str:
    inserted = [f"+{message['id']}" for message in data["inserted"]]
    removed = [f"-{data['removedCount']}"] if data.get("removedCount") else []
    return " ".join([data["target"], *removed, *inserted, data.get("outcome", "")]).rstrip()
