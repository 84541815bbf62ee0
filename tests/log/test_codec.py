from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.errors import CorruptLogError, InvalidEventError, UnsupportedLogError
from watchbell.log.checks import MAX_ROW_BYTES
from watchbell.log.codec import decode_header, decode_row, decode_rows, encode_header, encode_rows
from watchbell.log.event import Draft, Event, known_types, written_types
from watchbell.log.eventlog import EventLog, PackedRow
from watchbell.log.header import SessionHeader

SAFE = 2**53 - 1
ROW: dict[str, Any] = {"type": "turn/start", "seq": 0, "time": 5, "data": {"turn": 1}}
PACKED: dict[str, Any] = {
    "type": "text-chunks",
    "seq0": 0,
    "time0": 100,
    "data": {"turn": 1, "step": 2, "index": 0, "dt": [3, -1], "texts": ["a", "ü\n", "⏰"]},
}


def to_line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def changed(row: dict[str, Any], **changes: Any) -> bytes:
    return to_line({key: value for key, value in (row | changes).items() if value is not ...})


def delta(seq: int, text: str = "x", *, time: int = 0, **more: Any) -> Event:
    kind = {"type": "text-delta", "index": 0, "text": text} | more.pop("chunk", {})
    return Draft("assistant/chunk", {"turn": 1, "step": 1, "chunk": kind} | more).at(seq, time)


def read_back(lines: bytes) -> list[Event]:
    return list(EventLog(decode_rows(lines, 0)))


# --- the header


def test_a_header_is_written_in_the_order_of_the_format() -> None:
    header = SessionHeader(
        id="a",
        created_at=1,
        cwd="/x",
        parent_session="p",
        seed_length=0,
        origin="subagent",
        delegation_depth=1,
        agent_preset={"k": 1},
    )
    line = encode_header(header)
    assert line == (
        b'{"type":"session","version":0,"id":"a","createdAt":1,"cwd":"/x","parentSession":"p","seedLength":0,'
        b'"origin":"subagent","delegationDepth":1,"agentPreset":{"k":1}}\n'
    )
    assert decode_header(line) == header


def test_a_header_says_nothing_about_what_is_absent() -> None:
    header = SessionHeader(id="\ud800 é", created_at=1, delegation_depth=0)
    line = encode_header(header)
    assert line == (
        '{"type":"session","version":0,"id":"\\ud800 é","createdAt":1,"delegationDepth":0}\n'.encode()
    )
    assert decode_header(line) == header


HEADER: dict[str, Any] = {
    "type": "session",
    "version": 0,
    "id": "a",
    "createdAt": 1,
    "cwd": "/x",
    "delegationDepth": 0,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "turn/start"},
        {"version": ...},
        {"id": ""},
        {"id": ...},
        {"id": 1},
        {"createdAt": -1},
        {"createdAt": 1.0},
        {"createdAt": SAFE + 1},
        {"cwd": "relative"},
        {"cwd": None},
        {"seedLength": -1},
        {"delegationDepth": ...},
        {"delegationDepth": True},
        {"origin": "other"},
        {"parentSession": 1},
    ],
)
def test_a_malformed_header_is_corrupt(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptLogError):
        decode_header(changed(HEADER, **changes))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"[[]]",
        b"{",
        b"\xff",
        b'{"type":"session","version":0,"id":"a","id":"b"}',
        b"[" * 3000,
    ],
)
def test_what_is_no_header_is_corrupt(line: bytes) -> None:
    with pytest.raises(CorruptLogError):
        decode_header(line)


@pytest.mark.parametrize("cwd", ["/", "C:\\x", "c:/x", "\\\\server\\share"])
def test_a_path_of_any_system_is_absolute(cwd: str) -> None:
    assert decode_header(changed(HEADER, cwd=cwd)).cwd == cwd


def test_a_newer_version_is_refused_before_anything_else_is_looked_at() -> None:
    with pytest.raises(UnsupportedLogError, match="upgrade Watchbell to open it"):
        decode_header(b'{"version":1,"type":"what","id":7,"id":8}')


@pytest.mark.parametrize("version", [-1, "0", 0.0, True, "1"])
def test_another_version_is_unsupported(version: Any) -> None:
    with pytest.raises(UnsupportedLogError):
        decode_header(changed(HEADER, version=version))


def test_an_unknown_header_key_is_unsupported() -> None:
    with pytest.raises(UnsupportedLogError, match="'sealed'"):
        decode_header(changed(HEADER, sealed=True))


# --- plain rows


def test_an_event_comes_back_as_it_was() -> None:
    events = [
        Draft("turn/start", {"turn": 1}).at(0, 5),
        Draft("user/message", {"id": "m", "content": []}, surface_op="append").at(1, -5),
        Draft("assistant/message", {}, source_event_seqs=()).at(2, 5),
        Draft("tool/result", {}, source_event_seqs=(0, 1), surface_op="append").at(3, 5),
        Draft("watchbell/take-up", [1, None, "\x00"], ignorable=True).at(4, SAFE),
    ]
    lines = encode_rows(events)
    assert read_back(lines) == events
    assert encode_rows(read_back(lines)) == lines


def test_the_order_of_keys_and_white_space_do_not_matter() -> None:
    line = b' {"data" : {"id":"m"}, "surfaceOp":"append","time":5,"seq":0, "type":"user/message"}\r'
    event = decode_row(line)
    assert event == Draft("user/message", {"id": "m"}, surface_op="append").at(0, 5)


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": -1},
        {"seq": 0.0},
        {"seq": True},
        {"seq": SAFE + 1},
        {"time": SAFE + 1},
        {"time": -SAFE - 1},
        {"time": "5"},
        {"data": ...},
        {"type": ...},
        {"type": 1},
        {"extra": 1},
        {"ignorable": False},
        {"ignorable": None},
        {"ignorable": 1},
        {"surfaceOp": "append"},
        {"sourceEventSeqs": [0]},
        {"type": "text-chunks"},
        {"type": "text-chunks", "ignorable": True},
    ],
)
def test_a_malformed_envelope_is_corrupt(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptLogError):
        decode_row(changed(ROW, **changes))


@pytest.mark.parametrize(
    "keys",
    [
        {"surfaceOp": "prepend"},
        {"surfaceOp": None},
        {"surfaceOp": {"op": "replace", "start": 0}},
        {"surfaceOp": {"op": "replace", "start": 0, "end": -1}},
        {"surfaceOp": {"op": "replace", "start": 0, "end": 1, "x": 1}},
        {"surfaceOp": {"op": "drop", "start": 0, "end": 1}},
        {"sourceEventSeqs": None},
        {"sourceEventSeqs": 1},
        {"sourceEventSeqs": [1.0]},
        {"sourceEventSeqs": [-1]},
        {"sourceEventSeqs": []},
    ],
)
def test_a_malformed_surface_key_is_corrupt(keys: dict[str, Any]) -> None:
    with pytest.raises(CorruptLogError):
        decode_row(changed(ROW, type="tool/result", **keys))


def test_a_compaction_s_replacement_is_read() -> None:
    operation = {"op": "replace", "start": 0, "end": 4}
    event = decode_row(changed(ROW, type="user/message", data={"id": "m"}, surfaceOp=operation))
    assert isinstance(event, Event)
    assert isinstance(event.surface_op, msgspec.Raw)
    assert json.loads(bytes(event.surface_op)) == operation


@pytest.mark.parametrize("key", ["type", "seq", "time", "data", "ignorable"])
def test_a_repeated_envelope_key_is_corrupt(key: str) -> None:
    row = ROW | {"ignorable": True}
    line = to_line(row)[:-1] + b"," + to_line({key: row[key]})[1:]
    with pytest.raises(CorruptLogError, match="twice"):
        decode_row(line)


def test_a_repeated_key_hidden_by_padding_elsewhere_is_corrupt() -> None:
    line = b'{"type":"\\u0074urn/start","seq":0,"seq":0,"time":5,"data":1}'
    with pytest.raises(CorruptLogError, match="twice"):
        decode_row(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\x00" * 200,
        b'{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}',
        b'{"type":"turn/start","seq":0,"time":5,"data":{}}{}',
        b'{"type":"turn/start","seq":0,"time":5,"data":"\xff"}',
        b'{"type":"turn/start","seq":0,"time":5,"data":"\xed\xa0\x80"}',
        b'{"type":"turn/start","seq":0,"time":5,"data":"\x00"}',
        b'{"type":"turn/start","seq":0,"time":5,"data":NaN}',
        b'{"type":"turn/start","seq":0,"time":5,"data":"\\ud800}',
        b'{"type":"turn/start","seq":0,"time":5,"data":["\\ud800",NaN]}',
    ],
)
def test_a_bad_line_is_corrupt(line: bytes) -> None:
    with pytest.raises(CorruptLogError):
        decode_row(line)


def test_nesting_is_bounded() -> None:
    def nested(depth: int) -> bytes:
        return b'{"type":"turn/start","seq":0,"time":5,"data":' + b"[" * depth + b"]" * depth + b"}"

    assert isinstance(decode_row(nested(255)), Event)
    for depth in (256, 100_000):
        with pytest.raises(CorruptLogError, match="nested"):
            decode_row(nested(depth))


def test_brackets_inside_text_are_no_nesting() -> None:
    text = '["\\' * 400
    event = decode_row(changed(ROW, data=text))
    assert isinstance(event, Event)
    assert event.data == text


def test_a_line_over_the_limit_is_corrupt_and_never_written() -> None:
    text = b'"' + b"x" * MAX_ROW_BYTES + b'"'
    with pytest.raises(CorruptLogError, match="longer"):
        decode_row(b'{"type":"turn/start","seq":0,"time":5,"data":' + text + b"}")
    with pytest.raises(InvalidEventError):
        encode_rows([Event("turn/start", 0, 5, msgspec.Raw(text))])


def test_a_payload_with_line_breaks_stays_one_line() -> None:
    event = Event("turn/start", 0, 5, msgspec.Raw(b'{\n "turn": 1\n}'))
    assert encode_rows([event]) == to_line(ROW) + b"\n"


# --- types


@pytest.mark.parametrize("kind", sorted(known_types() - written_types()))
def test_a_carried_type_is_kept(kind: str) -> None:
    line = changed(ROW, type=kind)
    event = decode_row(line)
    assert isinstance(event, Event)
    assert encode_rows([event]) == line + b"\n"


def test_an_unknown_type_is_kept_only_when_ignorable() -> None:
    line = changed(ROW, type="new/thing", ignorable=True)
    event = decode_row(line)
    assert isinstance(event, Event)
    assert encode_rows([event]) == line + b"\n"
    for kind in ("new/thing", "watchbell/thing", "request/header-delta"):
        with pytest.raises(UnsupportedLogError, match=kind):
            decode_row(changed(ROW, type=kind))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("user/message", {"role": "user"}),
        ("agent/inbox/spliced", {"inserted": [{"id": "m", "role": "user"}, {"role": "user"}]}),
    ],
)
def test_a_message_without_an_id_is_unsupported(kind: str, data: Any) -> None:
    with pytest.raises(UnsupportedLogError, match="pre-release"):
        decode_row(changed(ROW, type=kind, data=data))


# --- lone surrogates


@pytest.mark.parametrize(
    "text",
    [
        r"\ud83d",
        r"\uD83D",
        r"\udc00x\ud83d\ude00",
        r"\ud83d\ud83d\ude00",
        r"\\ud800 \\\ud800",
        r"\u0000[0]\ud800",
        r"\u0000[0]\u0000[1]\ud800",
    ],
)
def test_a_lone_surrogate_is_kept_verbatim(text: str) -> None:
    line = b'{"type":"schedule/change","seq":0,"time":5,"data":{"b":"%s","a":1.50}}' % text.encode()
    event = decode_row(line)
    assert isinstance(event, Event)
    assert encode_rows([event]) == line + b"\n"
    assert event.data == json.loads(line)["data"]


def test_a_lone_surrogate_hides_no_repeated_key() -> None:
    with pytest.raises(CorruptLogError, match="twice"):
        decode_row(b'{"type":"turn/start","seq":0,"seq":0,"time":5,"data":"\\ud800"}')


def test_a_packed_row_may_hold_lone_surrogates() -> None:
    line = changed(PACKED).replace("ü".encode(), b"\\ud83d \\\\ud83d")
    texts = [event.data["chunk"]["text"] for event in read_back(line + b"\n")]
    assert texts == ["a", "\ud83d \\ud83d\n", "⏰"]


# --- packed rows


def test_a_packed_row_stands_for_its_members() -> None:
    row = decode_row(to_line(PACKED))
    assert isinstance(row, PackedRow)
    assert (row.seq, row.count) == (0, 3)
    events = row.events()
    assert [(event.seq, event.time) for event in events] == [(0, 100), (1, 103), (2, 102)]
    assert events[1].data == {
        "turn": 1,
        "step": 2,
        "chunk": {"type": "text-delta", "index": 0, "text": "ü\n"},
    }


def test_a_packed_tool_call_tells_apart_no_name_and_a_name() -> None:
    data = {"turn": 1, "step": 1, "index": 2, "dt": [], "id": "call", "args": ["{"]}
    for name in ({}, {"name": "f"}):
        row = decode_row(to_line(PACKED | {"type": "tool-call-chunks", "data": data | name}))
        assert isinstance(row, PackedRow)
        chunk = {"type": "tool-call-delta", "index": 2, "id": "call", "argumentsDelta": "{"} | name
        assert row.events()[0].data == {"turn": 1, "step": 1, "chunk": chunk}


def packed_data(**changes: Any) -> dict[str, Any]:
    return {"data": {k: v for k, v in (PACKED["data"] | changes).items() if v is not ...}}


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "code-chunks"},
        {"seq0": -1},
        {"seq0": SAFE - 1},
        {"seq0": 0.0},
        {"time0": ...},
        {"time0": SAFE - 1},
        {"seq": 0},
        {"ignorable": True},
        packed_data(dt=[1]),
        packed_data(dt=[1, 2, 3]),
        packed_data(dt=[1, 2.0]),
        packed_data(dt=[1, None]),
        packed_data(dt=...),
        packed_data(dt=[], texts=[]),
        packed_data(texts=["a", "b", 3]),
        packed_data(texts=...),
        packed_data(args=[]),
        packed_data(turn=-1),
        packed_data(step=True),
        packed_data(index=SAFE + 1),
        packed_data(id="call"),
        {"type": "tool-call-chunks"},
        {"type": "tool-call-chunks"} | packed_data(texts=..., args=["", "", ""]),
        {"type": "tool-call-chunks"} | packed_data(texts=..., args=["", "", ""], id="c", name=None),
    ],
)
def test_a_malformed_packed_row_is_corrupt(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptLogError):
        decode_row(changed(PACKED, **changes))


@pytest.mark.parametrize("key", [b'"seq0":0,', b'"turn":1,'])
def test_a_repeated_key_in_a_packed_row_is_corrupt(key: bytes) -> None:
    line = to_line(PACKED).replace(key, key * 2)
    with pytest.raises(CorruptLogError, match="twice"):
        decode_row(line)


def test_a_run_of_three_deltas_shares_a_row() -> None:
    events = [delta(0, "a", time=100), delta(1, "b", time=103), delta(2, "c", time=102)]
    data = {"turn": 1, "step": 1, "index": 0, "dt": [3, -1], "texts": ["a", "b", "c"]}
    row = {"type": "text-chunks", "seq0": 0, "time0": 100, "data": data}
    assert encode_rows(events) == to_line(row) + b"\n"
    assert encode_rows(events[:2]).count(b"\n") == 2


@pytest.mark.parametrize(
    "other",
    [
        delta(2, chunk={"type": "reasoning-delta"}),
        delta(2, chunk={"index": 1}),
        delta(2, step=2),
        delta(2, turn=2),
        delta(2, more=1),
        delta(2, chunk={"more": 1}),
        delta(2, turn=1.0),
        delta(2, turn=-1),
        delta(2, chunk={"text": "\ud800"}),
        Draft("turn/start", {"turn": 1}).at(2, 0),
        msgspec.structs.replace(delta(2), ignorable=True),
        Event("assistant/chunk", 2, 0, msgspec.Raw(bytes(delta(2).raw).replace(b'"step":1', b'"step": 1'))),
    ],
)
def test_only_like_deltas_of_exact_shape_share_a_row(other: Event) -> None:
    events = [delta(0), delta(1), other, delta(3), delta(4)]
    lines = encode_rows(events)
    assert lines.count(b"\n") == 5
    assert read_back(lines) == events


def test_tool_call_deltas_share_a_row_only_with_their_own() -> None:
    def call(seq: int, **more: str) -> Event:
        chunk = {"type": "tool-call-delta", "index": 0} | more | {"argumentsDelta": "x"}
        return Draft("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk}).at(seq, 0)

    kinds = [{"id": "a"}, {"id": "a", "name": "f"}, {"id": "a", "name": "g"}, {"id": "b", "name": "g"}]
    events = [call(3 * at + seq, **kind) for at, kind in enumerate(kinds) for seq in range(3)]
    lines = encode_rows(events)
    assert lines.count(b"\n") == 4
    assert read_back(lines) == events


def test_a_very_long_run_takes_several_rows() -> None:
    many = [delta(seq) for seq in range(2500)]
    big = [delta(seq, "x" * 400_000) for seq in range(4)]
    for events, rows in ((many, 3), (big, 4)):
        lines = encode_rows(events)
        assert lines.count(b"\n") == rows
        assert read_back(lines) == events


# --- many rows


def test_a_gap_in_seq_is_corrupt_at_its_line() -> None:
    lines = encode_rows([Draft("turn/start", {}).at(seq, 0) for seq in (4, 5, 7)])
    with pytest.raises(CorruptLogError, match="expected seq 6, found 7") as caught:
        decode_rows(lines, 4)
    assert caught.value.offset == len(lines) // 3 * 2


def test_lines_may_end_as_on_windows() -> None:
    events = [Draft("turn/start", {}).at(seq, 0) for seq in range(3)]
    lines = encode_rows(events).replace(b"\n", b"\r\n")
    assert list(EventLog(decode_rows(lines, 0))) == events
    with pytest.raises(CorruptLogError, match="a blank line") as caught:
        decode_rows(lines + b"\r\n", 0)
    assert caught.value.offset == len(lines)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
SURROGATES = st.text(st.characters(categories=["Cs", "Lu"]) | st.sampled_from('\\"\0[u'), max_size=4)
DELTAS = st.builds(
    lambda kind, index, text: {"type": kind, "index": index, "text": text},
    st.sampled_from(["text-delta", "reasoning-delta"]),
    st.integers(0, 1),
    SURROGATES,
)
PAYLOADS = st.tuples(
    st.just("assistant/chunk"), DELTAS.map(lambda chunk: {"turn": 1, "step": 1, "chunk": chunk})
)
OTHERS = st.tuples(st.just("schedule/change"), JSON | SURROGATES)


@given(st.lists(st.tuples(PAYLOADS | OTHERS, st.integers(-SAFE // 2, SAFE // 2)), max_size=12))
def test_whatever_is_written_is_read_back(drafts: list[tuple[tuple[str, Any], int]]) -> None:
    events = [Draft(*payload).at(seq, time) for seq, (payload, time) in enumerate(drafts)]
    assert read_back(encode_rows(events)) == events


# --- values


def test_a_payload_of_more_values_than_memory_has_room_for_is_damage() -> None:
    values = b"[" + b'[],"",' * 499_999 + b"1"
    assert decode_row(b'{"type":"turn/start","seq":0,"time":5,"data":%s]}' % values).seq == 0
    with pytest.raises(CorruptLogError, match="more than 1000000 values"):
        decode_row(b'{"type":"turn/start","seq":0,"time":5,"data":%s,1]}' % values)


def test_text_may_hold_any_number_of_brackets_and_commas() -> None:
    text = "[{," * 1_000_000
    assert decode_row(changed(ROW, data={"turn": 1, "text": text + '"'})).seq == 0


@pytest.mark.parametrize("number", ["1" * 5_000, "-" + "1" * 5_000, "1e999", "-1e999"])
def test_a_number_too_large_for_any_reader_is_read_as_none(number: str) -> None:
    row = decode_row(b'{"type":"turn/start","seq":0,"time":5,"data":{"x":[%s,2.5,7]}}' % number.encode())
    assert isinstance(row, Event)
    assert row.data == {"x": [None, 2.5, 7]}
