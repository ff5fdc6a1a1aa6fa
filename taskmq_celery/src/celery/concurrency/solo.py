"""One task after the other, in the worker's main thread."""

from __future__ import annotations

from typing import Any

from .base import BasePool

__all__ = ("TaskPool",)


class TaskPool(BasePool):
    """Runs on the engine's pool of that name."""

    name = "solo"
    engine_pool = "solo"
    own_process = True

    @property
    def info(self) -> dict[str, Any]:
        return {**super().info, "max-concurrency": 1}
