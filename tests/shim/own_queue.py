"""A queue of a program's own beside those of tasks, and the consumer step that reads it."""

from __future__ import annotations

import queue
from typing import Any

from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer

from celery import Celery, bootsteps


class OwnQueue:
    """Named ``own``. What its step is handed comes to ``got``."""

    def __init__(self) -> None:
        self.got: queue.SimpleQueue[Any] = queue.SimpleQueue()
        own = self._queue = Queue("own", Exchange("own"), "own")
        got = self.got

        class Own(bootsteps.ConsumerStep):
            def get_consumers(self, channel: Any) -> Any:
                return [Consumer(channel, queues=[own], callbacks=[self.handle], accept=["json"])]

            def handle(self, body: Any, message: Any) -> None:
                message.ack()
                got.put(body)

        self.step = Own

    def publish(self, app: Celery, body: Any) -> None:
        """Send a message there; the queue is made if need be."""
        own = self._queue
        with app.producer_or_acquire() as producer:
            producer.publish(body, exchange=own.exchange, routing_key="own", declare=[own])
