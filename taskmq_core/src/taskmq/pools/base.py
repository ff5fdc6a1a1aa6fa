"""The pool port: runs deliveries, knows nothing of stores, leases or settlements."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from taskmq.errors import ConfigError
from taskmq.executor import Executor, Outcome
from taskmq.transport import Delivery, Nack

if TYPE_CHECKING:
    from taskmq.app import App
    from taskmq.config import Config
    from taskmq.hooks import WorkerHook

__all__ = [
    "Done",
    "Execute",
    "InProcess",
    "Pool",
    "RunningJob",
    "Setting",
    "came_to_nothing",
    "run_one",
]

logger = logging.getLogger("taskmq.pools")

Execute = Callable[[Delivery], Outcome]
"""Runs one delivery to its end. Raises nothing but ``KeyboardInterrupt``; callable from any
thread."""

Done = Callable[[Outcome], None]
"""Takes an outcome. Called in whatever thread the delivery ran in."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Whose jobs a pool runs, for one that has to explain it to other processes.

    ``executor`` runs them in this process.
    """

    app: App
    config: Config
    worker: str
    hooks: Sequence[WorkerHook] = ()
    executor: Executor | None = None


class RunningJob(Protocol):
    """What looks after a running job sees of it: a `taskmq.TaskContext`, or as much of it."""

    started_at: float
    """Epoch seconds."""
    lease_lost: bool
    """To be set before ``cancelled``."""

    @property
    def delivery(self) -> Delivery: ...

    @property
    def task(self) -> str: ...

    @property
    def cancelled(self) -> bool:
        """Set it, and the task is told."""

    @cancelled.setter
    def cancelled(self, value: bool) -> None: ...


class Pool(Protocol):
    """Slots that run deliveries in the order in which they were submitted.

    Between `submit` and its start a delivery is *unstarted*. Each one is either started or given
    back by `withdraw`, never both and never neither, whatever the timing.

    One thread owns the pool and calls its methods; `unstarted`, `withdraw` and `submit` may be
    called by others too.
    """

    runs_coroutines: bool
    """Whether the body of a task may be ``async def``."""

    inline: bool
    """Whether jobs run inside `turn`, in the owner's thread."""

    has_children: bool
    """Whether jobs run in other processes, which can be killed. The hooks of a child run there."""

    @property
    def remote(self) -> Mapping[str, RunningJob] | None:
        """What runs now, by job id, where the executor does not know: in other processes."""

    @property
    def slots(self) -> int:
        """How many run at once."""

    @property
    def children(self) -> tuple[int, ...]:
        """Ids of the processes that run jobs, where those are not the worker's own."""

    def prepare(self) -> None:
        """Do what must be done before the worker starts its threads. Raises `ConfigError`."""

    def start(self, execute: Execute, done: Done) -> None:
        """Get ready. Each delivery goes through ``execute``, its outcome to ``done``, once."""

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        """Run these, after those submitted before."""

    def unstarted(self) -> int:
        """How many wait for a slot; a snapshot."""

    def withdraw(self) -> list[Delivery]:
        """Take back all that have not started, in order; they will not start any more."""

    def turn(self) -> None:
        """Let the pool use the calling thread; returns when there are outcomes to see to."""

    def abort(self) -> list[Delivery]:
        """End what runs, now and for good, where that is possible: these deliveries, of which
        ``done`` will not hear. Where slots cannot be ended, none: what runs goes on."""

    def terminate(self, job_id: str) -> None:
        """End what runs of this job by force, where that is possible; its outcome is a
        `taskmq.transport.Revoke`."""

    def resize(self, slots: int) -> None:
        """Have so many slots from now on; those too many end after what they run. Raises
        `ConfigError` where the number is fixed."""

    def stop(self, timeout: float) -> bool:
        """Start nothing more and wait for what runs, at most ``timeout`` seconds (real time).

        False if something still runs then: it is left alone, and its outcome still goes to
        ``done``.
        """


class InProcess:
    """What is the same in every pool whose jobs run in the worker's own process, with a fixed
    number of slots."""

    has_children = False
    remote = None
    children: tuple[int, ...] = ()

    def prepare(self) -> None:
        """Nothing."""

    def abort(self) -> list[Delivery]:
        return []  # neither a thread nor a function can be ended from outside

    def terminate(self, job_id: str) -> None:
        """Not possible: the task is told, as of any revocation."""

    def resize(self, slots: int) -> None:
        raise ConfigError("this pool keeps the slots that it has: only 'processes' can change them")


def run_one(execute: Execute, delivery: Delivery) -> Outcome:
    """Run in a context of its own: context variables set by a job end with it.

    An error of the machinery around the task gives the job back, counted as a lost worker is.
    """
    try:
        return copy_context().run(execute, delivery)
    except Exception as error:
        return came_to_nothing(delivery, error)


def came_to_nothing(delivery: Delivery, error: BaseException) -> Outcome:
    """The outcome of a run that ended in no outcome."""
    logger.error("job %s could not be run to its end", delivery.job_id, exc_info=error)
    return Outcome(Nack(delivery, detail=f"{type(error).__name__}: {error}"))
