"""Sessions are created, resumed, forked, flushed and closed, each live in one place only."""

from __future__ import annotations

import asyncio
import itertools
from typing import Self

import pytest

from tests.simulated import simulated
from watchbell.context import Context
from watchbell.errors import (
    PersistenceError,
    SessionClosedError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SettingsError,
)
from watchbell.sessions.events import FlushSession, SessionClosed, SessionCreated, SessionHealed
from watchbell.sessions.live import Sessions
from watchbell.sessions.session import Session
from watchbell.storage.base import LogWriter, StoredLog, TornTail
from watchbell.testing import FaultyPersistence, MemoryDisk, MemoryStorage, SimulatedClock, simulate


def fail(_: object) -> None:
    raise ZeroDivisionError


class Program:
    """One program over a disk."""

    def __init__(self, clock: SimulatedClock, disk: MemoryDisk | None = None) -> None:
        self.clock = clock
        self.disk = MemoryDisk() if disk is None else disk
        self.store = FaultyPersistence(MemoryStorage(self.disk))
        self.ctx = Context()
        ids = itertools.count(1)
        self.sessions = Sessions(self.ctx, self.store, clock, new_id=lambda: f"new-{next(ids)}")
        self.seen: list[tuple[str, str]] = []
        for kind in (SessionCreated, SessionClosed, SessionHealed):
            self.ctx.on(kind, self.see)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sessions.aclose()

    def see(self, event: SessionCreated | SessionClosed | SessionHealed) -> None:
        session = event.session
        self.seen.append((type(event).__name__.removeprefix("Session").lower(), session.id))
        if isinstance(event, SessionCreated):
            assert self.sessions.get(session.id) is session


def turn(session: Session, number: int) -> None:
    session.append("turn/start", {"turn": number})


@simulated(Program)
async def test_a_created_session_leaves_nothing_before_its_first_event(program: Program) -> None:
    session = await program.sessions.create(
        "child", cwd="/srv/x", origin="subagent", delegation_depth=1, parent_session="p"
    )
    header = session.header
    assert (header.id, header.created_at, header.cwd) == ("child", program.clock.now_ms(), "/srv/x")
    assert (header.origin, header.delegation_depth, header.parent_session) == ("subagent", 1, "p")
    assert program.sessions.live == (session,)
    assert await program.sessions.flush(session)
    await program.sessions.close(session)
    assert await program.sessions.list() == []
    assert program.seen == [("created", "child"), ("closed", "child")]


@simulated(Program)
async def test_ids_are_made_when_none_is_given(program: Program) -> None:
    first, second = await program.sessions.create(), await program.sessions.create()
    assert (first.id, second.id) == ("new-1", "new-2")
    random = await Sessions(Context(), MemoryStorage(), program.clock).create()
    assert len(random.id) == 32


@pytest.mark.parametrize(
    ("session_id", "cwd", "depth"), [("", None, 0), ("a", "not/absolute", 0), ("a", "", 0), ("a", None, -1)]
)
def test_arguments_that_cannot_be_used_are_refused(session_id: str, cwd: str | None, depth: int) -> None:
    async def main(clock: SimulatedClock) -> None:
        sessions = Program(clock).sessions
        with pytest.raises(SettingsError):
            await sessions.create(session_id, cwd=cwd, delegation_depth=depth)
        assert sessions.live == ()

    simulate(main)


@simulated(Program)
async def test_what_was_appended_is_resumed_by_another_program(program: Program) -> None:
    session = await program.sessions.create("a", cwd="/srv/x")
    turn(session, 1)
    await program.sessions.close(session)
    with pytest.raises(SessionClosedError):
        turn(session, 2)

    other = Program(program.clock, program.disk)
    resumed = await other.sessions.resume("a")
    assert resumed.header == session.header
    assert list(resumed.events) == list(session.events)
    assert other.seen == [("created", "a")]
    turn(resumed, 2)
    assert await other.sessions.flush(resumed)
    types = [event.type for event in (await other.sessions.read("a")).events]
    assert types == ["turn/start", "session/end-seed", "turn/start"]
    await other.sessions.aclose()


@simulated(Program)
async def test_a_session_is_live_only_once(program: Program) -> None:
    session = await program.sessions.create("a")
    turn(session, 1)
    for _ in range(2):
        with pytest.raises(SessionLockedError):
            await program.sessions.resume("a")
        with pytest.raises(SessionExistsError):
            await program.sessions.create("a")
        await program.sessions.flush(session)
    with pytest.raises(SessionLockedError):
        await Program(program.clock, program.disk).sessions.resume("a")
    await program.sessions.close(session)
    with pytest.raises(SessionExistsError):
        await program.sessions.create("a")
    opened = await asyncio.gather(
        program.sessions.resume("a"), program.sessions.resume("a"), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in opened) == ["Session", "SessionLockedError"]


@simulated(Program)
async def test_a_failed_opening_leaves_the_id_free(program: Program) -> None:
    with pytest.raises(SessionNotFoundError):
        await program.sessions.resume("a")
    await program.sessions.create("a")


@simulated(Program)
async def test_a_killed_programs_sessions_are_opened_with_what_was_durable(program: Program) -> None:
    session = await program.sessions.create("a")
    turn(session, 1)
    await program.sessions.flush(session)
    turn(session, 2)
    program.disk.crash()

    other = Program(program.clock, program.disk)
    resumed = await other.sessions.resume("a")
    assert [event.data["turn"] for event in resumed.events] == [1]
    with pytest.raises(PersistenceError):
        await program.sessions.aclose()
    turn(resumed, 2)
    await other.sessions.aclose()


@simulated(Program)
async def test_a_fork_starts_with_its_parents_events_durable_on_return(program: Program) -> None:
    parent = await program.sessions.create(
        "parent", cwd="/srv/x", delegation_depth=2, parent_session="grandparent"
    )
    turn(parent, 1)
    turn(parent, 2)
    await asyncio.sleep(10)
    child = await program.sessions.fork(parent, "child")
    assert program.disk.events("parent") == list(parent.events)
    assert program.disk.events("child") == list(parent.events)
    header = child.header
    assert (header.id, header.created_at, header.cwd) == ("child", program.clock.now_ms(), "/srv/x")
    assert (header.parent_session, header.seed_length, header.delegation_depth) == ("parent", 2, 2)
    turn(child, 3)
    assert len(parent.events) == 2
    assert [event.type for event in child.events[2:]] == ["session/end-seed", "turn/start"]
    grandchild = await program.sessions.fork(child, at=1)
    assert (grandchild.id, grandchild.header.seed_length) == ("new-1", 1)


def test_a_stored_parent_is_forked_without_its_lock() -> None:
    async def main(clock: SimulatedClock) -> None:
        holder = Program(clock)
        parent = await holder.sessions.create("parent")
        turn(parent, 1)
        await holder.sessions.flush(parent)

        other = Program(clock, holder.disk)
        child = await other.sessions.fork("parent", "child")
        assert list(child.events) == list(parent.events)
        with pytest.raises(SessionNotFoundError):
            await other.sessions.fork("nobody")
        await holder.sessions.aclose()
        again = await other.sessions.fork(parent, "from a closed one")
        assert again.header.parent_session == "parent"
        await other.sessions.aclose()

    simulate(main)


@pytest.mark.parametrize("at", [-1, 2])
@simulated(Program)
async def test_a_fork_point_outside_the_log_is_refused(program: Program, at: int) -> None:
    parent = await program.sessions.create("parent")
    turn(parent, 1)
    with pytest.raises(SettingsError, match="cannot fork"):
        await program.sessions.fork(parent, at=at)


@simulated(Program)
async def test_a_fork_whose_parent_cannot_be_flushed_is_none(program: Program) -> None:
    parent = await program.sessions.create("parent")
    turn(parent, 1)
    program.store.fail_writes(1)
    with pytest.raises(PersistenceError):
        await program.sessions.fork(parent, "child")
    assert program.sessions.live == (parent,)
    await program.sessions.fork(parent, "child")


@simulated(Program)
async def test_a_flush_tells_whether_anybody_acknowledged(program: Program) -> None:
    session = await program.sessions.create("a")
    foreign = Session(session.header, now_ms=program.clock.now_ms)
    turn(session, 1)
    assert await program.sessions.flush(session)
    assert not await program.sessions.flush(foreign)

    async def acknowledge(_: FlushSession) -> bool:
        return True

    program.ctx.on(FlushSession, acknowledge)
    assert await program.sessions.flush(foreign)
    await program.sessions.close(session)


@simulated(Program)
async def test_a_flush_raises_a_listeners_failure_after_all_have_settled(program: Program) -> None:
    session = await program.sessions.create("a")

    async def fail(_: FlushSession) -> bool:
        raise PersistenceError("the mirror is gone")

    program.ctx.on(FlushSession, fail)
    turn(session, 1)
    with pytest.raises(PersistenceError, match="mirror"):
        await program.sessions.flush(session)
    assert len(program.disk.events("a")) == 1
    await program.sessions.close(session)


@simulated(Program)
async def test_healed_storage_is_announced(program: Program) -> None:
    session = await program.sessions.create("a")
    program.store.fail_writes(2)
    turn(session, 1)
    with pytest.raises(PersistenceError):
        await program.sessions.flush(session)
    assert ("healed", "a") not in program.seen
    await asyncio.sleep(10)
    assert program.seen.count(("healed", "a")) == 1


@simulated(Program)
async def test_closing_goes_on_when_its_caller_is_cancelled_and_happens_once(program: Program) -> None:
    session = await program.sessions.create("a")
    turn(session, 1)
    held = program.store.hold_writes()
    first = asyncio.create_task(program.sessions.close(session))
    await held.reached()
    first.cancel()
    second = asyncio.create_task(program.sessions.close(session))
    await asyncio.sleep(1)
    assert not second.done()
    with pytest.raises(SessionLockedError):
        await program.sessions.resume("a")
    held.release()
    await second
    await program.sessions.close(session)
    assert program.seen == [("created", "a"), ("closed", "a")]
    await program.sessions.resume("a")


@simulated(Program)
async def test_the_end_closes_all_and_reports_what_was_not_stored(program: Program) -> None:
    for session_id in ("a", "b", "c"):
        turn(await program.sessions.create(session_id), 1)
    program.store.fail_writes(2)
    with pytest.raises(PersistenceError, match=r"'a'.*1 events.*; .*'b'"):
        await program.sessions.aclose()
    assert program.sessions.live == ()
    assert list(program.disk.headers) == ["c"]
    with pytest.raises(SessionClosedError):
        await program.sessions.resume("c")
    _, writer = await program.store.open("c")
    await writer.close()


def test_a_torn_tail_that_was_set_aside_is_told(caplog: pytest.LogCaptureFixture) -> None:
    torn = TornTail(10, 5, "torn-1")

    class TornStorage(MemoryStorage):
        async def open(self, session_id: str) -> tuple[StoredLog, LogWriter]:
            stored, writer = await super().open(session_id)
            return StoredLog(stored.header, stored.events, stored.location, torn), writer

    async def main(clock: SimulatedClock) -> None:
        disk = MemoryDisk()
        sessions = Sessions(Context(), TornStorage(disk), clock)
        session = await sessions.create("a")
        turn(session, 1)
        assert sessions.torn(session) is None
        await sessions.close(session)
        resumed = await sessions.resume("a")
        assert sessions.torn(resumed) == torn
        assert sessions.torn(session) is None
        await sessions.aclose()

    simulate(main)
    assert "torn-1" in caplog.text


def test_an_observers_failure_is_logged_and_reaches_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def main(clock: SimulatedClock) -> None:
        program = Program(clock)
        session = await program.sessions.create("a")
        session.observe(fail)
        turn(session, 1)
        await program.sessions.aclose()
        assert len(program.disk.events("a")) == 1

    simulate(main)
    assert "ZeroDivisionError" in caplog.text
