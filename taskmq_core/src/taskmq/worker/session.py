"""One run of a worker: its parts, put together, started and ended in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from taskmq.app import App
from taskmq.config import Config
from taskmq.dedup import Dedup
from taskmq.errors import ConfigError
from taskmq.executor import Executor, Outcome
from taskmq.hooks import WorkerHook
from taskmq.limits import Rate
from taskmq.pools import Done, Pool, RunningJob, Setting, make_pool
from taskmq.records import Dropped
from taskmq.transport import Delivery, Release, Settlement

from .autoscale import INTERVAL, Autoscale
from .credit import Credit
from .fetcher import Fetcher
from .health import Health
from .heartbeat import Heartbeat, describe_worker
from .inbox import Inbox
from .interrupt import cut_short
from .lease import RENEW_EVERY, LeaseKeeper
from .lookout import Lookout
from .loop import Loop, Parts
from .neighbours import Neighbours
from .pace import REAL, Pace
from .pauses import Pauses
from .recall import Recall
from .taken import Take, Taken
from .throttle import Throttle
from .ticker import Ticker
from .watchdog import Watchdog

__all__ = ["Session"]

logger = logging.getLogger("taskmq.worker")

JOIN_TIMEOUT = 5.0
"""Seconds for slots that have nothing left to run; they need microseconds."""
CHECK_INTERVAL = 0.5
"""Seconds between two looks whether what is held for longer than that was revoked, whether a queue
was paused of which something waits for a slot, and whether a neighbour is gone."""
SPOOL_INTERVAL = 2.0
"""Seconds between two looks whether another process of this host has left jobs in the spool."""
ABANDON_TIMEOUT = 0.05
"""The same where some are known to be still at work."""


class Session:
    """Everything that exists only while a worker runs."""

    def __init__(
        self,
        app: App,
        config: Config,
        *,
        name: str,
        queues: Sequence[str],
        inbox: Inbox,
        on_deliveries: Callable[[Sequence[Delivery]], Collection[Delivery]] | None,
        on_settled: Callable[[Sequence[Settlement]], None] | None = None,
        on_dropped: Callable[[Sequence[Dropped]], None] | None = None,
        on_leaving: Callable[[], None] | None = None,
        take: Take | None = None,
        most_taken: int = 0,
        hooks: Sequence[WorkerHook] = (),
        pace: Pace = REAL,
        pools: Callable[[str, int, Setting], Pool] = make_pool,
    ) -> None:
        """Raises `ConfigError` and `TransportError`; nothing has been started then."""
        self._dedup = Dedup(app, lease=config.lease)
        self._executor = Executor(app, worker=name, extend=self._extend, dedup=self._dedup)
        setting = Setting(app, config, name, hooks, self._executor)
        slots = config.concurrency if config.autoscale is None else config.autoscale[0]
        self.pool = pools(config.pool, slots, setting)
        if config.autoscale is not None and not self.pool.has_children:
            raise ConfigError(f"autoscale wants the processes pool: {config.pool!r} cannot change")
        refuse_unsuited(app, self.pool, config)
        app.check_needs()
        self._transport = transport = app.transport
        self._inbox = inbox
        self._setting = setting
        elsewhere = self.pool.remote
        self._running: Mapping[str, RunningJob] = (
            self._executor.running if elsewhere is None else elsewhere
        )
        self.keeper = LeaseKeeper(
            transport,
            lease=config.lease,
            clock=app.clock,
            running=self._running,
            recall=inbox.recall,
            terminate=self.pool.terminate if self.pool.has_children else None,
        )
        self.fetcher = Fetcher(
            app,
            worker=name,
            queues=self._weights(queues),
            lease=config.lease,
            keeper=self.keeper,
            pace=pace,
            on_settled=on_settled,
            on_dropped=on_dropped,
        )
        self._lookout = Lookout(transport, queues, inbox.notice)
        self._credit = credit = Credit(
            self.pool.slots, config.prefetch, beside=self.pool.has_children
        )
        self._throttle = Throttle(app.tasks, config.queues, app.clock)
        self.watchdog = Watchdog(self.pool, transport, self.keeper, inbox, patience=credit.long)
        self.loop = Loop(
            app,
            Parts(
                pool=self.pool,
                inbox=inbox,
                credit=credit,
                fetcher=self.fetcher,
                lookout=self._lookout,
                running=self._running,
                throttle=self._throttle,
                turn=self.watchdog.turn if self.pool.inline else self.pool.turn,
                pace=pace,
            ),
            worker=name,
            shutdown_timeout=config.shutdown_timeout,
            on_deliveries=on_deliveries,
            on_leaving=on_leaving,
            taken=Taken(inbox, take, most_taken),
        )
        record = describe_worker(
            app, config, name=name, queues=tuple(queues), slots=self.pool.slots
        )
        self.heartbeat = Heartbeat(app, record, self._load)
        self._neighbours = Neighbours(transport, self.heartbeat, inbox.notice, inbox.drop)
        self._ticker = Ticker()
        self._ticker.every(config.lease * RENEW_EVERY, self.keeper.renew)
        self._ticker.every(CHECK_INTERVAL, self.keeper.check)
        self._ticker.every(CHECK_INTERVAL, Pauses(transport, self.pool, self.keeper).look)
        self._ticker.every(CHECK_INTERVAL, self._neighbours.look)
        self._ticker.every(config.heartbeat_interval, self.heartbeat.beat)
        self._ticker.every(self._dedup.hold / 4, partial(self._dedup.renew, self._running))
        if app.spool is not None:
            self._ticker.every(SPOOL_INTERVAL, app.spool.look)
        if config.autoscale is not None:
            self._ticker.every(INTERVAL, partial(self._scale, Autoscale(*config.autoscale)))

    def resize(self, slots: int) -> None:
        """Have so many slots from now on. Raises `ConfigError` where the pool cannot."""
        if slots < 1:
            raise ConfigError(f"a worker needs at least 1 slot, got {slots}")
        before = self.pool.slots
        self.pool.resize(slots)
        self._credit.resize(slots)
        self.heartbeat.resize(slots)
        self._inbox.notice()
        logger.info("%d slots instead of %d", slots, before)

    def consume(self, queues: Sequence[str]) -> None:
        """Take jobs from these queues only, from now on."""
        self.fetcher.consume(self._weights(queues))
        self._lookout.consume(queues)
        self.heartbeat.consume(queues)
        self.keeper.recall_unstarted(lambda delivery: delivery.queue not in queues)
        self._inbox.notice()
        logger.info("queues: %s", ", ".join(queues) or "none")

    def limit(self, task: str, rate: Rate | None) -> None:
        """Start a task so often at most, from now on."""
        if not self._throttle.keep(task, rate):
            return
        self._inbox.notice()
        told = "none" if rate is None else f"{rate.amount} in {rate.per:g} s"
        logger.info("rate limit of %s: %s", task, told)

    def _weights(self, queues: Sequence[str]) -> dict[str, int]:
        return {queue: self._setting.config.weight(queue) for queue in queues}

    def _scale(self, autoscale: Autoscale) -> None:
        slots = self.pool.slots
        wanted = autoscale.decide(slots, self.loop.in_pool, time.monotonic())
        if wanted != slots and not self._inbox.stop:
            self.resize(wanted)

    def start(self) -> None:
        """Register and start every thread. Raises `TransportError`."""
        self.pool.prepare()
        self._lookout.start()
        if not self.pool.has_children:
            self._call("on_child_start")
        self._neighbours.arrive()
        self.enter()
        self._ticker.start()
        if self.pool.inline:
            self.watchdog.start()

    def enter(self) -> None:
        """Register, and start the pool: all of a start that needs no thread of the worker's own.
        A simulation leaves it at that, and does itself what the threads would do."""
        put: Done = self._inbox.put
        self.pool.start(self._execute, self._dedup.closing(put) if self.pool.has_children else put)
        self.heartbeat.register()

    def end(self) -> int:
        """After the loop: say the last to the store, leave it, end the threads. The number of
        jobs that still run."""
        abandoned = self.loop.leave()
        self._stop_threads(ABANDON_TIMEOUT if abandoned else JOIN_TIMEOUT)
        self.heartbeat.deregister()
        if not self.pool.has_children:
            self._call("on_child_stop")
        return abandoned

    def hand_over(self) -> int:
        """The process is about to end: settle what is done, give back what runs. The number of
        jobs given back, with those that the loop has. Raises `TransportError`.

        What the loop is sending at this moment is sent twice, which changes nothing: it may not get
        away before the process has ended.
        """
        done = [outcome.settlement for outcome in self._inbox.take()]
        done += [*self.fetcher.sending, *self.fetcher.unsent]
        settled = {id(settlement.delivery) for settlement in done}
        running = [each for each in self.keeper.held() if id(each) not in settled]
        if done or running:
            settlements = [*done, *map(cut_short, running)]
            self.keeper.let_go(settlements)
            self._transport.settle(settlements)
        return len(running) + self.loop.interrupted

    def running(self) -> list[RunningJob]:
        """What runs now."""
        return list(self._running.values())

    def health(self, stuck_after: float) -> Health:
        """See `Worker.health`."""
        stuck = self.loop.pulse.stuck(stuck_after)
        if stuck:
            return Health(live=False, ready=False, status=f"stuck: {stuck}")
        if self._inbox.stop:
            return Health(live=True, ready=False, status="stopping")
        if not self.heartbeat.registered:
            return Health(live=True, ready=False, status="starting")
        if not self.fetcher.is_answered:
            return Health(live=True, ready=False, status="the store does not answer")
        running, processed = self._load()
        return Health(live=True, ready=True, status=f"{running} jobs run, {processed} are done")

    def crash(self) -> None:
        """After an error in the loop: end the threads without another word to the store."""
        self.pool.withdraw()
        self._stop_threads(ABANDON_TIMEOUT)

    def _stop_threads(self, timeout: float) -> None:
        self.pool.stop(timeout)
        self.watchdog.stop()
        self._ticker.stop()
        self._lookout.stop()

    def _execute(self, delivery: Delivery) -> Outcome:
        # It may have been recalled since the loop last looked: in the solo pool the loop is inside
        # the job before this one.
        why = self.keeper.recalled(delivery) if self.keeper.recalls else None
        if why is None:
            return self._executor.execute(delivery)
        if why is Recall.REVOKED:
            return Outcome(self.fetcher.revoke_unstarted(delivery))
        return Outcome(Release(delivery))

    def _extend(self, delivery: Delivery) -> bool:
        return self.keeper.extend(delivery)

    def _call(self, name: str) -> None:
        """Here, what is a child's elsewhere."""
        for hook in self._setting.hooks:
            try:
                getattr(hook, name)(self._setting.app)
            except Exception:
                logger.exception("%s of the worker hook failed", name)

    def _load(self) -> tuple[int, int]:
        return len(self._running), self.fetcher.tally.processed


def refuse_unsuited(app: App, pool: Pool, config: Config) -> None:
    """Raises `ConfigError` for a task that the pool cannot run, or whose limit it cannot keep."""
    unlimited = []
    shared = app.transport.capabilities.shared
    for task in app.tasks:
        if task.is_async and not pool.runs_coroutines:
            raise ConfigError(
                f"task {task.name!r} is async def, which the {config.pool} pool cannot run: use "
                "pool='asyncio', or make it a plain function (asyncio.run inside it works)"
            )
        if task.policy.dedup is not None and pool.has_children and not shared:
            raise ConfigError(
                f"task {task.name!r} has a dedup key, and the store {app.store_name} is of one "
                f"process: children of the {config.pool} pool cannot ask it (use another store, "
                "e.g. sqlite:///jobs.db, or pool='threads')"
            )
        if task.policy.hard_timeout is not None and not pool.has_children:
            unlimited.append(task)
    if not unlimited:
        return
    if config.unsupported_limits == "refuse":
        raise ConfigError(
            f"task {unlimited[0].name!r} has a hard_timeout, and the {config.pool} pool can kill "
            "nothing: use pool='processes', or unsupported_limits='warn' to go without the limit"
        )
    names = ", ".join(repr(task.name) for task in unlimited)
    logger.warning(
        "hard_timeout has NO EFFECT in the %s pool, which can kill nothing: task %s may run for "
        "ever (pool='processes' ends it)",
        config.pool,
        names,
    )
