"""Connections to the broker through kombu, for programs that talk to it themselves.

Jobs do not go this way: the engine has its own connection. What is here serves inspection of
queues, events, remote control, and code that publishes messages by hand.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kombu.utils.imports import symbol_by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .amqp import AMQP
    from .utils import Settings

__all__ = ("Connected",)


class Connected:
    """The part of an app that opens connections; `celery.app.base.Celery` is the whole."""

    amqp_cls: Any = "celery.app.amqp:AMQP"
    conf: Settings
    _pool: tuple[int, Any] | None = None

    @cached_property
    def amqp(self) -> AMQP:
        """Queues, routes and messages."""
        made: AMQP = symbol_by_name(self.amqp_cls)(app=self)
        return made

    def connection_for_read(self, url: str | None = None, **kwargs: Any) -> Any:
        """A connection for consuming messages: to ``broker_read_url``, or ``url``."""
        return self._connection(url or self.conf.broker_read_url, **kwargs)

    def connection_for_write(self, url: str | None = None, **kwargs: Any) -> Any:
        """A connection for publishing messages: to ``broker_write_url``, or ``url``."""
        return self._connection(url or self.conf.broker_write_url, **kwargs)

    def connection(
        self,
        hostname: str | None = None,
        userid: str | None = None,
        password: str | None = None,
        virtual_host: str | None = None,
        port: int | None = None,
        ssl: Any = None,
        connect_timeout: float | None = None,
        transport: Any = None,
        transport_options: dict[str, Any] | None = None,
        heartbeat: float | None = None,
        login_method: str | None = None,
        failover_strategy: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A connection that is not yet open; see `connection_for_read` and its counterpart.

        What is not given comes from the settings ``broker_…``. ``hostname`` may be a URL.
        """
        return self._connection(
            hostname or self.conf.broker_write_url,
            userid=userid,
            password=password,
            virtual_host=virtual_host,
            port=port,
            ssl=ssl,
            connect_timeout=connect_timeout,
            transport=transport,
            transport_options=transport_options,
            heartbeat=heartbeat,
            login_method=login_method,
            failover_strategy=failover_strategy,
            **kwargs,
        )

    broker_connection = connection

    def _connection(
        self,
        url: Any,
        userid: str | None = None,
        password: str | None = None,
        virtual_host: str | None = None,
        port: int | None = None,
        ssl: Any = None,
        connect_timeout: float | None = None,
        transport: Any = None,
        transport_options: dict[str, Any] | None = None,
        heartbeat: float | None = None,
        login_method: str | None = None,
        failover_strategy: Any = None,
        **kwargs: Any,
    ) -> Any:
        conf, either = self.conf, self.either
        make: Callable[..., Any] = self.amqp.Connection
        login = {
            "userid": userid or conf.broker_user,
            "password": password or conf.broker_password,
            "login_method": login_method or conf.broker_login_method,
            "ssl": either("broker_use_ssl", ssl),
        }
        place = {
            "port": port or conf.broker_port,
            "virtual_host": virtual_host or conf.broker_vhost,
            "transport": transport or conf.broker_transport,
            "failover_strategy": failover_strategy or conf.broker_failover_strategy,
        }
        from taskmq_celery.brokers import connection_url  # it brings the engine: not with an app

        times = {
            "connect_timeout": either("broker_connection_timeout", connect_timeout),
            "heartbeat": either("broker_heartbeat", heartbeat),
        }
        options = {**(conf.broker_transport_options or {}), **(transport_options or {})}
        return make(
            connection_url(url), transport_options=options, **login, **place, **times, **kwargs
        )

    def either(self, default_key: str, *defaults: Any) -> Any:
        """The first of ``defaults`` that is not ``None``, else the setting."""
        given = next((value for value in defaults if value is not None), None)
        return self.conf[default_key] if given is None else given

    # -- pools -------------------------------------------------------------------------------

    @property
    def pool(self) -> Any:
        """Connections for writing, ``broker_pool_limit`` of them. A forked child has its own."""
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), self.amqp.connection_pool(self.conf.broker_pool_limit)
        return self._pool[1]

    @property
    def producer_pool(self) -> Any:
        """Producers on the connections of `pool`."""
        return self.amqp.producer_pool

    def connection_or_acquire(
        self, connection: Any = None, pool: bool = True, *_: Any, **__: Any
    ) -> AbstractContextManager[Any]:
        """``connection``, or one that is given back at the end of the ``with`` statement."""
        if connection:
            return nullcontext(connection)
        return self._acquired() if pool else self._opened()

    default_connection = connection_or_acquire

    def producer_or_acquire(self, producer: Any = None) -> AbstractContextManager[Any]:
        """``producer``, or one that is given back at the end of the ``with`` statement."""
        return nullcontext(producer) if producer else self._acquired_producer()

    default_producer = producer_or_acquire

    @contextmanager
    def _acquired(self) -> Iterator[Any]:
        with self.pool.acquire(block=True) as connection:
            yield connection

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self.connection_for_write() as connection:
            yield connection

    @contextmanager
    def _acquired_producer(self) -> Iterator[Any]:
        with self.producer_pool.acquire(block=True) as producer:
            yield producer

    def _close_pool(self) -> None:
        """Close the connections of this process; the next use opens them again."""
        pool, self._pool = self._pool, None
        if pool is not None and pool[0] == os.getpid():
            pool[1].force_close_all()
        self.amqp.forget_producers()
