"""Rates that one worker keeps by itself: of tasks and queues with ``rate_scope="worker"``.

The store knows nothing of them. What comes too early is put off: given back as deferred, until the
moment at which this worker can run it if nothing else comes. So each job that waits costs the store
one more write a minute at most, and none of it a slot, an attempt or a delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from taskmq.clock import Clock
from taskmq.config import QueueConfig
from taskmq.envelope import load
from taskmq.errors import MalformedEnvelope, UnsupportedVersion
from taskmq.limits import Limit, Rate, following, opens_at, rate_of, room
from taskmq.tasks import Task
from taskmq.transport import Delivery

__all__ = ["Throttle"]

LONGEST = 60.0
"""Seconds for which a job is put off at most: so that a worker that joins gets its share."""
MOST_EXTRA = 500
"""How many deliveries are asked for beyond the free slots, at most."""


class Throttle:
    """Lets deliveries pass, or says for how long to put them off."""

    def __init__(
        self,
        tasks: Iterable[Task[..., Any]],
        queues: Mapping[str, QueueConfig],
        clock: Clock,
    ) -> None:
        self._tasks = {
            task.name: rate_of(task.policy.rate_limit).limit(f"task:{task.name}")
            for task in tasks
            if task.policy.rate_limit is not None and task.policy.rate_scope == "worker"
        }
        self._queues = {
            name: rate_of(declared.rate_limit).limit(f"queue:{name}")
            for name, declared in queues.items()
            if declared.rate_limit is not None and declared.rate_scope == "worker"
        }
        self._clock = clock
        self._until: dict[str, float] = {}
        self._put_off_until: dict[str, float] = {}
        self.extra = 0
        """How many more deliveries to ask for than there is room: as many as were put off last
        time, and as many again, so that what is behind them comes soon."""

    def keep(self, task: str, rate: Rate | None) -> bool:
        """A rate of a task from now on; ``None``: it has none. Whether that is another one than
        before. From any thread."""
        limit = None if rate is None else rate.limit(f"task:{task}")
        if self._tasks.get(task) == limit:
            return False
        tasks = dict(self._tasks)
        if limit is None:
            del tasks[task]
        else:
            tasks[task] = limit
        self._tasks = tasks
        return True

    def __bool__(self) -> bool:
        """Whether there is any rate to keep."""
        return bool(self._tasks or self._queues)

    def sort(
        self, deliveries: Sequence[Delivery]
    ) -> tuple[list[Delivery], list[tuple[Delivery, float]]]:
        """Those that may start now, and the others with the seconds for which to put them off."""
        now = self._clock.now()
        passed: list[Delivery] = []
        put_off: list[tuple[Delivery, float]] = []
        for delivery in deliveries:
            limits = list(self._limits_of(delivery))
            if all(room(limit, self._until.get(limit.gate, 0.0), now) for limit in limits):
                self._charge(limits, now)
                passed.append(delivery)
            else:
                put_off.append((delivery, self._put_off(limits, now) - now))
        self.extra = min(MOST_EXTRA, 2 * len(put_off))
        return passed, put_off

    def refund(self, deliveries: Iterable[Delivery]) -> None:
        """These have not started, and go back."""
        if not self:
            return
        for delivery in deliveries:
            for limit in self._limits_of(delivery):
                self._until[limit.gate] = self._until.get(limit.gate, 0.0) - limit.interval

    def _limits_of(self, delivery: Delivery) -> Iterator[Limit]:
        if delivery.queue in self._queues:
            yield self._queues[delivery.queue]
        if self._tasks:
            try:
                task = load(delivery.envelope).task
            except (MalformedEnvelope, UnsupportedVersion):
                return  # it will not run
            if task in self._tasks:
                yield self._tasks[task]

    def _charge(self, limits: Iterable[Limit], now: float) -> None:
        for limit in limits:
            self._until[limit.gate] = following(limit, self._until.get(limit.gate, 0.0), now)

    def _put_off(self, limits: Iterable[Limit], now: float) -> float:
        """Until all let it pass, behind those that were put off before."""
        at = now
        for limit in limits:
            behind = self._put_off_until.get(limit.gate, 0.0) + limit.interval
            at = max(at, opens_at(limit, self._until.get(limit.gate, 0.0)), behind)
        at = min(at, now + LONGEST)
        for limit in limits:
            self._put_off_until[limit.gate] = at
        return at
