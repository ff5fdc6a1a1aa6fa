"""What a worker holds, and what waits for it in the store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taskmq import App, JobState
from taskmq.envelope import load
from taskmq.errors import ConfigError, MessageError
from taskmq.records import JobFilter, JobRecord
from taskmq.transport import Delivery
from taskmq.worker import Worker

from .engine import translated
from .received import Received

__all__ = ["Active", "Inspection", "pages"]

DELAYED = (JobState.QUEUED, JobState.RETRYING)
PAGE = 1000
MOST_LOOKED_AT = 10_000
"""Jobs of a queue that are looked at for those which wait for a time."""


@dataclass(frozen=True, slots=True)
class Active:
    """A job that runs. ``started_at`` is epoch seconds, ``pid`` the process it runs in."""

    job: Received
    started_at: float
    pid: int


class Inspection:
    """Looks into one running worker. From any thread."""

    def __init__(self, engine: App, worker: Worker) -> None:
        self._engine = engine
        self._worker = worker

    def active(self) -> list[Active]:
        """What runs, the longest first."""
        running = sorted(self._worker.running(), key=lambda each: each.started_at)
        # Of a job in the worker's own process nobody knows the number of the process.
        return [
            Active(job, each.started_at, getattr(each, "pid", 0) or os.getpid())
            for each in running
            if (job := self._received(each.delivery)) is not None
        ]

    def reserved(self) -> list[Received]:
        """What it holds and has not started."""
        running = {each.delivery.job_id for each in self._worker.running()}
        waiting = [each for each in self._worker.in_flight() if each.job_id not in running]
        return [job for each in waiting if (job := self._received(each)) is not None]

    def scheduled(self) -> list[Received]:
        """What waits in the store for its time, in the queues of this worker; of each queue as far
        as `MOST_LOOKED_AT` jobs go."""
        with translated():
            found = [
                self._waiting(record)
                for queue in self._worker.queues
                for record in pages(
                    self._engine, JobFilter(states=DELAYED, queue=queue), MOST_LOOKED_AT
                )
            ]
        return sorted((job for job in found if job is not None), key=lambda job: job.eta or 0.0)

    def scheduled_among(self, ids: Sequence[str]) -> list[Received]:
        """Those of these that wait for their time, in the queues of this worker."""
        with translated():
            records = self._engine.transport.get(ids)
        mine = [each for each in records if each is not None and each.queue in self._worker.queues]
        return [job for each in mine if (job := self._waiting(each)) is not None]

    @property
    def is_busy(self) -> bool:
        """Whether it holds any job."""
        return bool(self._worker.in_flight())

    def load(self) -> tuple[int, int]:
        """How many tasks run, and how many have run since it was started."""
        return len(self._worker.running()), self._worker.processed()

    def waiting(self) -> int:
        """How many jobs in its queues could run if there was a slot for them."""
        with translated():
            found = self._engine.transport.stats(list(self._worker.queues))
        return sum(each.ready for each in found)

    def grow(self, slots: int) -> None:
        """Have more slots, or (below 0) less. Raises ``ValueError`` with the reason why not."""
        try:
            if slots < 0:
                self._worker.shrink(-slots)
            else:
                self._worker.grow(slots)
        except (ConfigError, RuntimeError) as error:
            raise ValueError(str(error)) from None

    def children(self) -> tuple[int, ...]:
        """Ids of the processes that its tasks run in."""
        return self._worker.children() or (os.getpid(),)

    def _waiting(self, record: JobRecord) -> Received | None:
        if record.state not in DELAYED or record.visible_at <= self._engine.clock.now():
            return None
        return self._received(
            Delivery(
                job_id=record.id,
                queue=record.queue,
                priority=record.priority,
                envelope=record.envelope,
                token=0,  # nobody has it
                attempt=record.attempt,
                deliveries=record.deliveries,
                reclaims=record.reclaims,
                yields=0,
                lease_until=0.0,
            ),
            eta=record.visible_at,
        )

    def _received(self, delivery: Delivery, eta: float | None = None) -> Received | None:
        try:
            envelope = load(delivery.envelope)
        except MessageError:  # the worker deals with it; there is nothing to tell
            return None
        return Received(self._engine, delivery, envelope, self._worker.name, eta=eta)


def pages(engine: App, wanted: JobFilter, most: int | None = None) -> Iterator[JobRecord]:
    """All that match, page by page, or the first ``most``."""
    fields = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    after, seen = None, 0
    while most is None or seen < most:
        page = engine.transport.find(JobFilter(**{**fields, "after": after, "limit": PAGE}))
        yield from page
        if len(page) < PAGE:
            return
        after, seen = page[-1].id, seen + len(page)
