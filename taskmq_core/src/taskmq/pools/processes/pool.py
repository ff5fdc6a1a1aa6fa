"""The processes pool, as the worker sees it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from taskmq.executor import Executor
from taskmq.pools.base import Done, Execute, Setting
from taskmq.transport import Delivery

from .aftermath import Aftermath
from .births import Births, choose_method
from .charge import RemoteJob
from .feeder import Feeder
from .site import Site

__all__ = ["ProcessPool"]

logger = logging.getLogger("taskmq.pools")

START_TIMEOUT = 120.0
KILL_TIMEOUT = 5.0
"""Seconds for killed processes to be gone; they need milliseconds."""


class ProcessPool:
    """``slots`` child processes, each of which runs one job at a time in its main thread.

    A job that crashes, hangs or leaks does it in a process that can be spared. The children are
    forks of a small process of its own, or of an interpreter that imports the app anew; see
    `nursery`. The store and the leases stay with the worker.
    """

    runs_coroutines = False
    inline = False
    has_children = True

    def __init__(self, slots: int, setting: Setting) -> None:
        self._slots = slots
        self._setting = setting
        self._feeder: Feeder | None = None
        self._aftermath: Aftermath | None = None
        self.remote: dict[str, RemoteJob] = {}
        """What runs in the children, by job id."""

    @property
    def slots(self) -> int:
        return self._feeder.slots if self._feeder else self._slots

    @property
    def children(self) -> tuple[int, ...]:
        """Their process ids."""
        return () if self._feeder is None else self._feeder.children()

    @property
    def nursery(self) -> int:
        """Process id of the nursery, whose children the children are."""
        return self._started.nursery

    def prepare(self) -> None:
        """Make the nursery. Before the worker starts threads. Raises `ConfigError`."""
        setting = self._setting
        app, config = setting.app, setting.config
        site = Site(
            app=app,
            config=config,
            worker=setting.worker,
            hooks=setting.hooks,
            events=app.emitter.active,
            shared=app.transport.capabilities.shared,
        )
        self._feeder = Feeder(
            Births(site, choose_method(config.start_method)),
            slots=self._slots,
            running=self.remote,
            most_jobs=config.max_jobs_per_child,
            clock=app.clock,
            emit=app.emitter.emit,
            again=lambda: Births(site, "spawn" if config.start_method == "spawn" else "forkserver"),
        )

    def start(self, execute: Execute, done: Done) -> None:
        """Make the children; returns when one is ready. Raises `ConfigError`. ``execute`` is not
        called: children have an executor of their own."""
        if self._feeder is None:
            self.prepare()
        self._aftermath = Aftermath(Executor(self._setting.app, worker=self._setting.worker), done)
        self._started.start(done, self._aftermath)
        self._started.wait_until_ready(START_TIMEOUT)

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        self._started.pending.extend(deliveries)
        self._started.rouse()

    def unstarted(self) -> int:
        return self._started.unstarted()

    def withdraw(self) -> list[Delivery]:
        return [] if self._feeder is None else self._feeder.withdraw()

    def turn(self) -> None:
        """Nothing but bad news: raises what ended the pool."""
        if self._started.failure is not None:
            raise self._started.failure

    def stop(self, timeout: float) -> bool:
        """Every child is gone afterwards: what still runs then is killed."""
        feeder = self._feeder
        if feeder is None:
            return True
        if not feeder.stop(timeout):
            feeder.abort(KILL_TIMEOUT)  # left to their leases, like all that nobody waits for
            feeder.stop(KILL_TIMEOUT)
        return self._aftermath is None or self._aftermath.stop(KILL_TIMEOUT)

    def abort(self) -> list[Delivery]:
        """Kill the children that run something: these deliveries."""
        return self._started.abort(KILL_TIMEOUT)

    def terminate(self, job_id: str) -> None:
        """Kill the child that runs this job, whose outcome is then `taskmq.transport.Revoke`."""
        self._started.terminate(job_id)

    def resize(self, slots: int) -> None:
        """From now on so many children; those too many end after the job that they run."""
        self._started.resize(slots)

    @property
    def _started(self) -> Feeder:
        if self._feeder is None:
            raise RuntimeError("the pool is not prepared")
        return self._feeder
