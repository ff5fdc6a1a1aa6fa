"""Whether RabbitMQ's quorum queues are in use."""

from __future__ import annotations

from typing import Any

__all__ = ("detect_quorum_queues",)


def detect_quorum_queues(app: Any, driver_type: str) -> tuple[bool, str]:
    """Whether a queue of the app is a quorum queue, and its name. Only AMQP has them."""
    if driver_type == "amqp":
        for name, queue in app.amqp.queues.items():
            arguments = getattr(queue, "queue_arguments", None) or {}
            if arguments.get("x-queue-type") == "quorum":
                return True, name
    return False, ""
