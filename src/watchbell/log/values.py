r"""JSON values to bytes and back, with JavaScript's strings.

JSON text written by JavaScript may hold a lone surrogate as an escape (`"\ud83d"`), and Python strings
may hold one too. msgspec refuses both, so either direction falls back to the standard library for those
rare values. Everything else takes the fast path.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from watchbell.errors import InvalidEventError

MAX_NESTING = 256
"""Deepest nesting of arrays and objects in one row (log-format, "Size")."""

MAX_KEYS = 32
"""Most keys of one object that `outer_keys` names; rows and headers have far fewer."""

T = TypeVar("T")


class _Key:
    """A key of a JSON object that equals no other, so that repeated ones are not lost."""


_SURROGATE = re.compile("[\ud800-\udfff]")
# Possessive, and without need of a closing quote: a string of many megabytes is passed over in one go.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# Some strings with what stands between them.
_STRETCH = re.compile(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?){1,10000}+', re.DOTALL)
# One up for what opens, one down (as a signed byte) for what closes; all else is left out.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_EMPTY = re.compile(rb"\[\s*+\]|\{\s*+\}")
_MARKS = (b",", b"[", b"{")


def to_plain(value: object) -> str | int | float:
    """Take a text or number of a class of its own for what it is; the methods of that class have no say."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case _:
            raise TypeError(f"objects of type {type(value).__name__} are not JSON")


def _decode_raw(value: object) -> Any:
    return decode_json(value) if isinstance(value, msgspec.Raw) else to_plain(value)


_encoder = msgspec.json.Encoder(enc_hook=to_plain)
_decoder = msgspec.json.Decoder()
_skim = msgspec.json.Decoder(msgspec.Raw).decode


def encode_json(value: Any) -> bytes:
    r"""Encode a value, or a msgspec struct, as compact JSON; non-ASCII text stays as it is.

    A lone surrogate becomes a `\udXXX` escape, as JavaScript's `JSON.stringify` writes it.

    Raises:
        InvalidEventError: The value is not JSON (an object of an unknown class, a key that is no text).
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encode_slowly(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEventError(f"not a JSON value: {error}") from error


def decode_json(raw: bytes | msgspec.Raw) -> Any:
    """Decode JSON text; of a repeated key the last one wins.

    A number that is too large for any reader becomes None, as JavaScript shows it.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply.
    """
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError:
        return _decode_slowly(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_typed(raw: bytes | msgspec.Raw, shape: type[T]) -> T:
    """Decode JSON text into a struct type, with strings that JavaScript alone accepts.

    Raises:
        ValueError: The text is not JSON or not of that shape (msgspec's errors are ValueErrors).
    """
    try:
        return msgspec.json.decode(raw, type=shape, dec_hook=decode_foreign)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(_decode_slowly(raw), shape, dec_hook=decode_foreign)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_foreign(shape: Any, value: object) -> Any:
    """Decode what other programs write more of than a struct can say: its class has `from_json` for that.

    A `dec_hook` of msgspec.

    Raises:
        ValueError: The value is not of that shape.
    """
    return shape.from_json(value)


def check_json(raw: bytes) -> None:
    """Make sure that bytes are the JSON text of one value, mostly without decoding it.

    Raises:
        ValueError: They are not. Or they span lines, so that they have to be encoded anew, and hold a number
            that is too large for that.
    """
    if not raw.isascii():
        raw.decode()
    try:
        _skim(raw)
    except msgspec.DecodeError:
        _skim(mask_surrogates(raw)[0])
    if b"\n" in raw:
        json.loads(raw, parse_float=_require_finite)


def mask_surrogates(line: bytes) -> tuple[bytes, bytes]:
    """Replace what begins each surrogate's escape by a mark, so that msgspec takes JSON text that it refuses.

    The mark is valid JSON, also behind a backslash, and `line` has it nowhere; so `unmask_surrogates` gives
    back the text as it was.

    Returns:
        The masked text, equal to `line` when it has no such escape, and the mark.
    """
    number = 0
    while (mark := b"\\u0000[%d]" % number) in line:
        number += 1
    return line.replace(b"\\ud", mark + b"d").replace(b"\\uD", mark + b"D"), mark


def unmask_surrogates(raw: bytes | msgspec.Raw, mark: bytes) -> msgspec.Raw:
    """Put back what `mask_surrogates` replaced by `mark`."""
    return msgspec.Raw(bytes(raw).replace(mark, b"\\u"))


def nesting_depth(raw: bytes) -> int:
    """Count how deeply arrays and objects nest, without decoding (and so without recursion).

    Exact only where it matters: 0 for text with too few brackets.
    """
    if raw.count(b"[") + raw.count(b"{") < MAX_NESTING:
        return 0
    depth = deepest = 0
    for stretch in _STRETCH.finditer(raw):
        marks = _STRINGS.sub(b"", stretch[0]).translate(_STEPS, _NO_BRACKETS)
        steps = memoryview(marks).cast("b")
        deepest = max(deepest, max(accumulate(steps, initial=depth)))
        depth += sum(steps)
    return deepest


def count_strings(raw: bytes) -> int:
    """Count the strings in JSON text, keys among them, without decoding."""
    return sum(_STRINGS.subn(b"", stretch[0])[1] for stretch in _STRETCH.finditer(raw))


def count_values(raw: bytes, enough: int) -> int:
    """Count the values in JSON text, those within others too, without decoding.

    Exact only above `enough`: 0 for text that has too few commas and brackets for more.
    """
    if sum(map(raw.count, _MARKS)) < enough:
        return 0
    # One value, one more behind each comma, and the first one of each list or object that is not empty.
    bare = (_STRINGS.sub(b"0", stretch[0]) for stretch in _STRETCH.finditer(raw))
    return 1 + sum(sum(map(text.count, _MARKS)) - _count_empty(text) for text in bare)


def _count_empty(text: bytes) -> int:
    return sum(1 for _ in _EMPTY.finditer(text))


def outer_keys(raw: bytes | msgspec.Raw) -> list[str]:
    """Return the keys of a JSON object, a repeated one again and again, without decoding its values.

    After `MAX_KEYS` of them it looks no further.

    Raises:
        msgspec.DecodeError: The text is no JSON object.
    """
    keys: list[str] = []

    def take(_: type, key: str) -> _Key:
        keys.append(key)
        if len(keys) > MAX_KEYS:
            raise ValueError("too many keys")
        return _Key()

    try:
        msgspec.json.decode(raw, type=dict[_Key, msgspec.Raw], dec_hook=take)
    except msgspec.ValidationError:
        if len(keys) <= MAX_KEYS:
            raise
    return keys


def _encode_slowly(value: Any) -> bytes:
    try:
        plain = msgspec.to_builtins(value, enc_hook=_decode_raw)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEventError(f"not a JSON value: {error}") from error
    return _SURROGATE.sub(lambda unit: f"\\u{ord(unit[0]):04x}", text).encode()


def _decode_slowly(raw: bytes | msgspec.Raw) -> Any:
    try:
        return json.loads(bytes(raw), parse_int=_integer, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _integer(digits: str) -> int | None:
    try:
        return int(digits)
    except ValueError:  # thousands of digits: Python refuses them, and JavaScript reads infinity
        return None


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _require_finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
