"""`watchbell doctor`: is everything as it should be?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from watchbell.cli.checkup import Finding, check_home, check_settings, check_zones, find_versions
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_json, print_line
from watchbell.cli.console.progress import Progress
from watchbell.cli.options import ConfigOption, GivenHomeOption, JsonOption
from watchbell.cli.session_checkup import SessionFacts, check_session

__all__ = ["doctor"]

_STYLES = {"problem": "bold red", "warning": "yellow", "note": "dim"}


@guarded
def doctor(config: ConfigOption = None, as_json: JsonOption = False, home: GivenHomeOption = None) -> int:
    """Check versions, settings, time zone data, the home, and every session in it. Nothing is written.

    Exits with 1 when there is a problem; warnings are none.
    """
    settings, place, findings = check_settings(home, config)
    zones, said = check_zones()
    findings += said
    facts, logs, said = check_home(place)
    findings += said
    sessions, said = _check_sessions(logs)
    findings += said
    report: dict[str, Any] = {
        "versions": find_versions(),
        "home": facts,
        "zoneData": zones,
        "model": None if settings is None else settings.model,
        "sessions": [msgspec.to_builtins(session) for session in sessions],
        "findings": [msgspec.to_builtins(finding) for finding in findings],
    }
    if as_json:
        print_json(report)
    else:
        _print(report, sessions, findings)
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def _check_sessions(logs: list[Path]) -> tuple[list[SessionFacts], list[Finding]]:
    sessions: list[SessionFacts] = []
    findings: list[Finding] = []
    copies = Counter(log.parent.name for log in logs)
    with Progress("Checking sessions") as progress:
        for number, log in enumerate(logs):
            progress.tell(f"Checking session {number + 1} of {len(logs)}")
            facts, said = check_session(log, copies[log.parent.name])
            sessions.append(facts)
            findings += said
    return sessions, findings


def _print(report: dict[str, Any], sessions: list[SessionFacts], findings: list[Finding]) -> None:
    versions = {name: version for name, version in report["versions"].items() if version is not None}
    missing = [name for name, version in report["versions"].items() if version is None]
    _tell("Versions", ", ".join(f"{name} {version}" for name, version in versions.items()))
    if missing:
        _tell("Not installed", ", ".join(missing))
    home, zones = report["home"], report["zoneData"]
    kind = "not there yet" if not home["exists"] else "writable" if home["writable"] else "not writable"
    _tell("Home", f"{home['path']} ({kind}{', mode ' + home['mode'] if home['mode'] else ''})")
    if zones is not None:
        _tell("Zone data", f"release {zones['release']}, from {zones['origin']}")
    if report["model"] is not None:
        _tell("Model", report["model"])
    active = sum(session.active or 0 for session in sessions)
    overdue = sum(session.overdue or 0 for session in sessions)
    opened = sum(session.holder is not None and session.holder.is_live for session in sessions)
    _tell("Sessions", f"{len(sessions)}, {opened} open in a program; reminders: {active}, {overdue} overdue")
    for finding in findings:
        print_line(f"{finding.level}: {finding.about}: {finding.text}", style=_STYLES[finding.level])
    levels = Counter(finding.level for finding in findings)
    told = f"{_count(levels['problem'], 'problem')}, {_count(levels['warning'], 'warning')}."
    print_line(told.capitalize(), style="bold")


def _tell(name: str, text: str) -> None:
    print_line(f"{name + ':':<15}{text}")


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
