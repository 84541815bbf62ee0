"""Reads the final logs, with nothing of the program under test: plain JSON out of plain or zstd files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zstandard

__all__ = ["read_logs"]

_PACKED = {
    "text-chunks": ("text-delta", "text"),
    "reasoning-chunks": ("reasoning-delta", "text"),
    "tool-call-chunks": ("tool-call-delta", "argumentsDelta"),
}


def read_logs(home: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every log below a home by session id: the header, then the events, none packed."""
    logs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(home.glob("sessions/*/*/session.jsonl*")):
        data = path.read_bytes()
        if path.suffix == ".zstd":
            with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
                data = reader.read()
        rows = [json.loads(line) for line in data.split(b"\n") if line]
        logs[rows[0]["id"]] = [part for row in rows for part in _unpack(row)]
    return logs


def _unpack(row: dict[str, Any]) -> list[dict[str, Any]]:
    if row["type"] not in _PACKED:
        return [row]
    data, time = row["data"], row["time0"]
    kind, key = _PACKED[row["type"]]
    named = {name: data[name] for name in ("id", "name") if name in data}
    parts: list[dict[str, Any]] = []
    for number, text in enumerate(data.get("texts") or data["args"]):
        time += data["dt"][number - 1] if number else 0
        chunk = {"type": kind, "index": data["index"], **named, key: text}
        payload = {"turn": data["turn"], "step": data["step"], "chunk": chunk}
        parts.append({"type": "assistant/chunk", "seq": row["seq0"] + number, "time": time, "data": payload})
    return parts
