"""dramatiq, with the results backend where results are asked for."""

from __future__ import annotations

from typing import Any

import dramatiq  # type: ignore[import-not-found]  # in an environment of its own
from dramatiq.brokers.rabbitmq import RabbitmqBroker  # type: ignore[import-not-found]  # likewise
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]  # likewise
from dramatiq.middleware import GroupCallbacks  # type: ignore[import-not-found]  # likewise
from dramatiq.rate_limits.backends import (  # type: ignore[import-not-found]  # likewise
    RedisBackend as Limits,
)
from dramatiq.results import Results  # type: ignore[import-not-found]  # likewise
from dramatiq.results.backends import RedisBackend  # type: ignore[import-not-found]  # likewise

from .base import Contestant, Order, echo, increment, mark

TIMEOUT = 60_000

order = Order.current()
WITH_RESULTS = order.workload in ("round_trip", "chain", "fan_out")
kept = {"store_results": True} if WITH_RESULTS else {}
if order.store == "redis":
    broker = RedisBroker(url=order.url)
else:
    broker = RabbitmqBroker(url=order.url.partition("?")[0], confirm_delivery=True)
if WITH_RESULTS:
    broker.add_middleware(Results(backend=RedisBackend(url=order.url)))
    broker.add_middleware(GroupCallbacks(Limits(url=order.url)))
dramatiq.set_broker(broker)


def count(number: int) -> int:
    return number


marks = dramatiq.actor(mark)
echoes = dramatiq.actor(echo, **kept)
increments = dramatiq.actor(increment, **kept)
counts = dramatiq.actor(count, **kept)


class Queue(Contestant):
    def submit(self, number: int) -> object:
        return marks.send(number)

    def submit_many(self, numbers: range) -> None:
        dramatiq.group(marks.message(number) for number in numbers).run()

    def echo(self, number: int) -> int:
        result: int = echoes.send(number).get_result(block=True, timeout=TIMEOUT)
        return result

    def chain(self, length: int) -> int:
        steps = [increments.message(0), *[increments.message() for _ in range(length - 1)]]
        result: int = dramatiq.pipeline(steps).run().get_result(block=True, timeout=TIMEOUT)
        return result

    def fan_out(self, width: int) -> int:
        last: Any = counts.message(width)  # its callback is given no results
        members = dramatiq.group([echoes.message(number) for number in range(width)])
        members.add_completion_callback(last)
        members.run()
        result: int = last.get_result(block=True, timeout=TIMEOUT)
        return result

    def commands(self) -> list[list[str]]:
        sizes = ["--processes", str(self.order.processes), "--threads", str(self.order.concurrency)]
        return [self.python("-m", "dramatiq", __name__, "--skip-logging", *sizes)]
