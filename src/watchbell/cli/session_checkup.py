"""What `watchbell doctor` says of one session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from watchbell.cli.checkup import Finding
from watchbell.cli.commands.verify import Verdict, verify_log
from watchbell.cli.console.times import render_moment
from watchbell.cli.stored import fold_reminders
from watchbell.clock import wall_ms
from watchbell.errors import LogError, ScheduleLogError
from watchbell.storage.jsonl.layout import unescape_session_id
from watchbell.storage.jsonl.reading import read_log
from watchbell.storage.jsonl.survey import Holder, find_holder, find_side_files

__all__ = ["SessionFacts", "check_session"]


class SessionFacts(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of a session.

    Attributes:
        id: Its id, as far as its folder's name says.
        log: Where its log is.
        state: As `watchbell verify` says.
        events: How many events it holds, None when it cannot be read.
        active: How many reminders are to come, None when that cannot be told.
        overdue: How many of them are past due.
        next_at: When the earliest of them is due, canonical UTC.
        holder: Who has it open for writing, or ended while it had.
    """

    id: str
    log: str
    state: str
    events: int | None
    active: int | None
    overdue: int | None
    next_at: str | None
    holder: Holder | None


def check_session(log: Path, copies: int) -> tuple[SessionFacts, list[Finding]]:
    """Look at one log.

    Args:
        log: Its path.
        copies: How many logs of this session there are in its home; one is right.
    """
    holder = find_holder(log)
    verdict = verify_log(log, copies=copies)
    name = unescape_session_id(log.parent.name) or log.parent.name
    targets = _read_targets(log, verdict)
    now_ms = wall_ms()
    overdue = None if targets is None else [target for target in targets if target[0] <= now_ms]
    facts = SessionFacts(
        name,
        str(log),
        verdict.state,
        verdict.events,
        None if targets is None else len(targets),
        None if overdue is None else len(overdue),
        targets[0][1] if targets else None,
        holder,
    )
    findings = [*_judge(verdict, name, holder), *_tell_holder(name, holder)]
    if overdue:
        findings.append(_tell_overdue(name, overdue, holder))
    findings += [
        Finding("note", name, f"a torn batch was set aside: {path}; nothing in it was ever confirmed")
        for path in find_side_files(log)
    ]
    return facts, findings


def _read_targets(log: Path, verdict: Verdict) -> list[tuple[int, str]] | None:
    """Return the targets of a sound session's active reminders, earliest first."""
    if not verdict.is_sound:
        return None
    try:
        records = fold_reminders(read_log(log)).records
    except (LogError, ScheduleLogError, OSError):
        return None  # it changed since it was judged
    return sorted((record.target_ms, record.scheduled_at) for record in records)


def _judge(verdict: Verdict, name: str, holder: Holder | None) -> Iterable[Finding]:
    is_open = holder is not None and holder.is_live
    match verdict:
        case Verdict(state="sound"):
            pass
        case Verdict(state="torn" | "interrupted") if is_open:
            pass  # it is being written at this moment
        case Verdict(state="torn", torn_offset=offset, torn_length=length):
            yield Finding(
                "warning",
                name,
                f"a crash left a torn batch, {length} bytes at byte {offset}; the next opening sets it aside",
            )
        case Verdict(state="interrupted", open_turn=turn):
            yield Finding("note", name, f"turn {turn} was cut off; the next opening closes it")
        case Verdict(state=state, log=log, reason=reason, offset=offset):
            at = "" if offset is None else f" at byte {offset}"
            yield Finding("problem", name, f"{log} is {state.replace('-', ' ')}{at}: {reason}")


def _tell_holder(name: str, holder: Holder | None) -> Iterable[Finding]:
    if holder is None:
        return
    who = "another program" if holder.pid is None else f"process {holder.pid}"
    when = "" if holder.since is None else f" since {holder.since}"
    if holder.is_live:
        yield Finding("note", name, f"it is open in {who}{when}")
    else:
        text = f"{who}, which had it open{when}, is gone without closing it; the lock is free"
        yield Finding("note", name, text)


def _tell_overdue(name: str, overdue: list[tuple[int, str]], holder: Holder | None) -> Finding:
    count = "1 reminder is" if len(overdue) == 1 else f"{len(overdue)} reminders are"
    first = render_moment(overdue[0][0], None)
    if holder is not None and holder.is_live:
        return Finding("note", name, f"{count} overdue, since {first}; the program that has it open is at it")
    return Finding(
        "note", name, f"{count} overdue, since {first}; opening it delivers: watchbell chat {name}"
    )
