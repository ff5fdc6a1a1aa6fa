"""A real worker in the hands of a test: it runs when told to, and returns when nothing is left.

    with worker_for(app) as w:
        handle = flaky.delay()
        w.run_until_idle(timeout=5)
        assert handle.state == "SUCCEEDED"

Everything is real: the app's own store, the pool, retries, leases. `isolated` gives an app a store
of its own and a clock that stands still, for as long as a test wants.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Literal

from taskmq.app import App
from taskmq.checks import nearest
from taskmq.config import Config
from taskmq.eager import EagerRunner, LeapingClock
from taskmq.errors import ConfigError
from taskmq.records import JobFilter, JobRecord
from taskmq.tasks import Task
from taskmq.transport import Reservation, Transport
from taskmq.transports.memory import MemoryTransport
from taskmq.worker import Worker, WorkerReport

from .clock import FakeClock
from .crash import CrashPoints, MortalTransport, WorkerCrashed
from .faults import FaultyTransport, Plan

__all__ = ["CrashAt", "WorkerDriver", "eager", "isolated", "worker_for"]

CrashAt = Mapping["str | Task[..., Any]", "int | Collection[int]"]
"""Which deliveries of a job kill the worker, by its task: ``{"flaky": 2}``, ``{flaky: (1, 2)}``."""

NAMES = itertools.count(1)


@contextmanager
def worker_for(
    app: App,
    *,
    pool: Literal["solo", "threads", "asyncio"] = "solo",
    concurrency: int | None = None,
    crash_at: CrashAt | None = None,
    faults: Plan | None = None,
) -> Iterator[WorkerDriver]:
    """A worker on the app's own store that runs nowhere until it is told to.

    With the ``solo`` pool, tasks run in the test's own thread, one after the other: breakpoints
    work, and the order is always the same. ``concurrency`` counts threads; the app's if not given.

    ``crash_at={"flaky": 2}`` kills the worker the second time that a job of ``flaky`` has run,
    before the store hears of it: the job is not settled, its lease has to end, and the next worker
    gets it. ``faults`` is what happens to the worker's calls of the store. Raises `ConfigError`
    for a task that the app does not have.

    >>> with worker_for(app, crash_at={"flaky": 2}) as w:
    ...     handle = flaky.delay()
    ...     w.run_until_idle()
    ...     assert w.crashes == 1
    """
    app.load()
    config = app.config.replace(
        pool=pool,
        concurrency=concurrency or app.config.concurrency,
        unsupported_limits="warn",  # a test of a task does not need it to be killed
    )
    points = _crash_points(app, crash_at or {})
    if points:
        config = config.replace(prefetch=config.concurrency)  # so that few jobs die with it
    yield WorkerDriver(app, config, points, faults)


class WorkerDriver:
    """Runs workers, one after the other. Made by `worker_for`.

    ``crashes`` counts the workers that died so far.
    """

    def __init__(self, app: App, config: Config, points: CrashPoints, faults: Plan | None) -> None:
        self.crashes = 0
        self._app = app
        self._config = config
        self._points = points
        self._faults = faults

    def run_until_idle(self, timeout: float | None = None) -> WorkerReport:
        """Run until nothing is ready in any queue; what was done, over all workers that it took.

        Without ``timeout``, jobs that are due later are left alone. With it, those that become due
        within ``timeout`` seconds are waited for, if the app's clock runs by itself; a clock that
        stands still is moved by `advance` alone. Raises ``TimeoutError`` if jobs still run after
        ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        reports: list[WorkerReport] = []
        while True:
            reports.append(self._run_worker(deadline))
            if not self._is_anything_ready() and not self._wait_until_due(deadline):
                return _sum(reports)

    def advance(self, seconds: float) -> WorkerReport:
        """Let time pass, and run whatever comes due on the way, each at exactly its time.

        So a retry that fails again is retried again if that is due within ``seconds``, too. Raises
        ``TypeError`` if the app's clock is none that stands still.
        """
        clock = self._app.clock
        if not isinstance(clock, FakeClock):
            raise TypeError(
                f"advance() moves a FakeClock, and the clock of this app is a "
                f"{type(clock).__name__}: make it App(..., clock=FakeClock()), or use isolated(app)"
            )
        end = clock.now() + seconds
        reports = [self.run_until_idle()]
        while (due := self._next_due_at()) is not None and due <= end:
            clock.advance(max(0.0, due - clock.now()))
            reports.append(self.run_until_idle())
        clock.advance(max(0.0, end - clock.now()))
        reports.append(self.run_until_idle())
        return _sum(reports)

    @property
    def dead_letters(self) -> list[JobRecord]:
        """What failed for good, oldest first."""
        return list(self._app.dead_letters.list())

    def jobs(self, task: str | Task[..., Any] | None = None) -> list[JobRecord]:
        """Every stored job, or those of one task, oldest first."""
        name = None if task is None else _full_name(self._app, task)
        return self._app.transport.find(JobFilter(task=name, limit=1_000_000))

    # -- one worker ----------------------------------------------------------------------------

    def _run_worker(self, deadline: float | None) -> WorkerReport:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        with _transport_of(self._app, self._way_to_the_store()):
            worker = Worker(
                self._app,
                queues=sorted(self._queues()),
                name=f"test-worker-{next(NAMES)}",
                config=self._config,
            )
            try:
                return worker.run_until_idle(left)
            except WorkerCrashed:
                self.crashes += 1
                return WorkerReport()

    def _way_to_the_store(self) -> Transport:
        way = MortalTransport(self._app.transport, self._points)
        return way if self._faults is None else FaultyTransport(way, self._faults)

    def _queues(self) -> set[str]:
        """All there are: a test should not have to say where its jobs are."""
        declared = {self._config.default_queue, *self._config.queues}
        named = {task.policy.queue for task in self._app.tasks if task.policy.queue}
        return declared | named | {stats.queue for stats in self._app.transport.stats()}

    # -- what is left --------------------------------------------------------------------------

    def _is_anything_ready(self) -> bool:
        """After a crash, or where a task has written to a queue that was new."""
        return any(stats.ready for stats in self._app.transport.stats())

    def _next_due_at(self) -> float | None:
        queues = dict.fromkeys(self._queues(), 1)
        look = Reservation(queues=queues, worker="test", lease=self._config.lease, limit=0)
        return self._app.transport.exchange((), look).next_due_at

    def _wait_until_due(self, deadline: float | None) -> bool:
        """Whether something is due now that was not."""
        clock, due = self._app.clock, self._next_due_at()
        if deadline is None or due is None or isinstance(clock, FakeClock):
            return False
        before = clock.now()
        if due - before > deadline - time.monotonic():
            return False
        threading.Event().wait(max(0.0, due - before))
        return clock.now() > before  # not if something else holds the clock still


@contextmanager
def isolated(app: App, *, clock: FakeClock | None = None) -> Iterator[FakeClock]:
    """Inside, an app has an empty memory store of its own and a clock that stands still.

    For tests of an application that is configured for production: neither its store nor its
    settings are touched, and afterwards it is as it was.

    >>> with isolated(app) as clock, worker_for(app) as w:
    ...     remind.submit("milk", eta=3600)
    ...     w.advance(3600)
    """
    clock = clock or FakeClock()
    before, app.clock = app.clock, clock
    try:
        with _transport_of(app, MemoryTransport(clock)):
            yield clock
    finally:
        app.clock = before


@contextmanager
def eager(app: App) -> Iterator[App]:
    """Inside, jobs run when they are submitted, in the thread that submits them.

    The same as ``Config(eager=True)``, for an app that was configured otherwise. Its own store is
    not touched, and what ran is forgotten at the end.
    """
    clock, runner = app.clock, app._eager
    app.clock = leaping = LeapingClock(clock)
    app._eager = EagerRunner(app, leaping)
    try:
        with _transport_of(app, None):
            yield app
    finally:
        app.clock, app._eager = clock, runner


@contextmanager
def _transport_of(app: App, transport: Transport | None) -> Iterator[None]:
    """Let an app use another store. Not through `App.transport`, which would open its own."""
    before, app._transport = app._transport, transport
    try:
        yield
    finally:
        app._transport = before


def _crash_points(app: App, crash_at: CrashAt) -> CrashPoints:
    return {
        _full_name(app, task): {when} if isinstance(when, int) else frozenset(when)
        for task, when in crash_at.items()
    }


def _full_name(app: App, task: str | Task[..., Any]) -> str:
    """The name of a task that is given as itself, by its name or by the last part of it."""
    if isinstance(task, Task):
        return task.name
    names = app.tasks.names()
    found = [name for name in names if name == task or name.endswith(f".{task}")]
    if len(found) == 1:
        return found[0]
    if task in found:
        return task
    what = f"several tasks are called {task!r}: {', '.join(found)}"
    raise ConfigError(what if found else f"no task {task!r}{nearest(task, names)}")


def _sum(reports: Iterable[WorkerReport]) -> WorkerReport:
    total: Counter[str] = Counter()
    for report in reports:
        total.update(asdict(report))
    return WorkerReport(**total)
