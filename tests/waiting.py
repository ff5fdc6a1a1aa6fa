"""How long tests wait for what has to come."""

from __future__ import annotations

__all__ = ["PATIENCE"]

PATIENCE = 60.0
"""Seconds. Nobody waits so long for a test that passes: what is waited for comes within moments on
a machine with nothing else to do, and within this on one that is slow and busy."""
