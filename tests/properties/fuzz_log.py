"""A coverage-guided fuzzer for everything that reads a log: `make fuzz` runs it.

It changes sound logs, bytes and rows alike, and keeps each change that reaches a line of the reading code
that none reached before, to change it further. Whatever comes out must be a value, a `CorruptLogError` or an
`UnsupportedLogError`; anything else is written to `crashers/`, where the test beside this one finds it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import zstandard

from watchbell.agent._take_ups import TakeUps
from watchbell.agent.inbox import Inbox
from watchbell.errors import CorruptLogError, LogError, ScheduleLogError, UnsupportedLogError
from watchbell.log.codec import encode_rows
from watchbell.log.transcript import Transcript
from watchbell.log.turns import close_open_turn
from watchbell.log.verify import verify_events
from watchbell.reminders.state import ScheduleState
from watchbell.storage.base import StoredLog
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl.layout import LOG_NAMES, Compression, log_path
from watchbell.storage.jsonl.reading import read_log

__all__ = ["CRASHERS", "Fuzzer", "judge", "seeds"]

HERE = Path(__file__).parent
CRASHERS = HERE / "crashers"
FIXTURES = HERE.parent / "compat" / "fixtures"
WATCHED = re.compile(r"/watchbell/(log|storage)/")
MAX_CORPUS_BYTES = 200_000
INTERESTING = [
    b"0", b"-1", b"1.0", b"1e400", b"9007199254740992", b"-9007199254740992", b"1" * 400, b"true", b"null",
    b"{}", b"[]",
    b'""', b'"\\ud83d"', b'"\\udc00\\ud83d"', b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"', b"[" * 300,
    b'{"op":"replace","start":0,"end":9}', b'"append"', b'"\\\\ud800"', b"NaN", b"\r\n", b"\n", b"\0" * 64,
]  # fmt: skip
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9]+|true|false|null|[\[{}\],:]')
TOOLS = re.compile(rb',"tools":\[\{"name":"schedule_create".*?\}\](?=\},"reason")')
MAGIC = b"\x28\xb5\x2f\xfd"


def seeds() -> list[tuple[Compression, bytes]]:
    """The logs that are there to begin with, under the id that `judge` reads them as."""
    found: list[tuple[Compression, bytes]] = []
    for path in sorted(FIXTURES.rglob(LOG_NAMES["none"])):
        lines = TOOLS.sub(b"", path.read_bytes()).splitlines(keepends=True)
        head = re.sub(rb'"id":"[^"]*"', b'"id":"s"', lines[0], count=1)
        body = lines[1:41]  # a part of each is enough, and quicker
        head = re.sub(rb'"seedLength":[1-9]\d*', b'"seedLength":%d' % (len(body) // 2), head)
        lines[0] = re.sub(rb',"cwd":"[^"]*"', b"", head)
        found.append(("none", lines[0] + b"".join(body)))
        frames = [b"".join(body[at : at + 6]) for at in range(0, len(body), 6)]
        found.append(("zstd", b"".join(map(encode_frame, [lines[0], *frames]))))
    return found


def judge(folder: Path, compression: Compression, data: bytes) -> str:
    """Read a log in every way; say how that ended, or raise what should never be raised."""
    path = log_path(folder, "s", None, compression)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        stored = read_log(path)
    except (CorruptLogError, UnsupportedLogError) as error:
        return f"{type(error).__name__} {error.reason}"
    ends = [_end_of(look, stored) for look in _LOOKS]
    events = list(stored.events)
    if encode_rows(events).count(b"\n") > len(events):
        raise AssertionError("more lines than events")
    return " / ".join(ends)


def _schedule(stored: StoredLog) -> Any:
    ScheduleState(stored.header.owned_from).advance(stored.events)


_LOOKS: list[Callable[[StoredLog], Any]] = [
    lambda stored: verify_events(stored.events, stored.header.owned_from),
    lambda stored: Transcript().advance(stored.events),
    lambda stored: Inbox(stored.header.owned_from).advance(stored.events).returned(),
    lambda stored: TakeUps(stored.header.owned_from).advance(stored.events).due(),
    lambda stored: close_open_turn(stored.events),
    _schedule,
]


def _end_of(look: Callable[[StoredLog], Any], stored: StoredLog) -> str:
    try:
        look(stored)
    except (LogError, ScheduleLogError) as error:
        return type(error).__name__
    return "fine"


class Fuzzer:
    """Changes logs at random, and remembers which change was worth it.

    Attributes:
        tried: How many logs were read.
        corpus: The logs that each reached something new.
        crashers: What raised anything else, with the last line of its traceback.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.tried = 0
        self.corpus = seeds()
        self.crashers: list[tuple[Compression, bytes, str]] = []
        self._folder = folder
        self._random = Random(seed)
        self._lines: set[tuple[str, int]] = set()
        self._new = False

    @property
    def lines(self) -> int:
        """How many lines of the reading code were reached."""
        return len(self._lines)

    def step(self) -> None:
        """Change one log and read it."""
        compression, data = self._random.choice(self.corpus)
        data = self._change(compression, data)
        self.tried += 1
        self._new = False
        outer = sys.gettrace()  # whoever measures coverage goes on afterwards
        sys.settrace(self._trace)
        failure: str | None = None
        try:
            judge(self._folder, compression, data)
        except Exception:  # noqa: BLE001 - that is what is looked for
            failure = traceback.format_exc()
        finally:
            sys.settrace(outer)
        if failure is not None:
            self._keep(compression, data, failure)
        if self._new and len(data) < MAX_CORPUS_BYTES:
            self.corpus.append((compression, data))

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        return self._trace_lines if WATCHED.search(frame.f_code.co_filename) else None

    def _trace_lines(self, frame: FrameType, event: str, _: object) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if place not in self._lines:
            self._lines.add(place)
            self._new = True
        return self._trace_lines

    def _keep(self, compression: Compression, data: bytes, trace: str) -> None:
        places = re.findall(r'File "[^"]*/watchbell/([^"]*)", line (\d+)', trace)
        reason = f"{trace.strip().splitlines()[-1]} at {places[-1] if places else '?'}"
        if reason not in [known for _, _, known in self.crashers]:
            self.crashers.append((compression, data, reason))

    def _change(self, compression: Compression, data: bytes) -> bytes:
        random = self._random
        if compression == "zstd" and random.random() < 0.7:
            return self._change_frames(data)
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            data = random.choice(_CHANGES if compression == "zstd" else _ALL_CHANGES)(random, data)
        return data

    def _change_frames(self, data: bytes) -> bytes:
        """Change what the frames hold, or their order, and compress it anew."""
        random = self._random
        frames = list(_texts(data)) or [b""]
        at = random.randrange(len(frames))
        match random.randrange(6):
            case 0:
                frames.insert(at, random.choice(frames))
            case 1:
                del frames[at]
            case 2:
                frames[at : at + 2] = [b"".join(frames[at : at + 2])]
            case _:
                frames[at] = random.choice(_ALL_CHANGES)(random, frames[at])
        return b"".join(map(encode_frame, frames))


def _texts(data: bytes) -> Iterator[bytes]:
    """What the frames hold, as far as they can be read."""
    while data.startswith(MAGIC):
        decoder = zstandard.ZstdDecompressor().decompressobj()
        try:
            text = decoder.decompress(data)
        except zstandard.ZstdError:
            return
        if not decoder.eof:
            return
        yield text
        data = decoder.unused_data


def _place(random: Random, data: bytes, longest: int = 64) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.randint(1, longest))


def _flip(random: Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _put(random: Random, data: bytes) -> bytes:
    start, end = _place(random, data)
    return (
        data[:start]
        + random.choice([*INTERESTING, random.randbytes(8)])
        + data[random.choice((start, end)) :]
    )


def _cut(random: Random, data: bytes) -> bytes:
    start, end = _place(random, data, 400)
    return data[:start] if random.random() < 0.3 else data[:start] + data[end:]


def _repeat(random: Random, data: bytes) -> bytes:
    start, end = _place(random, data, 400)
    at = random.randint(0, len(data))
    return data[:at] + data[start:end] + data[at:]


def _zero(random: Random, data: bytes) -> bytes:
    start, end = _place(random, data, 700)
    return data[:start] + bytes(end - start) + data[end:]


def _token(random: Random, data: bytes) -> bytes:
    """Put something else in the place of a JSON token, perhaps another one of the log."""
    line_start = data.rfind(b"\n", 0, random.randint(0, len(data))) + 1
    line = data[line_start : data.find(b"\n", line_start) + 1 or len(data)]
    tokens = list(TOKEN.finditer(line))
    if not tokens:
        return data
    old = random.choice(tokens)
    new = random.choice([*INTERESTING, *(token[0] for token in tokens)])
    start = line_start + old.start()
    return data[:start] + new + data[line_start + old.end() :]


def _lines(random: Random, data: bytes) -> bytes:
    """Swap, drop or repeat whole lines."""
    lines = data.splitlines(keepends=True) or [b""]
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(3):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            lines.insert(at, lines[other])
        case _:
            del lines[at]
    return b"".join(lines)


_CHANGES: list[Callable[[Random, bytes], bytes]] = [_flip, _put, _cut, _repeat, _zero]
_ALL_CHANGES = [*_CHANGES, _token, _token, _token, _token, _lines]


def main() -> int:
    """Fuzz for a while, tell what came of it, and keep the crashers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = time.time_ns() if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as name:
        fuzzer = Fuzzer(Path(name), seed)
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            fuzzer.step()
    print(  # noqa: T201 - a program of its own
        f"seed {seed}: {fuzzer.tried:,} logs in {options.seconds:.0f} s, {fuzzer.lines} lines reached, "
          f"{len(fuzzer.corpus)} logs kept, {len(fuzzer.crashers)} crashers")  # fmt: skip
    for compression, data, reason in fuzzer.crashers:
        target = CRASHERS / f"{hashlib.sha256(data).hexdigest()[:12]}.{LOG_NAMES[compression]}"
        target.write_bytes(data)
        print(f"{target}: {reason}")  # noqa: T201
    return 1 if fuzzer.crashers else 0


if __name__ == "__main__":
    sys.exit(main())
