"""Pools with several slots at once, behind the real port and in one thread.

What runs in a slot stands still until the simulation lets it go on: a move starts what waits, and
ends what runs. In between, anything may happen to the worker, its leases and its jobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from taskmq.errors import ConfigError, HardTimeLimit, Interrupted, JobCancelled, WorkerLost
from taskmq.executor import Attempt, Executor, Outcome
from taskmq.pools import Done, Execute, Setting
from taskmq.pools.base import RunningJob, came_to_nothing
from taskmq.transport import Defer, Delivery, Nack, Settlement

__all__ = ["ChildPool", "Script", "SlotPool"]

KILLED: Mapping[str, Callable[[], Interrupted | JobCancelled]] = {
    "hard_limit": lambda: HardTimeLimit("hard_timeout of 1 s is over", 1.0),
    "child_lost": lambda: WorkerLost("the child died of signal 9"),
    "terminated": lambda: JobCancelled("ended by force"),
}


class Script(Protocol):
    """Says what happens in the tasks of one worker."""

    def begins(self, delivery: Delivery) -> None:
        """A slot starts to run this."""

    def ending(self, delivery: Delivery, *, told: bool, killed: bool) -> str:
        """How it ends now. ``told``: its task knows that it is to stop. ``killed``: somebody ends
        it by force, if it does not end before."""

    def ended(self, delivery: Delivery, *kinds: type[Settlement]) -> None:
        """It ended from outside, and may be settled in these ways."""


class SlotPool:
    """What is alike: a `taskmq.pools.Pool`."""

    inline = False
    runs_coroutines = False
    has_children = False
    children: tuple[int, ...] = ()

    def __init__(self, slots: int, script: Script) -> None:
        self.slots = slots
        self._script = script
        self._pending: deque[Delivery] = deque()
        self._done: Done

    @property
    def remote(self) -> Mapping[str, RunningJob] | None:
        return None

    def prepare(self) -> None:
        """Nothing."""

    def resize(self, slots: int) -> None:
        raise ConfigError("a simulated pool keeps the slots that it has")

    def terminate(self, job_id: str) -> None:
        """Not possible."""

    def abort(self) -> list[Delivery]:
        raise NotImplementedError

    def start(self, execute: Execute, done: Done) -> None:
        self._done = done

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        self._pending.extend(deliveries)

    def unstarted(self) -> int:
        return len(self._pending)

    def withdraw(self) -> list[Delivery]:
        withdrawn = list(self._pending)
        self._pending.clear()
        return withdrawn

    def turn(self) -> None:
        """Nothing: the slots have time of their own."""

    def stop(self, timeout: float) -> bool:
        return True

    # -- what the simulation does --------------------------------------------------------------

    def running(self) -> list[Delivery]:
        """What runs in the slots."""
        raise NotImplementedError

    @property
    def busy(self) -> int:
        """How many slots run something."""
        return len(self.running())

    def fill(self) -> None:
        """Start what waits, as far as there are slots."""
        while self._pending and self.busy < self.slots:
            self._start(self._pending.popleft())

    def go_on(self, number: int) -> None:
        """Let one of those that run go on, mostly to its end."""
        raise NotImplementedError

    def discard(self) -> None:
        """The worker is gone; nothing of it goes on."""
        raise NotImplementedError

    def _start(self, delivery: Delivery) -> None:
        raise NotImplementedError


class ChildJob:
    """A `taskmq.pools.RunningJob` in a child."""

    def __init__(self, attempt: Attempt, started_at: float) -> None:
        self.attempt = attempt
        self.started_at = started_at
        self.delivery = attempt.delivery
        self.task = attempt.envelope.task
        self.lease_lost = False
        self.cancelled = False
        self.killed = False


class ChildPool(SlotPool):
    """As the processes pool: the parent knows what runs, and learns how it ended. A child can be
    killed, and can die; what its parent says of it then comes from the real executor."""

    has_children = True

    def __init__(self, slots: int, setting: Setting, script: Script) -> None:
        super().__init__(slots, script)
        self._remote: dict[str, ChildJob] = {}
        self._running: list[ChildJob] = []
        self._clock = setting.app.clock
        self._child = Executor(setting.app, worker=setting.worker)
        self._aftermath = Executor(setting.app, worker=setting.worker)

    @property
    def remote(self) -> Mapping[str, RunningJob]:
        return self._remote

    def running(self) -> list[Delivery]:
        return [job.delivery for job in self._running]

    def abort(self) -> list[Delivery]:
        aborted = [job.delivery for job in self._running]
        for delivery in aborted:
            self._script.ended(delivery, Defer, Nack)
        self.discard()
        return aborted

    def terminate(self, job_id: str) -> None:
        job = self._remote.get(job_id)
        if job is not None:
            job.killed = True

    def _start(self, delivery: Delivery) -> None:
        attempt = self._child.admit(delivery)
        if isinstance(attempt, Outcome):
            self._done(attempt)
            return
        self._script.begins(delivery)
        job = ChildJob(attempt, self._clock.now())
        self._running.append(job)
        self._remote[delivery.job_id] = job

    def go_on(self, number: int) -> None:
        job = self._running.pop(number)
        if self._remote.get(job.delivery.job_id) is job:
            del self._remote[job.delivery.job_id]
        ending = self._script.ending(job.delivery, told=job.cancelled, killed=job.killed)
        if ending in KILLED:
            runtime = self._clock.now() - job.started_at
            self._done(self._aftermath.conclude(job.delivery, KILLED[ending](), runtime))
        else:
            self._done(self._run(job))

    def _run(self, job: ChildJob) -> Outcome:
        try:
            return self._child.run(job.attempt)
        except Exception as error:
            return came_to_nothing(job.delivery, error)

    def discard(self) -> None:
        self._running.clear()
        self._remote.clear()
