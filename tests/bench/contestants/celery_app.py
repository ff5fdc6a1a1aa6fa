"""Whatever is installed as ``celery``: Celery itself, or ours."""

from __future__ import annotations

from typing import Any

import celery

from .base import Contestant, Order, count, echo, increment, mark

TIMEOUT = 60.0
POOLS = {"processes": "prefork"}

order = Order.current()
WITH_RESULTS = order.workload in ("round_trip", "chain", "fan_out")
BROKER = order.url.partition("?")[0]


def make_app() -> Any:
    app: Any = celery.Celery("bench", broker=BROKER, backend=BROKER if WITH_RESULTS else None)
    app.conf.update(
        task_ignore_result=not WITH_RESULTS,
        task_acks_late=True,  # at least once, as all contestants that can
        broker_connection_retry_on_startup=True,
    )
    return app


app = make_app()


marks = app.task(mark, name="mark")
echoes = app.task(echo, name="echo")
increments = app.task(increment, name="increment")
counts = app.task(count, name="count")


class Queue(Contestant):
    def submit(self, number: int) -> object:
        return marks.delay(number)

    def submit_many(self, numbers: range) -> None:
        celery.group(marks.s(number) for number in numbers).apply_async()

    def echo(self, number: int) -> int:
        result: int = echoes.delay(number).get(timeout=TIMEOUT)
        return result

    def chain(self, length: int) -> int:
        steps = [increments.s(0), *[increments.s() for _ in range(length - 1)]]
        result: int = celery.chain(*steps).apply_async().get(timeout=TIMEOUT)
        return result

    def fan_out(self, width: int) -> int:
        graph: Any = celery.chord([echoes.s(number) for number in range(width)], counts.s())
        result: int = graph.apply_async().get(timeout=TIMEOUT)
        return result

    def commands(self) -> list[list[str]]:
        pool = POOLS.get(self.order.pool, self.order.pool)
        command = self.python("-m", "celery", "-A", __name__, "worker", "-l", "WARNING", "-P", pool)
        command += ["-c", str(self.order.concurrency)]
        return [[*command, "-n", f"w{number}@bench"] for number in range(self.order.processes)]
