"""pgqueuer with batches of 100."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import asyncpg  # type: ignore[import-not-found]  # in an environment of its own
from pgqueuer import AsyncpgDriver, PgQueuer, Queries  # type: ignore[import-not-found]  # likewise

from .base import Contestant, Order, mark

BATCH, BULK = 100, 1000


async def serve() -> None:
    connection = await asyncpg.connect(Order.current().url)
    queue = PgQueuer(AsyncpgDriver(connection))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)

    async def run(job: Any) -> None:
        mark(int(job.payload))

    queue.entrypoint("mark")(run)
    await queue.run(batch_size=BATCH)


class Queue(Contestant):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.loop = asyncio.new_event_loop()
        self.queries = self.loop.run_until_complete(self._open())

    async def _open(self) -> Any:
        queries = Queries(AsyncpgDriver(await asyncpg.connect(self.order.url)))
        await queries.install()
        return queries

    def submit(self, number: int) -> object:
        return self.loop.run_until_complete(self.queries.enqueue("mark", str(number).encode()))

    def submit_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), BULK):
            batch = [str(number).encode() for number in numbers[start : start + BULK]]
            names, priorities = ["mark"] * len(batch), [0] * len(batch)
            self.loop.run_until_complete(self.queries.enqueue(names, batch, priorities))

    def commands(self) -> list[list[str]]:
        return [self.python("-m", __name__, "serve")] * self.order.processes


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    asyncio.run(serve())
