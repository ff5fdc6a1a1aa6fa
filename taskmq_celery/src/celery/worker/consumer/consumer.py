"""The sender of the signals about arriving messages: ``worker_ready``, ``task_received``."""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from threading import Thread, current_thread
from time import monotonic
from typing import Any, ClassVar

from kombu.utils.limits import TokenBucket

from celery import bootsteps
from celery.bootsteps import CLOSE, TERMINATE
from celery.exceptions import CPendingDeprecationWarning
from celery.platforms import EX_FAILURE
from celery.utils.functional import noop
from celery.utils.log import get_logger
from celery.utils.nodenames import gethostname
from celery.utils.time import rate
from celery.worker.reconnecting import Tries
from celery.worker.state import (
    active_requests,
    requests,
    reserved_requests,
    scheduled_requests,
    successful_requests,
)
from taskmq_celery.brokers import carries_control

from .messages import MessageHandling, dump_body

__all__ = ("Consumer", "dump_body")

logger = get_logger(__name__)

DRAIN = 0.2
"""Longest wait for a message, in seconds, after which to see whether the worker stops."""

CONNECTION_RETRY = "consumer: Connection to broker lost. Trying to re-establish the connection..."
COLLECT_SOCKET_TIMEOUT = 1
"""Seconds that each step of the end of a lost connection may take."""

CANCEL_TASKS_BY_DEFAULT = (
    "tasks that are acknowledged late go on when the connection of their messages is lost, and run "
    "twice, since those are given out again: to have them ended, as Celery 6 will, set "
    "worker_cancel_long_running_tasks_on_connection_loss"
)


class Consumer(MessageHandling):
    """The receiving side of a worker. The engine takes the worker's tasks; this is what signals
    name, and what the program's consumer steps are given.

    ``on_task_request`` is called with each request that is to run of those that a program has taken
    from the broker itself (`create_task_handler`), ``init_callback`` with this, once, when it is
    about to take the first task. Options of the worker are given to the steps.
    """

    class Blueprint(bootsteps.Blueprint):
        """What the receiving side of a worker consists of."""

        name = "Consumer"
        default_steps: ClassVar[set[Any]] = {
            f"celery.worker.consumer:{name}"
            for name in (
                *("Connection", "Mingle", "Events", "Gossip", "Heart", "Control", "Tasks"),
                "Agent",
            )
        }

    Strategies = dict
    _task_buckets: Any = None
    _timer: Any = None
    _connection_errors: Any = None
    _pending_operations: tuple[()] = ()
    """What waits for the connection: nothing, it is done at once."""

    def __init__(
        self,
        on_task_request: Callable[..., Any],
        init_callback: Callable[..., Any] = noop,
        hostname: str | None = None,
        pool: Any = None,
        app: Any = None,
        timer: Any = None,
        controller: Any = None,
        hub: Any = None,
        amqheartbeat: float | None = None,
        worker_options: dict[str, Any] | None = None,
        disable_rate_limits: bool = False,
        initial_prefetch_count: int = 2,
        prefetch_multiplier: int | None = 1,
        **kwargs: Any,
    ) -> None:
        self.app, self.controller = app, controller
        self.hostname = hostname or gethostname()
        self.pid = os.getpid()
        self.pool, self.hub, self._timer = pool, hub, timer
        self.on_task_request = on_task_request
        self.on_task_message: set[Any] = set()
        """Functions that are given the request of every task that arrives."""
        self.init_callback: Callable[..., Any] | None = init_callback
        self.amqheartbeat = app.conf.broker_heartbeat if amqheartbeat is None else amqheartbeat
        self.disable_rate_limits = disable_rate_limits
        self.initial_prefetch_count = initial_prefetch_count
        self.prefetch_multiplier = prefetch_multiplier
        self.event_dispatcher: Any = None
        self.closing = False
        """Whether the worker was asked to stop: nothing new is begun. Set by signal handlers."""
        self.opened: Any = None
        """`connection`, if it is open."""
        self.first_connection_attempt = True
        self._drainer: Thread | None = None
        self._next_beat = 0.0
        self.steps: list[Any] = []
        self.blueprint = self.Blueprint(steps=app.steps["consumer"], on_close=self.on_close)
        self.blueprint.apply(self, **{**(worker_options or {}), **kwargs})

    # -- its life ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the steps, and say that the worker is ready, if it was not closed before. A step
        that cannot start ends the worker."""
        if self.blueprint.state in (CLOSE, TERMINATE):
            return
        try:
            self.blueprint.start(self)
        except _ClosingError:
            return
        except Exception as error:
            logger.critical("Unrecoverable error: %r", error, exc_info=True)
            self.controller.stop(exitcode=EX_FAILURE)
            return
        self.on_ready()

    def on_ready(self) -> None:
        """When the worker is about to take its first task: `init_callback` is called, once."""
        told, self.init_callback = self.init_callback, None
        if told is not None:
            told(self)

    def on_close(self) -> None:
        """When it is about to stop: what a program's own messages have begun is let go, since the
        broker gives them out again; what runs goes on."""
        for request in list(scheduled_requests):
            entry = getattr(request, "_eta_timer_entry", None)
            if entry is not None:
                try:
                    self.timer.cancel(entry)
                except Exception as error:  # of a timer of the program's own
                    logger.warning("Could not cancel the timer of %s: %r", request.id, error)
            scheduled_requests.discard(request)
            _forget_unless_it_runs(request)
        for request in list(reserved_requests):
            _forget_unless_it_runs(request)
        for bucket in filter(None, self.task_buckets.values()):
            bucket.clear_pending()

    def stop(self) -> None:
        """Stop the steps, the last one first."""
        self._end_draining()
        self.blueprint.stop(self)

    def terminate(self) -> None:
        """Stop the steps, without waiting for what they do."""
        self._end_draining()
        self.blueprint.stop(self, terminate=True)

    def shutdown(self) -> None:
        """At the very end: the steps let go of what they still hold, the connection too."""
        self._end_draining()
        self.blueprint.send_all(self, "shutdown", "shutting down", propagate=False)

    def register_with_event_loop(self, hub: Any) -> None:
        """Tell the steps of the worker's event loop: their method of this name."""
        self.blueprint.send_all(self, "register_with_event_loop", "hub.register", args=(hub,))

    def cancel_active_requests(self) -> None:
        """End the tasks of a program's own messages that run in its pool: those whose messages the
        broker gives out again, and the others as for a retry. What has succeeded, or is
        acknowledged and would not run again, is left alone."""
        for request in list(active_requests):
            if request.id in successful_requests:
                continue
            if not request.task.acks_late:
                request.cancel(self.pool, emit_retry=True)
            elif not request.acknowledged:
                request.cancel(self.pool, emit_retry=False)

    @property
    def timer(self) -> Any:
        """The worker's: it calls functions later."""
        return self.controller.timer if self._timer is None else self._timer

    @timer.setter
    def timer(self, timer: Any) -> None:
        self._timer = timer

    # -- the connection ----------------------------------------------------------------------

    @property
    def connection(self) -> Any:
        """A connection to the broker, for the messages of consumer steps: tasks come through the
        engine's own. Opened when it is first used."""
        if self.opened is None:
            self.opened = self.connect()
        return self.opened

    @connection.setter
    def connection(self, connection: Any) -> None:
        self.opened = connection

    def connect(self) -> Any:
        """A connection to the broker that is open: the caller's own. Raises what the broker's
        client raises."""
        return self.ensure_connected(self.connection_for_read(heartbeat=self.amqheartbeat))

    def connection_for_read(self, heartbeat: float | None = None) -> Any:
        """A connection to the broker that messages are taken from; not open yet."""
        return self.app.connection_for_read(heartbeat=heartbeat)

    def connection_for_write(self, url: str | None = None, heartbeat: float | None = None) -> Any:
        """A connection to the broker that messages are sent to; not open yet."""
        return self.app.connection_for_write(url, heartbeat=heartbeat)

    def ensure_connected(self, conn: Any) -> Any:
        """Open a connection, if it is not; it is given back.

        It is tried as often as the settings say: the first time
        ``broker_connection_retry_on_startup``, or where that is ``None``, and later,
        ``broker_connection_retry``; ``broker_connection_max_retries``. Raises what the broker's
        client raises, and kombu's ``OperationalError`` after the last try of several.
        """
        conf, first = self.app.conf, self.first_connection_attempt
        self.first_connection_attempt = False
        on_startup = conf.broker_connection_retry_on_startup if first else None
        if not (conf.broker_connection_retry if on_startup is None else on_startup):
            conn.connect()
            return conn
        most = conf.broker_connection_max_retries
        conn.ensure_connection(Tries(conn, most), most, callback=self._go_on)
        return conn

    def _go_on(self) -> None:
        if self.closing:
            raise _ClosingError

    @property
    def connection_errors(self) -> Any:
        """What the broker's client raises when a connection is lost."""
        if self._connection_errors is not None:
            return self._connection_errors
        if not carries_control(self.app.conf.broker_read_url):
            return ()  # the store is none of a broker that kombu knows
        return self.app.connection_for_read().connection_errors

    @connection_errors.setter
    def connection_errors(self, errors: Any) -> None:
        self._connection_errors = errors

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        """When the connection of remote control or of the consumer steps is lost, which is then
        opened again. The worker's own tasks go on: the engine has a connection of its own. Those
        of a program's own messages are ended, if they are acknowledged late, where
        ``worker_cancel_long_running_tasks_on_connection_loss`` says so."""
        logger.warning("%s (%r)", CONNECTION_RETRY, exc)
        logger.debug("Connection error: %r", exc, exc_info=exc)
        again = [one for one in active_requests if one.task.acks_late and not one.acknowledged]
        if not self.app.conf.worker_cancel_long_running_tasks_on_connection_loss:
            if again:
                warnings.warn(CANCEL_TASKS_BY_DEFAULT, CPendingDeprecationWarning, stacklevel=2)
            return
        for request in again:
            try:
                request.cancel(self.pool)
            except Exception as error:  # of the connection that is lost, perhaps
                logger.warning("Could not end %s: %r", request, error)

    def drain(self) -> None:
        """From now on, hand the messages of `connection` to their consumers, in a thread."""
        if self._drainer is None:
            self._drainer = Thread(target=self._drain, name="consumer-steps", daemon=True)
            self._drainer.start()

    def _end_draining(self) -> None:
        """Before the steps cancel their consumers: a connection serves one thread at a time."""
        self.closing = True
        if self._drainer is not None and self._drainer is not current_thread():
            self._drainer.join()

    def _drain(self) -> None:
        lost = False
        while not self.closing:
            try:
                if lost:
                    self._begin_consumers_anew()
                    lost = False
                self._beat_heart()
                self.connection.drain_events(timeout=DRAIN)
            except TimeoutError:
                continue
            except Exception as error:
                if self.closing:
                    return
                if not isinstance(error, self.connection_errors):
                    logger.exception("Consumer steps get no messages any more")
                    return
                self.on_connection_error_after_connected(error)
                lost = True

    def _beat_heart(self) -> None:
        """Tell the broker, if it has to be told, that this end of the connection is there."""
        interval = self.connection.get_heartbeat_interval()
        if interval and monotonic() >= self._next_beat:
            rate = self.app.conf.broker_heartbeat_checkrate
            self._next_beat = monotonic() + interval / rate
            self.connection.heartbeat_check(rate)

    def _begin_consumers_anew(self) -> None:
        """The steps that consume messages leave a connection that is lost, and get another one."""
        steps = [step for step in self.steps if isinstance(step, bootsteps.ConsumerStep)]
        if self.opened is not None:
            with suppress(Exception):  # it is lost: whatever there is to raise
                self.opened.collect(socket_timeout=COLLECT_SOCKET_TIMEOUT)
            for step in reversed(steps):
                with suppress(Exception):
                    step.stop(self)
            self.opened = None
        for step in steps:
            step.start(self)

    # -- what it takes -----------------------------------------------------------------------

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

    def call_soon(self, p: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function; what it gives. Every thread may ask the engine for what it likes, so
        there is no need to wait."""
        return p(*args, **kwargs)

    @property
    def max_prefetch_count(self) -> int:
        """How many tasks the worker holds at most, running ones included."""
        most: int = self.controller.most_held()
        return most

    # -- rates -------------------------------------------------------------------------------

    def reset_rate_limits(self) -> None:
        """Have the worker keep the ``rate_limit`` of every task as it is now."""
        self._task_buckets = None
        self.controller.limit_rates()

    @property
    def task_buckets(self) -> Any:
        """For each task what counts how many messages of a program's own may be taken, or
        ``None``. The rates of the worker's own tasks are kept by the engine."""
        if self._task_buckets is None:
            tasks = self.app.tasks.items()
            self._task_buckets = defaultdict(lambda: None)
            self._task_buckets.update((name, self.bucket_for_task(task)) for name, task in tasks)
        return self._task_buckets

    @task_buckets.setter
    def task_buckets(self, value: Any) -> None:
        self._task_buckets = value

    def bucket_for_task(self, type: Any) -> Any:
        """What keeps the ``rate_limit`` of a task, or ``None`` if it has none."""
        limit = rate(getattr(type, "rate_limit", None))
        return TokenBucket(limit, capacity=1) if limit else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.hostname} ({self.controller.state_name})>"


def _forget_unless_it_runs(request: Any) -> None:
    """Of a request that is let go nothing is told any more."""
    if request not in active_requests:
        reserved_requests.discard(request)
        requests.pop(request.id, None)


class _ClosingError(Exception):
    """The worker is to stop, and does not wait for its broker any more."""
