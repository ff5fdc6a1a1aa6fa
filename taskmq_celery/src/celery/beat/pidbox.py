"""A beat that can be asked whether it lives: ``celery inspect ping -d celerybeat@host``."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from kombu.pidbox import Node

from celery import beat
from celery.utils.collections import AttributeDict
from celery.utils.nodenames import default_nodename, host_format
from celery.utils.time import humanize_seconds

from .scheduler import DEFAULT_MAX_INTERVAL

__all__ = ("BeatPidbox", "beat_nodename")

NODENAME_DEFAULT = "celerybeat"
GIVEN_UP = (
    "beat: could not connect to the broker for remote control, and does not answer any more: %r "
    "(broker_connection_retry, broker_connection_retry_on_startup and "
    "broker_connection_max_retries say how often it tries)"
)


def beat_nodename(hostname: str | None = None) -> str:
    """The name that a beat answers by: ``celerybeat@host`` unless something else is given."""
    return host_format(default_nodename(hostname, NODENAME_DEFAULT))


class _Stopping(BaseException):
    """Ends a connection attempt: nobody needs it any more."""


class _BeatNode(Node):
    """Leaves messages unanswered while the scheduler hangs: silence is what probes notice."""

    beat_pidbox: Any = None

    def dispatch(self, method: str, *args: Any, **kwargs: Any) -> Any:
        box = self.beat_pidbox
        if box is not None and box.is_stale():
            beat.warning(
                "beat: no answer to %r: the last look at the schedule was %.1f seconds ago",
                *(method, box.tick_age()),
            )
            return None
        answer: Any = Node.dispatch
        return answer(self, method, *args, **kwargs)


class BeatPidbox:
    """Answers ``ping`` for a `Service`, in a thread of its own, as long as it ticks."""

    retry_interval = 5.0
    """Seconds between the loss of a connection and the next attempt."""
    join_timeout = 3.0
    min_tick_age = 60.0
    """A shorter silence of the scheduler is never taken for a fault."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.app = service.app
        self.hostname = beat_nodename(service.hostname)
        self.state = AttributeDict(app=self.app, hostname=self.hostname)
        make: Any = _BeatNode
        self.node = make(
            self.hostname,
            state=self.state,
            handlers={"ping": self._ping},
            mailbox=self.app.control.mailbox,
        )
        self.node.beat_pidbox = self
        self.thread: threading.Thread | None = None
        self.first_connection_attempt = True
        self._shutdown = threading.Event()

    def _ping(self, state: Any, **_kwargs: Any) -> dict[str, str]:
        return {"ok": "pong"}

    # -- is it well? -------------------------------------------------------------------------

    @property
    def max_tick_age(self) -> float:
        """Seconds of silence of the scheduler from which on it is taken to hang; 0: for ever."""
        given = self.app.conf.beat_remote_control_max_tick_age
        if given is not None:
            return float(given)
        service = self.service
        interval = service.effective_max_interval or service.max_interval or DEFAULT_MAX_INTERVAL
        return max(2.0 * interval, self.min_tick_age)

    def tick_age(self) -> float | None:
        """Seconds since the last look at the schedule; ``None`` before the first."""
        last = self.service._last_tick
        return None if last is None else time.monotonic() - last

    def is_stale(self) -> bool:
        """Whether the scheduler hangs."""
        age, most = self.tick_age(), self.max_tick_age
        return bool(age is not None and most and age > most)

    # -- its life ----------------------------------------------------------------------------

    def fanout_support(self) -> tuple[bool, Any]:
        """Whether the broker can broadcast, and what it is."""
        connection = self.app.connection_for_read()
        try:
            return connection.supports_exchange_type("fanout"), connection.transport_cls
        finally:
            connection.release()

    def start(self) -> None:
        """Answer from now on, if the broker can broadcast."""
        if self.thread is not None:
            return
        supported, transport = self.fanout_support()
        if not supported:
            beat.warning("beat: no remote control: the broker %s cannot broadcast", transport)
            return
        self._shutdown.clear()
        self.first_connection_attempt = True
        self.thread = threading.Thread(target=self._loop, name="beat-pidbox", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._shutdown.set()
        if self.thread is None:
            return
        self.thread.join(timeout=self.join_timeout)
        if self.thread.is_alive():
            beat.warning(
                "beat: remote control does not end: waited %s",
                humanize_seconds(self.join_timeout),
            )
        else:
            self.thread = None

    # -- the thread --------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._shutdown.is_set():
            connected = False
            try:
                connection = self._connect()
                connected = True
                with connection as open_connection:
                    self._consume_from(open_connection)
            except _Stopping:
                return
            except Exception as exc:
                if self._shutdown.is_set():
                    return
                if not connected:
                    beat.error(GIVEN_UP, exc)
                    beat.warning("beat: remote control is over: %r", exc)
                    return
                beat.warning("beat: remote control lost its connection: %r", exc)
                if not self.app.conf.broker_connection_retry:
                    return
                self._shutdown.wait(self.retry_interval)

    def _connect(self) -> Any:
        connection = self.app.connection_for_read()
        retries = self._retries()
        self.first_connection_attempt = False
        try:
            connection.ensure_connection(
                self._error_handler, retries, callback=self._abort_if_stopping
            )
        except BaseException:
            connection.release()
            raise
        return connection

    def _retries(self) -> Any:
        """How often to try: on the first time another setting may say whether to try again."""
        conf = self.app.conf
        wanted = conf.broker_connection_retry
        if self.first_connection_attempt and conf.broker_connection_retry_on_startup is not None:
            wanted = conf.broker_connection_retry_on_startup
        return conf.broker_connection_max_retries if wanted else 0

    def _abort_if_stopping(self) -> None:
        if self._shutdown.is_set():
            raise _Stopping

    def _error_handler(self, exc: Exception, interval: float) -> None:
        again = humanize_seconds(interval, "in", " ")
        beat.error("beat: remote control: %s. Trying again %s...", exc, again)

    def _consume_from(self, connection: Any) -> None:
        channel = connection.channel()
        self.node.channel = channel
        consumer = self.node.listen(channel=channel, callback=self.on_message)
        try:
            while not self._shutdown.is_set():
                with suppress(TimeoutError):
                    connection.drain_events(timeout=1.0)
        finally:
            with suppress(Exception):  # the connection may be what has failed
                consumer.cancel()

    def on_message(self, body: Any, message: Any) -> None:
        """Answer what is known; whatever is wrong with a message ends nothing."""
        if not isinstance(body, dict) or body.get("method") not in self.node.handlers:
            return
        try:
            self.node.handle_message(body, message)
        except Exception as exc:
            beat.error("beat: remote control: %r failed: %r", body["method"], exc, exc_info=True)
