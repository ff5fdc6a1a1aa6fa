"""What workers tell while they work: events, as messages on the exchange ``celeryev``.

`EventDispatcher` sends them, `EventReceiver` receives them, `celery.events.state.State` makes a
picture of the cluster from them. All three speak Celery's format, so monitors of Celery watch these
workers, and a monitor made of these classes watches workers of Celery.
"""

from __future__ import annotations

from .dispatcher import EventDispatcher
from .event import Event, event_exchange, get_exchange, group_from
from .receiver import EventReceiver

__all__ = (
    "Event",
    "EventDispatcher",
    "EventReceiver",
    "event_exchange",
    "get_exchange",
    "group_from",
)
