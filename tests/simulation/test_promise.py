"""Never lost, never twice: whole programs under simulated time, with everything that can go wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation import campaign
from tests.simulation.rules import RULES, Rule
from tests.simulation.runs import Result, run_seed
from watchbell.schedule.owner import Owner

SEEDS = 300
"""Seeds of this suite; `make sim` runs more."""

AT_THE_END = 2078598
"""A seed in which a reminder is decided while the last process closes: its message waits for the next one."""

SEARCH = 250
"""How many more seeds a rule's absence is looked for in, should its own seed come to another run one day."""


def test_nothing_is_lost_or_doubled_whatever_happens() -> None:
    total = Result()
    for seed in (*range(SEEDS), AT_THE_END):
        total.add(run_seed(seed))
    assert total.violations == {}
    assert total.crashes > SEEDS
    assert total.occurrences > SEEDS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_that_is_taken_out_is_missed(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    rule.remove(monkeypatch)
    for seed in (rule.seed, *range(SEARCH)):
        result = run_seed(seed)
        if result.count(rule.kind):
            return
    pytest.fail(f"no seed shows that {rule.name} is missing")


# The interrupt may fall into what drops a weak reference, and is ignored there; the next one comes soon.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_seed_in_which_the_program_runs_in_a_circle_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = Owner._claim_and_append

    def try_on_while_busy(self: Owner) -> bool:
        claim(self)
        return True

    monkeypatch.setattr(Owner, "_claim_and_append", try_on_while_busy)
    monkeypatch.setattr(campaign, "PATIENCE_SECONDS", 2.0)
    result = campaign.attempt(1)
    assert [found.kind for found in result.violations[1]] == ["silent"]
    assert "no end after 2 s of CPU time" in result.violations[1][0].text


def test_a_seed_gives_one_log_in_every_process() -> None:
    digests = {run_seed(7).digest}
    for hash_seed in ("1", "2"):
        answer = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", "7"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        digests.add(answer.partition("log ")[2].split()[0])
    assert len(digests) == 1
