"""Connections and consumers of the current app, under the name that they had before Celery 3.1."""

from __future__ import annotations

from typing import Any

from celery._state import current_app
from celery.local import Proxy

__all__ = ["TaskConsumer", "establish_connection", "get_consumer_set"]

TaskConsumer: Any = Proxy(lambda: current_app.amqp.TaskConsumer)
establish_connection: Any = Proxy(lambda: current_app.connection)
get_consumer_set: Any = Proxy(lambda: current_app.amqp.TaskConsumer)
