"""What the oracle says of logs and records that were tampered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.judge.judge import judge
from tests.judge.reader import read_logs
from tests.simulation.adversary import Adversary
from tests.simulation.record import Record, is_reminder

SEED = 5
"""A seed whose first session has a delivered reminder."""


@dataclass
class Ended:
    """A run that is over: the rows of its logs, header first, the record, and the clock."""

    logs: dict[str, list[dict[str, Any]]]
    record: Record
    wall_ms: int

    def verdict(self) -> set[str]:
        return {violation.kind for violation in judge(self.logs, self.record, self.wall_ms).violations}

    def delivered(self) -> tuple[str, int]:
        """Return a session and the seq of the row that first put a reminder into its inbox."""
        return next(
            (session, row.seq)
            for session in self.logs
            for row in self.record.rows[session]
            if is_reminder(row)
        )


@pytest.fixture
def ended(tmp_path: Path) -> Ended:
    adversary = Adversary(SEED, tmp_path)
    adversary.run()
    clock = adversary.machine.clock
    ended = Ended(read_logs(adversary.machine.disk.home), adversary.record, clock.now_ms())
    assert ended.verdict() == set()
    return ended


def _another_text(ended: Ended) -> None:
    session, seq = ended.delivered()
    message = ended.logs[session][seq + 1]["data"]["inserted"][0]
    message["content"] = [{"type": "text", "text": "something else"}]


def _another_clock(ended: Ended) -> None:
    """The program reads a clock that is an hour ahead, and dates its rows by it."""
    session, seq = ended.delivered()
    ended.record.rows[session][seq].wall_ms -= 3_600_000


def _another_message(ended: Ended) -> None:
    session, _ = ended.delivered()
    rows = ended.logs[session]
    shown = next(
        place
        for place, row in enumerate(rows)
        if row["type"] == "user/message" and row["data"]["source"].get("plugin") == "schedule"
    )
    rows.insert(shown, dict(rows[shown]))
    for seq, row in enumerate(rows[1:]):
        row["seq"] = seq


def _no_row(ended: Ended) -> None:
    session, _ = ended.delivered()
    del ended.logs[session][-1]


def _no_log(ended: Ended) -> None:
    session, _ = ended.delivered()
    del ended.logs[session]


@pytest.mark.parametrize(
    ("tamper", "kind"),
    [
        (_another_text, "invalid"),
        (_another_clock, "early"),
        (_another_message, "doubled"),
        (_no_row, "invalid"),
        (_no_log, "lost"),
    ],
)
def test_what_was_tampered_with_is_noticed(ended: Ended, tamper: Callable[[Ended], None], kind: str) -> None:
    tamper(ended)
    assert kind in ended.verdict()
