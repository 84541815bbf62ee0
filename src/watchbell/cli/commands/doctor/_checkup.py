"""What `watchbell doctor` looks at: everything is read, nothing is written."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec
import typer

from watchbell.cli.options import find_settings
from watchbell.errors import SettingsError, ZoneDataError
from watchbell.host.settings import CONFIG_NAME, DEFAULT_HOME, Settings, build_model, expand_user, read_config
from watchbell.storage.jsonl.layout import LOG_NAMES, find_logs_below, sessions_root
from watchbell.storage.jsonl.survey import file_mode, find_strays
from watchbell.zones import ZoneTable

_PACKAGES = ("msgspec", "tzdata", "zstandard", "typer", "rich", "prompt-toolkit", "tzlocal", "openai")
_OF_OTHERS = 0o077
_READABLE_BY_OTHERS = 0o044


class Finding(msgspec.Struct, frozen=True):
    """One thing that somebody should know.

    Attributes:
        level: A `problem` keeps something from working, a `warning` may some day; a `note` is none of both.
        about: What it is about: `settings`, `home`, `zone data`, or a session's id.
        text: What is so, and what to do.
    """

    level: Literal["problem", "warning", "note"]
    about: str
    text: str


class HomeFacts(msgspec.Struct, frozen=True):
    """What a home is like; `mode` are its permission bits in octal digits, None when it has none."""

    path: str
    exists: bool
    writable: bool
    mode: str | None


class ZoneFacts(msgspec.Struct, frozen=True):
    """The release of the zone data, and where it lies."""

    release: str
    origin: str


def find_versions() -> dict[str, str | None]:
    """Return the versions of Watchbell, of Python and of the packages in use; None for one not installed."""
    versions: dict[str, str | None] = {"watchbell": version("watchbell"), "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def check_settings(home: Path | None, config: Path | None) -> tuple[Settings | None, Path, list[Finding]]:
    """Return the settings, None when they cannot be used; the home; and what there is to say."""
    chosen = config or Path(os.environ.get("WATCHBELL_CONFIG") or "")
    start = home or Path(os.environ.get("WATCHBELL_HOME") or DEFAULT_HOME)
    findings: list[Finding] = []
    try:
        start = expand_user(start)
        file = expand_user(start / CONFIG_NAME if chosen == Path() else chosen).absolute()
        findings += _check_file(file)
        settings = find_settings(home, config).settings
    except (SettingsError, ZoneDataError, typer.BadParameter) as error:
        findings.append(Finding("problem", "settings", str(error)))
        return None, start.absolute(), findings
    try:
        build_model(settings)
    except SettingsError as error:
        findings.append(Finding("problem", "settings", str(error)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the report
        text = f"the model cannot be made ready: {type(error).__name__}: {error}"
        findings.append(Finding("problem", "settings", text))
    return settings, settings.home, findings


def check_zones() -> tuple[ZoneFacts | None, list[Finding]]:
    """Return what the zone data is, None when it cannot be used, and what there is to say."""
    zones = ZoneTable()
    try:
        zones.check()
        found = ZoneFacts(zones.release(), zones.origin())
    except ZoneDataError as error:
        return None, [Finding("problem", "zone data", str(error))]
    if "PYTHONTZPATH" in os.environ:
        text = "PYTHONTZPATH is set, and plays no part here: zones come from the tzdata package alone"
        return found, [Finding("note", "zone data", text)]
    return found, []


def check_home(home: Path) -> tuple[HomeFacts, list[Path], list[Finding]]:
    """Return what the home is like, the logs in it, and what there is to say."""
    findings: list[Finding] = []
    logs: list[Path] = []
    unread: dict[Path, OSError] = {}
    mode = None
    try:
        mode = file_mode(home)
        if sessions_root(home).is_dir():
            logs = list(find_logs_below(sessions_root(home), 2, unread))
        for path, error in unread.items():
            text = f"{path} cannot be read: {error.strerror or type(error).__name__}"
            findings.append(Finding("problem", "home", text))
        findings += _check_access(home, mode)
        if not unread:  # else it would stumble over the same directory
            findings += _check_contents(home, logs)
    except OSError as error:
        findings.append(Finding("problem", "home", f"it cannot be read: {error}"))
    shown = None if mode is None else f"{mode:04o}"
    return HomeFacts(str(home), home.is_dir(), os.access(home, os.W_OK), shown), logs, findings


def _check_file(file: Path) -> Iterable[Finding]:
    try:
        table, mode = read_config(file), file_mode(file)
    except (SettingsError, OSError):
        return  # finding the settings says so, too
    if table and table.get("api_key") and mode is not None and mode & _READABLE_BY_OTHERS:
        yield Finding(
            "warning",
            "settings",
            f"{file} holds an API key and others can read it (mode {mode:04o}); run: chmod 600 {file}",
        )


def _check_access(home: Path, mode: int | None) -> Iterable[Finding]:
    if not home.is_dir():
        if home.exists():
            yield Finding("problem", "home", f"{home} is no directory; name another with --home")
        else:
            yield Finding("note", "home", "it is not there yet; the first session makes it")
        return
    if not os.access(home, os.W_OK):
        yield Finding("problem", "home", f"{home} cannot be written, so no session can be opened for work")
    if mode is not None and mode & _OF_OTHERS:
        yield Finding("warning", "home", f"others can look into it (mode {mode:04o}); run: chmod 700 {home}")


def _check_contents(home: Path, logs: list[Path]) -> Iterable[Finding]:
    for stray in find_strays(home):
        yield Finding("warning", "home", f"{stray} does not belong there; dsh refuses a home with such")
    encodings = Counter(log.name for log in logs)
    if len(encodings) > 1:
        plain, packed = encodings[LOG_NAMES["none"]], encodings[LOG_NAMES["zstd"]]
        yield Finding(
            "warning",
            "home",
            f"it holds plain logs ({plain}) and compressed ones ({packed}); Watchbell reads both, dsh "
            "refuses such a home",
        )
