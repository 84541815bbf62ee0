"""What a test of an agent needs: simulated time, storage in memory, faults on demand, a scripted model.

The contract suite for stores is `watchbell.testing.storage_contract`; it needs pytest.
"""

from watchbell.testing.clock import SimulatedClock
from watchbell.testing.faults import FaultyPersistence, HeldWrites
from watchbell.testing.loop import LeftoverTaskError, SimulatedEventLoop, SimulationDeadlockError, simulate
from watchbell.testing.memory import MemoryDisk, MemoryStorage
from watchbell.testing.model import ScriptedModel, call, fail, hang, say, think

__all__ = [
    "FaultyPersistence",
    "HeldWrites",
    "LeftoverTaskError",
    "MemoryDisk",
    "MemoryStorage",
    "ScriptedModel",
    "SimulatedClock",
    "SimulatedEventLoop",
    "SimulationDeadlockError",
    "call",
    "fail",
    "hang",
    "say",
    "simulate",
    "think",
]
