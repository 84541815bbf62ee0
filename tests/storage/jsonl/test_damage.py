"""A damaged log is refused with place and reason, a torn one goes on, and looking touches neither."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from tests.logs import BOTH, active, ask, create, delete, picture, place, run, units
from watchbell.errors import CorruptLogError, UnsupportedLogError
from watchbell.host import Host
from watchbell.log.event import Draft, Event
from watchbell.storage.base import StoredLog
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl.layout import LOG_NAMES, Compression
from watchbell.storage.jsonl.reading import read_log

DELTA = {"type": "text-delta", "index": 0}
TALK = [
    [create(1, "stretch — ☕"), Draft("turn/start", {"turn": 1})],
    [Draft("assistant/chunk", {"turn": 1, "step": 1, "chunk": DELTA | {"text": text}})
     for text in ("one ", "two ", "three")],
    [Draft("turn/end", {"turn": 1, "reason": {"kind": "completed"}}), create(2), create(3, "ü" * 40)],
]  # fmt: skip
ZEROS = (200, 700)


class Log:
    """A healthy log, and what a reader makes of other bytes in its place."""

    def __init__(self, home: Path, compression: Compression) -> None:
        self.compression: Compression = compression
        self.units = units(compression, *TALK)
        self.data = b"".join(self.units)
        self.home = home
        self.path = place(home, self.data, compression)
        self.events = list(self.read(self.data).events)

    @property
    def last(self) -> int:
        """Where the last unit begins: a frame, or a line."""
        if self.compression == "zstd":
            return len(self.data) - len(self.units[-1])
        return self.data[:-1].rindex(b"\n") + 1

    def read(self, data: bytes) -> StoredLog:
        self.path.write_bytes(data)
        return read_log(self.path)

    def judge(self, data: bytes) -> list[Event] | None:
        """The events, None when the log is refused with file, place and reason; the file stays as it was."""
        self.path.write_bytes(data)
        before = self.path.stat()
        events: list[Event] | None = None
        refusal: CorruptLogError | UnsupportedLogError | None = None
        try:
            events = list(read_log(self.path).events)
        except (CorruptLogError, UnsupportedLogError) as error:
            refusal = error
        after = self.path.stat()
        assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
        assert self.path.read_bytes() == data
        if refusal is not None:
            assert (refusal.path, bool(refusal.reason)) == (str(self.path), True)
        if isinstance(refusal, CorruptLogError):
            assert refusal.offset is not None
            assert 0 <= refusal.offset <= len(data)
        return events


@pytest.fixture(params=BOTH)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return Log(tmp_path, request.param)


def bits(byte: int, count: int) -> Iterator[int]:
    """Some bits of each byte, others for its neighbours, so that each is tried somewhere near."""
    return ((byte * count + k) % 8 for k in range(count))


# --- cut


def test_cut_anywhere_it_is_a_shorter_log_or_refused_and_never_another_one(log: Log) -> None:
    header = len(log.units[0])
    for length in range(len(log.data)):
        events = log.judge(log.data[:length])
        if length < header:
            assert events is None
        else:
            assert events is not None
            assert events == log.events[: len(events)]


def test_a_unit_that_is_not_whole_counts_for_nothing(log: Log) -> None:
    whole = log.judge(log.data[: log.last])
    assert whole is not None
    assert len(whole) < len(log.events)
    for length in range(log.last + 1, len(log.data)):
        assert log.judge(log.data[:length]) == whole
    assert log.judge(log.data) == log.events


@pytest.mark.parametrize("rows", [b"{}\n", b'{"type":"new/one","seq":7,"time":0,"data":1}\n', b"\0\n"])
def test_what_an_unfinished_frame_holds_is_not_judged(tmp_path: Path, rows: bytes) -> None:
    log = Log(tmp_path, "zstd")
    frame = encode_frame(rows)
    assert log.judge(log.data + frame) is None
    for cut in range(1, len(frame)):
        assert log.judge(log.data + frame[:cut]) == log.events


# --- changed


def test_a_flipped_bit_never_shows_as_another_log(log: Log) -> None:
    whole = log.judge(log.data[: log.last])
    for at in range(len(log.data)):
        for bit in bits(at, 3 if log.compression == "zstd" else 1):
            flipped = bytearray(log.data)
            flipped[at] ^= 1 << bit
            events = log.judge(bytes(flipped))
            if log.compression == "zstd":
                # In the last frame it may look like a crash's mark; a spare bit means nothing.
                assert events in (None, log.events) or (at >= log.last and events == whole)
            elif events is not None:
                # Plain text has no checksum: a letter may change. Nothing vanishes but a last line.
                assert len(events) in (len(log.events), len(whole or []))


def test_a_run_of_zeros_is_refused_wherever_it_lies(log: Log) -> None:
    for length in (1, 16, *ZEROS):
        for at in range(0, len(log.data) - length, 7):
            events = log.judge(log.data[:at] + bytes(length) + log.data[at + length :])
            if at + length <= log.last:
                assert events is None or events == log.events
            else:
                assert events is None or events == log.events[: len(events)]


def test_garbage_is_refused_wherever_it_lies(log: Log) -> None:
    for garbage in (b"\xff\xfe\xfd", b"{}", b"\n\n", b"\x28\xb5\x2f\xfd", os.urandom(40)):
        borders = [sum(map(len, log.units[:k])) for k in range(1, len(log.units))]
        for at in borders:
            assert log.judge(log.data[:at] + garbage + log.data[at:]) is None


@pytest.mark.parametrize("tail", [b'{"x":1}\n', b"\0" * 64, b"\0", b"x", b"\xff\n", b"[]\n", b"null\n"])
def test_trailing_junk_is_refused_or_set_aside_as_an_unfinished_line(log: Log, tail: bytes) -> None:
    events = log.judge(log.data + tail)
    if log.compression == "none" and not tail.endswith(b"\n"):
        assert events == log.events
    else:
        assert events is None


@pytest.mark.parametrize("zeros", ZEROS)
def test_a_row_of_zeros_is_damage_at_its_place(log: Log, zeros: int) -> None:
    if log.compression == "zstd":
        data = b"".join([*log.units[:2], bytes(zeros), *log.units[3:]])
        place_of_it = len(b"".join(log.units[:2]))
    else:
        lines = log.data.splitlines(keepends=True)
        data = b"".join([*lines[:2], bytes(zeros) + b"\n", *lines[3:]])
        place_of_it = len(b"".join(lines[:2]))
    with pytest.raises(CorruptLogError) as caught:
        log.read(data)
    assert caught.value.offset == place_of_it


@pytest.mark.parametrize("compression", BOTH)
def test_a_record_that_lost_its_end_hides_nothing_and_revives_nothing(
    tmp_path: Path, compression: Compression
) -> None:
    lines = b"".join(units("none", [create(1), create(2), delete(2), create(3)])).splitlines(keepends=True)
    lines[3] = lines[3].replace(b"}}\n", b"}\n")
    data = b"".join(lines)
    if compression == "zstd":
        data = encode_frame(lines[0]) + encode_frame(b"".join(lines[1:]))
    path = place(tmp_path, data, compression)
    with pytest.raises(CorruptLogError) as caught:
        read_log(path)
    start = len(encode_frame(lines[0])) if compression == "zstd" else len(b"".join(lines[:3]))
    assert caught.value.offset == start


# --- headers, names and encodings


def test_a_log_without_its_header_is_refused(log: Log) -> None:
    assert log.judge(log.data[len(log.units[0]) :]) is None
    assert log.judge(b"") is None


def test_a_second_header_is_refused(log: Log) -> None:
    assert log.judge(log.data + log.units[0]) is None
    assert log.judge(log.units[0] + log.data) is None


def test_units_out_of_order_or_twice_are_refused(log: Log) -> None:
    header, one, two, three = log.units
    for order in ([one, three], [two, one], [one, two, two, three], [one, one]):
        assert log.judge(b"".join([header, *order])) is None


def test_a_log_in_the_other_encoding_is_refused_and_named(log: Log) -> None:
    other = b"".join(units("none" if log.compression == "zstd" else "zstd", *TALK))
    with pytest.raises(CorruptLogError, match=r"plain text where a zstd|the file is zstd") as caught:
        log.read(other)
    assert caught.value.offset == 0
    # … and so is its tail.
    assert log.judge(log.data + other[len(other) // 2 :]) is None


def test_a_log_keeps_its_encoding_through_a_change_of_the_setting(log: Log) -> None:
    now: Compression = "none" if log.compression == "zstd" else "zstd"

    async def create_one(program: Host) -> object:
        return await ask(await program.agents.resume("s"), "create", prompt="d", after_seconds=600)

    for _ in range(2):
        run(log.home, create_one, compression=now)
    assert active(log.home) == [f"schedule-{number}" for number in (1, 2, 3, 4, 5)]
    assert [path.name for path in log.path.parent.iterdir()] == [LOG_NAMES[log.compression]]


def test_a_copied_or_moved_log_has_the_wrong_identity(log: Log) -> None:
    copy = place(log.home, log.data, log.compression, "other")
    with pytest.raises(CorruptLogError, match="wrong identity: it is session 's'"):
        read_log(copy)
    moved = log.path.parents[1].with_name("--x--") / "s" / log.path.name
    moved.parent.mkdir(parents=True)
    log.path.rename(moved)
    with pytest.raises(CorruptLogError, match="belongs into _no-cwd/s"):
        read_log(moved)


@pytest.fixture
def plain(tmp_path: Path) -> Log:
    return Log(tmp_path, "none")


def test_line_ends_of_windows_are_read_and_left_as_they_are(plain: Log) -> None:
    data = plain.data.replace(b"\n", b"\r\n")
    assert plain.judge(data) == plain.events
    assert active(plain.home) == ["schedule-1", "schedule-2", "schedule-3"]
    assert plain.path.read_bytes() == data


def test_an_empty_last_line_is_set_aside_by_opening_and_not_before(plain: Log) -> None:
    for blank in (b"\n", b"\r\n"):
        assert plain.judge(plain.data + blank) == plain.events
        assert active(plain.home) == ["schedule-1", "schedule-2", "schedule-3"]
        assert plain.path.read_bytes() == plain.data
        (side,) = plain.path.parent.glob("torn-*")
        assert side.read_bytes() == blank
        side.unlink()


def test_an_empty_line_elsewhere_is_damage(plain: Log) -> None:
    lines = plain.data.splitlines(keepends=True)
    for at in range(len(lines)):
        with pytest.raises(CorruptLogError) as caught:
            plain.read(b"".join([*lines[:at], b"\n", *lines[at:]]))
        assert caught.value.offset == len(b"".join(lines[:at]))


# --- opening


def test_opening_a_damaged_log_changes_nothing(log: Log) -> None:
    middle = len(b"".join(log.units[:2]))
    for data in (
        log.data[:middle] + bytes(200) + log.data[middle:],
        log.data + b"\0\n",
        log.data[len(log.units[0]) :],
        log.data.replace(b'"version":0', b'"version":9') if log.compression == "none" else b"",
    ):
        log.path.write_bytes(data)
        before = picture(log.home)

        async def resume(program: Host) -> None:
            with pytest.raises((CorruptLogError, UnsupportedLogError), match=r"session\.jsonl"):
                await program.agents.resume("s")

        run(log.home, resume)
        assert picture(log.home) == before


@pytest.mark.parametrize(
    "kind", ["agent/inbox/spliced", "turn/start", "turn/end", "watchbell/take-up", "step/start"]
)
def test_a_payload_of_another_shape_is_damage_and_never_another_failure(tmp_path: Path, kind: str) -> None:
    refused = 0
    for payload in (1, None, [], {"turn": 1}, {"target": "x", "start": 0, "inserted": []}):
        before = [] if kind == "turn/start" else [Draft("turn/start", {"turn": 1})]
        bad = Draft(kind, payload, ignorable=kind.startswith("watchbell"))
        path = place(tmp_path, b"".join(units("none", [*before, bad])), "none")

        async def resume(program: Host) -> int:
            try:
                await program.agents.resume("s")
            except CorruptLogError:
                return 1
            return 0

        refused += run(tmp_path, resume)
        path.unlink()
    assert refused


@pytest.mark.parametrize("sized", [True, False])
def test_a_frame_without_text_is_no_header_and_hurts_nowhere_else(tmp_path: Path, sized: bool) -> None:
    log = Log(tmp_path, "zstd")
    empty = zstandard.ZstdCompressor(write_checksum=True, write_content_size=sized).compress(b"")
    assert log.judge(empty + log.data) is None
    for at in range(1, len(log.units) + 1):
        assert log.judge(b"".join([*log.units[:at], empty, *log.units[at:]])) == log.events
