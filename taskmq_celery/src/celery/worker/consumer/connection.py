"""The step for the connection to the broker."""

from __future__ import annotations

from typing import Any

from kombu.common import ignore_errors
from kombu.utils.url import maybe_sanitize_url

from celery import bootsteps
from celery.utils.functional import maybe_list
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
        """What kombu tells of the broker, without passwords; nothing where messages are none of
        kombu's."""
        if not carries_control(c.app.conf.broker_read_url):
            return {}
        told = dict(c.app.connection_for_read().info())
        told.pop("password", None)
        others = told.get("alternates")
        if others:
            hidden = [maybe_sanitize_url(url) for url in maybe_list(others)]
            told["alternates"] = hidden[0] if isinstance(others, str) else hidden
        return {"broker": told}
