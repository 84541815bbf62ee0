"""Reads logs with nothing of the program under test: plain JSON out of plain or zstd files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import zstandard

__all__ = ["Rows", "read_log", "read_logs"]

Rows: TypeAlias = list[dict[str, Any]]
"""The rows of a log as JSON: the header, then the events, none packed."""

_PACKED = {
    "text-chunks": ("text-delta", "text"),
    "reasoning-chunks": ("reasoning-delta", "text"),
    "tool-call-chunks": ("tool-call-delta", "argumentsDelta"),
}


def read_logs(home: Path) -> dict[str, Rows]:
    """Return the rows of every log below a home by session id.

    Raises:
        ValueError: A log ends in the middle of a batch.
    """
    logs: dict[str, Rows] = {}
    for path in sorted(home.glob("sessions/*/*/session.jsonl*")):
        rows, is_torn = read_log(path)
        if is_torn:
            raise ValueError(f"{path} ends in the middle of a batch")
        logs[rows[0]["id"]] = rows
    return logs


def read_log(path: Path) -> tuple[Rows, bool]:
    """Return the rows of a log up to its end, or to a frame or line that is torn, and whether one is."""
    data, is_torn = path.read_bytes(), False
    if path.suffix == ".zstd":
        data, is_torn = _read_frames(data)
    *lines, rest = data.split(b"\n")
    rows = [part for line in lines if line for part in _unpack(json.loads(line))]
    return rows, is_torn or bool(rest)


def _read_frames(rest: bytes) -> tuple[bytes, bool]:
    text = b""
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        lines = frame.decompress(rest)
        if not frame.eof:
            return text, True
        text += lines
        rest = frame.unused_data
    return text, False


def _unpack(row: dict[str, Any]) -> Rows:
    if row.get("type") not in _PACKED:
        return [row]
    data, time = row["data"], row["time0"]
    kind, key = _PACKED[row["type"]]
    named = {name: data[name] for name in ("id", "name") if name in data}
    parts: Rows = []
    for number, text in enumerate(data.get("texts") or data["args"]):
        time += data["dt"][number - 1] if number else 0
        chunk = {"type": kind, "index": data["index"], **named, key: text}
        payload = {"turn": data["turn"], "step": data["step"], "chunk": chunk}
        parts.append({"type": "assistant/chunk", "seq": row["seq0"] + number, "time": time, "data": payload})
    return parts
