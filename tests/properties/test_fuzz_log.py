"""No bytes make a reader of logs do anything but answer, or say that they are damaged or unsupported."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.fuzz_log import CRASHERS, Fuzzer, judge, seeds
from watchbell.errors import CorruptLogError, UnsupportedLogError
from watchbell.log.codec import decode_header, decode_row, decode_rows
from watchbell.storage.jsonl._frames import read_frames, read_plain
from watchbell.storage.jsonl.layout import LOG_NAMES

FOUND = sorted(path for path in CRASHERS.iterdir() if LOG_NAMES["none"] in path.name)
REFUSALS = (CorruptLogError, UnsupportedLogError)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_once_crashed_a_reader_does_not_any_more(path: Path, tmp_path: Path) -> None:
    judge(tmp_path, "zstd" if path.suffix == ".zstd" else "none", path.read_bytes())


def test_every_seed_of_the_fuzzer_is_a_log(tmp_path: Path) -> None:
    for compression, data in seeds():
        assert "fine" in judge(tmp_path, compression, data)


def test_a_short_run_of_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    fuzzer = Fuzzer(tmp_path, seed=1)
    for _ in range(300):
        fuzzer.step()
    assert [reason for _, _, reason in fuzzer.crashers] == []


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    for read in (
        lambda: decode_row(data),
        lambda: decode_header(data),
        lambda: decode_rows(data + b"\n", 0),
        lambda: list(read_frames(io.BytesIO(data), len(data))),
        lambda: list(read_frames(io.BytesIO(b"\x28\xb5\x2f\xfd" + data), len(data) + 4)),
        lambda: list(read_plain(io.BytesIO(data), len(data))),
    ):
        with contextlib.suppress(*REFUSALS):
            read()


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["user/message", "text-chunks", "turn/start", "x"]) | json_values,
            "seq": st.integers() | json_values,
            "seq0": st.integers() | json_values,
            "time": st.integers() | json_values,
            "time0": st.integers() | json_values,
            "data": json_values,
            "ignorable": json_values,
            "surfaceOp": json_values,
            "sourceEventSeqs": json_values,
            "version": json_values,
            "id": json_values,
        },
    )
)
def test_any_object_is_a_row_a_header_or_refused(value: dict[str, object]) -> None:
    line = json.dumps(value).encode()
    for read in (decode_row, decode_header):
        with contextlib.suppress(*REFUSALS):
            read(line)
