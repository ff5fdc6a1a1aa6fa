"""Sending notices: in batches, confirmed by the broker, in bounded time.

One link for all threads of the process, under a lock. It has no heartbeats, for nobody reads from
it between two batches; whether it still works shows a probe before a batch, where the last answer
is not a second old.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from taskmq.errors import TransportError, TransportUnavailable
from taskmq.patience import left

from .broker import Broker, Link
from .errors import translate
from .notice import CONTENT_TYPE, Notice, dump
from .topology import Declared, Topology, delay_step

__all__ = ["Publisher"]

logger = logging.getLogger("taskmq.amqp")

TRANSIENT = 1
"""How messages are delivered: the store has the job. What a broker that restarts has forgotten
comes from there, and one that writes messages to its disk keeps each submit waiting for that."""
WINDOW = 2_000
"""How many messages are sent before an answer is waited for."""
FRESH = 1.0
"""Seconds for which an answer of the broker shows that it takes messages."""
UNREAD = 256
"""How many answers may wait to be read, where nobody waits for them."""
LEAVE_ALONE = 5.0
"""Seconds without a further try, after a failure, of what may as well not be sent."""


class Publisher:
    """Sends notices of jobs that are in the state store."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topology = Topology(broker)
        self._timeout = broker.options.publish_timeout
        self._link: Link | None = None
        self.renew()

    def renew(self) -> None:
        """Begin anew: at first, and in a child process."""
        if self._link is not None:
            self._link.abandon()
        self._lock = threading.Lock()
        self._link = None
        self._declared: Declared | None = None
        self._answered_at = float("-inf")
        self._failed_at = float("-inf")
        self._blocked = False
        self._unconfirmed: set[int] = set()
        self._refused = 0
        self._returned: set[str] = set()
        self._sent = 0
        self._confirmed = 0

    def prepare(self, queues: Iterable[str]) -> None:
        """Make sure that the broker takes messages for these queues, now.

        Raises `TransportUnavailable` within ``publish_timeout``, and `SchemaMismatch` where a queue
        has other properties.
        """
        with self._use() as (link, declared, deadline):
            for queue in queues:
                declared.queue(queue)
            if time.monotonic() - self._answered_at > FRESH:
                self._probe(link, deadline)
                self._answered_at = time.monotonic()

    def publish(self, notices: Sequence[Notice], now: float | None) -> None:
        """Send notices and wait until the broker has them. Raises what `prepare` does.

        With ``now``, those that are due later wait at the broker.
        """
        with self._use() as (link, declared, deadline):
            self._send(link, declared, notices, now, deadline)
            self._confirm(link, deadline)
            self._answered_at = time.monotonic()
            if self._returned:  # somebody deleted a queue
                again = [each for each in notices if each.queue in self._returned]
                for queue in self._returned:
                    declared.forget(queue)
                self._returned.clear()
                self._send(link, declared, again, now, deadline)
                self._confirm(link, deadline)

    def offer(self, notices: Sequence[Notice], now: float | None) -> bool:
        """Send notices that may as well be lost, and mostly wait for no answer; false if they are
        not sent, and then it is not tried again for a while."""
        if self.has_failed:
            return False
        try:
            with self._use() as (link, declared, deadline):
                if self._blocked:  # a new connection shows whether that is over
                    raise TransportUnavailable(f"the broker {self._broker.where} is blocked")
                self._send(link, declared, notices, now, deadline)
                if len(self._unconfirmed) > UNREAD:
                    self._confirm(link, deadline)
        except TransportError as error:
            logger.debug("%d notices not sent: %s", len(notices), error)
            return False
        return True

    @property
    def unconfirmed(self) -> int:
        """How many messages have been sent for which no answer has been read."""
        return len(self._unconfirmed)

    @property
    def has_failed(self) -> bool:
        """Whether it failed a moment ago."""
        return time.monotonic() - self._failed_at < LEAVE_ALONE

    def purge(self, queue: str) -> None:
        """Delete the messages of a queue, if the broker can be reached."""
        try:
            with self._use() as (link, declared, _):
                declared.queue(queue)
                link.channel.queue_purge(queue=self._topology.queue(queue))
        except TransportError as error:
            logger.debug("messages of %s not purged: %s", queue, error)

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._disconnect(Link.close)

    # -- one use of the link -----------------------------------------------------------------

    @contextmanager
    def _use(self) -> Iterator[tuple[Link, Declared, float]]:
        seconds = left(self._timeout)
        deadline = time.monotonic() + seconds
        if not self._lock.acquire(timeout=seconds):
            raise TransportUnavailable(f"the broker {self._broker.where} did not answer in time")
        try:
            link = self._link or self._connect()
            assert self._declared is not None  # noqa: S101  # made with the link
            link.grant(left(self._timeout))
            yield link, self._declared, deadline
        except Exception as error:
            self._failed_at = time.monotonic()
            self._disconnect(Link.drop)
            raise translate(error, self._broker.where) from error
        except BaseException:
            self._disconnect(Link.drop)  # interrupted: nobody knows where
            raise
        finally:
            self._lock.release()

    def _connect(self) -> Link:
        self._blocked = False
        self._sent = self._confirmed = self._refused = 0
        link = self._broker.open(heartbeat=0, on_blocked=self._on_blocked)
        self._link, self._declared = link, Declared(self._topology, link)
        if self._broker.is_amqp:
            events: Any = link.channel.events
            events["basic_ack"].add(self._on_ack)
            events["basic_nack"].add(self._on_nack)
            events["basic_return"].add(self._on_return)
            link.channel.confirm_select()
        return link

    def _disconnect(self, end: Callable[[Link], None]) -> None:
        link, self._link, self._declared = self._link, None, None
        self._unconfirmed.clear()
        self._returned.clear()
        self._answered_at = float("-inf")
        if link is not None:
            end(link)

    def _send(
        self,
        link: Link,
        declared: Declared,
        notices: Sequence[Notice],
        now: float | None,
        deadline: float,
    ) -> None:
        steps = [
            None if now is None or notice.due is None else delay_step(notice.due - now)
            for notice in notices
        ]
        for queue in {notice.queue for notice in notices}:
            declared.queue(queue)
        for lifetime in {step for step in steps if step is not None}:
            declared.delay(lifetime)
        for start in range(0, len(notices), WINDOW):
            with link.gathered(len(notices)):
                for notice, step in zip(
                    notices[start : start + WINDOW], steps[start : start + WINDOW], strict=True
                ):
                    self._send_one(link, notice, step)
            if start + WINDOW < len(notices):
                self._confirm(link, deadline)

    def _send_one(self, link: Link, notice: Notice, step: float | None) -> None:
        properties = self._properties(notice)
        exchange = self._topology.exchange
        if step is not None:
            exchange = self._topology.delay_exchange
            properties["headers"] = {"delay": f"{step:g}"}
        self._sent += 1
        if self._broker.is_amqp:
            self._unconfirmed.add(self._sent)
        link.publish(dump(notice), properties, exchange, notice.queue)

    def _properties(self, notice: Notice) -> dict[str, Any]:
        return {
            "content_type": CONTENT_TYPE,
            "delivery_mode": TRANSIENT,
            "message_id": notice.job,
            "priority": self._broker.priority_of(notice.priority),
        }

    def _probe(self, link: Link, deadline: float) -> None:
        """A message to nobody: the broker confirms it if it takes messages at all."""
        if not self._broker.is_amqp:
            return
        self._sent += 1
        self._unconfirmed.add(self._sent)
        properties = {"content_type": CONTENT_TYPE}
        link.publish(b"", properties, self._topology.exchange, "\0probe")
        self._confirm(link, deadline)
        self._returned.discard("\0probe")

    def _confirm(self, link: Link, deadline: float) -> None:
        while self._unconfirmed or self._blocked:
            left = deadline - time.monotonic()
            try:
                link.drain(max(0.001, left))
            except TimeoutError:
                raise TransportUnavailable(self._unanswered()) from None
        if self._refused:
            refused, self._refused = self._refused, 0
            raise TransportUnavailable(
                f"the broker {self._broker.where} refused {refused} messages (a policy or its disk)"
            )

    def _unanswered(self) -> str:
        where, seconds = self._broker.where, f"{self._timeout:g} s (publish_timeout)"
        if self._blocked:
            return (
                f"the broker {where} takes no messages: its memory or disk alarm is on; waited "
                f"{seconds}. See `rabbitmqctl status`, and free memory or disk there"
            )
        return f"the broker {where} did not confirm messages within {seconds}"

    # -- what the broker says ----------------------------------------------------------------

    def _on_ack(self, tag: int, multiple: bool) -> None:
        if multiple:
            self._unconfirmed.difference_update(range(self._confirmed + 1, tag + 1))
            self._confirmed = max(self._confirmed, tag)
        else:
            self._unconfirmed.discard(tag)

    def _on_nack(self, tag: int, multiple: bool) -> None:
        before = len(self._unconfirmed)
        self._on_ack(tag, multiple)
        self._refused += before - len(self._unconfirmed)

    def _on_return(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        if message.properties.get("message_id"):
            self._returned.add(routing_key)

    def _on_blocked(self, is_blocked: bool) -> None:
        self._blocked = is_blocked
