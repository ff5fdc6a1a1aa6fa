"""One event, and the exchange that events go through."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any

from kombu.entity import Exchange

__all__ = ("Event", "event_exchange", "get_exchange", "group_from")

EVENT_EXCHANGE_NAME = "celeryev"

event_exchange = Exchange(EVENT_EXCHANGE_NAME, type="topic")

NO_TOPICS = frozenset({"gcpubsub", "redis"})
"""Brokers of which every receiver gets all events, whatever it asks for: patterns cost too much."""


def Event(  # noqa: N802  # Celery's name
    type: str,
    _fields: Mapping[str, Any] | None = None,
    __dict__: Callable[..., dict[str, Any]] = dict,
    __now__: Callable[[], float] = time.time,
    **fields: Any,
) -> dict[str, Any]:
    """An event: a dict with ``type``, ``timestamp`` (epoch seconds, now if not given) and fields.

    >>> Event("task-progress", uuid="id", percent=30, timestamp=1.0)
    {'uuid': 'id', 'percent': 30, 'timestamp': 1.0, 'type': 'task-progress'}
    """
    made = __dict__(_fields or {}, **fields)
    made.setdefault("timestamp", __now__())
    made["type"] = type
    return made


def group_from(type: str) -> str:
    """The first word of a type: ``task`` of ``task-sent``."""
    return type.partition("-")[0]


def get_exchange(conn: Any, name: str = EVENT_EXCHANGE_NAME) -> Any:
    """The exchange of events, of the kind that the broker behind ``conn`` is good at."""
    exchange = copy.copy(event_exchange)
    exchange.name = name
    if conn.transport.driver_type in NO_TOPICS:
        exchange.type = "fanout"
    return exchange
