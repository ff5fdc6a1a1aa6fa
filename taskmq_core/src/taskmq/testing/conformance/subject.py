"""What a case works on: an empty store, a clock that stands still, and a few short words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from taskmq.clock import Clock
from taskmq.codec import Payload
from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.records import Failure, JobRecord
from taskmq.states import JobState
from taskmq.testing.clock import FakeClock
from taskmq.transport import (
    Delivery,
    Exchange,
    Release,
    Reservation,
    Settled,
    Settlement,
    Transport,
)

from .checks import equal, holds, present

__all__ = ["FAILURE", "LEASE", "OpenStore", "Subject", "text"]

OpenStore = Callable[[str, Clock], Transport]
"""Opens the store of a name, which is empty if the name is new: ``open_store(name, clock)``."""

LEASE = 60.0
EVERYTHING = 10_000
FAILURE = Failure(
    type="builtins.ValueError", message="broken", traceback="Traceback …", args=("1",)
)


def text(value: str) -> Payload:
    """A result."""
    return Payload("json", msgspec.json.encode(value))


class Subject:
    """A store under test.

    ``transport`` is the first handle on it; `open` gives further ones on the same store. Where a
    store is not ``shared``, there is one handle only and all of them are it. ``spec`` is what
    another process opens the store with, if there is one.
    """

    def __init__(self, open_store: OpenStore, name: str, *, spec: str | None = None) -> None:
        self.name = name
        self.spec = spec
        self.clock = FakeClock()
        self._open_store = open_store
        self._handles: list[Transport] = []
        self.transport = self._new_handle()

    # -- handles -----------------------------------------------------------------------------

    def open(self) -> Transport:
        """Another handle on the store."""
        return self._new_handle() if self.transport.capabilities.shared else self.transport

    def open_on(self, clock: Clock) -> Transport:
        """A handle on a shared store that goes by another clock; the caller closes it."""
        return self._open_store(self.name, clock)

    def reopen(self) -> Transport:
        """Close every handle and open the store again, as the next process would."""
        self.close()
        self.transport = self._new_handle()
        return self.transport

    def close(self) -> None:
        """Close every handle."""
        while self._handles:
            self._handles.pop().close()

    def _new_handle(self) -> Transport:
        handle = self._open_store(self.name, self.clock)
        self._handles.append(handle)
        return handle

    # -- jobs --------------------------------------------------------------------------------

    def job(self, task: str = "demo.task", queue: str = "q", **fields: Any) -> Sealed:
        """A sealed envelope with a new id. ``after`` may be given as a list of job ids;
        ``args`` and ``kwargs`` as values."""
        for name in ("args", "kwargs"):
            if name in fields:
                fields[name] = msgspec.Raw(msgspec.json.encode(fields[name]))
        if "after" in fields:
            fields["after"] = tuple(
                Dependency(job) if isinstance(job, str) else job for job in fields["after"]
            )
        fields.setdefault("id", new_id())
        fields.setdefault("enqueued_at", self.clock.now())
        return seal(Envelope(v=1, task=task, queue=queue, **fields), limit=1 << 20)

    def add(self, task: str = "demo.task", queue: str = "q", **fields: Any) -> str:
        """Enqueue one job; its id."""
        (answer,) = self.transport.enqueue([self.job(task, queue, **fields)])
        return answer.job_id

    def add_many(self, count: int, **fields: Any) -> list[str]:
        """Enqueue several alike in one batch; their ids, in order."""
        batch = [self.job(**fields) for _ in range(count)]
        return [answer.job_id for answer in self.transport.enqueue(batch)]

    def record(self, job_id: str) -> JobRecord:
        """What the store knows of a job, which must be known."""
        return present(self.transport.get([job_id])[0], f"a record of job {job_id}")

    def state(self, job_id: str) -> JobState:
        """The state of a job; ``UNKNOWN`` if the store does not know it."""
        record = self.transport.get([job_id])[0]
        return record.state if record else JobState.UNKNOWN

    def expect(self, job_id: str, state: JobState, when: str) -> JobRecord:
        """A job is in a state; its record."""
        record = self.record(job_id)
        equal(record.state, state, f"state of {record.task} {when}")
        return record

    # -- a worker ----------------------------------------------------------------------------

    def exchange(
        self,
        settlements: Sequence[Settlement] = (),
        *,
        limit: int = 1,
        queues: Mapping[str, int] | Sequence[str] = ("q",),
        worker: str = "worker-1",
        lease: float = LEASE,
        jobs: Sequence[str] | None = None,
    ) -> Exchange:
        """Settle and reserve."""
        weights = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, 1)
        wanted = Reservation(queues=weights, worker=worker, lease=lease, limit=limit, jobs=jobs)
        return self.transport.exchange(settlements, wanted)

    def reserve(self, limit: int = 1, **how: Any) -> list[Delivery]:
        """The deliveries of an exchange."""
        return list(self.exchange(limit=limit, **how).deliveries)

    def take(self, job_id: str | None = None, **how: Any) -> Delivery:
        """Reserve one job, which must be there (and be ``job_id``, if given, the first in line)."""
        if job_id is not None and not self.transport.capabilities.fifo:
            return self.hold([job_id], **how)[0]
        deliveries = self.reserve(**how)
        holds(deliveries, "a ready job is reserved")
        if job_id is not None:
            equal(deliveries[0].job_id, job_id, "the reserved job")
        return deliveries[0]

    def hold(self, job_ids: Sequence[str], **how: Any) -> list[Delivery]:
        """Reserve these jobs; their deliveries, in the order of the ids. They must be the first in
        line, unless the store promises no order: then the others are released."""
        limit = len(job_ids) if self.transport.capabilities.fifo else EVERYTHING
        got = {delivery.job_id: delivery for delivery in self.reserve(limit=limit, **how)}
        self.settle(*(Release(got[other]) for other in got if other not in job_ids))
        missing = [job_id for job_id in job_ids if job_id not in got]
        equal(missing, [], "jobs that are not reserved when it is their turn")
        return [got[job_id] for job_id in job_ids]

    def idle(self, **how: Any) -> None:
        """There is nothing to reserve."""
        got = [delivery.job_id for delivery in self.reserve(limit=10, **how)]
        equal(got, [], "reservable jobs")

    def settle(self, *settlements: Settlement) -> list[Settled]:
        """The outcomes of settlements."""
        return list(self.transport.settle(settlements))

    def done(self, settlement: Settlement) -> None:
        """Settle, which must take effect."""
        equal(self.settle(settlement), [Settled.DONE], f"{type(settlement).__name__} is accepted")
