"""One live writer for each log: a lock on the log file itself, which ends with its holder.

The lock belongs to the open file, so that opening a session twice in one process is refused too. The file
`owner` beside the log says who holds it; it is information only and may be missing or stale.
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from watchbell.errors import PersistenceError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class Owner(msgspec.Struct, frozen=True):
    """Who has a session open.

    Attributes:
        pid: Process id.
        since: Since when, canonical UTC.
    """

    pid: int
    since: str


def take_lock(descriptor: int) -> bool:
    """Lock an open file, at once or not at all; closing the descriptor unlocks it.

    Returns:
        Whether the lock was free.

    Raises:
        PersistenceError: This system, or this file system, has no such locks.
    """
    if fcntl is None:
        raise PersistenceError(
            "this system has no `flock` to keep two writers apart: session logs can be read here, not written"
        )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise PersistenceError(f"the session's log cannot be locked: {error.strerror}") from error
    return True


def read_owner(path: Path) -> Owner | None:
    """Read who holds the lock, None when that is not known."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Owner)
    except (OSError, ValueError):
        return None


def write_owner(path: Path, now_ms: int) -> None:
    """Write down that this process holds the lock; failing to does no harm."""
    seconds, milliseconds = divmod(now_ms, 1000)
    since = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - pathlib cannot say the mode of a new file
            file.write(msgspec.json.encode(Owner(os.getpid(), since)))
