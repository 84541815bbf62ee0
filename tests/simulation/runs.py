"""One seed: the adversary's run and the oracle's verdict on it."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.judge.evidence import Violation
from tests.judge.judge import judge
from tests.judge.reader import read_logs
from tests.logs import scratch_directory
from tests.simulation.adversary import Adversary

__all__ = ["Result", "run_seed"]


@dataclass
class Result:
    """What one or several seeds came to.

    Attributes:
        runs: How many seeds.
        crashes: How many processes were killed in them.
        occurrences: How many occurrences were decided.
        violations: What is wrong, by seed.
        counts: Of other things that happened.
        digest: SHA-256 of the logs of the last seed.
    """

    runs: int = 0
    crashes: int = 0
    occurrences: int = 0
    violations: dict[int, list[Violation]] = field(default_factory=dict[int, list[Violation]])
    counts: Counter[str] = field(default_factory=Counter[str])
    digest: str = ""

    def add(self, other: Result) -> None:
        """Count another result in."""
        self.runs += other.runs
        self.crashes += other.crashes
        self.occurrences += other.occurrences
        self.violations |= other.violations
        self.counts += other.counts
        self.digest = other.digest

    def count(self, kind: str) -> int:
        """Count the violations of a kind."""
        return sum(found.kind == kind for each in self.violations.values() for found in each)


def run_seed(seed: int, *, keep: Path | None = None) -> Result:
    """Run one seed and judge it.

    Args:
        seed: The seed.
        keep: An existing directory for the disk, which stays; a temporary one when None.
    """
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        if keep is not None:
            return _run(seed, keep)
        with tempfile.TemporaryDirectory(prefix="watchbell-simulation-", dir=scratch_directory()) as root:
            return _run(seed, Path(root))
    finally:
        logging.disable(previous)


def _run(seed: int, root: Path) -> Result:
    adversary = Adversary(seed, root)
    adversary.run()
    logs = read_logs(adversary.machine.disk.home)
    verdict = judge(logs, adversary.record, adversary.machine.clock.now_ms())
    digest = hashlib.sha256()
    for path in sorted(adversary.machine.disk.home.glob("sessions/*/*/session.jsonl*")):
        digest.update(path.read_bytes())
    violations = {seed: verdict.violations} if verdict.violations else {}
    return Result(
        1, adversary.crashes, verdict.occurrences, violations, adversary.record.counts, digest.hexdigest()
    )
