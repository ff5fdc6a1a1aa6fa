"""taskito, whose engine is written in Rust, on SQLite with its threads."""

from __future__ import annotations

import sys
from pathlib import Path

import taskito  # type: ignore[import-not-found]  # in an environment of its own

from .base import Contestant, Order, echo, mark

BULK = 500
TIMEOUT = 60

order = Order.current()
queue = taskito.Queue(db_path=order.url.removeprefix("sqlite:///"), workers=order.concurrency)

marks = queue.task(name="mark")(mark)
echoes = queue.task(name="echo")(echo)


class Queue(Contestant):
    def submit(self, number: int) -> object:
        return marks.delay(number)

    def submit_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), BULK):
            marks.map([(number,) for number in numbers[start : start + BULK]])

    def echo(self, number: int) -> int:
        result: int = echoes.delay(number).result(timeout=TIMEOUT)
        return result

    def commands(self) -> list[list[str]]:
        program = str(Path(sys.executable).with_name("taskito"))
        return [[program, "worker", "--app", f"{__name__}:queue"]] * self.order.processes
