"""Rows of a session log to bytes and back (log-format, "Event envelope", "Header" and "Bytes").

Reading is strict: what no sound writer leaves behind is a `CorruptLogError`, what needs a newer program an
`UnsupportedLogError`. Neither knows the file; whoever read the bytes adds its path and place. A plain row
takes one pass through msgspec; everything unusual about it shows by its re-encoded length and is then looked
at closely.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from watchbell.errors import CorruptLogError, InvalidEventError, UnsupportedLogError
from watchbell.log._packing import PACKED_TYPES, decode_packed, pack
from watchbell.log.checks import (
    MAX_ROW_BYTES,
    MAX_SAFE_INTEGER,
    MESSAGE_TYPES,
    check_messages,
    check_place,
    check_size,
    check_surface,
    check_values,
)
from watchbell.log.event import Event, known_types
from watchbell.log.eventlog import PackedRow
from watchbell.log.header import FORMAT_VERSION, SessionHeader
from watchbell.log.values import (
    MAX_NESTING,
    decode_json,
    encode_json,
    mask_surrogates,
    nesting_depth,
    outer_keys,
    unmask_surrogates,
)

Row: TypeAlias = Event | PackedRow


# --- the header ------------------------------------------------------------------------------------------

_OPTIONAL_KEYS = ("cwd", "parentSession", "seedLength", "origin")
_HEADER_KEYS = {"type", "version", "id", "createdAt", "delegationDepth", "agentPreset", *_OPTIONAL_KEYS}
MAX_HEADER_BYTES = 4 * 1024 * 1024
"""Longest header that is read, in bytes: no writer comes near, and decoding it takes little memory."""

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


def encode_header(header: SessionHeader) -> bytes:
    """Encode the first line of a log, with its line end."""
    head = {"type": "session", "version": FORMAT_VERSION}
    return encode_json(head | msgspec.to_builtins(header)) + b"\n"


class _Head(msgspec.Struct):
    """What is looked at before anything else."""

    version: Raw
    type: Raw | UnsetType = UNSET


def decode_header(line: bytes) -> SessionHeader:
    """Decode the first line of a log; its version is looked at before anything else.

    Raises:
        UnsupportedLogError: Another version of the format, or a key that this one does not know.
        CorruptLogError: Not a session header.
    """
    if len(line) > MAX_HEADER_BYTES:
        raise CorruptLogError(f"the header is longer than {MAX_HEADER_BYTES} bytes")
    if nesting_depth(line) > MAX_NESTING:
        raise CorruptLogError(f"the header is nested deeper than {MAX_NESTING}")
    try:
        line.decode()
        masked = mask_surrogates(line)[0]
        _check_head(msgspec.json.decode(masked, type=_Head))
        _check_header_keys(masked)
        value = decode_json(line)
    except msgspec.ValidationError as error:
        raise CorruptLogError("the first line is no session header") from error
    except ValueError as error:
        raise CorruptLogError(f"the header is not JSON: {error}") from error
    header = _convert_header(value)
    _check_header(header)
    return header


def _check_head(head: _Head) -> None:
    version = bytes(head.version).strip()
    if version == b"null":
        raise CorruptLogError("the first line is no session header")
    if re.fullmatch(rb"[1-9][0-9]*", version):
        raise UnsupportedLogError(
            f"log format version {_shown(version)} is newer; upgrade Watchbell to open it"
        )
    if version != b"%d" % FORMAT_VERSION:
        raise UnsupportedLogError(f"log format version {_shown(version)} is unknown to Watchbell")
    if head.type is UNSET or decode_json(head.type) != "session":
        raise CorruptLogError("the first line is no session header")


def _shown(raw: bytes) -> str:
    return raw[:40].decode(errors="replace")


def _check_header_keys(line: bytes) -> None:
    seen: set[str] = set()
    for key in outer_keys(line):
        if key not in _HEADER_KEYS:
            raise UnsupportedLogError(f"the header has a key {key[:40]!r}; upgrade Watchbell to open it")
        if key in seen:
            raise CorruptLogError("the header has a key twice")
        seen.add(key)


def _convert_header(value: dict[str, Any]) -> SessionHeader:
    for key in _OPTIONAL_KEYS:
        if value.get(key, UNSET) is None:
            raise CorruptLogError(f"the header's {key} is null")
    try:
        return msgspec.convert(value, SessionHeader)
    except ValueError as error:  # half a surrogate pair where a number belongs is no ValidationError
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

SUSPICIOUS_LENGTH = 2 * MAX_NESTING
"""A row whose brackets nest too deeply, or that is too long, is longer than this."""

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
    if len(line) > SUSPICIOUS_LENGTH:
        check_size(line)
    return _decode(line)


def _decode(line: bytes) -> Row:
    try:
        event = _decode_event(line)
    except msgspec.ValidationError as error:
        return _decode_packed(line, str(error))
    except msgspec.DecodeError as error:
        return _decode_masked(line, str(error))
    check_values(event.raw)
    _check_event(event, line)
    return event


def _decode_packed(line: bytes, reason: str) -> PackedRow:
    """Decode a row that is no plain event, for that `reason`."""
    try:
        packed = decode_packed(line)
    except msgspec.DecodeError as error:
        packed = _decode_masked(line, str(error))
    if not isinstance(packed, PackedRow):
        raise CorruptLogError(f"malformed event: {reason}")
    return packed


def _check_utf8(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise CorruptLogError("a row is not UTF-8") from error


def _check_event(event: Event, line: bytes) -> None:
    if event.type in PACKED_TYPES:
        raise CorruptLogError(f"malformed {event.type!r} row")
    check_place(event)
    # As long as its only possible re-encoding: it repeats no key and says nothing twice.
    if len(_encode(event)) != len(line):
        _check_keys(event, line)
    if event.type not in known_types() and not event.ignorable:
        raise UnsupportedLogError(_describe_unknown(event.type))
    check_surface(event)
    if event.type in MESSAGE_TYPES:
        check_messages(event)


def _describe_unknown(name: str) -> str:
    if name == "request/header-delta":
        return f"it holds an event of type {name!r}, as only a pre-release wrote"
    return f"it holds an event of type {name!r}, which must not be ignored; upgrade Watchbell to open it"


def _check_keys(event: Event, line: bytes) -> None:
    """Refuse a repeated envelope key, and `ignorable: false`, which is as long as `true` and a blank."""
    keys = outer_keys(line)
    if len(set(keys)) != len(keys):
        raise CorruptLogError("a row has a key twice")
    if "ignorable" in keys and not event.ignorable:
        raise CorruptLogError("ignorable may only be true")


# --- lone surrogates -------------------------------------------------------------------------------------


def _decode_masked(line: bytes, reason: str) -> Row:
    """Decode a row that msgspec refuses for `reason`: all it may have against it is a lone surrogate."""
    if not line:
        raise CorruptLogError("a blank line")
    masked, mark = mask_surrogates(line)
    if masked == line:
        raise CorruptLogError(reason)
    row = _decode(masked)
    if isinstance(row, PackedRow):
        return msgspec.structs.replace(row, raw=line)
    if not row.type.isprintable():
        raise CorruptLogError("half a surrogate pair in the type of an event")
    return msgspec.structs.replace(row, raw=unmask_surrogates(row.raw, mark))


# --- rows, written ---------------------------------------------------------------------------------------


def encode_rows(events: Iterable[Event]) -> bytes:
    """Encode the events of one batch as lines; runs of streamed deltas share packed rows.

    Raises:
        InvalidEventError: A row would be longer than a reader accepts.
    """
    rows = pack(events)
    return b"".join(row + b"\n" if isinstance(row, bytes) else _encode_row(row) for row in rows)


def _encode_row(event: Event) -> bytes:
    row = _encode(event)
    if b"\n" in row:
        # Payload text that came in from outside, with white space in it.
        row = _encode(msgspec.structs.replace(event, raw=Raw(encode_json(decode_json(event.raw)))))
    if len(row) > MAX_ROW_BYTES:
        raise InvalidEventError(f"{event.type!r} is longer than a row may be ({MAX_ROW_BYTES} bytes)")
    return row + b"\n"
