"""The worker as its users see it: build it, run it, stop it."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from taskmq.app import App
from taskmq.checks import limits_in_order
from taskmq.config import Config
from taskmq.errors import ConfigError
from taskmq.events import WorkerStarted, WorkerStopped
from taskmq.hooks import WorkerHook
from taskmq.limits import Rate, check_rate, rate_of
from taskmq.pools import RunningJob
from taskmq.transport import Delivery, Settlement

from .health import Health
from .inbox import Inbox
from .loop import Loop
from .pulse import STUCK_AFTER
from .report import WorkerReport
from .session import Session

__all__ = ["Worker"]

logger = logging.getLogger("taskmq.worker")


class Worker:
    """Runs the jobs of one app.

    >>> worker = Worker(app, queues=["email"])
    >>> with handle_signals(worker):
    ...     report = worker.run()

    ``queues`` defaults to `App.queues`: all that the app knows of. Concurrency, pool, prefetch,
    lease, heartbeat and shutdown timeout come from ``config``, which defaults to the app's. A
    worker may run several times, one run at a time (``RuntimeError`` otherwise).

    Guarantees: a job that was reserved is settled, given back, or left to its lease, whatever
    happens; no outcome is reported before the store has it; once it runs, only a damaged store
    (`StoreCorrupt`, `SchemaMismatch`) ends a worker, not one that cannot be reached.
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Sequence[str] | None = None,
        name: str | None = None,
        hook: WorkerHook | None = None,
        config: Config | None = None,
    ) -> None:
        self.app = app
        self.config = config or app.config
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self.queues = app.queues() if queues is None else tuple(dict.fromkeys(queues))
        if not self.queues or not all(self.queues):
            raise ConfigError(f"a worker needs queues, each with a name; got {queues!r}")
        self.started_at = 0.0
        """Epoch seconds; 0 before it ran."""
        self._hook = hook or WorkerHook()
        self._inbox = Inbox()
        self._session: Session | None = None  # the last one, if it left jobs running
        self._processed = 0
        self._turnstile = threading.Lock()  # held while it runs

    # -- running -----------------------------------------------------------------------------

    def run(self) -> WorkerReport:
        """Run jobs until stopped; blocks. What a worker does with the store, it does in this
        thread, apart from renewing leases and its heartbeat.

        Raises `ConfigError` if a task does not suit the pool, and `TransportError` if the store
        cannot be opened: nothing was reserved then.
        """
        return self._run(lambda loop: loop.run())

    def run_until_idle(self, timeout: float | None = None) -> WorkerReport:
        """Run until nothing is ready and nothing runs here any more. For tests and batches.

        Housekeeping is done once at least: ended leases, expired and long parked jobs of any queue
        are seen to. Jobs that are due later are left alone: time passes only by itself, or by the
        clock that a test moves. Raises ``TimeoutError`` after ``timeout`` (real) seconds, and as
        `run` does.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._run(lambda loop: loop.run(until_idle=True, deadline=deadline))

    def stop(self, within: float | None = None) -> None:
        """Ask for a graceful end: nothing more is reserved, what has not started goes back at
        once, what runs has ``shutdown_timeout`` seconds, or ``within`` seconds from now.

        Returns at once. May be repeated, and called from any thread or signal handler: of several
        times the shortest holds.
        """
        if within is not None:
            self._inbox.stop_within = within
        self._inbox.stop = True
        self._inbox.ring()

    def stop_now(self) -> None:
        """Ask for the end without waiting for what runs: that is left to its leases.

        Returns at once; callable like `stop`. With the solo pool the running job is finished
        first: it has the thread.
        """
        self._inbox.stop_now = True
        self.stop()

    @property
    def stopping(self) -> bool:
        """Whether `stop` or `stop_now` was called."""
        return self._inbox.stop

    def wake(self) -> None:
        """Look at the store and the clock now; needed only where a test moves the clock."""
        self._inbox.ring()

    def grow(self, slots: int = 1) -> int:
        """Have so many slots more, now; how many there are then. From any thread.

        Raises `ConfigError` for a pool whose slots are fixed, and ``RuntimeError`` while the worker
        does not run.
        """
        return self._resize(slots)

    def shrink(self, slots: int = 1) -> int:
        """Have so many slots less; what runs in them is finished first. At least one is left
        (`ConfigError`). Like `grow`."""
        return self._resize(-slots)

    def _resize(self, by: int) -> int:
        session = self._session
        if session is None:
            raise RuntimeError(
                f"worker {self.name} does not run: its slots are in its configuration"
            )
        session.resize(session.pool.slots + by)
        return session.pool.slots

    def consume(self, queues: Sequence[str]) -> None:
        """Take jobs from these queues from now on, and no more from others: what has not started
        of those goes back. None at all is possible while it runs. From any thread.

        Raises `ConfigError` for a queue without a name.
        """
        names = tuple(dict.fromkeys(queues))
        session = self._session
        if not all(names) or not (names or session):
            raise ConfigError(f"a worker needs queues, each with a name; got {queues!r}")
        self.queues = names
        if session is not None:
            session.consume(names)

    def limit(self, task: str, rate: str | Rate | None) -> None:
        """Start a task so often at most from now on, in this worker and until it stops; ``None``:
        as often as it comes. Limits of the fleet stay as they are. From any thread.

        Raises `ConfigError` for what is no rate, and ``RuntimeError`` while it does not run.
        """
        session = self._session
        if session is None:
            raise RuntimeError(f"worker {self.name} does not run: rates are those of the tasks")
        if rate is not None:
            check_rate("rate", rate)
        session.limit(task, None if rate is None else rate_of(rate))

    def limit_time(
        self, task: str, timeout: float | None = None, hard_timeout: float | None = None
    ) -> None:
        """Let jobs of a task that come without limits of their own take so many seconds at most,
        from now on, in this worker and until it stops. From any thread.

        Raises `ConfigError` for limits that contradict each other, and ``RuntimeError`` while it
        does not run.
        """
        session = self._session
        if session is None:
            raise RuntimeError(f"worker {self.name} does not run: limits are those of the tasks")
        limits_in_order(timeout, hard_timeout)
        session.fetcher.time_limits.keep(task, (timeout, hard_timeout))

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Say what became of deliveries that a hook has taken (`WorkerHook.take`). They are sent
        to the store with the next exchange, which comes at once; of one whose lease got lost
        nothing is sent. Returns at once; from any thread."""
        self._inbox.settle(settlements)

    def start(self, deliveries: Sequence[Delivery]) -> None:
        """Run deliveries that a hook has taken, after those that wait for a slot. Like `settle`."""
        self._inbox.start(deliveries)

    # -- from other threads ------------------------------------------------------------------

    def health(self, stuck_after: float = STUCK_AFTER) -> Health:
        """How it is, for probes: from any thread, at once, without a look at the store.

        A step of its loop that takes more than ``stuck_after`` seconds makes it not live. What a
        task or the store takes does not count.
        """
        session = self._session
        if session is None:
            return Health(live=True, ready=False, status="not running")
        return session.health(stuck_after)

    def in_flight(self) -> list[Delivery]:
        """What it holds now: running, waiting for a slot, or about to be settled."""
        session = self._session
        return [] if session is None else session.keeper.held()

    def running(self) -> list[RunningJob]:
        """What runs in it now, in no order. From any thread, at once."""
        session = self._session
        return [] if session is None else session.running()

    def processed(self) -> int:
        """How many jobs have run in it since it was started last, however they ended. Like
        `running`, and after its end as well."""
        session = self._session
        return self._processed if session is None else session.fetcher.tally.processed

    def children(self) -> tuple[int, ...]:
        """Ids of the processes that run its jobs, if those are not its own. Like `running`."""
        session = self._session
        return () if session is None else session.pool.children

    def hand_over(self) -> int:
        """Give back what still runs, so that it runs elsewhere at once instead of when its lease
        ends; how many jobs. Only for a process that ends right afterwards, by ``os._exit``: until
        then the job may run twice at a time.

        After `run`, or instead of its end, from another thread, where a job has the thread of the
        loop. What has ended meanwhile is settled. Raises `TransportError`: the leases hold then.
        """
        session, self._session = self._session, None
        return 0 if session is None else session.hand_over()

    # -- one run -----------------------------------------------------------------------------

    def _run(self, work: Callable[[Loop], None]) -> WorkerReport:
        if not self._turnstile.acquire(blocking=False):
            raise RuntimeError(f"worker {self.name} runs already; make another one")
        try:
            return self._run_once(work)
        finally:
            self._turnstile.release()

    def _run_once(self, work: Callable[[Loop], None]) -> WorkerReport:
        self.app.load()
        session = Session(
            self.app,
            self.config,
            name=self.name,
            queues=self.queues,
            inbox=self._inbox,
            on_deliveries=self._told_of_deliveries if self._listens("on_deliveries") else None,
            on_settled=self._listener("on_settled"),
            on_dropped=self._listener("on_dropped"),
            on_leaving=self._on_leaving if self._listens("on_leaving") else None,
            take=self._offered if self._takers else None,
            most_taken=max((hook.most_taken for hook in self._takers), default=0),
            hooks=self._hooks(),
        )
        self._session = session
        self.started_at, began = self.app.clock.now(), time.monotonic()
        self._call("on_start")
        try:
            session.start()
            self._announce(session)
            work(session.loop)
            abandoned = session.end()
        except BaseException:
            self._session = None
            session.crash()
            raise
        finally:
            self._inbox = Inbox()  # a stop was for this run, or comes in time for the next
        self._processed = session.fetcher.tally.processed
        if not abandoned:
            self._session = None
        report = session.fetcher.tally.report(
            seconds=time.monotonic() - began,
            abandoned=abandoned,
            interrupted=session.loop.interrupted,
        )
        self._part(report)
        return report

    def _announce(self, session: Session) -> None:
        logger.info(
            "%s ready: queues %s, pool %s, concurrency %d",
            self.name,
            ", ".join(self.queues),
            self.config.pool,
            session.pool.slots,
        )
        if self.app.emitter.active:
            self.app.emitter.emit(
                WorkerStarted(
                    at=self.started_at,
                    worker=self.name,
                    queues=self.queues,
                    pool=self.config.pool,
                    concurrency=session.pool.slots,
                )
            )
        self._call("on_ready")

    def _part(self, report: WorkerReport) -> None:
        if report.abandoned:
            logger.warning("%s leaves %d jobs running", self.name, report.abandoned)
        logger.info("%s stopped: %s", self.name, report)
        if self.app.emitter.active:
            self.app.emitter.emit(
                WorkerStopped(
                    at=self.app.clock.now(),
                    worker=self.name,
                    processed=report.processed,
                    released=report.released,
                )
            )
        self._call("on_stop", report)

    def _listener(self, name: str) -> Callable[[Sequence[Any]], None] | None:
        """Nothing where nobody listens: no call per batch then."""

        def tell(batch: Sequence[Any]) -> None:
            self._call(name, batch)

        return tell if self._listens(name) else None

    def _listens(self, name: str) -> bool:
        silent = getattr(WorkerHook, name)
        return any(getattr(type(hook), name) is not silent for hook in self._hooks())

    def _on_leaving(self) -> None:
        self._call("on_leaving")

    def _told_of_deliveries(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Those that a hook does not let start."""
        answers = self._call("on_deliveries", deliveries)
        return [delivery for answer in answers for delivery in answer or ()]

    @property
    def _takers(self) -> list[WorkerHook]:
        return [hook for hook in self._hooks() if type(hook).take is not WorkerHook.take]

    def _offered(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Those that a hook takes."""
        return [one for answer in self._call("take", deliveries) for one in answer or ()]

    def _hooks(self) -> list[WorkerHook]:
        return [*self.app.hooks, self._hook]

    def _call(self, name: str, *arguments: object) -> list[Any]:
        answers = []
        for hook in self._hooks():
            try:
                answers.append(getattr(hook, name)(self, *arguments))
            except Exception:
                logger.exception("%s of the worker hook failed", name)
        return answers
