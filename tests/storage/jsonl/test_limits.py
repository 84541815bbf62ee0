"""Hostile and very large logs: memory stays under the cap that docs/reference/log-format.md states."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.logs import HEADER, create, numbered, place
from watchbell.log.codec import encode_header, encode_rows
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl.layout import Compression

ROOT = Path(__file__).parents[3]
CAP_MIB = 512
EVENTS = 1_000_000
BATCH = 20

# Runs commands one after the other, each through the program's own entry; says its peak memory last.
RUN = """
import json, re, sys
from watchbell.cli.main import main
codes = [main(arguments) for arguments in json.loads(sys.argv[1])]
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps({"codes": codes, "peakMiB": peak // 1024}))
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)


def measured(home: Path, *commands: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Run commands over a home in a process of their own: the lines they print, and what they took."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(commands)],
        env={**os.environ, "WATCHBELL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    *lines, last = done.stdout.splitlines()
    return lines, json.loads(last)


def run_of(byte: int, length: int, lead: bytes = b"", end: bytes = b"") -> bytes:
    """A zstd frame of one byte over and over: four bytes of file for 128 KiB of text."""
    header = b"\x28\xb5\x2f\xfd\x00\x38"  # a window of 128 KiB, no checksum, no size
    raw = [(len(lead) << 3).to_bytes(3, "little") + lead] if lead else []
    full = ((131_072 << 3) | 2).to_bytes(3, "little") + bytes([byte])
    last = ((len(end) << 3) | 1).to_bytes(3, "little") + end
    return header + b"".join(raw) + full * (length // 131_072) + last


def row(start: bytes, unit: bytes, end: bytes, size: int = 60_000_000) -> bytes:
    """A frame with one row of about that size."""
    return encode_frame(start + unit * (size // len(unit)) + end + b"\n")


OPEN = b'{"type":"turn/start","seq":0,"time":0,"data":'
RUN_ROW = b'{"type":"text-chunks","seq0":0,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":['
HOSTILE: dict[str, Callable[[], bytes]] = {
    "8 GiB of zeros": lambda: run_of(0, 8 << 30),
    "1 GiB of line ends": lambda: run_of(10, 1 << 30),
    "a row of 200 MiB": lambda: run_of(120, 200 << 20, OPEN + b'"', b'"}\n'),
    "100,000 brackets": lambda: encode_frame(OPEN + b"[" * 100_000 + b"\n"),
    "100,000 pairs of brackets": lambda: encode_frame(OPEN + b"[" * 100_000 + b"]" * 100_000 + b"}\n"),
    "a run of millions": lambda: row(RUN_ROW + b"0,", b"999,", b'0],"texts":["a"]}}'),
    "texts without end": lambda: row(RUN_ROW + b'0],"texts":["', b'a","', b'"]}}'),
    "millions of sources": lambda: row(
        b'{"type":"assistant/message","seq":0,"time":0,"data":{},"sourceEventSeqs":[', b"999,", b"0]}"
    ),
    "millions of messages": lambda: row(
        b'{"type":"agent/inbox/spliced","seq":0,"time":0,"data":{"inserted":[',
        b'{"id":"","role":"user"},',
        b"{}]}}",
    ),
    "millions of values": lambda: row(OPEN + b"[", b"[],", b"1]}"),
    "millions of keys": lambda: row(b"{", b'"seq":1,', OPEN[1:] + b"1}"),
    "a header of millions": lambda: row(b'{"x":[', b"[],", b"1]}"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "million" in name else []) for name in HOSTILE]
)
def test_a_hostile_log_is_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    hostile = HOSTILE[name]()
    path = place(tmp_path, hostile if "header" in name else encode_frame(encode_header(HEADER)) + hostile)
    before = path.stat()
    lines, took = measured(tmp_path, ["verify"], ["call", "s", "schedule_list"])
    assert took["peakMiB"] < CAP_MIB
    assert f"{path}: damaged at byte " in lines[0]
    assert json.loads(lines[1])["code"] == "corrupt_schedule_log"
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_size == len(hostile) + (0 if "header" in name else before.st_size - len(hostile))


def batches() -> Iterator[bytes]:
    """A million events, the creates of 20 reminders spread over them, in batches of 20 events."""
    creates = iter(range(1, 21))
    for first in range(0, EVENTS, BATCH):
        if first % (EVENTS // 20) == 0:
            number = next(creates)
            yield encode_rows(numbered([create(number, f"reminder {number}")], first))
            first += 1
        count = BATCH - first % BATCH
        texts = json.dumps([f"word {seq} of a long answer, and more" for seq in range(first, first + count)])
        gaps = json.dumps([1] * (count - 1))
        yield (
            f'{{"type":"text-chunks","seq0":{first},"time0":{first},"data":{{"turn":1,"step":1,"index":0,'
            f'"dt":{gaps},"texts":{texts}}}}}\n'
        ).encode()


def unpacked() -> Iterator[bytes]:
    """The same with each event on a row of its own."""
    for batch in batches():
        if b"text-chunks" not in batch:
            yield batch
            continue
        data = json.loads(batch)
        yield b"".join(
            b'{"type":"assistant/chunk","seq":%d,"time":%d,"data":{"turn":1,"step":1,"chunk":'
            b'{"type":"text-delta","index":0,"text":"%s"}}}\n' % (seq, seq, text.encode())
            for seq, text in enumerate(data["data"]["texts"], data["seq0"])
        )


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_million_events_are_read_and_listed_in_proportion(tmp_path: Path, compression: Compression) -> None:
    header = encode_header(HEADER)
    if compression == "zstd":
        data = b"".join([encode_frame(header), *map(encode_frame, batches())])
    else:
        data = b"".join([header, *unpacked()])
    path = place(tmp_path, data, compression)
    lines, took = measured(tmp_path, ["call", "s", "schedule_list"])
    views = json.loads(lines[0])
    assert [view["prompt"] for view in views] == [f"reminder {number}" for number in range(1, 21)]
    # Beyond a hostile log's cap only what the log itself holds: its text, and 256 bytes for each row.
    rows = data.count(b"\n") if compression == "none" else 2 * EVENTS // BATCH
    text = len(data) if compression == "none" else EVENTS * 60
    assert took["peakMiB"] < CAP_MIB + (text + rows * 256) // 2**20
    assert path.read_bytes() == data


@pytest.mark.slow
def test_a_program_killed_while_it_opens_a_long_log_leaves_it_as_it_was(tmp_path: Path) -> None:
    data = b"".join([encode_frame(encode_header(HEADER)), *map(encode_frame, batches())])
    path = place(tmp_path, data)
    call = [sys.executable, "-m", "watchbell", "--home", str(tmp_path), "call", "s", "schedule_list"]
    opening = subprocess.Popen(call, stdout=subprocess.PIPE)
    while _has_open(opening.pid, path) is False:
        time.sleep(0.001)
    opening.send_signal(signal.SIGKILL)
    assert opening.communicate()[0] == b""
    assert path.read_bytes() == data
    assert len(json.loads(subprocess.run(call, capture_output=True, check=True).stdout)) == 20
    assert path.read_bytes() == data


def _has_open(pid: int, path: Path) -> bool:
    """Whether a process has the file open; it must not end before."""
    links = Path(f"/proc/{pid}/fd")
    names: list[str] = []
    for link in links.iterdir():
        try:
            names.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return any(re.fullmatch(re.escape(str(path)), name) for name in names)
