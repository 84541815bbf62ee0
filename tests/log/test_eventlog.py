"""An event log is a sequence of events, however its rows are packed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from watchbell.log.codec import decode_row, encode_rows
from watchbell.log.event import Draft, Event
from watchbell.log.eventlog import EventLog, PackedRow
from watchbell.log.segments import decode_block
from watchbell.log.values import decode_json, encode_json

TYPES = ("turn/start", "user/message", "schedule/change")


def event(seq: int, type: str = "turn/start") -> Event:  # noqa: A002 - the protocol's word
    return Draft(type, {"n": seq}).at(seq, 0)


def unpack(raw: bytes) -> Sequence[Event]:
    start, count = decode_json(raw)
    return [event(seq, "assistant/chunk") for seq in range(start, start + count)]


def packed(seq: int, count: int) -> PackedRow:
    return PackedRow(seq, count, encode_json([seq, count]), unpack)


def refuse(_: bytes) -> Sequence[Event]:
    raise AssertionError("nobody asked for these events")


@st.composite
def logs(draw: st.DrawFn) -> tuple[EventLog, list[Event]]:
    """A log built in a few steps, and the plain list of its events."""
    log, plain = EventLog(), list[Event]()
    for count in draw(st.lists(st.integers(0, 5), max_size=12)):
        if count < 2:
            row: Event | PackedRow = event(len(plain), draw(st.sampled_from(TYPES)))
            plain.append(row)
        else:
            row = packed(len(plain), count)
            plain.extend(row.events())
        log.extend([row])
    return log, plain


@given(logs(), st.slices(30))
def test_it_reads_like_the_list_of_its_events(built: tuple[EventLog, list[Event]], part: slice) -> None:
    log, plain = built
    assert len(log) == len(plain)
    assert list(log) == plain
    assert list(reversed(log)) == plain[::-1]
    assert log[part] == plain[part]
    assert [log[seq] for seq in range(-len(plain), len(plain))] == [*plain, *plain]


@given(logs(), st.integers(0, 40), st.integers(0, 40), st.sets(st.sampled_from([*TYPES, "assistant/chunk"])))
def test_its_parts_are_those_of_the_list(
    built: tuple[EventLog, list[Event]], start: int, stop: int, types: set[str]
) -> None:
    log, plain = built
    chosen = [event for event in plain[start:] if event.type in types]
    assert list(log.span(start, stop)) == plain[start:stop]
    assert list(log.span(start)) == plain[start:]
    assert list(log.select(frozenset(types), start)) == chosen
    assert list(log.select_back(frozenset(types), start)) == chosen[::-1]
    assert list(log.prefix(stop)) == plain[:stop]
    assert list(EventLog(log.rows())) == plain


def test_a_prefix_grows_apart_from_its_origin() -> None:
    log = EventLog([event(0), packed(1, 3), event(4)])
    for length in (0, 2, 4, 5):
        head = log.prefix(length)
        head.extend([event(length)])
        assert [event.seq for event in head] == list(range(length + 1))
    assert len(log) == 5
    assert len(log.prefix(-1)) == 0


@pytest.mark.parametrize("index", [2, -3, 100])
def test_an_event_that_is_not_there_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError):
        EventLog([event(0), event(1)])[index]


@pytest.mark.parametrize("row", [event(2), event(0), packed(2, 3)])
def test_a_row_that_does_not_continue_the_log_is_refused(row: Event | PackedRow) -> None:
    log = EventLog([event(0)])
    with pytest.raises(ValueError, match="expected seq"):
        log.extend([row])
    assert [event.seq for event in log] == [0]


def test_rows_before_a_refused_one_are_kept() -> None:
    log = EventLog()
    with pytest.raises(ValueError, match="expected seq 1, found 5"):
        log.extend([event(0), event(5)])
    assert len(log) == 1


def test_choosing_by_type_decodes_no_other_row() -> None:
    log = EventLog([event(0), PackedRow(1, 1_000, b"", refuse), event(1_001, "user/message")])
    assert len(log) == 1_001 + 1
    assert [event.seq for event in log.select(frozenset(TYPES))] == [0, 1_001]
    assert [event.seq for event in log.select_back(frozenset(TYPES))] == [1_001, 0]
    assert log[-1].seq == 1_001
    assert len(log.prefix(2_000)) == 1_002


def test_what_is_appended_during_an_iteration_is_not_part_of_it() -> None:
    log = EventLog([event(0)])
    for reading in (iter(log), log.select(frozenset(TYPES))):
        seen = 0
        for _ in reading:
            log.extend([event(len(log))])
            seen += 1
        assert seen == len(log) - seen


@given(logs(), st.integers(0, 40), st.integers(1, 10))
def test_slices_cut_all_that_is_left_into_pieces(
    built: tuple[EventLog, list[Event]], start: int, least: int
) -> None:
    log, plain = built
    stops = list(log.slices(start, least))
    sizes = [stop - before for before, stop in pairwise([start, *stops])]
    assert all(size == least for size in sizes[:-1])
    assert sum(sizes) == max(len(plain) - start, 0)
    assert all(0 < size <= least for size in sizes[-1:])


def test_slices_end_where_a_stretch_ends_that_was_read() -> None:
    log = EventLog()
    for _ in range(6):
        first = len(log)
        log.extend_rows(decode_block(encode_rows([event(first + k) for k in range(4)]), first))
    log.extend([event(24 + k) for k in range(5)])
    assert list(log.slices(0, 1)) == [4, 8, 12, 16, 20, 24, 25, 26, 27, 28, 29]
    assert list(log.slices(0, 5)) == [8, 16, 24, 29]
    assert list(log.slices(6, 100)) == [29]
    assert list(log.slices(29, 1)) == []


def test_a_payload_that_spans_lines_is_one_line_among_others() -> None:
    spanning = Draft("turn/start", Raw(b'{\n"turn":1,\n"turn":2\n}')).at(0, 0)
    (text,) = EventLog([spanning, event(1)]).lines(frozenset({"turn/start"}))
    assert [decode_row(line).seq for line in text[:-1].split(b"\n")] == [0, 1]
    assert b'{ "turn":1, "turn":2 }' in text
