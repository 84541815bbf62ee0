"""Rows of a session log to bytes and back (log-format, "Event envelope", "Header" and "Bytes").

Reading is strict: what no sound writer leaves behind is a `CorruptLogError`, what needs a newer program an
`UnsupportedLogError`. Neither knows the file; whoever read the bytes adds its path and place. A plain row
takes one pass through msgspec; everything unusual about it shows by its re-encoded length and is then looked
at closely.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias, TypedDict

import msgspec
from msgspec import UNSET, Raw, UnsetType

from watchbell.errors import CorruptLogError, InvalidEventError, UnsupportedLogError
from watchbell.log.eventlog import PackedRow
from watchbell.log.events import (
    CARRIED_TYPES,
    SURFACE_TYPES,
    WRITTEN_TYPES,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from watchbell.log.session import FORMAT_VERSION, MAX_ROW_BYTES, MAX_SAFE_INTEGER, SessionHeader
from watchbell.log.values import MAX_NESTING, decode_json, encode_json, nesting_depth

__all__ = ["decode_header", "decode_row", "decode_rows", "encode_header", "encode_rows"]

MIN_RUN = 3
"""Fewest deltas that share a row."""

MAX_RUN = 1024
"""Most deltas that share a row, so that reading one of them stays cheap."""

MAX_RUN_BYTES = 1024 * 1024
"""Most payload bytes that share a row."""

Row: TypeAlias = Event | PackedRow


# --- the header ------------------------------------------------------------------------------------------

_OPTIONAL_KEYS = ("cwd", "parentSession", "seedLength", "origin")
_HEADER_KEYS = {"type", "version", "id", "createdAt", "delegationDepth", "agentPreset", *_OPTIONAL_KEYS}
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


def encode_header(header: SessionHeader) -> bytes:
    """Encode the first line of a log, with its line end."""
    head = {"type": "session", "version": FORMAT_VERSION}
    return encode_json(head | msgspec.to_builtins(header)) + b"\n"


def decode_header(line: bytes) -> SessionHeader:
    """Decode the first line of a log; its version is looked at before anything else.

    Raises:
        UnsupportedLogError: Another version of the format, or a key that this one does not know.
        CorruptLogError: Not a session header.
    """
    _check_size(line)
    try:
        pairs = json.loads(line.decode(), object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise CorruptLogError(f"the header is not JSON: {error}") from error
    try:
        fields: dict[str, Any] = dict(pairs)
    except (TypeError, ValueError) as error:
        raise CorruptLogError("the first line is no session header") from error
    _check_version(fields)
    if fields.get("type") != "session":
        raise CorruptLogError("the first line is no session header")
    if len(fields) != len(pairs):
        raise CorruptLogError("the header has a key twice")
    if unknown := sorted(fields.keys() - _HEADER_KEYS):
        raise UnsupportedLogError(f"the header has a key {unknown[0]!r}; upgrade Watchbell to open it")
    header = _convert_header(decode_json(line))
    _check_header(header)
    return header


def _check_version(fields: dict[str, Any]) -> None:
    version = fields.get("version")
    if version is None:
        raise CorruptLogError("the first line is no session header")
    if type(version) is not int or version < FORMAT_VERSION:
        raise UnsupportedLogError(f"log format version {json.dumps(version)} is unknown to Watchbell")
    if version > FORMAT_VERSION:
        raise UnsupportedLogError(f"log format version {version} is newer; upgrade Watchbell to open it")


def _convert_header(value: dict[str, Any]) -> SessionHeader:
    for key in _OPTIONAL_KEYS:
        if value.get(key, UNSET) is None:
            raise CorruptLogError(f"the header's {key} is null")
    try:
        return msgspec.convert(value, SessionHeader)
    except msgspec.ValidationError as error:
        raise CorruptLogError(f"the header is malformed: {error}") from error


def _check_header(header: SessionHeader) -> None:
    if not header.id:
        raise CorruptLogError("the header's id is empty")
    if header.cwd is not None and not _ABSOLUTE.match(header.cwd):
        raise CorruptLogError("the header's cwd is not absolute")
    for number in (header.created_at, header.seed_length or 0, header.delegation_depth):
        if not 0 <= number <= MAX_SAFE_INTEGER:
            raise CorruptLogError("a number in the header is out of range")


# --- rows, read ------------------------------------------------------------------------------------------

PACKED_TYPES = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})
"""Types of rows that stand for a run of `assistant/chunk` events."""

_KNOWN_TYPES = WRITTEN_TYPES | CARRIED_TYPES
_MESSAGE_TYPES = frozenset({"user/message", "agent/inbox/spliced"})
_PLAIN_TYPES = _KNOWN_TYPES - SURFACE_TYPES - _MESSAGE_TYPES
# A row whose brackets nest too deeply, or that is too long, is longer than this.
_SUSPICIOUS_LENGTH = 2 * MAX_NESTING

_encode = msgspec.json.Encoder().encode
_decode_event = msgspec.json.Decoder(Event).decode


def decode_rows(lines: bytes, next_seq: int) -> list[Row]:
    """Decode whole lines whose first event is number `next_seq`; their ends may be LF or CRLF.

    Raises:
        CorruptLogError: A bad row or a gap in `seq`; its `offset` counts from the start of `lines`.
        UnsupportedLogError: An event of a type that must not be ignored.
    """
    texts = lines.split(b"\n")
    texts.pop()
    rows: list[Row] = []
    has_returns = b"\r" in lines
    try:
        for text in texts:
            row = decode_row(text.removesuffix(b"\r") if has_returns else text)
            if row.seq != next_seq:
                raise CorruptLogError(f"expected seq {next_seq}, found {row.seq}")
            rows.append(row)
            next_seq += row.count if type(row) is PackedRow else 1
    except CorruptLogError as error:
        offset = sum(len(text) + 1 for text in texts[: len(rows)])
        raise CorruptLogError(error.reason, offset=offset) from error
    return rows


def decode_row(line: bytes) -> Row:
    """Decode one row, without its line end; a packed row is checked now and unpacked when it is read.

    Raises:
        CorruptLogError: No sound writer wrote it.
        UnsupportedLogError: An event of a type that must not be ignored, or of a pre-release's shape.
    """
    if not line.isascii():
        _check_utf8(line)
    if len(line) > _SUSPICIOUS_LENGTH:
        _check_size(line)
    return _decode(line)


def _decode(line: bytes) -> Row:
    try:
        event = _decode_event(line)
    except msgspec.ValidationError as error:
        return _decode_packed(line, str(error))
    except msgspec.DecodeError as error:
        return _decode_masked(line, str(error))
    if (
        event.type in _PLAIN_TYPES
        and event.source_event_seqs is UNSET
        and event.surface_op is UNSET
        and 0 <= event.seq <= MAX_SAFE_INTEGER
        and -MAX_SAFE_INTEGER <= event.time <= MAX_SAFE_INTEGER
        and len(_encode(event)) == len(line)
    ):
        return event
    _check_event(event, line)
    return event


def _check_utf8(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise CorruptLogError("a row is not UTF-8") from error


def _check_size(line: bytes) -> None:
    if len(line) > MAX_ROW_BYTES:
        raise CorruptLogError(f"a line is longer than {MAX_ROW_BYTES} bytes")
    if nesting_depth(line) > MAX_NESTING:
        raise CorruptLogError(f"a row is nested deeper than {MAX_NESTING}")


def _check_event(event: Event, line: bytes) -> None:
    if event.type in PACKED_TYPES:
        raise CorruptLogError(f"malformed {event.type!r} row")
    if not (0 <= event.seq <= MAX_SAFE_INTEGER and abs(event.time) <= MAX_SAFE_INTEGER):
        raise CorruptLogError("seq or time is out of range")
    # As long as its only possible re-encoding: it repeats no key and says nothing twice.
    if len(_encode(event)) != len(line):
        _check_keys(line)
    if event.type not in _KNOWN_TYPES and not event.ignorable:
        raise UnsupportedLogError(_describe_unknown(event.type))
    if event.source_event_seqs is not UNSET or event.surface_op is not UNSET:
        _check_surface(event)
    if event.type in _MESSAGE_TYPES:
        _check_messages(event)


def _describe_unknown(name: str) -> str:
    if name == "request/header-delta":
        return f"it holds an event of type {name!r}, as only a pre-release wrote"
    return f"it holds an event of type {name!r}, which must not be ignored; upgrade Watchbell to open it"


def _check_keys(line: bytes) -> None:
    """Refuse a repeated envelope key, and `ignorable: false`."""
    pairs = json.loads(line, object_pairs_hook=tuple, parse_int=str, parse_float=str)
    if len({key for key, _ in pairs}) != len(pairs):
        raise CorruptLogError("a row has a key twice")
    if ("ignorable", False) in pairs:
        raise CorruptLogError("ignorable may only be true")


class _Replacement(msgspec.Struct, tag_field="op", tag="replace", forbid_unknown_fields=True):
    start: int
    end: int


def _check_surface(event: Event) -> None:
    if event.type not in SURFACE_TYPES:
        raise CorruptLogError(f"{event.type!r} carries surface keys")
    try:
        numbers: list[int] = []
        if event.source_event_seqs is not UNSET:
            numbers = msgspec.json.decode(event.source_event_seqs, type=list[int])
            if not numbers and event.type != "assistant/message":
                raise CorruptLogError(f"sourceEventSeqs of {event.type!r} is empty")
        if event.surface_op is not UNSET and bytes(event.surface_op) != b'"append"':
            place = msgspec.json.decode(event.surface_op, type=_Replacement)
            numbers += [place.start, place.end]
    except msgspec.DecodeError as error:
        raise CorruptLogError(f"malformed surface key: {error}") from error
    if not all(0 <= number <= MAX_SAFE_INTEGER for number in numbers):
        raise CorruptLogError("a surface key is out of range")


class _Identified(msgspec.Struct):
    id: str | UnsetType = UNSET


class _Inserted(msgspec.Struct):
    inserted: tuple[_Identified, ...] = ()


def _check_messages(event: Event) -> None:
    """Refuse the messages without an id that an old pre-release wrote."""
    try:
        if event.type == "user/message":
            messages = (msgspec.json.decode(event.raw, type=_Identified),)
        else:
            messages = msgspec.json.decode(event.raw, type=_Inserted).inserted
    except msgspec.DecodeError as error:
        raise CorruptLogError(f"malformed {event.type!r}: {error}") from error
    if any(message.id is UNSET for message in messages):
        raise UnsupportedLogError("it holds a message without an id, as only a pre-release wrote")


# --- lone surrogates -------------------------------------------------------------------------------------


def _decode_masked(line: bytes, reason: str) -> Row:
    """Decode a row that msgspec refuses for `reason`: all it may have against it is a lone surrogate."""
    if not line:
        raise CorruptLogError("a blank line")
    masked, mark = _mask(line)
    if masked == line:
        raise CorruptLogError(reason)
    row = _decode(masked)
    if isinstance(row, PackedRow):
        return msgspec.structs.replace(row, raw=line)
    if row.type not in _KNOWN_TYPES:
        raise CorruptLogError("a surrogate in an unknown type of event")
    return msgspec.structs.replace(row, raw=_unmask(row.raw, mark))


def _mask(line: bytes) -> tuple[bytes, bytes]:
    """Put a mark for what begins each surrogate's escape, so that msgspec takes it for other text.

    The mark is valid JSON, also behind a backslash that escapes another one, and `line` has it nowhere; so
    the text comes back as it was.
    """
    number = 0
    while (mark := b"\\u0000[%d]" % number) in line:
        number += 1
    return line.replace(b"\\ud", mark + b"d").replace(b"\\uD", mark + b"D"), mark


def _unmask(raw: bytes | Raw, mark: bytes) -> Raw:
    return Raw(bytes(raw).replace(mark, b"\\u"))


# --- packed rows, read -----------------------------------------------------------------------------------


class _Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    turn: int
    step: int
    index: int
    dt: list[int]


class _TextRun(_Run, frozen=True, forbid_unknown_fields=True, kw_only=True):
    texts: list[str]


class _CallRun(_Run, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: str
    name: str | UnsetType = UNSET
    args: list[str]


class _Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    seq0: int
    time0: int


class _TextChunks(_Packed, frozen=True, forbid_unknown_fields=True, tag="text-chunks"):
    data: _TextRun


class _ReasoningChunks(_Packed, frozen=True, forbid_unknown_fields=True, tag="reasoning-chunks"):
    data: _TextRun


class _CallChunks(_Packed, frozen=True, forbid_unknown_fields=True, tag="tool-call-chunks"):
    data: _CallRun


_Chunks: TypeAlias = _TextChunks | _ReasoningChunks | _CallChunks
_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta


class _DeltaEvent(msgspec.Struct, frozen=True):
    """An `assistant/chunk` payload that can share a row."""

    turn: int
    step: int
    chunk: _Delta


class _Typed(msgspec.Struct):
    type: str


_decode_chunks = msgspec.json.Decoder(_Chunks).decode
_decode_delta = msgspec.json.Decoder(_DeltaEvent).decode


def _decode_packed(line: bytes, reason: str) -> PackedRow:
    """Check a row that is no plain event: a packed one, or (for that `reason`) corrupt."""
    try:
        kind = msgspec.json.decode(line, type=_Typed).type
    except msgspec.DecodeError:
        kind = ""
    if kind not in PACKED_TYPES:
        raise CorruptLogError(f"malformed event: {reason}")
    try:
        chunks = _decode_chunks(line)
    except msgspec.DecodeError as error:
        raise CorruptLogError(f"malformed {kind!r} row: {error}") from error
    problem = _find_problem(chunks)
    if not problem and len(_encode(chunks)) != len(line) and _repeats_a_key(line):
        problem = "a key stands there twice"
    if problem:
        raise CorruptLogError(f"malformed {kind!r} row: {problem}")
    return PackedRow(chunks.seq0, len(chunks.data.dt) + 1, line, _unpack)


def _find_problem(chunks: _Chunks) -> str | None:
    data = chunks.data
    texts = data.args if isinstance(data, _CallRun) else data.texts
    if len(texts) != len(data.dt) + 1:
        return f"{len(texts)} members, {len(data.dt)} gaps"
    counters = (chunks.seq0, chunks.seq0 + len(data.dt), data.turn, data.step, data.index)
    if not all(0 <= number <= MAX_SAFE_INTEGER for number in counters):
        return "a number is out of range"
    if not all(abs(time) <= MAX_SAFE_INTEGER for time in accumulate(data.dt, initial=chunks.time0)):
        return "a time is out of range"
    return None


def _repeats_a_key(line: bytes) -> bool:
    repeats = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeats
        repeats = repeats or len({key for key, _ in pairs}) != len(pairs)

    json.loads(line, object_pairs_hook=look)
    return repeats


def _unpack(line: bytes) -> Sequence[Event]:
    try:
        chunks, mark = _decode_chunks(line), None
    except msgspec.DecodeError:
        masked, mark = _mask(line)
        chunks = _decode_chunks(masked)
    data = chunks.data
    times = accumulate(data.dt, initial=chunks.time0)
    raws = (Raw(_encode(_DeltaEvent(data.turn, data.step, delta))) for delta in _deltas(chunks))
    if mark is not None:
        raws = (_unmask(raw, mark) for raw in raws)
    return [
        Event("assistant/chunk", chunks.seq0 + k, time, raw)
        for k, (time, raw) in enumerate(zip(times, raws, strict=True))
    ]


def _deltas(chunks: _Chunks) -> Iterator[_Delta]:
    if isinstance(chunks, _CallChunks):
        run = chunks.data
        for piece in run.args:
            yield ToolCallDelta(index=run.index, id=run.id, name=run.name, arguments_delta=piece)
        return
    kind = TextDelta if isinstance(chunks, _TextChunks) else ReasoningDelta
    for text in chunks.data.texts:
        yield kind(chunks.data.index, text)


# --- rows, written ---------------------------------------------------------------------------------------


class _Place(TypedDict):
    turn: int
    step: int
    index: int
    dt: list[int]


class _Member(NamedTuple):
    event: Event
    delta: _DeltaEvent


def encode_rows(events: Iterable[Event]) -> bytes:
    """Encode the events of one batch as lines; runs of streamed deltas share packed rows.

    Raises:
        InvalidEventError: A row would be longer than a reader accepts.
    """
    rows: list[bytes] = []
    run: list[_Member] = []
    room = MAX_RUN_BYTES
    for event in events:
        delta = _packable(event)
        size = memoryview(event.raw).nbytes
        if run and (delta is None or size > room or not _joins(run, event, delta)):
            rows += _encode_run(run)
            run, room = [], MAX_RUN_BYTES
        if delta is None:
            rows.append(_encode_row(event))
        else:
            run.append(_Member(event, delta))
            room -= size
    rows += _encode_run(run)
    return b"".join(rows)


def _packable(event: Event) -> _DeltaEvent | None:
    """Return the payload of a delta that loses nothing in a packed row, None for any other event."""
    if event.type != "assistant/chunk" or event.ignorable:
        return None
    if event.source_event_seqs is not UNSET or event.surface_op is not UNSET:
        return None
    try:
        delta = _decode_delta(event.raw)
    except msgspec.DecodeError:
        return None
    if len(_encode(delta)) != memoryview(event.raw).nbytes:
        return None
    counters = (delta.turn, delta.step, delta.chunk.index)
    return delta if all(0 <= number <= MAX_SAFE_INTEGER for number in counters) else None


def _joins(run: list[_Member], event: Event, delta: _DeltaEvent) -> bool:
    first, last = run[0].delta, run[-1].event
    return len(run) < MAX_RUN and event.seq == last.seq + 1 and _shared(first) == _shared(delta)


def _shared(delta: _DeltaEvent) -> tuple[Any, ...]:
    """Return what all members of a run have in common."""
    chunk = delta.chunk
    call = (chunk.id, chunk.name) if isinstance(chunk, ToolCallDelta) else ()
    return type(chunk), delta.turn, delta.step, chunk.index, *call


def _encode_run(run: list[_Member]) -> list[bytes]:
    if len(run) < MIN_RUN:
        return [_encode_row(event) for event, _ in run]
    event, delta = run[0]
    chunk = delta.chunk
    gaps = [after.event.time - before.event.time for before, after in pairwise(run)]
    place = _Place(turn=delta.turn, step=delta.step, index=chunk.index, dt=gaps)
    row: _Chunks
    if isinstance(chunk, ToolCallDelta):
        args = [m.delta.chunk.arguments_delta for m in run if isinstance(m.delta.chunk, ToolCallDelta)]
        row = _CallChunks(event.seq, event.time, _CallRun(**place, id=chunk.id, name=chunk.name, args=args))
    else:
        texts = [m.delta.chunk.text for m in run if not isinstance(m.delta.chunk, ToolCallDelta)]
        kind = _TextChunks if isinstance(chunk, TextDelta) else _ReasoningChunks
        row = kind(event.seq, event.time, _TextRun(**place, texts=texts))
    return [_encode(row) + b"\n"]


def _encode_row(event: Event) -> bytes:
    row = _encode(event)
    if b"\n" in row:
        # Payload text that came in from outside, with white space in it.
        row = _encode(msgspec.structs.replace(event, raw=Raw(encode_json(decode_json(event.raw)))))
    if len(row) > MAX_ROW_BYTES:
        raise InvalidEventError(f"{event.type!r} is longer than a row may be ({MAX_ROW_BYTES} bytes)")
    return row + b"\n"
