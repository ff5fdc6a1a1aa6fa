"""One task after the other, in the worker's main thread."""

from __future__ import annotations

import os
from typing import Any

from celery import signals

from .base import BasePool, apply_target

__all__ = ("TaskPool",)


class TaskPool(BasePool):
    """Runs on the engine's pool of that name. A program's own calls are done at once, in the
    thread that asks for them.

    It is in the worker's process, which it tells of (``worker_process_init``) when it is made:
    ``initargs`` are the app and the worker's name.
    """

    name = "solo"
    engine_pool = "solo"
    own_process = True
    body_can_be_buffer = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.on_apply = apply_target  # type: ignore[method-assign]  # with no frame between
        self.limit = 1
        initargs = self.options.get("initargs") or (None, None)
        signals.worker_process_init.send(sender=initargs[1])

    def _get_info(self) -> dict[str, Any]:
        return {
            **super()._get_info(),
            "max-concurrency": 1,
            "processes": [os.getpid()],
            "max-tasks-per-child": None,
            "put-guarded-by-semaphore": self.putlocks,
            "timeouts": (),
        }
