"""Why a delivery that a worker holds must not start any more."""

from __future__ import annotations

from enum import Enum

__all__ = ["Recall"]


class Recall(Enum):
    """The value is what people are told."""

    LOST = "its lease is lost"
    REVOKED = "revoked"
    PAUSED = "its queue or workflow is paused, or not this worker's any more"
