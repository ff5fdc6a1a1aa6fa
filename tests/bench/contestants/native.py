"""taskmq by its own API."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taskmq import App, Config
from taskmq.worker import Worker
from taskmq.workflow import Workflow

from .base import Contestant, Order, count, echo, increment, mark

BULK = {"postgres": 1_000}
"""Jobs at once, where the peers on that store are given another number than `USUAL`."""
USUAL = 500
TIMEOUT = 60.0
URGENT = 9


def make_app(order: Order) -> App:
    """Its job is a coroutine where the pool is made for such."""
    app = App(
        Config.from_env(
            {},
            transport=order.url,
            pool=order.pool,
            concurrency=order.concurrency,
            publish_timeout=TIMEOUT,
        )
    )
    body = mark_async if order.pool == "asyncio" else mark
    app.task(name="mark", store_result=False)(body)
    app.task(name="echo")(echo)
    app.task(name="increment")(increment)
    app.task(name="count")(count)
    return app


async def mark_async(number: int) -> None:
    mark(number)


app = make_app(Order.current())


class Queue(Contestant):
    def submit(self, number: int) -> object:
        return app.tasks["mark"].submit(number)

    def submit_many(self, numbers: range) -> None:
        size = BULK.get(self.order.store, USUAL)
        for start in range(0, len(numbers), size):
            app.tasks["mark"].submit_many([(number,) for number in numbers[start : start + size]])

    def submit_urgent(self, number: int) -> object:
        return app.tasks["mark"].submit(number, priority=URGENT)

    def echo(self, number: int) -> int:
        result: int = app.tasks["echo"].submit(number).get(TIMEOUT)
        return result

    def chain(self, length: int) -> int:
        flow, increment = Workflow("chain"), app.tasks["increment"]
        last: Any = 0
        for _ in range(length):
            last = flow.add(increment, last)
        result: int = flow.submit().get(TIMEOUT)
        return result

    def fan_out(self, width: int) -> int:
        flow = Workflow("fan-out")
        flow.add(app.tasks["count"], flow.map(app.tasks["echo"], range(width)))
        result: int = flow.submit().get(TIMEOUT)
        return result

    def commands(self) -> list[list[str]]:
        order = self.order
        command = self.python("-m", "taskmq", "worker", "-A", f"{__name__}:app")
        command += ["-P", order.pool, "-c", str(order.concurrency), "--log-level", "warning"]
        return [command] * order.processes

    @contextmanager
    def workers(self) -> Iterator[Any]:
        if app.transport.capabilities.shared:
            with super().workers() as crew:
                yield crew
            return
        worker = Worker(app)  # of a store that lives in this process
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield [_Here(thread)]
        finally:
            worker.stop()
            thread.join()


class _Here:
    """This process, in place of a worker's."""

    def __init__(self, thread: threading.Thread) -> None:
        self.pid = os.getpid()
        self._thread = thread

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else 1
