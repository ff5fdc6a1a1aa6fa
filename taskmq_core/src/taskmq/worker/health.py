"""What probes want to know of a worker."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Health"]


@dataclass(frozen=True, slots=True)
class Health:
    """``live``: restarting it would not help. ``ready``: it takes jobs. ``status``: both in words.

    A worker whose store does not answer is live and not ready; one that stops as well.
    """

    live: bool
    ready: bool
    status: str
