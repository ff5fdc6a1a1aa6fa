"""taskiq on a stream of Redis, which acknowledges what has run. It has no joins of its own."""

from __future__ import annotations

import asyncio

from taskiq_redis import (  # type: ignore[import-not-found]  # in an environment of its own
    RedisAsyncResultBackend,
    RedisStreamBroker,
)

from .base import Contestant, Order, echo, mark

BULK = 100
TIMEOUT = 60
CHECK_EVERY = 0.002
"""Seconds. It polls for results, five times a second unless told otherwise."""

order = Order.current()
broker = RedisStreamBroker(order.url, queue_name="bench", consumer_id="0")
if order.workload == "round_trip":
    broker = broker.with_result_backend(RedisAsyncResultBackend(order.url, result_ex_time=600))


@broker.task(task_name="mark")  # type: ignore[untyped-decorator]  # of a library without types here
async def mark_one(number: int) -> None:
    mark(number)


@broker.task(task_name="echo")  # type: ignore[untyped-decorator]  # likewise
async def echo_one(number: int) -> int:
    return echo(number)


class Queue(Contestant):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(broker.startup())

    def submit(self, number: int) -> object:
        return self.loop.run_until_complete(mark_one.kiq(number))

    def submit_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), BULK):
            self.loop.run_until_complete(self._submit_all(numbers[start : start + BULK]))

    async def _submit_all(self, numbers: range) -> None:
        await asyncio.gather(*[mark_one.kiq(number) for number in numbers])

    def echo(self, number: int) -> int:
        return self.loop.run_until_complete(self._echo(number))

    async def _echo(self, number: int) -> int:
        task = await echo_one.kiq(number)
        done = await task.wait_result(timeout=TIMEOUT, check_interval=CHECK_EVERY)
        result: int = done.return_value
        return result

    def commands(self) -> list[list[str]]:
        sizes = ["--workers", str(self.order.processes), "--max-async-tasks", "100"]
        where = f"{__name__}:broker"
        command = ["-m", "taskiq", "worker", where, "--log-level", "WARNING", *sizes]
        return [self.python(*command)]
