"""`watchbell doctor`: is everything as it should be?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from watchbell.cli import options
from watchbell.cli.commands.doctor._checkup import (
    Finding,
    HomeFacts,
    ZoneFacts,
    check_home,
    check_settings,
    check_zones,
    find_versions,
)
from watchbell.cli.commands.doctor._session_checkup import SessionFacts, check_session
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_json, print_line
from watchbell.cli.console.progress import progress

_STYLES = {"problem": "bold red", "warning": "yellow", "note": "dim"}


class _Report(msgspec.Struct, frozen=True, rename="camel"):
    versions: dict[str, str | None]
    home: HomeFacts
    zone_data: ZoneFacts | None
    model: str | None
    sessions: list[SessionFacts]
    findings: list[Finding]


@guarded
def doctor(
    config: options.Config = None, as_json: options.Json = False, home: options.GivenHome = None
) -> int:
    """Check versions, settings, time zone data, the home, and every session in it. Nothing is written.

    Exits with 1 when there is a problem; warnings are none.
    """
    settings, place, findings = check_settings(home, config)
    zones, of_zones = check_zones()
    facts, logs, of_home = check_home(place)
    sessions, of_sessions = _check_sessions(logs)
    findings = [*findings, *of_zones, *of_home, *of_sessions]
    model = None if settings is None else settings.model
    report = _Report(find_versions(), facts, zones, model, sessions, findings)
    if as_json:
        print_json(report)
    else:
        _print(report)
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def _check_sessions(logs: list[Path]) -> tuple[list[SessionFacts], list[Finding]]:
    sessions: list[SessionFacts] = []
    findings: list[Finding] = []
    copies = Counter(log.parent.name for log in logs)
    with progress("Checking sessions") as tell:
        for number, log in enumerate(logs):
            tell(f"Checking session {number + 1} of {len(logs)}")
            facts, said = check_session(log, copies[log.parent.name])
            sessions.append(facts)
            findings += said
    return sessions, findings


def _print(report: _Report) -> None:
    found = (f"{name} {version}" for name, version in report.versions.items() if version is not None)
    missing = [name for name, version in report.versions.items() if version is None]
    _tell("Versions", ", ".join(found))
    if missing:
        _tell("Not installed", ", ".join(missing))
    home, zones, sessions = report.home, report.zone_data, report.sessions
    kind = "not there yet" if not home.exists else "writable" if home.writable else "not writable"
    _tell("Home", f"{home.path} ({kind}{f', mode {home.mode}' if home.mode else ''})")
    if zones is not None:
        _tell("Zone data", f"release {zones.release}, from {zones.origin}")
    if report.model is not None:
        _tell("Model", report.model)
    active = sum(session.active or 0 for session in sessions)
    overdue = sum(session.overdue or 0 for session in sessions)
    opened = sum(session.holder is not None and session.holder.is_live for session in sessions)
    _tell("Sessions", f"{len(sessions)}, {opened} open in a program; reminders: {active}, {overdue} overdue")
    for finding in report.findings:
        print_line(f"{finding.level}: {finding.about}: {finding.text}", style=_STYLES[finding.level])
    levels = Counter(finding.level for finding in report.findings)
    told = f"{_count(levels['problem'], 'problem')}, {_count(levels['warning'], 'warning')}."
    print_line(told.capitalize(), style="bold")


def _tell(name: str, text: str) -> None:
    print_line(f"{name + ':':<15}{text}")


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
