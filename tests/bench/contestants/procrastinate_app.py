"""procrastinate, its jobs coroutines."""

from __future__ import annotations

import procrastinate  # type: ignore[import-not-found]  # in an environment of its own

from .base import Contestant, Order, mark

BULK = 1000

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=Order.current().url))


@app.task(name="mark", queue="bench")  # type: ignore[untyped-decorator]  # without types here
async def mark_one(number: int) -> None:
    mark(number)


class Queue(Contestant):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        connector = procrastinate.SyncPsycopgConnector(conninfo=order.url)
        self.blocking = app.replace_connector(connector)  # until this process ends
        self.blocking.__enter__().open()
        app.schema_manager.apply_schema()

    def submit(self, number: int) -> object:
        return mark_one.defer(number=number)

    def submit_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), BULK):
            batch = numbers[start : start + BULK]
            mark_one.batch_defer(*[{"number": number} for number in batch])

    def commands(self) -> list[list[str]]:
        app, size = f"{__name__}.app", str(self.order.concurrency)
        command = ["-m", "procrastinate", "--app", app, "--log-level", "warning"]
        return [self.python(*command, "worker", "-c", size)] * self.order.processes
