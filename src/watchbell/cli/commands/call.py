"""`watchbell call`: one tool call exactly as a model's, outside any turn."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from watchbell.agent.inbox import Inbox, Retention
from watchbell.agent.opening import place_damage, plan_opening
from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_json
from watchbell.cli.stored import open_store
from watchbell.clock import Clock, SystemClock, WallClock
from watchbell.context import Context
from watchbell.errors import CorruptLogError, PersistenceError, SessionNotFoundError, SettingsError
from watchbell.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, decode_offset_time
from watchbell.log.values import encode_json
from watchbell.reminders.arguments import Limits
from watchbell.reminders.framing import PLUGIN_NAME
from watchbell.reminders.times import ZoneLookup
from watchbell.reminders.views import Failure, render_answer
from watchbell.schedule.tools import TOOL_NAMES, schedule_tools
from watchbell.schedule.transactions import Transactions
from watchbell.sessions.live import Sessions
from watchbell.sessions.session import Session
from watchbell.storage.base import SessionPersistence
from watchbell.tools.definition import AbortSignal, Tool, ToolExecution
from watchbell.tools.registry import ToolRegistry
from watchbell.zones import ZoneTable

_NO_TEXT = "\ufffd"
"""Stands for arguments that are not even text; it is no JSON either."""

_DAMAGED = (
    "The log of this session is damaged, so its reminders cannot be read. Nothing was changed. Tell the user."
)
_RFC_3339 = re.compile(r"([0-9-]{10})[T ]([0-9:]{8})(?:\.([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})")
_logger = logging.getLogger("watchbell")


async def call_tool(
    storage: SessionPersistence,
    session_id: str,
    tool: str,
    text: str,
    *,
    clock: Clock,
    create: bool = False,
    cwd: str | None = None,
    limits: Limits | None = None,
    zones: ZoneLookup | None = None,
) -> Any:
    """Run one call of a Schedule tool on a stored session, and close the session again.

    There is no agent, so nothing is delivered and no turn begins: all that enters the log is the call's own
    `schedule/change`, with what an opening for work appends before it. Closing `storage` is the caller's.
    `text` holds the arguments as a model would send them. With `create` a session that is not there is begun,
    in the project `cwd` (an absolute path). `limits` and `zones` are those of `schedule.plugin`.

    Returns:
        The canonical JSON value, whole; an error value too. A damaged log is answered with
        `corrupt_schedule_log`; what is wrong with it, and where, is logged.

    Raises:
        SettingsError: There is no such tool.
        SessionNotFoundError, SessionLockedError, UnsupportedLogError: The session cannot be opened.
    """
    if tool not in TOOL_NAMES:
        raise SettingsError(_no_such(tool))
    limits, zones = limits or Limits(), zones or ZoneTable()
    async with Context() as ctx:
        sessions = Sessions(ctx, storage, clock)
        ctx.defer_async(lambda: _close(sessions))
        try:
            session = await _open_for_work(sessions, session_id, create=create, cwd=cwd)
        except CorruptLogError as error:
            _logger.error("%s", error)
            return render_answer(Failure("corrupt_schedule_log", _DAMAGED))
        transactions = Transactions(session, sessions, clock, limits)
        return await _execute(ctx, schedule_tools(transactions, zones, limits), tool, text)


async def _execute(ctx: Context, tools: Sequence[Tool], tool: str, text: str) -> Any:
    registry = ToolRegistry()
    registry.register_all(tools, ctx)
    execution = ToolExecution(agent=None, call_id="call", signal=AbortSignal())
    return (await registry.execute(tool, text, execution)).value


async def _open_for_work(sessions: Sessions, session_id: str, *, create: bool, cwd: str | None) -> Session:
    """Open a session; what recovery has to append goes before the first event of the call."""
    try:
        session = await sessions.resume(session_id)
    except SessionNotFoundError:
        if not create:
            raise
        session = await sessions.create(session_id, cwd=cwd)
    try:
        inbox = Inbox(session.header.owned_from, Retention(PLUGIN_NAME))
        opening = plan_opening(session, inbox)
    except CorruptLogError as error:
        raise await place_damage(sessions, session_id, error) from error
    if opening:
        session.lead(opening)
    return session


async def _close(sessions: Sessions) -> None:
    try:
        await sessions.aclose()
    except PersistenceError as error:
        _logger.warning("%s", error)  # the value said so already: the call's own barrier failed


def _no_such(tool: str) -> str:
    return f"there is no tool {tool!r}; choose one of {', '.join(TOOL_NAMES)}"


def decode_argument_text(raw: bytes) -> str:
    """Return the argument text that bytes hold; what is not UTF-8 becomes text that is no JSON object."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _NO_TEXT


def decode_clock(text: str) -> Clock:
    """Return a clock that stands at an RFC 3339 instant; digits beyond milliseconds are dropped.

    Raises:
        ValueError: The text is no instant of the UTC years 0001 to 9999.
    """
    match = _RFC_3339.fullmatch(text.upper())
    if match is None:
        raise ValueError(f"{text!r} is not an instant such as 2027-06-01T09:00:00Z")
    day, time, fraction, offset = match.groups()
    strict = f"{day}T{time}.{(fraction or '')[:3]:0<3}{'Z' if offset == '-00:00' else offset}"
    instant_ms = decode_offset_time(strict)
    if not MIN_INSTANT_MS <= instant_ms <= MAX_INSTANT_MS:
        raise ValueError(f"{text!r} is outside the UTC years 0001 to 9999")
    return WallClock(lambda: instant_ms, lambda: 0.0)


@guarded
def call(
    session: options.Session,
    tool: Annotated[str, typer.Argument(help=f"One of {', '.join(TOOL_NAMES)}.")],
    arguments: Annotated[
        str, typer.Argument(metavar="[ARGS]", help="The arguments, a JSON object; - reads them from stdin.")
    ] = "",
    clock: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Set the clock for this call, as in 2027-06-01T09:00:00Z."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the session if there is none.")] = False,
    config: options.Config = None,
    home: options.GivenHome = None,
) -> int:
    """Call a Schedule tool as a model would, outside any turn, and print the value that it answers.

    An error value is an answer too: the command fails only when no call could be made. A terminal gets the
    value in pure ASCII; files and pipes get its canonical bytes.
    """
    if tool not in TOOL_NAMES:
        raise typer.BadParameter(_no_such(tool), param_hint="TOOL")
    try:
        wall_clock = SystemClock() if clock is None else decode_clock(clock)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--clock") from None
    settings = options.find_settings(home, config).settings
    text = decode_argument_text(_read_arguments(arguments))
    limits, cwd = Limits(max_active=settings.max_active), str(Path.cwd())

    async def call_stored() -> object:
        async with open_store(settings.home, settings.compression) as store:
            return await call_tool(
                store, session, tool, text, clock=wall_clock, create=create, cwd=cwd, limits=limits
            )

    _print(asyncio.run(call_stored()))
    return 0


def _print(value: object) -> None:
    if sys.stdout.isatty():  # which would obey the controls that the canonical bytes may hold
        print_json(value, indent=None)
    else:
        typer.echo(encode_json(value))


def _read_arguments(arguments: str) -> bytes:
    """Return the bytes of the arguments, from stdin or as they stood on the command line."""
    if arguments == "-":
        return sys.stdin.buffer.read()
    try:
        return os.fsencode(arguments)  # gives back what the locale made of them
    except UnicodeEncodeError:
        return b"\xff"
