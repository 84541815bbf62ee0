"""What `watchbell doctor` says of one session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from watchbell.cli.commands.doctor._checkup import Finding
from watchbell.cli.commands.verify import Verdict, judge_log
from watchbell.cli.console.times import render_moment
from watchbell.clock import wall_ms
from watchbell.storage.jsonl.layout import unescape_session_id
from watchbell.storage.jsonl.survey import Holder, find_holder, find_side_files


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
    verdict, reminders = judge_log(log, copies=copies)
    name = unescape_session_id(log.parent.name) or log.parent.name
    findings = [*_judge(verdict, name, holder), *_tell_holder(name, holder)]
    active = overdue = next_at = None
    if reminders is not None:
        targets = sorted((record.target_ms, record.scheduled_at) for record in reminders.records)
        now_ms = wall_ms()
        active, overdue = len(targets), sum(target_ms <= now_ms for target_ms, _ in targets)
        if targets:
            next_at = targets[0][1]
        if overdue:
            findings.append(_tell_overdue(name, overdue, targets[0][0], holder))
    findings += [
        Finding("note", name, f"a torn batch was set aside: {path}; nothing in it was ever confirmed")
        for path in find_side_files(log)
    ]
    facts = SessionFacts(name, str(log), verdict.state, verdict.events, active, overdue, next_at, holder)
    return facts, findings


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


def _tell_overdue(name: str, count: int, since_ms: int, holder: Holder | None) -> Finding:
    told = "1 reminder is" if count == 1 else f"{count} reminders are"
    first = render_moment(since_ms, None)
    if holder is not None and holder.is_live:
        return Finding("note", name, f"{told} overdue, since {first}; the program that has it open is at it")
    return Finding("note", name, f"{told} overdue, since {first}; opening it delivers: watchbell chat {name}")
