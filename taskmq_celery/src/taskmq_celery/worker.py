"""An engine worker for a Celery app, and what it tells the ``celery`` package while it works."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from taskmq import App, ConfigError, Rate
from taskmq.envelope import limits_of, load
from taskmq.errors import MessageError
from taskmq.hooks import MOST_HELD
from taskmq.records import Dropped
from taskmq.transport import Ack, DeadLetter, Delegate, Delivery, Nack, RetryLater, Settlement
from taskmq.worker import Worker, WorkerHook, WorkerReport

from .engine import OWN_TASKS, close_engine, engine_for
from .inspection import Inspection
from .message import limits
from .received import Received
from .results import tell_backend
from .taken import TakenJob, TakenJobs

__all__ = ["MOST_HELD", "POOLS", "EngineWorker", "WorkerObserver", "WorkerPlan", "WorkerReport"]

logger = logging.getLogger("celery.worker")

RUN = (Ack, DeadLetter, Delegate, Nack, RetryLater)
"""How a job ends that was started."""

HEARTBEAT = 10.0
"""Longest pause in seconds between two signs of life."""

POOLS = {
    "solo": "solo",
    "threads": "threads",
    "prefork": "processes",
    "processes": "processes",
    "eventlet": "threads",
    "gevent": "threads",
    "custom": "threads",
}
"""The engine's pool for each of Celery's names."""


PROCESSES = "processes"


@contextmanager
def _quiet_engine() -> Iterator[None]:
    """Celery's own lines tell the same story; what the engine warns of is still heard."""
    engine_logger = logging.getLogger("taskmq")
    level = engine_logger.level
    if level == logging.NOTSET and not logger.isEnabledFor(logging.DEBUG):
        engine_logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        engine_logger.setLevel(level)


@dataclass(frozen=True)
class WorkerPlan:
    """What the user asked for, in Celery's words. Durations are seconds."""

    hostname: str
    queues: Sequence[str]
    concurrency: int
    pool: str = "threads"
    prefetch: int | None = None
    """Most jobs held at once; ``None`` lets the engine adapt."""
    most_taken: int = MOST_HELD
    """Most jobs that the program may have at once of those that it sees to itself."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Further fields of the engine's `taskmq.Config`."""


class WorkerObserver(Protocol):
    """What is told of an `EngineWorker`, in the thread that runs it."""

    def on_ready(self) -> None:
        """It is registered and about to take the first job."""

    @property
    def wants_received(self) -> bool:
        """Whether anybody looks at arriving jobs; otherwise they are not even unpacked."""

    def on_received(self, jobs: Sequence[Received]) -> None:
        """These have arrived, in the order in which they will start."""

    def on_dropped(self, task_id: str, task: str, reason: str) -> None:
        """It is over without a run that could tell: ``expired``, ``revoked``, ``worker_lost``…"""

    @property
    def refuses_some(self) -> bool:
        """Whether there is anything that it does not let start: `refuses` is asked only then."""

    def refuses(self, job: Received) -> bool:
        """Whether a job that has arrived does not start: it ends as revoked."""

    @property
    def takes(self) -> Collection[str]:
        """Names of the tasks whose jobs the program sees to itself: they are not run."""

    def on_taken(self, jobs: Sequence[TakenJob]) -> None:
        """Jobs of these have arrived."""

    def on_leaving(self, taken: int) -> None:
        """It takes no more jobs; the program has so many. See `EngineWorker.give_back`."""

    def on_ended(self, names: Sequence[str], succeeded: Sequence[str]) -> None:
        """Runs of tasks with these names have ended, and the store knows; ids of those that have
        returned."""

    def on_stopped(self) -> None:
        """Nothing runs any more."""

    def on_child_start(self) -> None:
        """In a child process, before its first job."""

    def on_child_stop(self) -> None:
        """In a child process, after its last."""


def lease_settings(conf: Any) -> dict[str, float]:
    """How long a worker that fell silent keeps its jobs, in seconds, if somebody has said so.

    ``TASKMQ_LEASE`` goes before ``broker_transport_options={"lease": …}``. It is no limit on how
    long a task may take: a worker that lives renews its leases. Celery's ``visibility_timeout``
    is such a limit, and therefore not taken for it. Raises `taskmq.ConfigError`.
    """
    text = os.environ.get("TASKMQ_LEASE") or (conf.broker_transport_options or {}).get("lease")
    if text is None:
        return {}
    try:
        lease = float(text)
    except (TypeError, ValueError):
        raise ConfigError(f"lease must be a number of seconds, got {text!r}") from None
    return {"lease": lease, "heartbeat_interval": min(HEARTBEAT, lease / 3)}


class EngineWorker:
    """Runs the tasks of a Celery app. Nothing is opened before `run`.

    Raises what `engine_for` raises: `taskmq.ConfigError`, `taskmq.TransportError`.
    """

    def __init__(self, celery_app: Any, plan: WorkerPlan, observer: WorkerObserver) -> None:
        pool = POOLS.get(plan.pool, "threads")
        if pool == PROCESSES and not engine_for(celery_app).transport.capabilities.shared:
            pool = "threads"  # a child would publish into a store of its own
            logger.info(
                "Pool %s: the broker is of this process alone; tasks run in threads", plan.pool
            )
        self.engine = engine_for(
            celery_app,
            concurrency=plan.concurrency,
            pool=pool,
            start_method="fork" if pool == PROCESSES else None,
            **({} if plan.prefetch is None else {"prefetch": plan.prefetch}),
            **lease_settings(celery_app.conf),
            **plan.settings,
        )
        self._celery_app = celery_app
        self._taken = TakenJobs(celery_app, self.engine)
        hook = _Hook(celery_app, self.engine, observer, self._taken)
        hook.most_taken = plan.most_taken
        self._worker = self._taken.worker = Worker(
            self.engine, queues=list(plan.queues), name=plan.hostname, hook=hook
        )

    def run(self) -> WorkerReport:
        """Work until stopped."""
        with _quiet_engine():
            return self._worker.run()

    def close(self) -> None:
        """Close the store."""
        close_engine(self._celery_app)

    @property
    def inspection(self) -> Inspection:
        """What is to be known of it while it runs."""
        return Inspection(self.engine, self._worker)

    def purge(self) -> int:
        """Delete what waits in the worker's queues; how many jobs there were."""
        return sum(self.engine.transport.purge(queue) for queue in self._worker.queues)

    def consume(self, queues: Sequence[str]) -> None:
        """Take jobs from these queues from now on. From any thread."""
        self._worker.consume(queues)

    def limit(self, task: str, rate: Rate | None) -> None:
        """Start a task so often at most from now on. From any thread."""
        self._worker.limit(task, rate)

    def limit_time(self, task: str, hard: float | None, soft: float | None) -> None:
        """Let jobs of a task that come without limits take so many seconds at most from now on. A
        soft limit that the hard one comes before is none. From any thread."""
        hard, soft = limits((hard, soft))
        self._worker.limit_time(task, soft, hard)

    def give_back(self) -> None:
        """Some worker is to have all jobs that the program has and has said nothing of. A stop
        waits for what it says, or for this. From any thread."""
        self._taken.give_all_back()

    def stop(self, within: float | None = None) -> None:
        """Finish what runs, give back the rest, and what still runs after ``within`` seconds.
        Safe in a signal handler."""
        self._worker.stop(within)

    def stop_now(self) -> None:
        """Leave what runs: another worker will run it again. Safe in a signal handler."""
        self._worker.stop_now()


class _Hook(WorkerHook):
    def __init__(
        self, celery_app: Any, engine: App, observer: WorkerObserver, taken: TakenJobs
    ) -> None:
        self._taken = taken
        self._celery_app = celery_app
        self._engine = engine
        self._observer = observer

    def on_ready(self, worker: Worker) -> None:
        self._observer.on_ready()

    def on_deliveries(self, worker: Worker, deliveries: Sequence[Delivery]) -> list[Delivery]:
        observer = self._observer
        refuses, wants = observer.refuses_some, observer.wants_received
        if not (refuses or wants):
            return []
        unpack: Callable[[Delivery], Received | None] = self._received(worker.name)
        jobs = [job for job in map(unpack, deliveries) if job]
        if wants:
            observer.on_received(jobs)
        return [job.delivery for job in jobs if observer.refuses(job)] if refuses else []

    def take(self, worker: Worker, deliveries: Sequence[Delivery]) -> list[Delivery]:
        names = self._observer.takes
        if not names:
            return []
        unpack = self._received(worker.name)
        found = [job for job in map(unpack, deliveries) if job and job.name in names]
        if found:
            self._observer.on_taken(self._taken.take(found))
        return [job.delivery for job in found]

    def on_leaving(self, worker: Worker) -> None:
        self._observer.on_leaving(len(self._taken))

    def on_settled(self, worker: Worker, settlements: Sequence[Settlement]) -> None:
        ran = [one for one in settlements if isinstance(one, RUN)]
        names = [
            name for one in ran if (name := limits_of(one.delivery.envelope)[0]) not in OWN_TASKS
        ]
        self._observer.on_ended(
            names, [one.delivery.job_id for one in settlements if type(one) is Ack]
        )

    def on_dropped(self, worker: Worker, dropped: Sequence[Dropped]) -> None:
        tell_backend(self._celery_app, [each.job_id for each in dropped])
        for each in dropped:
            self._observer.on_dropped(each.job_id, each.task, each.reason)

    def on_stop(self, worker: Worker, report: WorkerReport) -> None:
        self._observer.on_stopped()

    def on_child_start(self, app: App) -> None:
        if app.config.pool == PROCESSES:
            self._observer.on_child_start()

    def on_child_stop(self, app: App) -> None:
        if app.config.pool == PROCESSES:
            self._observer.on_child_stop()

    def _received(self, worker: str) -> Callable[[Delivery], Received | None]:
        def unpack(delivery: Delivery) -> Received | None:
            try:
                envelope = load(delivery.envelope)
                if envelope.task in OWN_TASKS:
                    return None
                return Received(self._engine, delivery, envelope, worker)
            except MessageError as error:  # the engine deals with it; there is nothing to tell
                logger.warning("Cannot read job %s: %s", delivery.job_id, error)
                return None

        return unpack
