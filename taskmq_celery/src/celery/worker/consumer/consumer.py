"""The sender of the signals about arriving messages: ``worker_ready``, ``task_received``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Event, Thread
from typing import Any

from kombu.common import ignore_errors

from celery.utils.log import get_logger
from taskmq_celery.brokers import carries_control

__all__ = ("Consumer",)

logger = get_logger(__name__)

DRAIN = 0.2
"""Longest wait for a message, in seconds, after which to see whether the worker stops."""


class Consumer:
    """The receiving side of a worker. The engine does the work; this is what signals name, and
    what the program's consumer steps are given."""

    blueprint: Any = None
    _task_buckets: Any = None
    _pending_operations: tuple[()] = ()
    """What waits for the connection: nothing, it is done at once."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.app = controller.app
        self.hostname: str = controller.hostname
        self.pool = controller.pool
        self.event_dispatcher = controller.events.dispatcher
        self.steps: list[Any] = []
        self.on_task_message: set[Any] = set()
        """Functions that are given the request of every task that arrives."""
        self._closed = Event()
        self._drainer: Thread | None = None

    @cached_property
    def timer(self) -> Any:
        """The worker's: it calls functions later."""
        return self.controller.timer

    @cached_property
    def connection(self) -> Any:
        """A connection to the broker, for the messages of consumer steps: tasks come through the
        engine's own. Opened when it is first used."""
        return self.connect()

    def connect(self) -> Any:
        """A connection to the broker that is open: the caller's own. Raises what the broker's
        client raises."""
        return self.ensure_connected(self.connection_for_read())

    def connection_for_read(self, heartbeat: float | None = None) -> Any:
        """A connection to the broker that messages are taken from; not open yet."""
        return self.app.connection_for_read(heartbeat=heartbeat)

    def connection_for_write(self, url: str | None = None, heartbeat: float | None = None) -> Any:
        """A connection to the broker that messages are sent to; not open yet."""
        return self.app.connection_for_write(url, heartbeat=heartbeat)

    def ensure_connected(self, conn: Any) -> Any:
        """Open a connection, if it is not; it is given back."""
        conn.connect()
        return conn

    def call_soon(self, p: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function; what it gives. Every thread may ask the engine for what it likes, so
        there is no need to wait."""
        return p(*args, **kwargs)

    def reset_rate_limits(self) -> None:
        """Have the worker keep the ``rate_limit`` of every task as it is now."""
        self.controller.limit_rates()

    @property
    def connection_errors(self) -> Any:
        if not carries_control(self.app.conf.broker_read_url):
            return ()  # the store is none of a broker that kombu knows
        return self.app.connection_for_read().connection_errors

    def drain(self) -> None:
        """From now on, hand the messages of `connection` to their consumers, in a thread."""
        if self._drainer is None:
            self._drainer = Thread(target=self._drain, name="consumer-steps", daemon=True)
            self._drainer.start()

    def _drain(self) -> None:
        while not self._closed.is_set():
            try:
                self.connection.drain_events(timeout=DRAIN)
            except TimeoutError:
                continue
            except Exception:
                if not self._closed.is_set():
                    logger.exception("Consumer steps get no messages any more")
                return

    def close(self) -> None:
        """Close what `connection` has opened."""
        self._closed.set()
        if self._drainer is not None:
            self._drainer.join()
        opened = vars(self).pop("connection", None)
        if opened is not None:
            ignore_errors(opened, opened.close)

    def add_task_queue(
        self,
        queue: Any,
        exchange: str | None = None,
        exchange_type: str | None = None,
        routing_key: str | None = None,
        **options: Any,
    ) -> None:
        """Take jobs from another queue too: one that is declared, or a new one with these
        properties. Raises ``ValueError`` for an empty name."""
        queues, controller = self.app.amqp.queues, self.controller
        name = getattr(queue, "name", queue)
        if not name:
            raise ValueError("a queue needs a name")
        known = queues.aliases.get(name) or queues.get(name)
        if known is None and queue is name:
            properties = {
                "exchange": exchange or name,
                "exchange_type": exchange_type or "direct",
                "routing_key": routing_key,
            }
            known = queues.select_add(name, **properties, **options)
        else:
            known = queues.select_add(known or queue)
        if known.name not in controller.consumed:
            controller.consume({**controller.consumed, known.name: known})
            logger.info("Started consuming from %s", name)

    def cancel_task_queue(self, queue: Any) -> None:
        """Take no more jobs from a queue, given by name or alias; unstarted ones go back."""
        queues, controller = self.app.amqp.queues, self.controller
        given = getattr(queue, "name", queue)
        name = queues.aliases[given].name if given in queues.aliases else given
        logger.info("Canceling queue %s", given)
        queues.deselect([name])
        controller.consume({k: v for k, v in controller.consumed.items() if k != name})

    @property
    def task_buckets(self) -> Any:
        """Rate limits, of which this version has none."""
        return self._task_buckets or dict.fromkeys(self.app.tasks)

    @task_buckets.setter
    def task_buckets(self, value: Any) -> None:
        self._task_buckets = value

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.hostname} ({self.controller.state_name})>"
