"""Rows checked many at a time are taken and refused exactly as rows checked one by one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.errors import CorruptLogError, UnsupportedLogError
from watchbell.log.codec import decode_row, decode_rows
from watchbell.log.eventlog import EventLog
from watchbell.log.segments import decode_block
from watchbell.log.transcript import TranscriptLength

ROWS = (
    b'{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}',
    b'{"type":"agent/inbox/spliced","seq":1,"time":5,"data":{"target":"next-turn","start":0,"inserted":[{"id":"m","role":"user"}]}}',
    b'{"type":"user/message","seq":2,"time":-5,"data":{"id":"m","text":"caf\xc3\xa9"},"surfaceOp":"append"}',
    b'{"type":"text-chunks","seq0":3,"time0":5,"data":{"turn":1,"step":1,"index":0,"dt":[1,-2],"texts":["a","b","c"]}}',
    b'{"type":"assistant/message","seq":6,"time":5,"data":{"message":{"id":"a"}},"sourceEventSeqs":[3,4,5],"surfaceOp":"append"}',
    b'{"type":"watchbell/take-up","seq":7,"time":5,"data":{"messageId":"m","attempt":1},"ignorable":true}',
    b'{"type":"tool/call","seq":8,"time":5,"data":{"arguments":"\\ud83d"}}',
    b'{"type":"session/title","seq":9,"time":5,"data":null}',
    b'{"type":"turn/end","seq":10,"time":5,"data":{"turn":1}}',
)
PIECES = st.sampled_from(
    [
        b"",
        b"\n",
        b"\r\n",
        b" ",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b'"',
        b":",
        b"0",
        b"1e2",
        b"-0",
        b"null",
        b"true",
        b"\\u0041",
        b"\\ud800",
        b"\xff",
        b"}\n{",
        b"}{",
        b"} {",
        b',"seq":1',
        b',"ignorable":true',
        b',"ignorable":false',
        b',"surfaceOp":"append"',
        b',"sourceEventSeqs":[]',
        b',"x":1',
        b'"surfaceOp":"append"',
        b',"surfaceOp":{"op":"replace","start":0,"end":0}',
        b'{"surfaceOp":{"op":"replace"},"sourceEventSeqs":[1],"seq":0,"time":0}',
        b'"type":"turn/end",',
        b'"type":"turn\\u002fstart"',
        b'"seq0":3,"time0":5,',
        b'"time":5,',
        b'{"id":5}',
        b'"id":"m",',
        b'"seq":9007199254740992,',
        b"[" * 300 + b"]" * 300,
    ]
)


def outcome(lines: bytes, *, at_once: bool) -> object:
    """The events of some lines, or what is refused about them."""
    try:
        if not at_once:
            return list(EventLog(decode_rows(lines, 0)))
        log = EventLog()
        log.extend_rows(decode_block(lines, 0))
        return list(log)
    except CorruptLogError as error:
        return error.reason, error.offset
    except UnsupportedLogError as error:
        return error.reason


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Some rows of a log with a few bytes put in place of others."""
    chosen = draw(st.sampled_from([ROWS, ROWS[:6], ROWS[:5], ROWS[:2]]))
    lines = b"\n".join(chosen) + b"\n"
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(lines) - 1))
        stop = min(start + draw(st.sampled_from([0, 0, 1, 2, 30])), len(lines) - 1)
        lines = lines[:start] + draw(PIECES) + lines[stop:]
    return lines


@given(damaged())
def test_both_ways_come_to_the_same(lines: bytes) -> None:
    assert outcome(lines, at_once=True) == outcome(lines, at_once=False)


@st.composite
def logs_of_rows(draw: st.DrawFn) -> bytes:
    """Sound rows in any order: of known and of other types, packed or not, in usual spelling or not."""
    lines, seq = list[bytes](), 0
    for row in draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=12)):
        count = 3 if b"seq0" in row else 1
        line = re.sub(rb'"(seq0?)":[0-9]+', rb'"\1":%d' % seq, row, count=1)
        if draw(st.integers(0, 9)) == 0:
            line = line.replace(b'"append"', b'{"op":"replace","start":0,"end":0}').replace(b',"', b', "', 1)
        lines.append(line + b"\n")
        seq += count
    return b"".join(lines)


TYPES = st.frozensets(st.sampled_from(["user/message", "turn/end", "watchbell/take-up", "assistant/message"]))


@given(logs_of_rows(), TYPES, st.integers(0, 40), st.integers(0, 40))
def test_a_block_gives_the_same_rows_as_the_rows_one_by_one(
    lines: bytes, types: frozenset[str], start: int, stop: int
) -> None:
    each, block = EventLog(decode_rows(lines, 0)), EventLog()
    block.extend_rows(decode_block(lines, 0))
    assert list(block) == list(each)
    assert list(block.select(types, start, stop)) == list(each.select(types, start, stop))
    assert block.count_rows(types, start, stop) == each.count_rows(types, start, stop)
    found = [decode_row(line) for text in block.lines(types, start, stop) for line in text[:-1].split(b"\n")]
    assert found == list(each.select(types, start, stop))


@given(logs_of_rows())
def test_the_transcript_is_as_long_whichever_way_rows_were_checked(lines: bytes) -> None:
    each, block = EventLog(decode_rows(lines, 0)), EventLog()
    block.extend_rows(decode_block(lines, 0))
    assert len(TranscriptLength().advance(block)) == len(TranscriptLength().advance(each))


@pytest.mark.parametrize(
    "lines",
    [
        # Keys that an envelope alone may have, within a payload: there they mean nothing.
        b'{"type":"turn/start","seq":0,"time":0,"data":{"surfaceOp":"append","sourceEventSeqs":[],"time":1}}\n',
        b'{"type":"turn/start","seq":0,"time":0,"data":{"surfaceOp":{"op":"replace","start":0,"end":9}}}\n',
        # An ignorable event is no exception from the rules for surface keys.
        b'{"type":"turn/start","seq":0,"time":0,"data":1,"surfaceOp":"append","ignorable":true}\n',
        b'{"type":"user/message","seq":0,"time":0,"data":{"id":"m"},"sourceEventSeqs":[],"ignorable":true}\n',
        # One row lacks a time, and another one says the word.
        (
            b'{"type":"turn/start","seq":0,"data":1}\n'
            b'{"type":"turn/start","seq":1,"time":0,"data":{"type":"turn/start","time":0}}\n'
        ),
        # A type that is known by another spelling, and one that nobody knows.
        b'{"type":"turn\\u002fstart","seq":0,"time":0,"data":1}\n',
        b'{"type":"turn/started","seq":0,"time":0,"data":1}\n',
    ],
)
def test_keys_that_stand_elsewhere_change_no_verdict(lines: bytes) -> None:
    assert outcome(lines, at_once=True) == outcome(lines, at_once=False)


@pytest.mark.parametrize(
    "lines",
    [
        # As many lines as rows, and as long as they would be: two rows in one line, and one row in two.
        (
            b'{"type":"turn/start","seq":0,"time":0,"data":1} '
            b'{"type":"turn/start","seq":1,"time":0,"data":1}\n'
            b'{"type":"turn/start","seq":2,"time":0,"data":[1,\n2]}\n'
        ),
        (
            b'{"type":"turn/start","seq":0,"time":0,"data":1}{"type":"turn/start","seq":1,"time":0,"data":1}\n'
            b'{"type":"turn/start","seq":2,\n"time":0,"data":1}\n'
        ),
        # One row is too short by what another is too long.
        (
            b'{"type":"turn/start","seq":0,"data":{"turn":1}}\n'
            b'{"type":"turn/start","seq":1,"time":5,"time":5,"data":1}\n'
        ),
    ],
)
def test_errors_do_not_make_up_for_one_another(lines: bytes) -> None:
    found = outcome(lines, at_once=True)
    assert isinstance(found, tuple)
    assert found == outcome(lines, at_once=False)


def test_rows_of_any_type_are_found_again() -> None:
    log = EventLog()
    log.extend_rows(decode_block(b"\n".join(ROWS) + b"\n", 0))
    assert len(log) == 11
    for row in log:
        assert row in list(log.select(frozenset({row.type})))
        assert log[row.seq] == row
    assert [event.seq for event in log.select_back(frozenset({"watchbell/take-up", "turn/end"}))] == [10, 7]
    assert list(log.lines(frozenset({"watchbell/take-up", "turn/start"}))) == [
        ROWS[0] + b"\n" + ROWS[5] + b"\n"
    ]
    assert list(log.prefix(4)) == list(log)[:4]
