"""What tests of applications and of transports need. Nothing here imports a test runner."""

from __future__ import annotations

from .clock import FakeClock
from .crash import WorkerCrashed
from .faults import (
    Delay,
    FailAfter,
    FailBefore,
    FaultPlan,
    FaultyTransport,
    LoseLeases,
    LoseWakeup,
    RandomFaults,
)
from .workers import WorkerDriver, eager, isolated, worker_for
from .wrapper import TransportWrapper

__all__ = [
    "Delay",
    "FailAfter",
    "FailBefore",
    "FakeClock",
    "FaultPlan",
    "FaultyTransport",
    "LoseLeases",
    "LoseWakeup",
    "RandomFaults",
    "TransportWrapper",
    "WorkerCrashed",
    "WorkerDriver",
    "eager",
    "isolated",
    "worker_for",
]
