from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from watchbell.log.event import Draft
from watchbell.log.header import SessionHeader
from watchbell.storage.jsonl import tail as module
from watchbell.storage.jsonl.layout import Compression
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.storage.jsonl.tail import LogTail


def _size(path: Path) -> int:
    return path.stat().st_size


def write(home: Path, compression: Compression, counts: Sequence[int]) -> tuple[Path, list[int]]:
    """Store batches of these sizes; return the log's path and how long it was after each."""

    async def run() -> tuple[Path, list[int]]:
        storage = JsonlStorage(home, compression=compression)
        writer = await storage.create(SessionHeader(id="a", created_at=0, delegation_depth=0))
        seq, lengths = 0, list[int]()
        for count in counts:
            await writer.write(
                [
                    Draft("watchbell/x", {"n": seq + i}, ignorable=True).at(seq + i, seq + i)
                    for i in range(count)
                ]
            )
            seq += count
            lengths.append(_size(path := Path((await storage.read("a")).location)))
        await writer.close()
        await storage.aclose()
        return path, lengths

    return asyncio.run(run())


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_each_look_takes_in_the_whole_batches_that_are_new(
    tmp_path: Path, compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lengths = write(tmp_path, compression, (2, 3, 1))
    whole = path.read_bytes()
    decoded: list[int] = []
    original = module.decode_block
    monkeypatch.setattr(
        module, "decode_block", lambda lines, seq: decoded.append(seq) or original(lines, seq)
    )
    tail = LogTail(path)
    for cut, length in ((lengths[0], 2), (lengths[1] - 3, None), (lengths[1], 5), (lengths[2], 6)):
        path.write_bytes(whole[:cut])
        assert tail.read()
        if length is not None:
            assert [event.seq for event in tail.events] == list(range(length))
    assert not tail.read()
    assert decoded == sorted(decoded)  # nothing before the last whole batch was read again
    assert decoded[-1] == 5


def test_a_file_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    path, lengths = write(tmp_path, "zstd", (2, 3))
    tail = LogTail(path)
    tail.read()
    path.write_bytes(path.read_bytes()[: lengths[0]])
    assert tail.read()
    assert len(tail.events) == 2
