"""`watchbell verify`: are the stored logs sound?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_error, print_json, print_line
from watchbell.cli.console.progress import progress
from watchbell.cli.stored import fold_reminders
from watchbell.errors import CorruptLogError, ScheduleLogError, UnsupportedLogError
from watchbell.log.verify import verify_events
from watchbell.reminders.state import ScheduleState
from watchbell.storage.jsonl.layout import find_logs_below
from watchbell.storage.jsonl.reading import read_log


class Verdict(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What is to be said of one log.

    Attributes:
        log: Its path.
        state: `interrupted`: a crash left its last turn open, which the next opening closes. `torn`: a crash
            left an incomplete last batch, which the next opening sets aside. These two are sound. The other
            states are not.
        session: The session's id, None when the header cannot be read.
        events: How many events it holds.
        open_turn: The turn that is open.
        torn_offset: Byte offset of the incomplete last batch.
        torn_length: Its length in bytes.
        offset: Byte offset of the damage, when it has one place.
        reason: What is wrong.
    """

    log: str
    state: Literal["sound", "interrupted", "torn", "damaged", "unsupported", "schedule-invalid", "unreadable"]
    session: str | None = None
    events: int | None = None
    open_turn: int | None = None
    torn_offset: int | None = None
    torn_length: int | None = None
    offset: int | None = None
    reason: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether the session can be opened and goes on as it was."""
        return self.state in ("sound", "interrupted", "torn")


@guarded
def verify(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Homes, directories of sessions, session folders, logs."),
    ] = None,
    as_json: options.Json = False,
    home: options.Home = options.DEFAULT_HOME,
) -> int:
    """Check logs to the last byte, and say of each whether it is sound. Nothing is locked or written.

    Checked are frames and their checksums, rows, sequence, boundaries of turns and steps, calls and their
    results, the inbox, and the history of the reminders. Exits with 1 when a log is not sound; one that a
    crash left interrupted or torn is.
    """
    logs, failures = _find(paths or [home], is_home=not paths)
    verdicts: list[Verdict] = []
    copies = Counter(_place(path) for path in logs)
    for path in logs:
        with progress(f"Checking {path}"):
            verdict = verify_log(path, copies=copies[_place(path)])
        verdicts.append(verdict)
        if not as_json:
            print_line(f"{verdict.log}: {_tell(verdict)}")
    if as_json:
        print_json(verdicts)
    elif not logs and not failures:
        print_line(f"No logs in {', '.join(map(str, paths or [home]))}.")
    for failure in failures:
        print_error(failure)
    return 0 if not failures and all(verdict.is_sound for verdict in verdicts) else 1


def verify_log(path: Path, *, copies: int = 1) -> Verdict:
    """Check one log; see `judge_log`."""
    return judge_log(path, copies=copies)[0]


def judge_log(path: Path, *, copies: int = 1) -> tuple[Verdict, ScheduleState | None]:
    """Check one log, and return the reminders in it when it is sound.

    Args:
        path: The file.
        copies: How many logs of this session there are in its home; one is right.
    """
    log = str(path)
    try:
        stored = read_log(path.parent.resolve() / path.name)
    except CorruptLogError as error:
        return Verdict(log=log, state="damaged", offset=error.offset, reason=error.reason), None
    except UnsupportedLogError as error:
        return Verdict(log=log, state="unsupported", reason=error.reason), None
    except OSError as error:
        return Verdict(log=log, state="unreadable", reason=error.strerror or type(error).__name__), None
    session, events, torn = stored.header.id, len(stored.events), stored.torn
    if copies > 1:
        reason = "the session is there more than once"
        return Verdict(log=log, state="damaged", session=session, reason=reason), None
    told = partial(Verdict, log=log, session=session, events=events)
    try:
        open_turn = verify_events(stored.events, stored.header.owned_from)
        reminders = fold_reminders(stored)
    except CorruptLogError as error:
        return told(state="damaged", reason=error.reason), None
    except ScheduleLogError as error:
        return told(state="schedule-invalid", reason=str(error)), None
    if torn is not None:
        return told(
            state="torn", open_turn=open_turn, torn_offset=torn.offset, torn_length=torn.length
        ), reminders
    return told(state="sound" if open_turn is None else "interrupted", open_turn=open_turn), reminders


def _find(paths: Iterable[Path], *, is_home: bool) -> tuple[list[Path], list[str]]:
    """Return the logs, each once, and a line for each path where one cannot look."""
    logs: dict[Path, None] = {}
    failures: list[str] = []
    for path in paths:
        unread: dict[Path, OSError] = {}
        try:
            logs.update(dict.fromkeys(find_logs_below(path, failures=unread)))
        except OSError as error:
            # A home that is not there holds nothing.
            if not (is_home and isinstance(error, FileNotFoundError)):
                unread[path] = error
        failures += [f"{at}: {error.strerror or type(error).__name__}" for at, error in unread.items()]
    return list(logs), failures


def _place(path: Path) -> tuple[Path, str]:
    """Return what logs of one session share: the directory of all sessions, and the folder's name."""
    folder = path.parent.resolve()
    return folder.parent.parent, folder.name


def _tell(verdict: Verdict) -> str:
    match verdict:
        case Verdict(state="sound", events=events):
            return f"sound, {events} events"
        case Verdict(state="interrupted", events=events, open_turn=turn):
            return f"interrupted (turn {turn} is open), {events} events"
        case Verdict(state="torn", torn_offset=at, torn_length=length, events=events, open_turn=turn):
            also = "" if turn is None else f", turn {turn} is open"
            return f"torn tail ({length} bytes at byte {at}{also}), {events} events"
        case Verdict(state="schedule-invalid", reason=reason):
            return f"schedule invalid: {reason}"
        case Verdict(state=state, offset=None, reason=reason):
            return f"{state}: {reason}"
        case Verdict(state=state, offset=at, reason=reason):
            return f"{state} at byte {at}: {reason}"
