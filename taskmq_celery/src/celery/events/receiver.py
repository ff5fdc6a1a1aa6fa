"""Receiving events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from kombu.connection import maybe_channel
from kombu.entity import Queue
from kombu.mixins import ConsumerMixin
from kombu.utils.uuid import uuid

from celery.app import app_or_default
from celery.exceptions import ImproperlyConfigured
from celery.utils.time import adjust_timestamp

from .event import EVENT_EXCHANGE_NAME, get_exchange

__all__ = ("EventReceiver",)

CLIENT_CLOCK_SKEW = -1
"""Added to the logical clock of an event of a client, whose own clock nobody moves: it comes
before what workers say of the task."""

TIME_FIELDS = itemgetter("utcoffset", "timestamp")

Handler = Callable[[dict[str, Any]], Any]


class EventReceiver(ConsumerMixin):
    """Calls ``handlers[type]`` with each event, or ``handlers["*"]``.

    >>> with app.connection_for_read() as connection:
    ...     receiver = app.events.Receiver(connection, handlers={"*": print})
    ...     receiver.capture(limit=None, timeout=None)

    ``channel`` is a channel or a connection; ``accept`` are the serializers that are read. What is
    not given comes from the settings ``event_…``. Raises `ImproperlyConfigured` for a queue that
    is to be both exclusive and durable.
    """

    app: Any = None

    def __init__(
        self,
        channel: Any,
        handlers: dict[str, Handler] | None = None,
        routing_key: str = "#",
        node_id: str | None = None,
        app: Any = None,
        queue_prefix: str | None = None,
        accept: Any = None,
        queue_ttl: float | None = None,
        queue_expires: float | None = None,
        queue_exclusive: bool | None = None,
        queue_durable: bool | None = None,
    ) -> None:
        self.app = app_or_default(app or self.app)
        conf, either = self.app.conf, self.app.either
        self.channel: Any = maybe_channel(channel)
        self.handlers = {} if handlers is None else handlers
        self.routing_key = routing_key
        self.node_id = node_id or uuid()
        self.queue_prefix = queue_prefix or conf.event_queue_prefix
        self.exchange = get_exchange(
            self.connection or self.app.connection_for_write(),
            name=conf.event_exchange or EVENT_EXCHANGE_NAME,
        )
        exclusive = either("event_queue_exclusive", queue_exclusive)
        durable = either("event_queue_durable", queue_durable)
        if exclusive and durable:
            raise ImproperlyConfigured(
                "an event queue is either exclusive or durable: change event_queue_exclusive or "
                "event_queue_durable"
            )
        self.queue = Queue(
            f"{self.queue_prefix}.{self.node_id}",
            exchange=self.exchange,
            routing_key=routing_key,
            auto_delete=not durable,
            durable=durable,
            exclusive=exclusive,
            message_ttl=either("event_queue_ttl", queue_ttl),
            expires=either("event_queue_expires", queue_expires),
        )
        self.accept = {conf.event_serializer, "json"} if accept is None else accept
        self.clock = self.app.clock
        self.adjust_clock = self.clock.adjust
        self.forward_clock = self.clock.forward

    @property
    def connection(self) -> Any:
        return self.channel.connection.client if self.channel else None

    # -- the loop ----------------------------------------------------------------------------

    def capture(
        self, limit: int | None = None, timeout: float | None = None, wakeup: bool = True
    ) -> None:
        """Receive ``limit`` messages (for ever), calling the handlers.

        Raises ``TimeoutError`` when none has come for ``timeout`` seconds. ``wakeup``: first ask
        all workers to say that they live.
        """
        for _ in self.itercapture(limit, timeout, wakeup):
            pass

    def itercapture(
        self, limit: int | None = None, timeout: float | None = None, wakeup: bool = True
    ) -> Iterator[Any]:
        """`capture`, giving control back after each message."""
        consume: Callable[..., Iterator[Any]] = self.consume
        return consume(limit=limit, timeout=timeout, wakeup=wakeup)

    def get_consumers(self, Consumer: Any, channel: Any) -> list[Any]:  # noqa: N803  # kombu's
        return [
            Consumer(
                queues=[self.queue],
                callbacks=[self._receive],
                no_ack=True,
                accept=self.accept,
            )
        ]

    def on_consume_ready(
        self, connection: Any, channel: Any, consumers: Any, wakeup: bool = True, **kwargs: Any
    ) -> None:
        if wakeup:
            self.wakeup_workers(channel=channel)

    def wakeup_workers(self, channel: Any = None) -> None:
        """Ask all workers to say that they live."""
        self.app.control.broadcast("heartbeat", connection=self.connection, channel=channel)

    # -- one message -------------------------------------------------------------------------

    def process(self, type: str, event: dict[str, Any]) -> None:
        """Call the handler of an event."""
        handler = self.handlers.get(type) or self.handlers.get("*")
        if handler is not None:
            handler(event)

    def event_from_message(
        self,
        body: dict[str, Any],
        localize: bool = True,
        now: Callable[[], float] = time.time,
        tzfields: Callable[[dict[str, Any]], tuple[float, float]] = TIME_FIELDS,
        adjust_timestamp: Callable[[float, float], float] = adjust_timestamp,
        CLIENT_CLOCK_SKEW: int = CLIENT_CLOCK_SKEW,  # noqa: N803  # Celery's parameter
    ) -> tuple[str, dict[str, Any]]:
        """(type, event) of a message's body: with the time in the zone of this machine
        (``localize``), the logical clock set, and ``local_received`` (epoch seconds)."""
        type = body["type"]
        if type == "task-sent":
            body["clock"] = (self.clock.value or 1) + CLIENT_CLOCK_SKEW
            self.adjust_clock(body["clock"])
        elif body.get("clock") is None:
            body["clock"] = self.forward_clock()
        else:
            self.adjust_clock(body["clock"])
        if localize and "utcoffset" in body and "timestamp" in body:
            offset, timestamp = tzfields(body)
            body["timestamp"] = adjust_timestamp(timestamp, offset)
        body["local_received"] = now()
        return type, body

    def _receive(self, body: Any, message: Any) -> None:
        """A message has one event, or a list of them."""
        for each in body if isinstance(body, list) else [body]:
            self.process(*self.event_from_message(each))
