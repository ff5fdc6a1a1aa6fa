"""No queue at all: one process writes a number into a list, another that sleeps in a blocking read
of it runs the job. What a queue takes beside that is its own; the rest is machine and driver."""

from __future__ import annotations

from redis import Redis

from .base import Contestant, Order, mark

KEY = "queue"


class Queue(Contestant):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.client = Redis.from_url(order.url)

    def submit(self, number: int) -> object:
        return self.client.lpush(KEY, number)

    def commands(self) -> list[list[str]]:
        return [self.python("-m", __name__)] * self.order.processes


def work() -> None:
    """The worker, until it is killed."""
    client = Redis.from_url(Order.current().url)
    while True:
        found = client.brpop([KEY])
        assert isinstance(found, list | tuple)
        mark(int(found[1]))


if __name__ == "__main__":
    work()
