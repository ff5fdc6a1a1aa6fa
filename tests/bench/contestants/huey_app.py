"""huey, which takes a job out of the store before it runs: what a killed worker held is lost."""

from __future__ import annotations

from typing import Any

import huey as library  # type: ignore[import-not-found]  # in an environment of its own

from .base import Contestant, Order, count, echo, increment, mark

TIMEOUT = 60

order = Order.current()
if order.store == "redis":
    huey: Any = library.RedisHuey("bench", url=order.url, notify_result=True)
else:
    huey = library.SqliteHuey("bench", filename=order.url.removeprefix("sqlite:///"))


marks = huey.task(name="mark")(mark)
echoes = huey.task(name="echo")(echo)
increments = huey.task(name="increment")(increment)
counts = huey.task(name="count")(count)


class Queue(Contestant):
    def submit(self, number: int) -> object:
        return marks(number)

    def echo(self, number: int) -> int:
        result: int = echoes(number).get(blocking=True, timeout=TIMEOUT)
        return result

    def chain(self, length: int) -> int:
        steps = increments.s(0)
        for _ in range(length - 1):
            steps = steps.then(increments)
        result: int = huey.enqueue(steps)[-1]
        return result

    def fan_out(self, width: int) -> int:
        members = [echoes.s(number) for number in range(width)]
        result: int = huey.enqueue(library.chord(members, counts.s())).callback.get(
            blocking=True, timeout=TIMEOUT
        )
        return result

    def commands(self) -> list[list[str]]:
        command = self.python("-m", "huey.bin.huey_consumer", f"{__name__}.huey", "-q")
        kind = "process" if self.order.pool == "processes" else "thread"
        command += ["-k", kind, "-w", str(self.order.concurrency)]
        return [command] * self.order.processes
