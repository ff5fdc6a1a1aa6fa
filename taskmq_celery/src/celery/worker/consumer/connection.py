"""The step for the connection to the broker."""

from __future__ import annotations

from typing import Any

from kombu.common import ignore_errors

from celery import bootsteps
from taskmq_celery.brokers import carries_control

__all__ = ("Connection",)


class Connection(bootsteps.StartStopStep):
    """``consumer.connection``, for what the program takes from the broker besides: it is opened
    when it is first used. Tasks come through the engine's own."""

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        c.connection = None

    def shutdown(self, c: Any) -> None:
        """Close what was opened."""
        opened, c.connection = c.opened, None
        if opened is not None:
            ignore_errors(opened, opened.close)

    def info(self, c: Any) -> dict[str, Any]:
        """What kombu tells of the broker, without the password; nothing where messages are none
        of kombu's."""
        if not carries_control(c.app.conf.broker_read_url):
            return {}
        told = c.app.connection_for_read().info()
        return {"broker": {name: value for name, value in told.items() if name != "password"}}
