"""Where a session's files lie under a home, and how ids become names (log-format, "Layout").

```
<home>/sessions/
  --<project>--/            or `_no-cwd`
    <session id, escaped>/
      session.jsonl.zstd    or session.jsonl
      owner, torn-<time>
```
"""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

Compression: TypeAlias = Literal["zstd", "none"]
"""How a log is written: as zstd frames, or plain."""

LOG_NAMES: dict[Compression, str] = {"zstd": "session.jsonl.zstd", "none": "session.jsonl"}
"""File names of a log."""

LEVELS = 3
"""How many directories lie around a log, below its home."""

OWNER_NAME = "owner"
"""File beside a log that tells who has it open."""

MAX_NAME = 255
"""Longest name in a directory, in bytes."""

_NO_PROJECT = "_no-cwd"
_MAX_PROJECT = MAX_NAME - 4  # without the dashes around it
_SAFE = re.compile(r"[A-Za-z0-9._-]")
_SEPARATORS = re.compile(r"[/\\:]+")
_ESCAPE = re.compile("~([0-9A-F]{4})")
_PROJECT_NAME = re.compile(r"--.+--")
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def escape_session_id(session_id: str) -> str:
    """Return the name of a session's folder; different ids have different names.

    Raises:
        ValueError: The id is empty, or its name would be longer than a file's name may be.
    """
    name = session_id.replace(".", "~002E") if session_id in (".", "..") else _escape(session_id)
    if not name or len(name) > MAX_NAME:
        raise ValueError(
            f"a session id must be 1 to {MAX_NAME} characters long, escaped: {session_id[:40]!r}"
        )
    return name


def unescape_session_id(name: str) -> str | None:
    """Return the session whose folder has this name, None if no session's has."""
    units = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), name)
    session_id = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    try:
        return session_id if escape_session_id(session_id) == name else None
    except ValueError:
        return None


def project_directory(cwd: str | None) -> str:
    """Return the name of the directory for the sessions of a project; different projects may share one."""
    if cwd is None:
        return _NO_PROJECT
    name = _escape(_SEPARATORS.sub("-", cwd)).lstrip("-") or "root"
    return f"--{name[:_MAX_PROJECT]}--"


def is_project_directory(name: str) -> bool:
    """Whether a name is that of a project's directory."""
    return name == _NO_PROJECT or _PROJECT_NAME.fullmatch(name) is not None


def sessions_root(home: Path) -> Path:
    """Return the directory that holds all sessions of a home."""
    return home / "sessions"


def log_path(home: Path, session_id: str, cwd: str | None, compression: Compression) -> Path:
    """Return where the log of a new session goes."""
    folder = sessions_root(home) / project_directory(cwd) / escape_session_id(session_id)
    return folder / LOG_NAMES[compression]


def find_logs(
    home: Path, session_id: str | None = None, failures: dict[Path, OSError] | None = None
) -> Iterator[Path]:
    """Yield the logs that exist, of one session or of all, in order of their paths.

    Whatever has a log's name counts, also what is no file and cannot be read.

    Args:
        home: The home.
        session_id: Whose logs, all when None.
        failures: Takes the directories that cannot be read, each with the reason; the others are looked into
            all the same.

    Raises:
        OSError: Without `failures`, a directory cannot be read; one that is not there holds nothing.
    """
    for project in _directories(sessions_root(home), failures):
        if not is_project_directory(project.name):
            continue
        if session_id is None:
            folders = _directories(project, failures)
        else:
            folders = [project / escape_session_id(session_id)]
        for folder in folders:
            yield from _logs_in(folder, failures)


def find_logs_below(
    path: Path, levels: int = LEVELS, failures: dict[Path, OSError] | None = None
) -> Iterator[Path]:
    """Yield the logs in a home, or in any directory of its layout, in order of their paths; a file is itself.

    Unlike `find_logs` it also names logs that lie where none belongs.

    Args:
        path: Where to look.
        levels: How many levels of directories to look into.
        failures: As for `find_logs`.

    Raises:
        OSError: There is nothing at `path`, or without `failures`, a directory cannot be read.
    """
    if _has_place_of_log(path) or not path.is_dir():
        path.lstat()
        yield path
        return
    yield from sorted(_logs_in(path, failures))
    if levels:
        for directory in _directories(path, failures):
            if not _has_place_of_log(directory):
                yield from find_logs_below(directory, levels - 1, failures)


def _escape(text: str) -> str:
    """Escape all but safe characters, over UTF-16 code units."""
    return "".join(char if _SAFE.match(char) else _escape_units(char) for char in text)


def _escape_units(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"~{units[at : at + 4]}" for at in range(0, len(units), 4))


def _has_place_of_log(path: Path) -> bool:
    """Whether a path is named as a log is, and no folder of a session that has such an id."""
    is_folder = is_project_directory(path.parent.name) and path.is_dir()
    return path.name in LOG_NAMES.values() and not is_folder


def _logs_in(folder: Path, failures: dict[Path, OSError] | None) -> list[Path]:
    try:
        paths = [folder / name for name in LOG_NAMES.values()]
        return [path for path in paths if _has_place_of_log(path) and _exists(path)]
    except OSError as error:
        _take_note(folder, error, failures)
        return []


def _directories(path: Path, failures: dict[Path, OSError] | None) -> list[Path]:
    try:
        return sorted(entry for entry in path.iterdir() if _is_directory(entry))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        _take_note(path, error, failures)
        return []


def _take_note(path: Path, error: OSError, failures: dict[Path, OSError] | None) -> None:
    if failures is None:
        raise error
    failures.setdefault(path, error)


# Not `Path.exists` and `Path.is_dir`: those of newer Pythons answer no when they were not allowed to look.
def _exists(path: Path) -> bool:
    try:
        path.lstat()  # a link that leads nowhere, or to itself, is there too
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return False
        raise
