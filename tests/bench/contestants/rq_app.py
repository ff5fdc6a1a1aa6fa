"""RQ with its ``SimpleWorker``, which does not fork for each job: the fastest it has."""

from __future__ import annotations

from redis import Redis
from rq import Queue as RqQueue  # type: ignore[import-not-found]  # in an environment of its own

from .base import Contestant, Order, echo, mark

BULK = 500
TIMEOUT = 60


class Queue(Contestant):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.queue = RqQueue("bench", connection=Redis.from_url(order.url))

    def submit(self, number: int) -> object:
        return self.queue.enqueue(mark, number)

    def submit_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), BULK):
            batch = numbers[start : start + BULK]
            self.queue.enqueue_many([RqQueue.prepare_data(mark, (number,)) for number in batch])

    def echo(self, number: int) -> int:
        result: int = self.queue.enqueue(echo, number).latest_result(timeout=TIMEOUT).return_value
        return result

    def commands(self) -> list[list[str]]:
        command = self.python("-m", "rq.cli", "worker", "bench", "--url", self.order.url, "--quiet")
        return [[*command, "--worker-class", "rq.SimpleWorker"]] * self.order.processes
