"""What a test of an agent needs: simulated time, storage in memory, faults on demand, a scripted model.

`simulate` runs one program under simulated time. A `SimulatedMachine` runs several, one after the other, and
kills them at any `await`; its `SimulatedDisk` knows which bytes survive. `tests.simulation` is
the adversary that Watchbell itself is tested with. The contract suite for stores is
`watchbell.testing.storage_contract`; it needs pytest.
"""

from watchbell.testing.clock import SimulatedClock
from watchbell.testing.disk import SimulatedDisk
from watchbell.testing.faults import FaultyPersistence, HeldWrites
from watchbell.testing.loop import (
    LeftoverTaskError,
    ProcessKilled,
    SimulatedEventLoop,
    SimulationDeadlockError,
    simulate,
)
from watchbell.testing.machine import SimulatedMachine
from watchbell.testing.memory import MemoryDisk, MemoryStorage
from watchbell.testing.model import Part, ScriptedModel, call, fail, hang, say, think

__all__ = [
    "FaultyPersistence",
    "HeldWrites",
    "LeftoverTaskError",
    "MemoryDisk",
    "MemoryStorage",
    "Part",
    "ProcessKilled",
    "ScriptedModel",
    "SimulatedClock",
    "SimulatedDisk",
    "SimulatedEventLoop",
    "SimulatedMachine",
    "SimulationDeadlockError",
    "call",
    "fail",
    "hang",
    "say",
    "simulate",
    "think",
]
