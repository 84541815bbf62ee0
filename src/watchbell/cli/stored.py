"""Reading what is stored: without a lock, and without writing anything."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from watchbell.cli.console.progress import progress
from watchbell.errors import (
    CorruptLogError,
    LogError,
    PersistenceError,
    ScheduleLogError,
    SessionNotFoundError,
    UnsupportedLogError,
)
from watchbell.reminders.state import ScheduleState
from watchbell.storage.base import SessionRef, StoredLog
from watchbell.storage.jsonl.layout import Compression, is_project_directory, unescape_session_id
from watchbell.storage.jsonl.store import JsonlStorage

UNREADABLE = "unreadable"
"""The code of a session whose files the system does not let us read."""


class Reading(msgspec.Struct, frozen=True):
    """A stored session, as far as it can be read.

    Attributes:
        ref: The session.
        log: Its log, None when that cannot be read.
        reminders: Its reminders, None when they cannot be told.
        failure: Why the log or its reminders cannot be read; empty when they can.
        code: Which kind of failure that is: an error's code, or `unreadable`; empty without one.
    """

    ref: SessionRef
    log: StoredLog | None = None
    reminders: ScheduleState | None = None
    failure: str = ""
    code: str = ""

    @classmethod
    def of(cls, ref: SessionRef, log: StoredLog) -> Reading:
        """Fold the reminders of a log that was read."""
        try:
            return cls(ref, log, fold_reminders(log))
        except ScheduleLogError as error:
            return cls(ref, log, failure=str(error), code=error.code)

    @classmethod
    def failed(cls, ref: SessionRef, error: LogError | PersistenceError) -> Reading:
        """Tell of a log that cannot be read."""
        known = isinstance(error, (CorruptLogError, UnsupportedLogError))
        return cls(ref, failure=str(error), code=error.code if known else UNREADABLE)

    @property
    def complaint(self) -> str:
        """The failure, and which session it is about."""
        about = f"session {self.ref.session_id!r}: " if self.ref.session_id else ""
        return f"{about}{self.failure}"

    @property
    def fault(self) -> dict[str, object]:
        """The failure as an entry of a JSON list, among what the other sessions hold."""
        return {
            "session": self.ref.session_id or None,
            "log": self.ref.location or None,
            "code": self.code,
            "reason": self.failure,
        }


@asynccontextmanager
async def open_store(home: Path, compression: Compression = "zstd") -> AsyncGenerator[JsonlStorage]:
    """Give the store of a home; one that is not there holds nothing. New logs are stored as told."""
    store = JsonlStorage(home, compression=compression)
    try:
        yield store
    finally:
        await store.aclose()


async def read_every(home: Path) -> AsyncIterator[Reading]:
    """Read all sessions, in order of id; one that vanishes meanwhile is left out.

    A directory that cannot be read comes last: as the session whose folder it is, else as one without an id.
    """
    async with open_store(home) as store:
        refs, unread = await store.find_all()
        with progress("Reading sessions") as tell:
            for number, ref in enumerate(refs):
                tell(f"Reading session {number + 1} of {len(refs)}")
                try:
                    yield Reading.of(ref, await store.read(ref.session_id))
                except SessionNotFoundError:
                    continue
                except (LogError, PersistenceError) as error:
                    yield Reading.failed(ref, error)
    for path, reason in unread.items():
        is_folder = is_project_directory(path.parent.name)
        session_id = (unescape_session_id(path.name) if is_folder else None) or ""
        failure = f"{path} cannot be read: {reason}"
        yield Reading(SessionRef(session_id, str(path)), failure=failure, code=UNREADABLE)


async def read_one(home: Path, session_id: str) -> Reading:
    """Read one session, and fold its reminders.

    Raises:
        SessionNotFoundError: There is none of that id; the message names similar ones.
    """
    try:
        log = await read_log_of(home, session_id)
        return Reading.of(SessionRef(session_id, log.location), log)
    except (LogError, PersistenceError) as error:
        return Reading.failed(SessionRef(session_id, getattr(error, "path", "")), error)


async def read_log_of(home: Path, session_id: str) -> StoredLog:
    """Read the log of one session.

    Raises:
        SessionNotFoundError: There is none of that id; the message names similar ones.
        CorruptLogError, UnsupportedLogError, PersistenceError: It cannot be read.
    """
    async with open_store(home) as store:
        try:
            return await store.read(session_id)
        except SessionNotFoundError as error:
            known = [ref.session_id for ref in await store.list()]
            raise SessionNotFoundError(f"{error}{_suggest(session_id, known)}") from error


def fold_reminders(stored: StoredLog) -> ScheduleState:
    """Return the reminders of a stored session.

    Raises:
        ScheduleLogError: Its Schedule history is invalid.
    """
    state = ScheduleState(stored.header.owned_from)
    state.advance(stored.events)
    return state


def find_free_id(base: str, taken: Collection[str]) -> str:
    """Return an id that is not taken: `base`, else `base-2`, `base-3` and so on."""
    names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


def _suggest(wanted: str, known: list[str]) -> str:
    if not known:
        return "; there are no sessions yet"
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    near += [name for name in known if name.startswith(wanted) and wanted and name not in near]
    if near:
        return f"; did you mean {' or '.join(map(repr, near[:3]))}?"
    return "; `watchbell sessions` lists them"
