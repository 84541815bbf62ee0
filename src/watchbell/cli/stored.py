"""Reading what is stored: without a lock, and without writing anything."""

from __future__ import annotations

import difflib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from watchbell.cli.console.progress import Progress
from watchbell.errors import LogError, PersistenceError, SessionNotFoundError
from watchbell.reminders.state import ScheduleState
from watchbell.storage.base import SessionPersistence, SessionRef, StoredLog
from watchbell.storage.jsonl.layout import is_project_directory, unescape_session_id
from watchbell.storage.jsonl.store import JsonlStorage

__all__ = ["Reading", "fold_reminders", "open_store", "read_every", "read_one"]


class Reading(msgspec.Struct, frozen=True):
    """A stored session and its log, or why the log cannot be read."""

    ref: SessionRef
    log: StoredLog | None
    failure: str = ""


@asynccontextmanager
async def open_store(home: Path) -> AsyncGenerator[JsonlStorage]:
    """Give the store of a home, for reading; one that is not there holds nothing."""
    store = JsonlStorage(home)
    try:
        yield store
    finally:
        await store.aclose()


async def read_every(store: JsonlStorage) -> AsyncIterator[Reading]:
    """Read all sessions, in order of id; one that vanishes meanwhile is left out.

    A directory that cannot be read comes last: as the session whose folder it is, else as one without an id.
    """
    refs, unread = await store.find_all()
    with Progress("Reading sessions") as progress:
        for number, ref in enumerate(refs):
            progress.tell(f"Reading session {number + 1} of {len(refs)}")
            try:
                yield Reading(ref, await store.read(ref.session_id))
            except SessionNotFoundError:
                continue
            except (LogError, PersistenceError) as error:
                yield Reading(ref, None, str(error))
    for path, reason in unread.items():
        is_folder = is_project_directory(path.parent.name)
        session_id = (unescape_session_id(path.name) if is_folder else None) or ""
        yield Reading(SessionRef(session_id, str(path)), None, f"{path} cannot be read: {reason}")


async def read_one(store: SessionPersistence, session_id: str) -> StoredLog:
    """Read one session.

    Raises:
        SessionNotFoundError: There is none of that id; the message names similar ones.
        CorruptLogError, UnsupportedLogError: It cannot be read.
    """
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


def _suggest(wanted: str, known: list[str]) -> str:
    if not known:
        return "; there are no sessions yet"
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    near += [name for name in known if name.startswith(wanted) and wanted and name not in near]
    if near:
        return f"; did you mean {' or '.join(map(repr, near[:3]))}?"
    return "; `watchbell sessions` lists them"
