"""Waiting for results that come by themselves: by subscription, or by messages.

`AsyncBackendMixin` keeps the results that somebody waits for; a `BaseResultConsumer` receives
records and hands them over; a drainer lets it receive until a result is there. Under gevent or
eventlet one greenlet receives for all.
"""

from __future__ import annotations

import logging
import threading
import time
from builtins import TimeoutError as TimedOut
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from queue import Empty
from typing import Any
from weakref import WeakValueDictionary

from kombu.utils.compat import detect_environment

from celery import states
from celery.exceptions import TimeoutError
from celery.utils.log import get_logger

from .waiting import EngineWaits

__all__ = ("AsyncBackendMixin", "BaseResultConsumer", "Drainer", "register_drainer")

logger = get_logger(__name__)

E_CELERY_RESTART_REQUIRED = "Celery must be restarted because a shutdown signal was detected."
E_RETRY_LIMIT_EXCEEDED = """
Retry limit exceeded while trying to reconnect to the Celery result store backend.
""".strip()

drainers: dict[str, type[Drainer]] = {}


def register_drainer(name: str) -> Callable[[type[Drainer]], type[Drainer]]:
    """Make a class the drainer of an environment: ``default``, ``eventlet`` or ``gevent``."""

    def register(cls: type[Drainer]) -> type[Drainer]:
        drainers[name] = cls
        return cls

    return register


@register_drainer("default")
class Drainer:
    """Lets a consumer receive, in the thread that waits."""

    def __init__(self, result_consumer: Any) -> None:
        self.result_consumer = result_consumer

    def start(self) -> None:
        """Be ready to receive."""

    def stop(self) -> None:
        """Receive no more."""

    def drain_events_until(
        self,
        p: Any,
        timeout: float | None = None,
        interval: float = 1,
        on_interval: Callable[[], Any] | None = None,
        wait: Callable[..., Any] | None = None,
    ) -> Iterator[None]:
        """Receive until promise ``p`` is kept. Raises ``socket.timeout`` after ``timeout``."""
        wait = wait or self.result_consumer.drain_events
        started = time.monotonic()
        while not p.ready:
            left = None if timeout is None else timeout - (time.monotonic() - started)
            if left is not None and left <= 0:
                raise TimedOut
            try:
                self.wait_for(p, wait, timeout=interval if left is None else min(interval, left))
            except TimedOut:  # nothing came
                pass
            except OSError as error:
                logging.warning(  # noqa: LOG015  # where programs look for it
                    "Drainer: connection error during drain_events: %r", error
                )
                time.sleep(interval if left is None else min(interval, left))
            if on_interval is not None:
                on_interval()
            yield

    def wait_for(self, p: Any, wait: Callable[..., Any], timeout: float | None = None) -> None:
        """Receive once."""
        wait(timeout=timeout)

    def _event(self) -> Any:
        return threading.Event()


class greenletDrainer(Drainer):  # noqa: N801  # Celery's name
    """Receives in a greenlet of its own, for all who wait."""

    spawn: Any = None

    def __init__(self, result_consumer: Any) -> None:
        super().__init__(result_consumer)
        self._started, self._stopped, self._shutdown = (self._event() for _ in range(3))
        self._received = self._event()
        self._exc: BaseException | None = None
        self._greenlet: Any = None

    def run(self) -> None:
        """Receive until stopped; whatever else goes wrong is told to all who wait."""
        self._started.set()
        try:
            while not self._stopped.is_set():
                try:
                    self.result_consumer.drain_events(timeout=1)
                except TimedOut:  # nothing came
                    pass
                except OSError as error:
                    logging.warning(  # noqa: LOG015  # where programs look for it
                        "Drainer: connection error during drain_events: %r", error
                    )
                    time.sleep(1)
                self._tell()
        except Exception as error:
            self._exc = error
            raise
        finally:
            self._shutdown.set()
            self._tell()

    def _tell(self) -> None:
        told, self._received = self._received, self._event()
        told.set()

    def start(self) -> None:
        self._ensure_not_shut_down()
        if not self._started.is_set():
            self._greenlet = self.spawn(self.run)
            self._started.wait()

    def stop(self) -> None:
        self._stopped.set()
        self._shutdown.wait()

    def wait_for(self, p: Any, wait: Callable[..., Any], timeout: float | None = None) -> None:
        self.start()
        if not p.ready:
            self._received.wait(timeout=timeout)
        self._ensure_not_shut_down(p)

    def _ensure_not_shut_down(self, p: Any = None) -> None:
        if self._shutdown.is_set() and not (p is not None and p.ready):
            raise self._exc or Exception(E_CELERY_RESTART_REQUIRED)


@register_drainer("eventlet")
class eventletDrainer(greenletDrainer):  # noqa: N801  # Celery's name
    """Receives in a greenlet of eventlet's."""

    def spawn(self, func: Callable[[], Any]) -> Any:
        eventlet = import_module("eventlet")
        made = eventlet.spawn(func)
        eventlet.sleep(0)
        return made


@register_drainer("gevent")
class geventDrainer(greenletDrainer):  # noqa: N801  # Celery's name
    """Receives in a greenlet of gevent's."""

    def spawn(self, func: Callable[[], Any]) -> Any:
        gevent = import_module("gevent")
        made = gevent.spawn(func)
        gevent.sleep(0)
        return made

    def _event(self) -> Any:
        return import_module("gevent.event").Event()


class AsyncBackendMixin(EngineWaits):
    """How results are waited for where they come by themselves."""

    result_consumer: Any
    _pending_results: Any
    _pending_messages: Any
    _ensure_not_eager: Callable[[], None]
    meta_from_decoded: Callable[[dict[str, Any]], dict[str, Any]]

    # -- who waits ---------------------------------------------------------------------------

    def add_pending_result(
        self, result: Any, weak: bool = False, start_drainer: bool = True
    ) -> Any:
        """Somebody will wait for this one: let its record come."""
        if start_drainer:
            self.result_consumer.drainer.start()
        if not self._resolved_from_buffer(result):
            self._add_pending_result(result.id, result, weak=weak)
        return result

    def add_pending_results(self, results: Iterable[Any], weak: bool = False) -> list[Any]:
        """Somebody will wait for these."""
        self.result_consumer.drainer.start()
        return [self.add_pending_result(each, weak=weak, start_drainer=False) for each in results]

    def _resolved_from_buffer(self, result: Any) -> bool:
        try:
            meta = self._pending_messages.take(result.id)
        except Empty:
            return False
        result._maybe_set_cache(meta)
        return True

    def _add_pending_result(self, task_id: str, result: Any, weak: bool = False) -> None:
        concrete, loose = self._pending_results
        if any(id(result) in each.get(task_id, ()) for each in (concrete, loose)):
            return
        if weak:
            loose.setdefault(task_id, WeakValueDictionary())[id(result)] = result
        else:
            concrete.setdefault(task_id, {})[id(result)] = result
        self.result_consumer.consume_from(task_id)

    def remove_pending_result(self, result: Any) -> Any:
        """Nobody waits for this one any more."""
        self._remove_pending_result(result)
        self.on_result_fulfilled(result)
        return result

    def _remove_pending_result(self, result: Any) -> None:
        for waiting in self._pending_results:
            members = waiting.get(result.id)
            if members is not None:
                members.pop(id(result), None)
                if not members:
                    waiting.pop(result.id, None)

    def on_result_fulfilled(self, result: Any) -> None:
        """A result is there: where nobody else waits for it, its record need not come."""
        if not any(result.id in waiting for waiting in self._pending_results):
            self.result_consumer.cancel_for(result.id)

    # -- waiting -----------------------------------------------------------------------------

    def wait_for_pending(
        self,
        result: Any,
        callback: Callable[..., Any] | None = None,
        propagate: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Wait for a result; gives its value or raises its error."""
        self._ensure_not_eager()
        for _ in self._wait_for_pending(result, **kwargs):
            pass
        return result.maybe_throw(callback=callback, propagate=propagate)

    def _wait_for_pending(
        self,
        result: Any,
        timeout: float | None = None,
        on_interval: Callable[[], Any] | None = None,
        on_message: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Iterator[None]:
        received: Iterator[None] = self.result_consumer._wait_for_pending(
            result, timeout=timeout, on_interval=on_interval, on_message=on_message, **kwargs
        )
        return received

    def _collect_into(self, result: Any, bucket: Any) -> None:
        """Append a result to ``bucket`` when it is there."""
        self.result_consumer.buckets[id(result)] = bucket

    def iter_native(
        self, result: Any, no_ack: bool = True, **kwargs: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Ids and records of a result's members, as they come."""
        self._ensure_not_eager()
        if kwargs.get("on_message") is None and self._in_engine(result):
            waits = kwargs.get("timeout"), kwargs.get("interval", 0.5), kwargs.get("on_interval")
            yield from self._iter_engine(result, *waits)
            return
        bucket: deque[Any] = deque()
        for each in result.results:
            if getattr(each, "_cache", self) is None:
                self.add_pending_result(each)
            if getattr(each, "_cache", self) is None:
                self._collect_into(each, bucket)
            else:
                bucket.append(each)  # there already, or a group, whose members are asked for later
        for _ in self._wait_for_pending(result, no_ack=no_ack, **kwargs):
            while bucket:
                yield self._pair(bucket.popleft())
        while bucket:
            yield self._pair(bucket.popleft())

    def _pair(self, node: Any) -> tuple[Any, Any]:
        return (node.id, node._cache) if hasattr(node, "_cache") else (node.id, node.children)

    @property
    def is_async(self) -> bool:
        """Whether results come by themselves."""
        return True


class BaseResultConsumer:
    """Receives records and hands them to the results that wait for them."""

    _connection_errors: tuple[type[BaseException], ...] = ()
    """Errors after which a new connection is tried."""

    def __init__(
        self, backend: Any, app: Any, accept: Any, pending_results: Any, pending_messages: Any
    ) -> None:
        self.backend = backend
        self.app = app
        self.accept = accept
        self._pending_results = pending_results
        self._pending_messages = pending_messages
        self.on_message: Callable[..., Any] | None = None
        self.buckets: dict[int, Any] = {}
        self.drainer = drainers[detect_environment()](self)

    # -- for subclasses ----------------------------------------------------------------------

    def start(self, initial_task_id: str, **kwargs: Any) -> None:
        """Connect, and receive the records of a task."""
        raise NotImplementedError

    def stop(self) -> None:
        """Disconnect."""

    def drain_events(self, timeout: float | None = None) -> None:
        """Receive what is there, or comes within ``timeout``."""
        raise NotImplementedError

    def consume_from(self, task_id: str) -> None:
        """Receive the records of a task as well."""
        raise NotImplementedError

    def cancel_for(self, task_id: str) -> None:
        """Receive the records of a task no more."""
        raise NotImplementedError

    def _reconnect(self) -> None:
        """Connect again."""

    # -- connections -------------------------------------------------------------------------

    @contextmanager
    def reconnect_on_error(self) -> Iterator[None]:
        """Connect again where the connection is lost in the block. ``RuntimeError`` if that is in
        vain."""
        try:
            yield
        except self._connection_errors:
            try:
                self._reconnect()
            except self._connection_errors as error:
                logger.critical(E_RETRY_LIMIT_EXCEEDED)
                raise RuntimeError(E_RETRY_LIMIT_EXCEEDED) from error

    def _after_fork(self) -> None:
        self.buckets = {}
        self.on_message = None
        self.on_after_fork()

    def on_after_fork(self) -> None:
        """In a forked child: what is connected belongs to the parent."""

    # -- receiving ---------------------------------------------------------------------------

    def drain_events_until(
        self,
        p: Any,
        timeout: float | None = None,
        on_interval: Callable[[], Any] | None = None,
    ) -> Iterator[None]:
        """Receive until promise ``p`` is kept."""
        return self.drainer.drain_events_until(p, timeout=timeout, on_interval=on_interval)

    def _wait_for_pending(
        self,
        result: Any,
        timeout: float | None = None,
        on_interval: Callable[[], Any] | None = None,
        on_message: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Iterator[None]:
        self.on_wait_for_pending(result, timeout=timeout, **kwargs)
        before, self.on_message = self.on_message, on_message
        try:
            for _ in self.drain_events_until(
                result.on_ready, timeout=timeout, on_interval=on_interval
            ):
                yield
        except TimedOut:
            raise TimeoutError("The operation timed out.") from None
        finally:
            self.on_message = before

    def on_wait_for_pending(self, result: Any, timeout: float | None = None, **kwargs: Any) -> None:
        """Before a wait; for subclasses."""

    def on_out_of_band_result(self, message: Any) -> None:
        """A record came for somebody else."""
        self.on_state_change(message.payload, message)

    def on_state_change(self, meta: dict[str, Any], message: Any) -> None:
        """A record came: hand it to who waits for it, or keep it."""
        if self.on_message is not None:
            self.on_message(meta)
        if meta["status"] not in states.READY_STATES:
            return
        task_id = meta["task_id"]
        waiting = [
            result
            for each in self._pending_results
            for result in list(each.pop(task_id, {}).values())
        ]
        if not waiting:
            self._pending_messages.put(task_id, meta)
        for result in waiting:
            result._maybe_set_cache(meta)
            bucket = self.buckets.pop(id(result), None)
            if bucket is not None:
                bucket.append(result)
        time.sleep(0)  # lets a greenlet that waits for it go on
