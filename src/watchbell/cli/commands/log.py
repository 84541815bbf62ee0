"""`watchbell log`: a session's events, one row each."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line, shorten
from watchbell.cli.console.progress import progress
from watchbell.cli.console.times import render_utc
from watchbell.cli.stored import read_log_of
from watchbell.errors import LogError, ScheduleLogError
from watchbell.log.codec import encode_rows
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import ToolCallBlock, ToolResultBlock
from watchbell.log.payloads import (
    Aborted,
    Failed,
    Splice,
    StepMark,
    ToolCallEvent,
    TurnEnd,
    TurnStart,
    surface_message,
)
from watchbell.reminders.records import Create, Delete, Dispatch, decode_change, render_record
from watchbell.storage.jsonl.tail import LogTail

POLL_SECONDS = 0.2
"""How often `--follow` looks whether the file has changed."""


@guarded
def log(
    session: options.Session,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only this type, such as `schedule/*`; may be repeated."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is appended, until Ctrl-C.")
    ] = False,
    as_json: options.Json = False,
    home: options.Home = options.DEFAULT_HOME,
) -> int:
    """Print a session's events: number, time in UTC, type, and what it is about.

    Nothing is locked or written. With --json each line is one event as it stands in the log.
    """
    asyncio.run(_print(home, session, tuple(types or ()), follow=follow, as_json=as_json))
    return 0


async def _print(home: Path, session: str, types: tuple[str, ...], *, follow: bool, as_json: bool) -> None:
    with progress(f"Reading session {session}"):
        stored = await read_log_of(home, session)
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
    tell = _TELL.get(event.type, _tell_json)
    try:
        return shorten(tell(event))
    except (LogError, ScheduleLogError):
        return shorten(_tell_json(event))


def _tell_json(event: Event) -> str:
    data = event.data
    return json.dumps(data, ensure_ascii=False) if data else ""


def _tell_message(event: Event) -> str:
    message = surface_message(event)
    return f"{message.source.get('plugin') or message.source.get('kind', '')}: {message.text}"


def _tell_chunk(event: Event) -> str:
    match event.data:
        case {"turn": turn, "step": step, "chunk": {"type": kind, **rest}}:
            return f"{turn}.{step} {kind} {rest.get('text', rest.get('argumentsDelta', ''))}"
        case _:
            return _tell_json(event)


def _tell_answer(event: Event) -> str:
    message = surface_message(event)
    calls = [block.name for block in message.content if isinstance(block, ToolCallBlock)]
    parts = [message.text, f"(calls {', '.join(calls)})" if calls else ""]
    return " ".join(filter(None, parts))


def _tell_call(event: Event) -> str:
    call = event.decode(ToolCallEvent)
    return f"{call.name} {call.arguments}"


def _tell_result(event: Event) -> str:
    blocks = [block for block in surface_message(event).content if isinstance(block, ToolResultBlock)]
    return " ".join(part.text for block in blocks for part in block.content)


def _tell_step(event: Event) -> str:
    mark = event.decode(StepMark)
    return f"turn {mark.turn} step {mark.step}"


def _tell_turn_end(event: Event) -> str:
    end = event.decode(TurnEnd)
    match end.reason:
        case Failed(error=error):
            ended = f"error {error.code}: {error.message}"
        case Aborted(reason=by):
            ended = f"aborted by {by.kind}"
        case _:
            ended = event.data["reason"]["kind"]
    return f"turn {end.turn} {ended}"


def _tell_change(event: Event) -> str:
    match decode_change(event.raw):
        case Create(schedule=record):
            kind = render_record(record)["kind"]
            return f"create {record.id} ({kind}) at {record.scheduled_at}: {record.prompt}"
        case Delete(id=schedule_id):
            return f"delete {schedule_id}"
        case Dispatch(id=schedule_id, accepted_at=accepted_at):
            return f"dispatch {schedule_id}" + (f", accepted at {accepted_at}" if accepted_at else "")


def _tell_splice(event: Event) -> str:
    splice = event.decode(Splice)
    inserted = [f"+{message.id}" for message in splice.inserted]
    removed = [f"-{splice.removed_count}"] if splice.removed_count else []
    return " ".join([splice.target, *removed, *inserted, splice.outcome or ""]).rstrip()


def _tell_header(event: Event) -> str:
    match event.data:
        case {"header": {"config": {"provider": provider, "model": model}}, "reason": reason}:
            return f"{provider} {model} ({reason})"
        case _:
            return _tell_json(event)


_TELL: dict[str, Callable[[Event], str]] = {
    "agent/inbox/spliced": _tell_splice,
    "assistant/chunk": _tell_chunk,
    "assistant/message": _tell_answer,
    "request/header": _tell_header,
    "schedule/change": _tell_change,
    "step/end": _tell_step,
    "step/start": _tell_step,
    "tool/call": _tell_call,
    "tool/result": _tell_result,
    "turn/end": _tell_turn_end,
    "turn/start": lambda event: f"turn {event.decode(TurnStart).turn}",
    "user/message": _tell_message,
}
