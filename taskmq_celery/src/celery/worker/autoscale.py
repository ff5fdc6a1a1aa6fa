"""A pool that follows the load (``--autoscale``).

Once a second an `Autoscaler` compares how many tasks want a slot with how many slots there are. It
adds slots at once, and takes them away when there was no need of more for a while. Programs name a
subclass with ``worker_autoscaler``:

>>> class Careful(Autoscaler):
...     def scale_up(self, n):
...         return super().scale_up(1)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from celery import bootsteps
from celery.utils.log import get_logger
from celery.utils.threads import bgThread

from . import state
from .components import Pool

__all__ = ("Autoscaler", "WorkerComponent")

logger = get_logger(__name__)
debug, info, error = logger.debug, logger.info, logger.error

AUTOSCALE_KEEPALIVE = float(os.environ.get("AUTOSCALE_KEEPALIVE", 30))
"""Seconds for which slots stay after the last need of more."""


class WorkerComponent(bootsteps.StartStopStep):
    """Starts and stops the autoscaler of a worker that has one."""

    label = "Autoscaler"
    conditional = True
    requires = (Pool,)
    begun = False

    def __init__(self, w: Any, **kwargs: Any) -> None:
        super().__init__(w, **kwargs)
        self.enabled = bool(w.autoscale)
        w.autoscaler = None

    def create(self, w: Any) -> Any:
        w.autoscaler = self.instantiate(
            w.autoscaler_cls, w.pool, w.max_concurrency, w.min_concurrency, worker=w
        )
        return w.autoscaler

    def start(self, parent: Any) -> Any:
        told = getattr(self.obj, "on_task_received", None)
        if told is not None:
            parent.consumer.on_task_message.add(told)
        later = getattr(type(parent), "when_ready", None)
        return self._begin() if later is None else later(parent, self._begin)

    def _begin(self) -> None:
        """Not before the worker has its first children: they are forked, and no other thread
        should run then."""
        self.begun = True
        self.obj.start()

    def stop(self, parent: Any) -> Any:
        return super().stop(parent) if self.begun else None

    def terminate(self, parent: Any) -> Any:
        return super().terminate(parent) if self.begun else None

    def register_with_event_loop(self, w: Any, hub: Any) -> None:
        """With an event loop, it looks at every task that arrives (`Autoscaler.maybe_scale`), and
        every `Autoscaler.keepalive` seconds."""
        w.consumer.on_task_message.add(w.autoscaler.maybe_scale)
        hub.call_repeatedly(w.autoscaler.keepalive, w.autoscaler.maybe_scale)

    def info(self, w: Any) -> dict[str, Any]:
        return {"autoscaler": w.autoscaler.info()}


class Autoscaler(bgThread):
    """Keeps ``pool`` between ``min_concurrency`` and ``max_concurrency`` slots, in a thread.

    ``keepalive`` are the seconds for which slots stay after the last need of more. Subclasses
    override `scale_up` and `scale_down`, which are given how many slots, `qty`, or `body`.
    """

    def __init__(
        self,
        pool: Any,
        max_concurrency: int,
        min_concurrency: int = 0,
        worker: Any = None,
        keepalive: float = AUTOSCALE_KEEPALIVE,
        mutex: Any = None,
    ) -> None:
        super().__init__()
        self.worker, self.pool = worker, pool
        self.min_concurrency, self.max_concurrency = min_concurrency, max_concurrency
        self.keepalive = keepalive
        self.mutex = threading.Lock() if mutex is None else mutex
        self._last_scale_up: float | None = None

    def body(self) -> None:
        """One comparison, and a second's rest."""
        with self.mutex:
            self.maybe_scale()
        sleep(1.0)

    def on_task_received(self, req: Any) -> None:
        """A task has arrived. If every slot is wanted by now, none is taken away for a while.
        Waits for nothing: the thread that takes tasks in calls it."""
        if self.qty >= self.processes:
            self._last_scale_up = monotonic()

    def maybe_scale(self, req: Any = None) -> None:
        """Have as many slots as are wanted, within the bounds."""
        slots, wanted = self.processes, self.qty
        if wanted >= slots and (req is not None or slots >= self.max_concurrency):
            self._last_scale_up = monotonic()
        most, least = min(wanted, self.max_concurrency), max(wanted, self.min_concurrency)
        if most > slots:
            self.scale_up(most - slots)
        elif least < slots:
            self.scale_down(slots - least)

    def update(self, max: int | None = None, min: int | None = None) -> tuple[int, int]:
        """Set other bounds, which hold at once. What they are then, the upper one first."""
        with self.mutex:
            if max is not None:
                self.max_concurrency = max
                if self.processes > max:
                    self._shrink(self.processes - max)
            if min is not None:
                self.min_concurrency = min
                if self.processes < min:
                    self._grow(min - self.processes)
            return self.max_concurrency, self.min_concurrency

    def scale_up(self, n: int) -> Any:
        """There is work for so many slots more."""
        self._last_scale_up = monotonic()
        return self._grow(n)

    def scale_down(self, n: int) -> Any:
        """There is no work for so many slots: they go if that has been so for long enough."""
        if self._last_scale_up and monotonic() - self._last_scale_up > self.keepalive:
            return self._shrink(n)
        return None

    def _grow(self, n: int) -> None:
        info("Scaling up %s processes.", n)
        self._tried(self.pool.grow, n)

    def _shrink(self, n: int) -> None:
        info("Scaling down %s processes.", n)
        self._tried(self.pool.shrink, n)

    def _tried(self, resize: Callable[[int], Any], n: int) -> None:
        """A pool that cannot change just now keeps its slots, and the worker goes on."""
        try:
            resize(n)
        except ValueError as exc:
            debug("Autoscaler: the pool stays as it is: %s", exc)
        except Exception as exc:
            error("Autoscaler: the pool could not change: %r", exc, exc_info=True)

    def info(self) -> dict[str, int]:
        """What the worker's statistics tell of it."""
        return {
            "max": self.max_concurrency,
            "min": self.min_concurrency,
            "current": self.processes,
            "qty": self.qty,
        }

    @property
    def qty(self) -> int:
        """How many tasks want a slot: those that the worker has taken, and those that wait for
        one in its queues."""
        waiting: int = self.pool.backlog()
        return len(state.reserved_requests) + waiting

    @property
    def processes(self) -> int:
        """How many slots there are."""
        slots: int = self.pool.num_processes
        return slots
