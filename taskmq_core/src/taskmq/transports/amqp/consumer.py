"""Receiving notices: one thread, with a connection of its own, for all exchanges of a transport.

*Credit.* A queue is consumed while an exchange has room for its jobs, with a prefetch of that room
(rounded up to a power of two, so that it changes seldom; twice that for many). The broker sends no
more than that until they are acknowledged. When an exchange has got all it wanted and none follows
at once, or when arrivals lie here unclaimed, the queue is not consumed any more. They go back to
the broker, where others get them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from taskmq.errors import SchemaMismatch, TransportError

from .broker import Broker, Link
from .errors import translate
from .notice import load
from .shelf import Arrival, Shelf
from .tags import Tags
from .topology import Declared, Topology

__all__ = ["Consumer"]

logger = logging.getLogger("taskmq.amqp")

MOST_CREDIT = 1024
BATCH = 16
"""From this room on the jobs are short, and the next batch is to come while one is claimed."""
LINGER = 0.05
"""Seconds for which the credit stays after an exchange that got all it wanted: the next is near."""
UNCLAIMED = 1.0
"""Seconds after which arrivals that no exchange came for go back."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a connection is tried again: doubled each time, half of it at random."""
UNTIL_READY, UNTIL_CONSUMED = 2.0, 0.2
"""Seconds for which an exchange waits for the first connection, and for a queue to be consumed."""
FIRST, AFTER_SOME, IN_ALL = 5, 0.15, 2.5
"""Shares of ``patience``: for the first arrival of a connection, for the next one after some have
come, and for all together."""


@dataclass
class Demand:
    credit: int
    stand_down_at: float | None = None


class Consumer:
    """Holds what has arrived on ``shelf``. ``on_arrival`` is called with the name of the queue."""

    def __init__(self, broker: Broker, on_arrival: Callable[[str], None]) -> None:
        self._broker = broker
        self._topology = Topology(broker)
        self._on_arrival = on_arrival
        self._link: Link | None = None
        self._bell = (-1, -1)
        self.renew()

    def renew(self) -> None:
        """Begin anew: at first, and in a child process."""
        if self._link is not None:
            self._link.abandon()
        for descriptor in self._bell:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.shelf = Shelf()
        self.is_up = False
        self._link = None
        self._number = 0  # of the link
        self._tags = Tags()
        self._thread: threading.Thread | None = None
        self._bell = (-1, -1)
        self._stop = threading.Event()
        self._starting = True  # no connection has come about or failed yet
        self._has_heard = False  # anything on this connection
        self._quiet = False  # the broker was silent although the store had something
        self._wrong: TransportError | None = None
        self._demand: dict[str, Demand] = {}
        self._consumed: dict[str, int] = {}
        self._acks: deque[Arrival] = deque()

    # -- exchanges ---------------------------------------------------------------------------

    def want(self, queues: Iterable[str], room: int) -> None:
        """An exchange with room for so many jobs of these queues begins.

        Raises `SchemaMismatch` where the broker has such a queue with other properties.
        """
        credit = min(MOST_CREDIT, 1 << (room - 1).bit_length())
        if room >= BATCH:
            credit *= 2
        is_new = False
        with self.shelf.changed:
            for queue in queues:
                self._demand[queue] = Demand(credit)
                consumed = self._consumed.get(queue, 0)
                is_new = is_new or consumed < credit or consumed > 4 * credit
            if self._thread is None and not self._stop.is_set():
                self._start()
        if self._wrong is not None:
            raise self._wrong
        if is_new:
            self._ring()

    def satisfied(self, queues: Iterable[str]) -> None:
        """An exchange has got all it wanted."""
        at = time.monotonic() + LINGER
        with self.shelf.changed:
            for queue in queues:
                if queue in self._demand:
                    self._demand[queue].stand_down_at = at
        self._ring()

    def done(self, arrivals: Iterable[Arrival]) -> None:
        """The store knows better now: the broker may forget them."""
        self._acks.extend(arrivals)
        self._ring()

    def await_arrivals(self, queues: Sequence[str], count: int, *, some: bool) -> bool:
        """The store has something: wait until the broker sends it, or is silent; whether anything
        is here. ``some``: other jobs are at hand and wait meanwhile."""
        with self.shelf.changed:
            longest = UNTIL_READY if self._starting else UNTIL_CONSUMED
            self.shelf.changed.wait_for(lambda: self._is_ready(queues), longest)
            self._starting = False
        if not self.is_up or self._quiet:
            return self.shelf.count(queues) > 0
        patience = self._broker.options.patience
        if not self._has_heard:  # of a new connection the first message takes longer
            patience *= FIRST
            self._has_heard = True
        has_arrivals = self.shelf.wait(
            queues,
            count,
            first=patience * AFTER_SOME if some else patience,
            next_=self._broker.options.patience * AFTER_SOME,
            longest=patience * IN_ALL,
        )
        self._quiet = not has_arrivals
        return has_arrivals

    def _is_ready(self, queues: Sequence[str]) -> bool:
        """Whether the broker knows that it may send, or nobody can tell it."""
        if self.is_up:
            return all(queue in self._consumed for queue in queues)
        return not self._starting

    def close(self) -> None:
        """Give everything back and end the connection."""
        self._stop.set()
        self._ring()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(5.0)
            reader, writer = self._bell
            self._bell = (-1, -1)
            os.close(reader)
            os.close(writer)

    # -- the thread --------------------------------------------------------------------------

    def _start(self) -> None:
        self._bell = os.pipe()
        for descriptor in self._bell:
            os.set_blocking(descriptor, False)
        self._thread = threading.Thread(target=self._run, name="taskmq-amqp", daemon=True)
        self._thread.start()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # full: it is rung already; closed: nobody listens
            os.write(self._bell[1], b"!")

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stop.is_set():
            try:
                self._connect()
                pause = FIRST_PAUSE
                self._serve()
            except Exception as error:
                self._failed(translate(error, self._broker.where))
            self._disconnect()
            if not self._stop.wait(pause * (0.5 + random.random() / 2)):
                pause = min(LONGEST_PAUSE, 2 * pause)

    def _connect(self) -> None:
        link = self._link = self._broker.open(heartbeat=self._broker.options.heartbeat)
        self._number += 1
        self._tags = Tags()
        self._declared = Declared(self._topology, link)
        if self._wrong is None and self._number > 1:
            logger.info("connected to the broker %s again", self._broker.where)

    def _serve(self) -> None:
        link = self._link
        assert link is not None  # noqa: S101  # just connected
        heartbeat = self._broker.options.heartbeat
        beat_at = time.monotonic() + heartbeat / 3
        while not self._stop.is_set():
            self._hear_bell()
            self._acknowledge(link)
            self._stand_down(link)
            self._consume(link)
            link.drain_all(self._bell[0], self._idle_time(heartbeat))
            if heartbeat and time.monotonic() >= beat_at:
                link.heartbeat()
                beat_at = time.monotonic() + heartbeat / 3
        self._acknowledge(link)
        self._give_back(link, self.shelf.clear())

    def _failed(self, error: TransportError) -> None:
        self._wrong = error if isinstance(error, SchemaMismatch) else None
        if self.is_up or self._starting:
            logger.warning("%s; jobs come from the state store meanwhile", error)

    def _disconnect(self) -> None:
        """What had arrived comes again, to whoever is connected then."""
        link, self._link = self._link, None
        with self.shelf.changed:
            self.is_up = self._starting = self._quiet = self._has_heard = False
            self._consumed.clear()
            self._acks.clear()
            self.shelf.clear()
            self.shelf.changed.notify_all()
        if link is not None:
            link.close()

    # -- one round ---------------------------------------------------------------------------

    def _consume(self, link: Link) -> None:
        with self.shelf.changed:
            wanted = {queue: demand.credit for queue, demand in self._demand.items()}
        has_changed = False
        for queue, credit in wanted.items():
            consumed = self._consumed.get(queue, 0)
            if credit <= consumed <= 4 * credit:
                continue
            if consumed:
                link.channel.basic_cancel(queue)
            self._declared.queue(queue)
            link.channel.basic_qos(0, credit, False)
            link.channel.basic_consume(
                self._topology.queue(queue),
                no_ack=False,
                consumer_tag=queue,
                callback=lambda message, queue=queue: self._receive(link, queue, message),
            )
            with self.shelf.changed:
                self._consumed[queue] = credit
            has_changed = True
        if has_changed or not self.is_up:
            with self.shelf.changed:
                self.is_up = True
                self._wrong = None
                self.shelf.changed.notify_all()

    def _receive(self, link: Link, queue: str, message: Any) -> None:
        tag = message.delivery_tag
        notice = load(message.body)
        if notice is None or notice.queue != queue:
            logger.warning("queue %s holds a message that is not ours; rejected", queue)
            link.channel.basic_reject(tag, requeue=False)
            return
        if self._broker.is_amqp:
            self._tags.received(tag)
        self.shelf.put(Arrival(notice, tag, self._number))
        self._quiet, self._has_heard = False, True
        with self.shelf.changed:
            demand = self._demand.get(queue)
            if demand is not None and demand.stand_down_at is None:
                demand.stand_down_at = time.monotonic() + UNCLAIMED
        self._on_arrival(queue)

    def _acknowledge(self, link: Link) -> None:
        tags = []
        while self._acks:
            arrival = self._acks.popleft()
            if arrival.link == self._number:
                tags.append(arrival.tag)
        if not tags:
            return
        if self._broker.is_amqp:
            for tag, multiple in self._tags.acknowledge(tags):
                link.channel.basic_ack(tag, multiple)
        else:
            for tag in tags:
                link.channel.basic_ack(tag)

    def _stand_down(self, link: Link) -> None:
        now = time.monotonic()
        with self.shelf.changed:
            over = [
                queue
                for queue, demand in self._demand.items()
                if demand.stand_down_at is not None and demand.stand_down_at <= now
            ]
            for queue in over:
                del self._demand[queue]
        for queue in over:
            if self._consumed.get(queue):
                link.channel.basic_cancel(queue)
                with self.shelf.changed:
                    self._consumed.pop(queue)
            self._give_back(link, self.shelf.clear(queue))

    def _give_back(self, link: Link, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            if arrival.link == self._number:
                link.channel.basic_reject(arrival.tag, requeue=True)
                if self._broker.is_amqp:
                    self._tags.rejected(arrival.tag)

    def _idle_time(self, heartbeat: float) -> float:
        longest = heartbeat / 3 if heartbeat else 60.0
        with self.shelf.changed:
            instants = [
                demand.stand_down_at
                for demand in self._demand.values()
                if demand.stand_down_at is not None
            ]
        return max(0.0, min([longest, *(at - time.monotonic() for at in instants)]))

    # -- the bell ----------------------------------------------------------------------------

    def _hear_bell(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._bell[0], 65536)
