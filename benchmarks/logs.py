"""Long logs as conversations leave them: turns of 20 events, streamed text packed, two of them Schedule's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from watchbell.instants import render_instant
from watchbell.log.codec import encode_header
from watchbell.log.header import SessionHeader
from watchbell.log.values import encode_json
from watchbell.reminders.records import (
    AfterRecord,
    Change,
    Create,
    Delete,
    Dispatch,
    EveryRecord,
    encode_change,
)
from watchbell.storage.jsonl._frames import encode_frame
from watchbell.storage.jsonl.layout import Compression, log_path

__all__ = ["STARTED_AT_MS", "changes", "turns", "write_log"]

STARTED_AT_MS = 3_786_912_000_000  # in 2090, so that nothing of theirs is due
EVENTS_A_TURN = 20
_WORDS = (
    "the",
    "build",
    "is",
    "green",
    "morgen",
    "früh",
    "um",
    "neun",
    "prüfen",
    "please",
    "look",
    "at",
    "logs",
)


class _Reminders:
    """Makes changes that can follow one another, about `active` reminders being active."""

    def __init__(self, active: int) -> None:
        self._active = active
        self._random = random.Random(7)  # noqa: S311 - the same log each time
        self._live: list[tuple[str, int, int]] = []  # id, interval in milliseconds or 0, target
        self._made = 0

    def next(self, now_ms: int) -> Change:
        if len(self._live) < self._active:
            return self._create(now_ms)
        at = self._random.randrange(len(self._live))
        schedule_id, interval_ms, target_ms = self._live[at]
        if interval_ms and self._random.random() < 0.5:
            accepted_ms = max(now_ms, target_ms)
            steps = (accepted_ms - target_ms) // interval_ms + 1
            self._live[at] = (schedule_id, interval_ms, target_ms + steps * interval_ms)
            return Dispatch(id=schedule_id, accepted_at=render_instant(accepted_ms))
        del self._live[at]
        return Delete(id=schedule_id) if interval_ms else Dispatch(id=schedule_id)

    def _create(self, now_ms: int) -> Change:
        self._made += 1
        schedule_id, target_ms = f"schedule-{self._made}", now_ms + 3_600_000
        prompt, at = _text(self._random, 6), render_instant(target_ms)
        if self._random.random() < 0.3:
            self._live.append((schedule_id, 1_800_000, target_ms))
            return Create(
                schedule=EveryRecord(id=schedule_id, prompt=prompt, scheduled_at=at, every_seconds=1800)
            )
        self._live.append((schedule_id, 0, target_ms))
        return Create(
            schedule=AfterRecord(id=schedule_id, prompt=prompt, scheduled_at=at, after_seconds=3600)
        )


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def _row(kind: str, seq: int, time_ms: int, data: bytes, more: str = "") -> bytes:
    return f'{{"type":"{kind}","seq":{seq},"time":{time_ms},"data":'.encode() + data + more.encode() + b"}\n"


def turns(events: int, active: int = 100) -> Iterator[bytes]:
    """Yield the rows of one turn after the other: 20 events in 12 rows, two of the events Schedule's."""
    rng, reminders = random.Random(11), _Reminders(active)  # noqa: S311 - the same log each time
    for number in range(1, events // EVENTS_A_TURN + 1):
        first, now_ms = (number - 1) * EVENTS_A_TURN, STARTED_AT_MS + number * 2_000
        message = {
            "id": f"message-{number}-{rng.randrange(10**9):09}",
            "role": "user",
            "source": {"kind": "user"},
            "content": [{"type": "text", "text": _text(rng, 12)}],
        }
        texts = [rng.choice(_WORDS) + " " for _ in range(9)]
        answer = {
            "id": f"answer-{number}-{rng.randrange(10**9):09}",
            "role": "assistant",
            "source": {"kind": "model", "provider": "openai", "model": "deepseek-chat"},
            "content": [{"type": "text", "text": "".join(texts)}],
        }
        place = {"turn": number, "step": 1}
        run = {**place, "index": 0, "dt": [rng.randrange(60) for _ in range(8)], "texts": texts}
        block = {**place, "chunk": {"type": "block-end", "index": 0, "block": answer["content"][0]}}
        claim = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}
        sources = ",".join(map(str, range(first + 5, first + 15)))
        yield b"".join(
            (
                _row(
                    "agent/inbox/spliced",
                    first,
                    now_ms,
                    encode_json({**claim, "removedCount": 0, "inserted": [message]}),
                ),
                _row("turn/start", first + 1, now_ms, encode_json({"turn": number})),
                _row("agent/inbox/spliced", first + 2, now_ms, encode_json(claim)),
                _row("step/start", first + 3, now_ms, encode_json(place)),
                _row("user/message", first + 4, now_ms, encode_json(message), ',"surfaceOp":"append"'),
                encode_json({"type": "text-chunks", "seq0": first + 5, "time0": now_ms, "data": run}) + b"\n",
                _row("assistant/chunk", first + 14, now_ms, encode_json(block)),
                _row(
                    "assistant/message",
                    first + 15,
                    now_ms,
                    encode_json({**place, "message": answer}),
                    f',"sourceEventSeqs":[{sources}],"surfaceOp":"append"',
                ),
                _row("schedule/change", first + 16, now_ms, encode_change(reminders.next(now_ms))),
                _row("schedule/change", first + 17, now_ms, encode_change(reminders.next(now_ms))),
                _row("step/end", first + 18, now_ms, encode_json(place)),
                _row(
                    "turn/end",
                    first + 19,
                    now_ms,
                    encode_json({"turn": number, "reason": {"kind": "completed"}}),
                ),
            )
        )


def changes(events: int, active: int = 100) -> Iterator[bytes]:
    """Yield the rows of a log that holds nothing but Schedule's events, 20 at a time."""
    reminders = _Reminders(active)
    for first in range(0, events, EVENTS_A_TURN):
        now_ms = STARTED_AT_MS + first * 100
        rows = (
            _row("schedule/change", first + k, now_ms, encode_change(reminders.next(now_ms)))
            for k in range(EVENTS_A_TURN)
        )
        yield b"".join(rows)


def write_log(home: Path, session_id: str, batches: Iterator[bytes], compression: Compression) -> Path:
    """Write a log as a program would that made each batch durable by itself; returns its file."""
    header = SessionHeader(id=session_id, created_at=STARTED_AT_MS, delegation_depth=0)
    path = log_path(home, session_id, None, compression)
    path.parent.mkdir(parents=True)
    encode = encode_frame if compression == "zstd" else bytes
    with path.open("wb") as file:
        file.write(encode(encode_header(header)))
        for rows in batches:
            file.write(encode(rows))
    return path
