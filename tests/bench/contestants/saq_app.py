"""SAQ, on Redis or PostgreSQL. It has no joins of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import saq  # type: ignore[import-not-found]  # in an environment of its own

from .base import Contestant, Order, echo, mark

BULK = 100
TIMEOUT = 60
NOT_KEPT = -1
"""A time to live: the result of a job, and the job, are gone when it has run."""


async def mark_one(context: Any, *, number: int) -> None:
    mark(number)


async def echo_one(context: Any, *, number: int) -> int:
    return echo(number)


def settings() -> dict[str, Any]:
    """What its worker is started with."""
    order = Order.current()
    queue = saq.Queue.from_url(order.url, name="bench")
    functions = [mark_one, echo_one]
    return {"queue": queue, "functions": functions, "concurrency": order.concurrency}


class Queue(Contestant):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.loop = asyncio.new_event_loop()
        self.queue = saq.Queue.from_url(order.url, name="bench")
        self.loop.run_until_complete(self.queue.connect())

    def submit(self, number: int) -> object:
        return self.loop.run_until_complete(self._submit(number))

    def submit_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), BULK):
            self.loop.run_until_complete(self._submit_all(numbers[start : start + BULK]))

    async def _submit_all(self, numbers: range) -> None:
        await asyncio.gather(*[self._submit(number) for number in numbers])

    async def _submit(self, number: int) -> object:
        return await self.queue.enqueue("mark_one", number=number, ttl=NOT_KEPT)

    def echo(self, number: int) -> int:
        return self.loop.run_until_complete(self._echo(number))

    async def _echo(self, number: int) -> int:
        job = await self.queue.enqueue("echo_one", number=number)
        await job.refresh(TIMEOUT)
        result: int = job.result
        return result

    def commands(self) -> list[list[str]]:
        command = self.python("-m", "saq", f"{__name__}.settings", "--quiet")
        return [[*command, "--workers", str(self.order.processes)]]
