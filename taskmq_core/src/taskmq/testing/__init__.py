"""What tests of applications and of transports need. Nothing here imports a test runner."""

from __future__ import annotations

from .clock import FakeClock

__all__ = ["FakeClock"]
