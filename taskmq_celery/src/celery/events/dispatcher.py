"""Sending events."""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from kombu.messaging import Producer

from celery.app import app_or_default
from celery.utils.nodenames import anon_nodename
from celery.utils.time import utcoffset
from taskmq_celery.brokers import carries_control

from .event import EVENT_EXCHANGE_NAME, Event, get_exchange, group_from

__all__ = ("EventDispatcher",)

TRANSIENT = 1
"""Delivery mode of messages that need not survive the broker."""
KEPT = 10_000
"""Events that are kept while they cannot be sent; the oldest go first."""


class EventDispatcher:
    """Sends events of one sender, ``hostname``, over a connection or channel of kombu's.

    ``groups``: only types of these groups are sent (all, if empty). ``buffer_group``: events of
    these groups are kept, and sent together when there are ``buffer_limit`` or at `flush`;
    ``on_send_buffered`` is called when one was kept. With ``buffer_while_offline`` an event that
    cannot be sent is kept for `flush`; otherwise `send` raises what the broker's driver does.

    A broker without exchanges (an SQL database, a store that only the engine knows) gets none:
    ``enabled`` is false then. May be used from several threads; `close` waits for what is being
    sent.
    """

    DISABLED_TRANSPORTS: ClassVar[set[str]] = {"sql"}

    app: Any = None
    on_enabled: set[Callable[[], Any]]
    on_disabled: set[Callable[[], Any]]

    def __init__(
        self,
        connection: Any = None,
        hostname: str | None = None,
        enabled: bool = True,
        channel: Any = None,
        buffer_while_offline: bool = True,
        app: Any = None,
        serializer: str | None = None,
        groups: Iterable[str] | None = None,
        delivery_mode: int = TRANSIENT,
        buffer_group: Iterable[str] | None = None,
        buffer_limit: int = 24,
        on_send_buffered: Callable[[], Any] | None = None,
    ) -> None:
        self.app = app_or_default(app or self.app)
        self.connection = connection
        self.channel = channel
        if channel is not None and connection is None:
            self.connection = channel.connection.client
        self.hostname = hostname or anon_nodename()
        self.buffer_while_offline = buffer_while_offline
        self.buffer_group = frozenset(buffer_group or ())
        self.buffer_limit = buffer_limit
        self.on_send_buffered = on_send_buffered
        self.serializer = serializer or self.app.conf.event_serializer
        self.delivery_mode = delivery_mode
        self.groups: Any = set(groups or ())
        self.clock = self.app.clock
        self.pid = os.getpid()
        self.headers = {"hostname": self.hostname}
        self.on_enabled, self.on_disabled = set(), set()
        self.mutex = threading.RLock()
        self.producer: Any = None
        self._closed = False
        self._outbound_buffer: deque[tuple[Any, str]] = deque(maxlen=KEPT)
        self._group_buffer: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

        conf, place = self.app.conf, self.connection
        if place is None and carries_control(conf.broker_write_url):
            place = self.app.connection_for_write()
        self.enabled = bool(enabled)
        self.exchange: Any = None
        if place is not None:
            self.exchange = get_exchange(place, conf.event_exchange or EVENT_EXCHANGE_NAME)
        if place is None or place.transport.driver_type in self.DISABLED_TRANSPORTS:
            self.enabled = False
        if self.enabled:
            self.enable()

    def __enter__(self) -> EventDispatcher:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- on and off --------------------------------------------------------------------------

    def enable(self) -> None:
        """Send from now on; opens what `close` has closed."""
        with self.mutex:
            self.producer = Producer(
                self.channel or self.connection,
                exchange=self.exchange,
                serializer=self.serializer,
                auto_declare=False,
            )
            self._closed = False
            self.enabled = True
        for callback in self.on_enabled:
            callback()

    def disable(self) -> None:
        """Send nothing until `enable`."""
        if self.enabled:
            self.enabled = False
            self.close()
            for callback in self.on_disabled:
                callback()

    def close(self) -> None:
        """Let go of the connection. What is kept stays, for `enable` and `flush`."""
        with self.mutex:
            self._closed = True
            self.producer = None

    @property
    def publisher(self) -> Any:
        """The producer, by its old name."""
        return self.producer

    @publisher.setter
    def publisher(self, producer: Any) -> None:
        self.producer = producer

    # -- sending -----------------------------------------------------------------------------

    def send(
        self,
        type: str,
        blind: bool = False,
        utcoffset: Callable[[], float] = utcoffset,
        retry: bool = False,
        retry_policy: Mapping[str, Any] | None = None,
        Event: Callable[..., dict[str, Any]] = Event,  # noqa: N803  # Celery's parameter
        **fields: Any,
    ) -> None:
        """Send an event, or keep it if its group is one of those that are kept.

        ``blind``: without moving the logical clock. ``Event`` makes the event.
        """
        if not self.enabled or not self._is_wanted(type):
            return
        group = group_from(type)
        event = self._prepared(type, fields, blind, Event, utcoffset)
        if group in self.buffer_group:
            self._keep(group, event)
            return
        with self.mutex:
            if self.producer is not None and not self._closed:
                key = type.replace("-", ".")
                self._publish(event, self.producer, key, retry, retry_policy)

    def publish(
        self,
        type: str,
        fields: dict[str, Any],
        producer: Any,
        blind: bool = False,
        Event: Callable[..., dict[str, Any]] = Event,  # noqa: N803  # Celery's parameter
        **kwargs: Any,
    ) -> None:
        """Send an event with a producer of the caller's, whether enabled or not, closed or not.

        ``kwargs`` are ``retry`` and ``retry_policy``.
        """
        event = self._prepared(type, fields, blind, Event)
        with self.mutex:
            self._publish(event, producer, type.replace("-", "."), **kwargs)

    def publish_together(
        self, events: Iterable[tuple[str, dict[str, Any]]], producer: Any, **kwargs: Any
    ) -> None:
        """`publish` for several events, (type, fields), of one group: in one message."""
        made = [self._prepared(type, fields) for type, fields in events]
        if made:
            key = f"{group_from(made[0]['type'])}.multi"
            with self.mutex:
                self._publish(made, producer, key, **kwargs)

    def flush(self, errors: bool = True, groups: bool = True) -> None:
        """Send what is kept: because it could not be sent (``errors``), or by group."""
        with self.mutex:
            if self._closed:
                return
            if errors:
                self.send_kept(self.producer)
            if groups:
                for group, kept in self._group_buffer.items():
                    self._send_group(group, kept)

    @property
    def kept(self) -> int:
        """How many events are kept because they could not be sent."""
        return len(self._outbound_buffer)

    def send_kept(self, producer: Any) -> None:
        """Send what could not be sent before."""
        with self.mutex:
            for _ in range(self.kept):
                self._send_again(producer)

    def extend_buffer(self, other: EventDispatcher) -> None:
        """Take over what another dispatcher could not send."""
        self._outbound_buffer.extend(other._outbound_buffer)

    def _is_wanted(self, type: str) -> bool:
        return not self.groups or group_from(type) in self.groups

    def _keep(self, group: str, event: dict[str, Any]) -> None:
        with self.mutex:
            kept = self._group_buffer[group]
            kept.append(event)
            full = len(kept) >= self.buffer_limit
            if full:
                self.flush()
        if not full and self.on_send_buffered is not None:
            self.on_send_buffered()

    def _send_again(self, producer: Any) -> None:
        event, key = self._outbound_buffer.popleft()
        try:
            self._publish(event, producer, key)
        except Exception:
            self._outbound_buffer.appendleft((event, key))
            raise

    def _send_group(self, group: str, kept: list[dict[str, Any]]) -> None:
        """Send what is kept of a group. More may come meanwhile, and stays."""
        batch = kept[:]
        if batch:
            self._publish(batch, self.producer, f"{group}.multi")
            del kept[: len(batch)]

    def _prepared(
        self,
        type: str,
        fields: Mapping[str, Any],
        blind: bool = False,
        make: Callable[..., dict[str, Any]] = Event,
        utcoffset: Callable[[], float] = utcoffset,
    ) -> dict[str, Any]:
        return make(
            type,
            hostname=self.hostname,
            utcoffset=utcoffset(),
            pid=self.pid,
            **{"clock": None if blind else self.clock.forward(), **fields},
        )

    def _publish(
        self,
        event: Any,
        producer: Any,
        routing_key: str,
        retry: bool = False,
        retry_policy: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            producer.publish(
                event,
                routing_key=routing_key,
                exchange=self.exchange.name,
                retry=retry,
                retry_policy=retry_policy,
                declare=[self.exchange],
                serializer=self.serializer,
                headers=self.headers,
                delivery_mode=self.delivery_mode,
            )
        except Exception:
            if not self.buffer_while_offline:
                raise
            self._outbound_buffer.append((event, routing_key))
