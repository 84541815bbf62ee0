"""What every store of session logs must do, as a suite to run against yours (it needs pytest).

Subclass it and say how to reach the store:

```python
class TestMyStorage(StorageContract):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return lambda: MyStorage(tmp_path)
```

`connect` opens one more store over the same place at each call, like another program would. With a
fixture `break_writes` that makes writes to the place fail while its context is entered, the suite checks
the rules for failures too; with a fixture `remove_log` that takes a session's log away from the place, those
for a log that is lost under its writer.
"""
# ruff: noqa: S101, D102 - it is a suite for pytest: it asserts, and the name of a test is its sentence

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

import pytest

from watchbell.errors import PersistenceError, SessionExistsError, SessionLockedError, SessionNotFoundError
from watchbell.log.event import Draft, Event
from watchbell.log.header import SessionHeader
from watchbell.storage.base import SessionPersistence

Connect: TypeAlias = Callable[[], SessionPersistence]
"""Opens one more store over the same place."""

BreakWrites: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Makes writes to the place fail while its context is entered."""

RemoveLog: TypeAlias = Callable[[str], None]
"""Takes the log of a session away from the place, as a person or another program may."""

P = ParamSpec("P")
S = TypeVar("S")

_CREATED_MS = 1_796_083_200_000
_STRANGE_IDS = ("a/b", "..", "..\\c", "~", "Übung", "\N{SLEEPING SYMBOL}", " ", "UPPER", "upper")


def _to_its_end(
    test: Callable[Concatenate[StorageContract, Connect, P], Awaitable[None]],
) -> Callable[Concatenate[StorageContract, Connect, P], None]:
    """Run an async test on a loop of its own, and close the stores that it opened."""

    async def run_and_close(
        self: StorageContract, connect: Connect, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        async with AsyncExitStack() as opened:

            def connect_until_the_end() -> SessionPersistence:
                store = connect()
                opened.push_async_callback(store.aclose)
                return store

            await test(self, connect_until_the_end, *args, **kwargs)

    @functools.wraps(test)
    def run(self: StorageContract, connect: Connect, *args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(run_and_close(self, connect, *args, **kwargs))

    return run


def _run_each_to_its_end(suite: type[S]) -> type[S]:
    for name, test in list(vars(suite).items()):
        if name.startswith("test_"):
            setattr(suite, name, _to_its_end(test))
    return suite


@_run_each_to_its_end
class StorageContract:
    """The tests; see `watchbell.storage.base` for what they hold a store to."""

    @pytest.fixture
    def connect(self) -> Connect:
        """Give what opens a store; every subclass has its own."""
        raise NotImplementedError("override the fixture `connect`")

    @pytest.fixture
    def break_writes(self) -> BreakWrites:
        """Give what makes writes fail; without an own one, the tests that need it are skipped."""
        pytest.skip("this store gives no way to make its writes fail")

    @pytest.fixture
    def remove_log(self) -> RemoveLog:
        """Give what takes a log away; without an own one, the tests that need it are skipped."""
        pytest.skip("this store gives no way to take a log away")

    async def test_batches_are_read_by_another_store_in_order_and_without_gaps(
        self, connect: Connect
    ) -> None:
        writer = await connect().create(_header("a"))
        for start, stop in ((0, 1), (1, 6), (6, 7)):
            await writer.write(_events(start, stop))
            await _expect(connect, "a", _events(0, stop))
        await writer.close()
        await _expect(connect, "a", _events(0, 7))

    async def test_every_kind_of_payload_comes_back_as_it_was(self, connect: Connect) -> None:
        writer = await connect().create(_header("a"))
        await writer.write(_ODD_EVENTS)
        await writer.close()
        await _expect(connect, "a", _ODD_EVENTS)

    async def test_the_header_comes_back_as_it_was(self, connect: Connect) -> None:
        header = SessionHeader(
            id="child",
            created_at=_CREATED_MS,
            cwd="/srv/projects/a b",
            parent_session="parent",
            seed_length=2,
            origin="subagent",
            delegation_depth=1,
        )
        writer = await connect().create(header, _events(0, 2))
        await writer.close()
        assert (await connect().read("child")).header == header

    async def test_a_session_without_events_leaves_nothing(self, connect: Connect) -> None:
        writer = await connect().create(_header("a"))
        assert list(await connect().list()) == []
        await writer.close()
        assert list(await connect().list()) == []
        with pytest.raises(SessionNotFoundError):
            await connect().read("a")

    async def test_a_seed_is_durable_as_soon_as_the_session_is_created(self, connect: Connect) -> None:
        writer = await connect().create(_header("a", seed_length=3), _events(0, 3))
        await _expect(connect, "a", _events(0, 3))
        await writer.write(_events(3, 5))
        await writer.close()
        await _expect(connect, "a", _events(0, 5))

    async def test_a_reopened_log_goes_on_where_it_ended(self, connect: Connect) -> None:
        await _store(connect, "a", 2)
        stored, writer = await connect().open("a")
        assert list(stored.events) == _events(0, 2)
        assert stored.torn is None
        await writer.write(_events(2, 4))
        await writer.close()
        await _expect(connect, "a", _events(0, 4))

    async def test_opening_alone_changes_nothing(self, connect: Connect) -> None:
        await _store(connect, "a", 2)
        _, writer = await connect().open("a")
        await writer.close()
        await _expect(connect, "a", _events(0, 2))

    async def test_sessions_are_listed_in_order_of_id(self, connect: Connect) -> None:
        for session_id in ("b", "a", "c", "B"):
            await _store(connect, session_id, 1)
        refs = await connect().list()
        assert [ref.session_id for ref in refs] == ["B", "a", "b", "c"]
        assert all(ref.location for ref in refs)

    @pytest.mark.parametrize("session_id", _STRANGE_IDS)
    async def test_any_text_can_be_an_id(self, connect: Connect, session_id: str) -> None:
        await _store(connect, session_id, 1)
        await _store(connect, "other", 2)
        await _expect(connect, session_id, _events(0, 1))
        assert {ref.session_id for ref in await connect().list()} == {session_id, "other"}

    async def test_a_second_opener_is_refused_at_once(self, connect: Connect) -> None:
        await _store(connect, "a", 1)
        store = connect()
        _, writer = await store.open("a")
        for other in (store, connect()):
            with pytest.raises(SessionLockedError) as caught:
                await other.open("a")
            assert caught.value.session_id == "a"
        await writer.close()
        _, again = await connect().open("a")
        await again.close()

    async def test_a_created_session_is_locked_from_its_first_write(self, connect: Connect) -> None:
        writer = await connect().create(_header("a"))
        await writer.write(_events(0, 1))
        with pytest.raises(SessionLockedError):
            await connect().open("a")
        await writer.close()

    async def test_a_log_can_be_read_while_it_is_written(self, connect: Connect) -> None:
        await _store(connect, "a", 1)
        _, writer = await connect().open("a")
        await _expect(connect, "a", _events(0, 1))
        await writer.write(_events(1, 2))
        await _expect(connect, "a", _events(0, 2))
        await writer.close()

    async def test_a_taken_id_is_refused(self, connect: Connect) -> None:
        await _store(connect, "a", 1)
        for seed in ((), _events(0, 1)):
            with pytest.raises(SessionExistsError):
                await connect().create(_header("a"), seed)
        await _expect(connect, "a", _events(0, 1))

    async def test_of_two_creators_the_first_to_write_wins(self, connect: Connect) -> None:
        first, second = await connect().create(_header("a")), await connect().create(_header("a"))
        await second.write(_events(0, 2))
        with pytest.raises(PersistenceError):
            await first.write(_events(0, 1))
        await first.close()
        await second.write(_events(2, 3))
        await second.close()
        await _expect(connect, "a", _events(0, 3))

    async def test_an_unknown_session_is_not_found(self, connect: Connect) -> None:
        with pytest.raises(SessionNotFoundError):
            await connect().read("nobody")
        with pytest.raises(SessionNotFoundError):
            await connect().open("nobody")

    async def test_closing_again_does_nothing(self, connect: Connect) -> None:
        await _store(connect, "a", 1)
        _, writer = await connect().open("a")
        await writer.close()
        _, next_writer = await connect().open("a")
        await writer.close()
        with pytest.raises(SessionLockedError):
            await connect().open("a")
        await next_writer.close()
        store = connect()
        await store.aclose()
        await store.aclose()

    async def test_sessions_are_written_side_by_side(self, connect: Connect) -> None:
        store = connect()
        names = [f"session-{n}" for n in range(8)]
        writers = await asyncio.gather(*(store.create(_header(name)) for name in names))
        for start in (0, 2):
            await asyncio.gather(*(writer.write(_events(start, start + 2)) for writer in writers))
        await asyncio.gather(*(writer.close() for writer in writers))
        for name in names:
            await _expect(connect, name, _events(0, 4))
        await store.aclose()

    async def test_a_log_that_is_as_it_was_left_passes_every_check(self, connect: Connect) -> None:
        writer = await connect().create(_header("a"))
        writer.check()
        await writer.write(_events(0, 2))
        writer.check()
        await writer.close()
        _, writer = await connect().open("a")
        writer.check()
        await writer.write(_events(2, 3))
        writer.check()
        await writer.close()
        with pytest.raises(PersistenceError):
            writer.check()

    async def test_a_log_that_was_taken_away_passes_no_check(
        self, connect: Connect, remove_log: RemoveLog
    ) -> None:
        created = await connect().create(_header("a"), _events(0, 1))
        await _store(connect, "b", 1)
        _, opened = await connect().open("b")
        for session_id, writer in (("a", created), ("b", opened)):
            remove_log(session_id)
            with pytest.raises(PersistenceError):
                writer.check()
            with pytest.raises(PersistenceError):
                await writer.write(_events(1, 2))
            await writer.close()
        assert list(await connect().list()) == []

    async def test_a_cancelled_write_is_whole_or_absent(self, connect: Connect) -> None:
        await _store(connect, "a", 1)
        _, writer = await connect().open("a")

        async def write() -> None:
            await writer.write(_events(1, 40))

        writing = asyncio.create_task(write())
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await writer.close()
        stored = list((await connect().read("a")).events)
        assert stored in (_events(0, 1), _events(0, 40))

    async def test_a_failed_write_leaves_nothing_and_can_be_repeated(
        self, connect: Connect, break_writes: BreakWrites
    ) -> None:
        await _store(connect, "a", 1)
        _, writer = await connect().open("a")
        with break_writes(), pytest.raises(PersistenceError):
            await writer.write(_events(1, 3))
        await _expect(connect, "a", _events(0, 1))
        await writer.write(_events(1, 4))
        await writer.close()
        await _expect(connect, "a", _events(0, 4))

    async def test_a_failed_first_write_leaves_no_session_and_can_be_repeated(
        self, connect: Connect, break_writes: BreakWrites
    ) -> None:
        writer = await connect().create(_header("a"))
        with break_writes(), pytest.raises(PersistenceError):
            await writer.write(_events(0, 1))
        assert list(await connect().list()) == []
        await writer.write(_events(0, 2))
        await writer.close()
        await _expect(connect, "a", _events(0, 2))

    async def test_a_seed_that_cannot_be_stored_leaves_no_session(
        self, connect: Connect, break_writes: BreakWrites
    ) -> None:
        with break_writes(), pytest.raises(PersistenceError):
            await connect().create(_header("a"), _events(0, 2))
        assert list(await connect().list()) == []
        writer = await connect().create(_header("a"), _events(0, 2))
        await writer.close()


def _header(session_id: str, *, seed_length: int | None = None) -> SessionHeader:
    return SessionHeader(id=session_id, created_at=_CREATED_MS, seed_length=seed_length, delegation_depth=0)


def _events(start: int, stop: int) -> list[Event]:
    return [Draft("turn/start", {"turn": seq + 1}).at(seq, _CREATED_MS + seq) for seq in range(start, stop)]


async def _store(connect: Connect, session_id: str, length: int) -> None:
    store = connect()
    writer = await store.create(_header(session_id))
    await writer.write(_events(0, length))
    await writer.close()
    await store.aclose()


async def _expect(connect: Connect, session_id: str, events: Sequence[Event]) -> None:
    store = connect()
    stored = await store.read(session_id)
    assert stored.header.id == session_id
    assert list(stored.events) == list(events)
    assert stored.torn is None
    await store.aclose()


def _odd_events() -> list[Event]:
    """Make events whose payloads a careless encoding would change."""
    delta = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "…"}}
    drafts = [
        Draft("watchbell/take-up", {"messageId": "m", "attempt": 1}, ignorable=True),
        Draft("schedule/change", {"prompt": "naïve \N{SLEEPING SYMBOL} \u2028 \x00 \ud83d", "n": 2**53 - 1}),
        *(Draft("assistant/chunk", delta) for _ in range(4)),
        Draft("assistant/message", {"deep": [[[{}]]]}, source_event_seqs=(), surface_op="append"),
        Draft("tool/result", {"text": "line\nline\r\n"}, source_event_seqs=(2, 3), surface_op="append"),
        Draft("session/end-seed", {}),
    ]
    times = [5, 5, 9, 4, 4, 12, 12, 0, 20]  # a wall clock that was set back
    return [draft.at(seq, time) for seq, (draft, time) in enumerate(zip(drafts, times, strict=True))]


_ODD_EVENTS = _odd_events()
