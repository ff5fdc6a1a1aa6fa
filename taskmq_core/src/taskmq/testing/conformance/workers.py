"""The registry of workers."""

from __future__ import annotations

import msgspec

from taskmq.records import WorkerRecord

from .case import case
from .checks import equal
from .subject import Subject


def _worker(subject: Subject, name: str) -> WorkerRecord:
    now = subject.clock.now()
    return WorkerRecord(
        id=name,
        queues=("a", "b"),
        pool="threads",
        concurrency=4,
        started_at=now,
        heartbeat_at=now,
        heartbeat_interval=10.0,
        host="host-ü",
        pid=4711,
        running=2,
        processed=10,
        tasks=("demo.a", "demo.b"),
        meta={"version": "1", "nested": {"x": [1, 2.5, None]}},
    )


@case()
def registered_worker_is_listed_as_it_described_itself(subject: Subject) -> None:
    """Every field of a registration comes back, on every handle, by id."""
    equal(subject.transport.workers(), [], "workers of an empty store")
    b, a = _worker(subject, "b"), _worker(subject, "a")
    subject.transport.register(b)
    subject.transport.register(a)
    equal(subject.open().workers(), [a, b], "workers")


@case()
def newest_description_replaces_the_last(subject: Subject) -> None:
    """A heartbeat is a registration: one entry a worker, the newest."""
    worker = _worker(subject, "a")
    subject.transport.register(worker)
    subject.clock.advance(10)
    newer = msgspec.structs.replace(
        worker, heartbeat_at=subject.clock.now(), running=0, queues=("c",), tasks=(), meta={}
    )
    subject.transport.register(newer)
    equal(subject.transport.workers(), [newer], "workers")


@case()
def worker_that_left_is_listed_no_longer(subject: Subject) -> None:
    """`deregister` removes one worker; an unknown id is no error."""
    a, b = _worker(subject, "a"), _worker(subject, "b")
    subject.transport.register(a)
    subject.transport.register(b)
    subject.transport.deregister("a")
    subject.transport.deregister("unknown")
    equal(subject.transport.workers(), [b], "workers")


@case()
def silent_worker_stays_listed(subject: Subject) -> None:
    """A worker that fell silent is for people to see: it is listed, and known as stale."""
    subject.transport.register(_worker(subject, "a"))
    subject.clock.advance(3_600)
    subject.transport.maintain()
    (worker,) = subject.transport.workers()
    equal(worker.is_stale(subject.clock.now()), True, "stale")
