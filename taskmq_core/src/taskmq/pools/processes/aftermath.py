"""Settling jobs whose child is no more. Their task's hooks run here, in the worker's process.

They are user code and may take their time, so they have a thread of their own: the one that feeds
the children must not wait for them.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue

from taskmq.errors import Interrupted, JobCancelled
from taskmq.executor import Executor
from taskmq.pools.base import Done, came_to_nothing
from taskmq.transport import Delivery

__all__ = ["Aftermath"]

logger = logging.getLogger("taskmq.pools")


class Aftermath:
    """Gives the outcome of each delivery that it is told of to ``done``. Starts its thread with
    the first one."""

    def __init__(self, executor: Executor, done: Done) -> None:
        self._executor = executor
        self._done = done
        self._orders: SimpleQueue[tuple[Delivery, Interrupted | JobCancelled, float] | None]
        self._orders = SimpleQueue()
        self._thread: threading.Thread | None = None

    def settle(self, delivery: Delivery, cause: Interrupted | JobCancelled, runtime: float) -> None:
        """Its run was ended by ``cause`` after ``runtime`` seconds."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="taskmq-aftermath", daemon=True)
            self._thread.start()
        self._orders.put((delivery, cause, runtime))

    def stop(self, timeout: float) -> bool:
        """Finish what there is to do; false if that takes longer than ``timeout`` seconds."""
        if self._thread is None:
            return True
        self._orders.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            delivery, cause, runtime = order
            try:
                outcome = self._executor.conclude(delivery, cause, runtime)
            except BaseException as error:  # a hook's SystemExit is no reason to leave the others
                outcome = came_to_nothing(delivery, error)
            self._done(outcome)
