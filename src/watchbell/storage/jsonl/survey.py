"""What lies in a home besides the contents of its logs: found by looking, and nothing else is touched.

No lock is taken, not even for a moment: somebody who opens the session just then would be refused.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from watchbell.storage.jsonl._lock import read_owner
from watchbell.storage.jsonl.layout import (
    OWNER_NAME,
    is_project_directory,
    sessions_root,
    unescape_session_id,
)

_LOCKS = Path("/proc/locks")


class Holder(msgspec.Struct, frozen=True):
    """Who has a log open for writing, or had it.

    Attributes:
        is_live: Whether it still has. Else it ended without a word, and the next opening takes over.
        pid: Process id, None when nothing says.
        since: Since when, canonical UTC, None when nothing says.
    """

    is_live: bool
    pid: int | None
    since: str | None


def file_mode(path: Path) -> int | None:
    """Return a file's permission bits; None when it is not there, or where they mean nothing.

    Raises:
        OSError: The system does not tell.
    """
    if sys.platform == "win32":
        return None
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def find_strays(home: Path) -> Iterator[Path]:
    """Yield what lies where only projects, or only sessions, belong; `dsh` refuses a home with such.

    Raises:
        OSError: A directory cannot be read.
    """
    for project in _entries(sessions_root(home)):
        if not (project.is_dir() and is_project_directory(project.name)):
            yield project
            continue
        for session in _entries(project):
            if not session.is_dir() or unescape_session_id(session.name) is None:
                yield session


def find_side_files(log: Path) -> list[Path]:
    """Return the torn batches that were set aside beside a log."""
    return sorted(log.parent.glob("torn-*"))


def find_holder(log: Path) -> Holder | None:
    """Return who has a log open for writing, or ended while it had; None for nobody."""
    owner = read_owner(log.with_name(OWNER_NAME))
    told = None if owner is None else owner.pid
    since = None if owner is None else owner.since
    pids = _lock_pids(log, told)
    if pids is None:  # a system that does not list its locks: whoever signed is taken at their word
        return None if told is None else Holder(_is_running(told), told, since)
    if told in pids or (pids and told is None):
        return Holder(is_live=True, pid=told or pids[0], since=since)
    if pids:
        return Holder(is_live=True, pid=pids[0], since=None)
    return None if told is None else Holder(is_live=False, pid=told, since=since)


def _lock_pids(log: Path, told: int | None) -> list[int] | None:
    """Return the processes with a lock on a file, as Linux lists them (proc_locks(5)); None elsewhere."""
    try:
        rows = _LOCKS.read_text(encoding="ascii").splitlines()
        found = log.stat()
    except (OSError, ValueError):
        return None
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    pids: list[int] = []
    for row in rows:
        fields = row.split()
        if "->" in fields or "FLOCK" not in fields:  # an arrow: it only waits
            continue
        pid, (place, _, inode) = int(fields[4]), fields[5].rpartition(":")
        # Some file systems give their files another device than their locks.
        if int(inode) == found.st_ino and (place == device or pid == told):
            pids.append(pid)
    return pids


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is there, and somebody else's
    return True


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
