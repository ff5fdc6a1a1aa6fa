"""What tests of applications and of transports need. Nothing here imports a test runner."""

from __future__ import annotations

from .clock import FakeClock
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
]
