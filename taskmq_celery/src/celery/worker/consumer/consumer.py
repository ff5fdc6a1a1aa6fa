"""The sender of the signals about arriving messages: ``worker_ready``, ``task_received``."""

from __future__ import annotations

from typing import Any

from celery.utils.log import get_logger

__all__ = ("Consumer",)

logger = get_logger(__name__)


class Consumer:
    """The receiving side of a worker. The engine does the work; this is what signals name."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.app = controller.app
        self.hostname: str = controller.hostname
        self.pool = controller.pool
        self.event_dispatcher = controller.events.dispatcher

    @property
    def task_buckets(self) -> dict[str, None]:
        """Rate limits, of which this version has none."""
        return dict.fromkeys(self.app.tasks)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.hostname} ({self.controller.state_name})>"
