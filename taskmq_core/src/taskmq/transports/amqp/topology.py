"""What there is at the broker: one exchange and one queue for each queue of the app, and for delays
a few queues that nobody reads.

    NS             direct exchange      routing key = name of the queue
    NS.QUEUE       queue                bound to NS
    NS.delay       headers exchange     header ``delay`` = seconds
    NS.delay.S     queue                messages live S seconds, then go to NS with their own key;
                                        deleted by the broker when it has been idle for long enough

Everything is declared by whoever needs it first, always with the same properties.
"""

from __future__ import annotations

import math
import time
from typing import Any

from .broker import Broker, Link

__all__ = ["LONGEST_DELAY", "SHORTEST_DELAY", "Declared", "Topology", "delay_step"]

SHORTEST_DELAY = 1.0
"""Seconds. What is due sooner is sent at once; whoever gets it keeps it in mind."""
LONGEST_DELAY = 3600.0
"""What is due later makes the way several times."""
STEPS = 4
"""Delay queues between one power of two and the next: a delay is cut by a fifth at most."""
DELAY_IDLE = 120.0
"""Seconds for which a delay queue outlives the messages in it."""


def delay_step(seconds: float) -> float | None:
    """The lifetime of the delay queue for a message that is due in so many seconds: never longer,
    and at least four fifths. ``None``: not worth it.

    >>> delay_step(100.0)
    96.0
    """
    if seconds < SHORTEST_DELAY:
        return None
    seconds = min(seconds, LONGEST_DELAY)
    unit = 2.0 ** math.floor(math.log2(seconds)) / STEPS
    return math.floor(seconds / unit) * unit


class Topology:
    """Names, and their declaration over one link."""

    def __init__(self, broker: Broker) -> None:
        self._options = broker.options
        self._is_amqp = broker.is_amqp
        self.exchange = broker.options.namespace
        self.delay_exchange = f"{self.exchange}.delay"

    def queue(self, name: str) -> str:
        """The broker's name of a queue."""
        return f"{self.exchange}.{name}"

    def declare(self, link: Link, queue: str) -> None:
        """Make exchange and queue, where they are missing."""
        name = self.queue(queue)
        self._declare_exchange(link, self.exchange, "direct")
        link.channel.queue_declare(
            queue=name, durable=True, auto_delete=False, arguments=self._arguments()
        )
        link.channel.queue_bind(queue=name, exchange=self.exchange, routing_key=queue)

    def declare_delay(self, link: Link, step: float) -> None:
        """Make the delay queue of so many seconds, or let it live on."""
        name = f"{self.delay_exchange}.{step:g}"
        self._declare_exchange(link, self.delay_exchange, "headers")
        arguments = {
            "x-message-ttl": round(step * 1000),
            "x-expires": round((step + DELAY_IDLE) * 1000),
            "x-dead-letter-exchange": self.exchange,
        }
        link.channel.queue_declare(queue=name, durable=True, auto_delete=False, arguments=arguments)
        binding = {"delay": f"{step:g}", "x-match": "all"}
        link.channel.queue_bind(queue=name, exchange=self.delay_exchange, arguments=binding)

    def _declare_exchange(self, link: Link, name: str, type_: str) -> None:
        # With queues that expire, an exchange goes with the last of them.
        temporary = self._options.queue_expires is not None
        link.channel.exchange_declare(
            exchange=name, type=type_, durable=True, auto_delete=temporary
        )

    def _arguments(self) -> dict[str, Any]:
        options = self._options
        arguments: dict[str, Any] = {}
        if self._is_amqp and options.queue_type == "quorum":
            arguments["x-queue-type"] = "quorum"
        elif options.max_priority:
            arguments["x-max-priority"] = options.max_priority
        if options.queue_expires is not None:
            arguments["x-expires"] = round(options.queue_expires * 1000)
        return arguments


class Declared:
    """What was declared over one link, and when; names are declared again after a while only where
    they can expire."""

    def __init__(self, topology: Topology, link: Link) -> None:
        self._topology = topology
        self._link = link
        self._queues: set[str] = set()
        self._delays: dict[float, float] = {}

    def queue(self, name: str) -> None:
        if name not in self._queues:
            self._topology.declare(self._link, name)
            self._queues.add(name)

    def delay(self, step: float) -> None:
        now = time.monotonic()
        if now - self._delays.get(step, -math.inf) > DELAY_IDLE / 2:
            self._topology.declare_delay(self._link, step)
            self._delays[step] = now

    def forget(self, queue: str) -> None:
        """A queue is gone."""
        self._queues.discard(queue)
