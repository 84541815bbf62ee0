"""Packed chunk rows: one row for a run of streamed deltas (log-format, "Bytes")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from watchbell.errors import CorruptLogError
from watchbell.log.checks import MAX_SAFE_INTEGER, Count
from watchbell.log.event import Event
from watchbell.log.eventlog import PackedRow
from watchbell.log.messages import ReasoningDelta, TextDelta, ToolCallDelta
from watchbell.log.values import count_strings, mask_surrogates, outer_keys, unmask_surrogates

PACKED_TYPES = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})
"""Types of rows that stand for a run of `assistant/chunk` events."""

MIN_RUN = 3
"""Fewest deltas that share a row."""

MAX_RUN = 1024
"""Most deltas that share a row, so that reading one of them stays cheap."""

MAX_MEMBERS = 1_000_000
"""Most deltas that a row may stand for when it is read: more never stream in one piece, but fill memory."""

MAX_RUN_BYTES = 1024 * 1024
"""Most payload bytes that share a row."""

_encode = msgspec.json.Encoder().encode


MAX_USUAL = 2**42
"""Times and gaps up to this cannot add up to one that is out of range, in a run of `MAX_RUN`."""


class _Run(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    turn: Count
    step: Count
    index: Count
    dt: list[int]


class _TextRun(_Run, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    texts: list[str]


class _CallRun(_Run, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    id: str
    name: str | UnsetType = UNSET
    args: list[str]


class _Packed(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="type"):
    seq0: Count
    time0: int
    data: _Run

    @property
    def count(self) -> int:
        """Number of its events."""
        return len(self.data.dt) + 1

    @property
    def seq(self) -> int:
        """Seq of its first event."""
        return self.seq0


class _TextChunks(_Packed, frozen=True, gc=False, forbid_unknown_fields=True, tag="text-chunks"):
    data: _TextRun


class _ReasoningChunks(_Packed, frozen=True, gc=False, forbid_unknown_fields=True, tag="reasoning-chunks"):
    data: _TextRun


class _CallChunks(_Packed, frozen=True, gc=False, forbid_unknown_fields=True, tag="tool-call-chunks"):
    data: _CallRun


PackedChunks: TypeAlias = _TextChunks | _ReasoningChunks | _CallChunks
_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta


class _DeltaEvent(msgspec.Struct, frozen=True):
    """An `assistant/chunk` payload that can share a row."""

    turn: int
    step: int
    chunk: _Delta


class _Outer(msgspec.Struct):
    type: str
    data: Raw = Raw(b"null")


class _Lists(msgspec.Struct):
    """The lists of a row, not decoded yet."""

    dt: Raw
    texts: Raw = Raw(b"[]")
    args: Raw = Raw(b"[]")


_decoder = msgspec.json.Decoder(PackedChunks)
_decode_chunks = _decoder.decode
_decode_delta = msgspec.json.Decoder(_DeltaEvent).decode


def decode_packed(line: bytes) -> PackedRow | None:
    """Check a packed row, and leave unpacking it for when it is read; None for a row of another type.

    Raises:
        CorruptLogError: No sound writer wrote it.
        msgspec.DecodeError: It is not JSON, or not as msgspec reads it.
    """
    try:
        outer = msgspec.json.decode(line, type=_Outer)
    except msgspec.ValidationError:
        return None
    kind = outer.type
    if kind not in PACKED_TYPES:
        return None
    try:
        _check_counts(msgspec.json.decode(outer.data, type=_Lists))
        chunks = _decode_chunks(line)
    except msgspec.DecodeError as error:
        raise CorruptLogError(f"malformed {kind!r} row: {error}") from error
    except CorruptLogError as error:
        raise CorruptLogError(f"malformed {kind!r} row: {error.reason}") from error
    problem = _find_problem(chunks)
    if not problem and len(_encode(chunks)) != len(line) and any(map(_repeats_a_key, (line, outer.data))):
        problem = "a key stands there twice"
    if problem:
        raise CorruptLogError(f"malformed {kind!r} row: {problem}")
    return PackedRow(chunks.seq0, len(chunks.data.dt) + 1, line, unpack)


def decode_runs(lines: bytes) -> tuple[Sequence[PackedChunks], Sequence[int]]:
    """Decode packed rows, many at a time; encoding them again shows whether a key stands there twice.

    Returns:
        The rows, and how many events each stands for.

    Raises:
        msgspec.DecodeError: They have to be looked at one by one, by `decode_packed`.
    """
    rows = _decoder.decode_lines(lines)
    datas = [row.data for row in rows]
    gaps = [data.dt for data in datas]
    counts = [len(dt) + 1 for dt in gaps]
    if counts != [len(data.args if isinstance(data, _CallRun) else data.texts) for data in datas]:
        raise msgspec.DecodeError("members and gaps do not match")
    times = [row.time0 for row in rows]
    every = [*chain.from_iterable(gaps), *times, rows[-1].seq0]
    if max(every) > MAX_USUAL or min(every) < -MAX_USUAL or max(counts) > MAX_RUN:
        raise msgspec.DecodeError("a row is very long, or a number very large")
    return rows, counts


def _check_counts(lists: _Lists) -> None:
    """Refuse lists that are too long, before they are decoded."""
    members = bytes(lists.dt).count(b",") + 2  # one more than gaps; fewer when there are none
    if members > MAX_MEMBERS:
        raise CorruptLogError(f"it stands for more than {MAX_MEMBERS} events")
    for raw in (bytes(lists.texts), bytes(lists.args)):
        quotes = raw.count(b'"')
        if quotes > 2 * members and (b"\\" not in raw or count_strings(raw) > members):
            raise CorruptLogError(f"it has more than {members} members, and no gaps between them")


def _find_problem(chunks: PackedChunks) -> str | None:
    data = chunks.data
    texts = data.args if isinstance(data, _CallRun) else data.texts
    if len(texts) != len(data.dt) + 1:
        return f"{len(texts)} members, {len(data.dt)} gaps"
    if chunks.seq0 + len(data.dt) > MAX_SAFE_INTEGER:
        return "a seq is out of range"
    if not all(abs(time) <= MAX_SAFE_INTEGER for time in accumulate(data.dt, initial=chunks.time0)):
        return "a time is out of range"
    return None


def _repeats_a_key(raw: bytes | Raw) -> bool:
    keys = outer_keys(raw)
    return len(set(keys)) != len(keys)


def unpack(line: bytes) -> Sequence[Event]:
    """Make the events of a packed row that was checked before."""
    try:
        chunks, mark = _decode_chunks(line), None
    except msgspec.DecodeError:
        masked, mark = mask_surrogates(line)
        chunks = _decode_chunks(masked)
    data = chunks.data
    times = accumulate(data.dt, initial=chunks.time0)
    raws = (Raw(_encode(_DeltaEvent(data.turn, data.step, delta))) for delta in _deltas(chunks))
    if mark is not None:
        raws = (unmask_surrogates(raw, mark) for raw in raws)
    return [
        Event("assistant/chunk", chunks.seq0 + k, time, raw)
        for k, (time, raw) in enumerate(zip(times, raws, strict=True))
    ]


def _deltas(chunks: PackedChunks) -> Iterator[_Delta]:
    if isinstance(chunks, _CallChunks):
        run = chunks.data
        for piece in run.args:
            yield ToolCallDelta(index=run.index, id=run.id, name=run.name, arguments_delta=piece)
        return
    kind = TextDelta if isinstance(chunks, _TextChunks) else ReasoningDelta
    for text in chunks.data.texts:
        yield kind(chunks.data.index, text)


class _Member(NamedTuple):
    event: Event
    delta: _DeltaEvent


def pack(events: Iterable[Event]) -> Iterator[Event | bytes]:
    """Put rows in place of the runs of one batch's deltas that lose nothing by it.

    Yields:
        The other events as they are, and the packed rows, without a line end, in order.
    """
    run: list[_Member] = []
    room = MAX_RUN_BYTES
    for event in events:
        delta = _packable(event)
        size = memoryview(event.raw).nbytes
        if run and (delta is None or size > room or not _joins(run, event, delta)):
            yield from _close_run(run)
            run, room = [], MAX_RUN_BYTES
        if delta is None:
            yield event
        else:
            run.append(_Member(event, delta))
            room -= size
    yield from _close_run(run)


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


def _shared(delta: _DeltaEvent) -> tuple[object, ...]:
    """Return what all members of a run have in common."""
    chunk = delta.chunk
    call = (chunk.id, chunk.name) if isinstance(chunk, ToolCallDelta) else ()
    return type(chunk), delta.turn, delta.step, chunk.index, *call


def _close_run(run: list[_Member]) -> Sequence[Event | bytes]:
    if len(run) < MIN_RUN:
        return [member.event for member in run]
    event, delta = run[0]
    chunk = delta.chunk
    gaps = [after.event.time - before.event.time for before, after in pairwise(run)]
    row: PackedChunks
    if isinstance(chunk, ToolCallDelta):
        args = [m.delta.chunk.arguments_delta for m in run if isinstance(m.delta.chunk, ToolCallDelta)]
        call = _CallRun(
            turn=delta.turn,
            step=delta.step,
            index=chunk.index,
            dt=gaps,
            id=chunk.id,
            name=chunk.name,
            args=args,
        )
        row = _CallChunks(event.seq, event.time, call)
    else:
        texts = [m.delta.chunk.text for m in run if not isinstance(m.delta.chunk, ToolCallDelta)]
        kind = _TextChunks if isinstance(chunk, TextDelta) else _ReasoningChunks
        run_of = _TextRun(turn=delta.turn, step=delta.step, index=chunk.index, dt=gaps, texts=texts)
        row = kind(event.seq, event.time, run_of)
    return [_encode(row)]
