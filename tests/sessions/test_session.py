"""A session's log takes whole batches of sound events, tells observers, and nothing else changes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from watchbell.errors import InvalidEventError, SessionClosedError
from watchbell.log.checks import MAX_ROW_BYTES
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog
from watchbell.log.header import SessionHeader
from watchbell.log.values import MAX_NESTING
from watchbell.sessions.session import Session

HEADER = SessionHeader(id="a", created_at=0, delegation_depth=0)
SAID: dict[str, Any] = {"id": "m", "role": "user", "source": {"kind": "user"}, "content": []}


def fail(_: object) -> None:
    raise ZeroDivisionError


def begin(*earlier: str, reported: list[Exception] | None = None) -> Session:
    log = EventLog(Draft(name, {}).at(seq, 7) for seq, name in enumerate(earlier)) if earlier else None
    return Session(HEADER, log, now_ms=lambda: 1_000, report=None if reported is None else reported.append)


def types(session: Session) -> list[str]:
    return [event.type for event in session.events]


def test_appended_events_get_the_next_seqs_and_the_clocks_time() -> None:
    session = begin()
    first = session.append("turn/start", {"turn": 1})
    second, third = session.append_batch(
        [Draft("step/start", {"turn": 1, "step": 1}), Draft("step/end", {"turn": 1, "step": 1}, time=5)]
    )
    assert [event.seq for event in (first, second, third)] == [0, 1, 2]
    assert [event.time for event in (first, second, third)] == [1_000, 1_000, 5]
    assert list(session.events) == [first, second, third]
    assert second.data == {"turn": 1, "step": 1}
    assert session.append_batch([]) == ()
    assert repr(session) == "Session('a', 3 events)"


def test_an_events_row_has_the_keys_of_the_format_in_their_order() -> None:
    session = begin()
    session.append("tool/call", {"callId": "c"})
    message = {"id": "é", "role": "user", "source": {}, "content": []}
    result = session.append("tool/result", {"message": message}, source_event_seqs=(0,), surface_op="append")
    own = session.append("watchbell/take-up", {"messageId": "m", "attempt": 1})
    assert msgspec.json.encode(result).decode() == (
        '{"type":"tool/result","seq":1,"time":1000,"data":{"message":{"id":"é","role":"user","source":{},'
        '"content":[]}},"sourceEventSeqs":[0],"surfaceOp":"append"}'
    )
    assert msgspec.json.encode(own).decode() == (
        '{"type":"watchbell/take-up","seq":2,"time":1000,"data":{"messageId":"m","attempt":1},"ignorable":true}'
    )


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("draft", "why"),
    [
        (Draft("compaction/start", {}), "does not write"),
        (Draft("", {}), "does not write"),
        (Draft("watchbell/note", {}), "must be ignorable"),
        (Draft("watchbell/\ud800", {}, ignorable=True), "does not write"),
        (Draft("watchbell/" + "x" * 1_000, {}, ignorable=True), "does not write"),
        (Draft("turn/start", {}, time=2**53), "out of range"),
        (Draft("turn/start", {}, time=-(2**53)), "out of range"),
        (Draft("turn/start", msgspec.Raw(b"{bad")), "JSON"),
        (Draft("turn/start", msgspec.Raw(b"{} {}")), "JSON"),
        (Draft("turn/start", {"x": msgspec.Raw(b"{bad")}), "JSON"),
        (Draft("turn/start", msgspec.Raw(b'"\xff"')), "utf-8"),
        (Draft("turn/start", msgspec.Raw(b'{\n"x":%s}' % (b"1" * 5_000))), "digits"),
        (Draft("turn/start", msgspec.Raw(b'{\n"x":1e999}')), "too large"),
        (Draft("turn/start", [[]] * 1_000_000), "values"),
        (Draft("user/message", SAID, (), "append"), "is empty"),
        (Draft("user/message", SAID, (-1,), "append"), "out of range"),
        (Draft("user/message", {**SAID, "id": 1}), "no message"),
        (Draft("user/message", {**SAID, "id": ""}), "without an id"),
        (Draft("user/message", {**SAID, "role": "system"}), "no message"),
        (Draft("user/message", {"role": "user", "source": {}, "content": []}), "no message"),
        (Draft("assistant/message", {"turn": 1, "step": 1, "message": None}), "no message"),
        (Draft("tool/result", {"message": SAID}, (-1,), "append"), "out of range"),
        (
            Draft("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [{"id": 5}]}),
            "no valid event",
        ),
        (Draft("turn/start", {}, source_event_seqs=(0,)), "surface keys"),
        (Draft("turn/start", {}, surface_op="append"), "surface keys"),
        (Draft("turn/start", object()), "not a JSON value"),
        (Draft("turn/start", {"x": {(1, 2): 3}}), "not a JSON value"),
        (Draft("turn/start", "x" * MAX_ROW_BYTES), "longer than a row"),
        (Draft("turn/start", deep(MAX_NESTING)), "nested deeper"),
    ],
)
def test_a_batch_with_an_unsound_event_is_refused_whole(draft: Draft, why: str) -> None:
    session = begin("turn/start")
    observed: list[Sequence[Event]] = []
    session.observe(observed.append)
    with pytest.raises(InvalidEventError, match=why):
        session.append_batch([Draft("step/start", {"turn": 1, "step": 1}), draft])
    assert types(session) == ["turn/start"]
    assert observed == []
    assert session.end_seed_due


def test_the_deepest_and_the_strangest_values_that_fit_are_taken() -> None:
    session = begin()
    event = session.append("turn/start", deep(MAX_NESTING - 1))
    assert event.data == deep(MAX_NESTING - 1)
    lone = session.append("turn/start", {"text": "\ud83d", "raw": msgspec.Raw(b'{"a":1}')})
    assert bytes(lone.raw) == b'{"text":"\\ud83d","raw":{"a":1}}'
    assert lone.data == {"text": "\ud83d", "raw": {"a": 1}}
    with pytest.raises(InvalidEventError, match="not a JSON value"):
        session.append("turn/start", {"text": "\ud83d", "number": float("nan")})


def test_earlier_events_are_closed_off_by_the_first_batch_alone() -> None:
    session = begin("turn/start", "turn/end")
    assert session.end_seed_due
    assert types(session) == ["turn/start", "turn/end"]
    observed: list[Sequence[Event]] = []
    session.observe(observed.append)
    event = session.append("turn/start", {"turn": 2})
    assert event.seq == 3
    assert types(session)[2:] == ["session/end-seed", "turn/start"]
    assert [[event.seq for event in batch] for batch in observed] == [[2, 3]]
    session.append("turn/end", {"turn": 2})
    assert types(session).count("session/end-seed") == 1


@pytest.mark.parametrize("earlier", [(), ("turn/start", "session/end-seed")])
def test_a_log_that_is_new_or_closed_off_already_gets_no_mark(earlier: tuple[str, ...]) -> None:
    session = begin(*earlier)
    assert not session.end_seed_due
    session.append("turn/start", {"turn": 1})
    assert types(session) == [*earlier, "turn/start"]


def test_what_an_opening_left_to_write_goes_into_the_first_batch_alone() -> None:
    session = begin("turn/start")
    session.lead([Draft("turn/end", {"turn": 1}), Draft("session/end-seed", {})])
    assert types(session) == ["turn/start"]
    batches: list[Sequence[Event]] = []
    session.observe(batches.append)
    assert [event.seq for event in session.append_batch([Draft("turn/start", {"turn": 2})])] == [3]
    session.append("turn/end", {"turn": 2})
    assert [len(batch) for batch in batches] == [3, 1]
    assert types(session) == ["turn/start", "turn/end", "session/end-seed", "turn/start", "turn/end"]


def test_a_batch_that_places_the_mark_itself_gets_no_other() -> None:
    session = begin("turn/start")
    session.append_batch([Draft("turn/end", {}), Draft("session/end-seed", {}), Draft("turn/start", {})])
    assert types(session) == ["turn/start", "turn/end", "session/end-seed", "turn/start"]


def test_observers_are_called_once_the_batch_is_in_the_log() -> None:
    session = begin()
    seen: list[tuple[str, int, int]] = []
    end = session.observe(lambda batch: seen.append(("first", len(batch), len(session.events))))
    session.observe(lambda batch: seen.append(("second", len(batch), len(session.events))))
    session.append_batch([Draft("turn/start", {}), Draft("turn/end", {})])
    end()
    end()
    session.append("turn/start", {})
    assert seen == [("first", 2, 2), ("second", 2, 2), ("second", 1, 3)]


def test_ending_one_subscription_twice_ends_no_equal_one() -> None:
    session = begin()
    seen: list[Sequence[Event]] = []
    end = session.observe(seen.append)
    session.observe(seen.append)
    end()
    end()
    session.append("turn/start", {})
    assert len(seen) == 1


def test_an_observers_failure_is_reported_and_hides_no_batch() -> None:
    reported: list[Exception] = []
    session = begin(reported=reported)
    seen: list[int] = []
    session.observe(fail)
    session.observe(lambda batch: seen.append(len(batch)))
    session.append("turn/start", {})
    assert seen == [1]
    assert [type(error) for error in reported] == [ZeroDivisionError]
    silent = begin()
    silent.observe(fail)
    assert silent.append("turn/start", {}).seq == 0


def test_an_observer_may_append() -> None:
    session = begin()

    def answer(batch: Sequence[Event]) -> None:
        if batch[0].type == "turn/start":
            session.append("turn/end", {})

    session.observe(answer)
    session.append("turn/start", {})
    assert types(session) == ["turn/start", "turn/end"]


def test_a_guard_sees_the_whole_batch_and_may_refuse_it() -> None:
    session = begin("turn/start")
    seen: list[list[str]] = []

    def guard(guarded: Session, drafts: Sequence[Draft]) -> None:
        assert guarded is session
        seen.append([draft.type for draft in drafts])
        if any(draft.type == "schedule/change" for draft in drafts):
            raise InvalidEventError("not now")

    end = session.guard(guard)
    with pytest.raises(InvalidEventError, match="not now"):
        session.append_batch([Draft("turn/end", {}), Draft("schedule/change", {})])
    assert types(session) == ["turn/start"]
    session.append("turn/end", {})
    assert seen == [
        ["session/end-seed", "turn/end", "schedule/change"],
        ["session/end-seed", "turn/end"],
    ]
    end()
    session.append("schedule/change", {})


def test_a_closed_session_is_read_only() -> None:
    session = begin("turn/start")
    assert not session.is_closed
    session.close()
    assert session.is_closed
    for drafts in ([Draft("turn/end", {})], []):
        with pytest.raises(SessionClosedError, match="resume"):
            session.append_batch(drafts)
    assert types(session) == ["turn/start"]


def test_a_header_knows_from_where_its_session_owns_events() -> None:
    assert HEADER.owned_from == 0
    assert msgspec.structs.replace(HEADER, seed_length=3).owned_from == 3
    assert msgspec.json.encode(HEADER) == b'{"id":"a","createdAt":0,"delegationDepth":0}'
