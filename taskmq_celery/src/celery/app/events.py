"""``app.events``: the classes of `celery.events`, bound to an app."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from taskmq_celery.brokers import carries_control

__all__ = ("Events",)


class Events:
    """Sends and receives events for one app.

    >>> with app.events.default_dispatcher() as dispatcher:
    ...     dispatcher.send("task-progress", uuid=task_id, percent=30)
    """

    receiver_cls: Any = "celery.events.receiver:EventReceiver"
    dispatcher_cls: Any = "celery.events.dispatcher:EventDispatcher"
    state_cls: Any = "celery.events.state:State"

    def __init__(self, app: Any = None) -> None:
        self.app = app

    @cached_property
    def Receiver(self) -> Any:  # noqa: N802  # Celery's name
        """`celery.events.EventReceiver` of this app."""
        return self.app.subclass_with_self(self.receiver_cls, reverse="events.Receiver")

    @cached_property
    def Dispatcher(self) -> Any:  # noqa: N802  # Celery's name
        """`celery.events.EventDispatcher` of this app."""
        return self.app.subclass_with_self(self.dispatcher_cls, reverse="events.Dispatcher")

    @cached_property
    def State(self) -> Any:  # noqa: N802  # Celery's name
        """`celery.events.state.State` of this app."""
        return self.app.subclass_with_self(self.state_cls, reverse="events.State")

    @contextmanager
    def default_dispatcher(
        self,
        hostname: str | None = None,
        enabled: bool = True,
        buffer_while_offline: bool = False,
    ) -> Iterator[Any]:
        """A dispatcher on a connection of the app's pool, given back at the end of the ``with``
        statement. With a broker that carries no events it sends none."""
        if not carries_control(self.app.conf.broker_write_url):
            yield self.Dispatcher(None, hostname, False)
            return
        with self.app.amqp.producer_pool.acquire(block=True) as producer:
            yield self.Dispatcher(
                producer.connection,
                hostname,
                enabled,
                producer.channel,
                buffer_while_offline,
            )
