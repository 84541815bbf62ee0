"""Real hosts on real files, killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.chaos.campaign import Campaign
from tests.judge.judge import KINDS


def test_a_host_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, sessions=4, kills=3, seed="small")
    asyncio.run(campaign.run())
    broken = [kind for kind in KINDS if campaign.verdict.count(kind)]
    assert set(broken) <= {"late"}  # which a busy machine can be
    assert campaign.verdict.occurrences > 0
    assert campaign.count["kill"] == 3
