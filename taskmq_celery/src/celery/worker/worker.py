"""`WorkController`: a worker as Celery's users and signals know it, run by the engine."""

from __future__ import annotations

import datetime
import importlib
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Thread
from typing import Any, ClassVar

from kombu.utils.imports import symbol_by_name

from celery import bootsteps, concurrency, signals
from celery.concurrency import prefork
from celery.concurrency.base import BasePool
from celery.exceptions import (
    ImproperlyConfigured,
    TaskRevokedError,
    WorkerShutdown,
    WorkerTerminate,
)
from celery.platforms import EX_FAILURE, EX_OK, Pidfile, create_pidlock
from celery.utils.log import get_logger, mlevel
from celery.utils.nodenames import default_nodename, node_format, worker_direct
from celery.utils.text import str_to_list
from taskmq_celery.brokers import carries_control
from taskmq_celery.inspection import Inspection
from taskmq_celery.rates import rate_of_task
from taskmq_celery.received import Received
from taskmq_celery.taken import TakenJob
from taskmq_celery.worker import MOST_HELD, EngineWorker, WorkerPlan, WorkerReport

from . import state, strategy
from .consumer import Consumer
from .events import WorkerEvents
from .sizing import sized
from .strategies import Strategies

__all__ = ("WorkController",)

logger = get_logger("celery.worker")

FOREVER = 10 * 365 * 86_400.0
"""Celery's warm shutdown waits for as long as the tasks take."""

UNLIMITED = 100_000
"""Messages that strategies may have at once if that is not to be limited."""

ASK_EVERY = 0.5
"""Seconds for which what waits in the store is taken to be what it was."""

HUB = {"celery.worker.components:Hub", "celery.worker.components.Hub"}
"""How steps name the one that others require for the sake of `WorkController.hub`."""

UNKNOWN_QUEUE = """Trying to select queue subset of {0!r}, but queue {1} isn't defined in the \
`task_queues` setting. If you want to automatically declare unknown queues you can enable the \
`task_create_missing_queues` setting."""


NO_RETRY = (
    "Cannot connect to %s: %s. Retrying to establish a connection to the message broker after a "
    "connection loss has been disabled (app.conf.%s=False). Shutting down..."
)


class WorkController:
    """A worker of one app.

    Everything is decided when it is made, in this order: the modules with tasks are imported,
    `on_before_init`, defaults, `on_after_init`, queues. `start` blocks until it is stopped.
    """

    class Blueprint(bootsteps.Blueprint):
        """What a worker consists of."""

        name = "Worker"
        default_steps: ClassVar[set[Any]] = {
            *(
                f"celery.worker.components:{name}"
                for name in ("Timer", "Hub", "Pool", "Beat", "StateDB", "Consumer")
            ),
            "celery.worker.autoscale:WorkerComponent",
        }

    app: Any = None
    pidlock: Pidfile | None = None
    pool: Any = None
    hub: Any = None
    """An event loop, if there is one: see `celery.worker.components.Hub`."""
    consumer: Consumer | None = None
    timer: Any
    """Calls functions later, in a thread that is there once it is first used."""
    exitcode: int | None = None
    state_name = "INIT"
    autoscaler: Any = None
    """What changes the number of its slots, if anything does."""
    state_db: str | None = None
    persistence: Any = None
    """The file `state_db`, with what it knows to be revoked."""
    consumed: Mapping[str, Any] = {}
    """The queues that it takes jobs from: kombu's, by name."""

    def __init__(self, app: Any = None, hostname: str | None = None, **kwargs: Any) -> None:
        self.app = app or self.app
        self.hostname = default_nodename(hostname)
        self.startup_time = datetime.datetime.now(datetime.timezone.utc)
        self.options = kwargs
        self._engine: EngineWorker | None = None
        self._stopping = self._terminated = False
        self._pool_closed = self._pool_stopped = False
        self._backlog, self._ask_again_at = 0, 0.0
        self._when_ready: list[Callable[[], Any]] = []
        self.steps: list[Any] = []
        self.app.loader.init_worker()
        self.on_before_init(**kwargs)
        self.setup_defaults(**kwargs)
        self.on_after_init(**kwargs)
        self.setup_instance(**self.prepare_args(**kwargs))

    # -- for subclasses ----------------------------------------------------------------------

    def on_before_init(self, **kwargs: Any) -> None:
        """Before anything is decided."""

    def on_after_init(self, **kwargs: Any) -> None:
        """After the defaults are set."""

    def prepare_args(self, **kwargs: Any) -> dict[str, Any]:
        """Called with the options, after the defaults are set; what it gives goes to
        `setup_instance` and to the steps."""
        return kwargs

    def on_init_blueprint(self) -> None:
        """After the queues are chosen."""

    def on_start(self) -> None:
        """Before the engine starts."""

    def on_consumer_ready(self, consumer: Consumer) -> None:
        """When it is about to take the first job."""

    def on_close(self) -> None:
        """When it has been asked to stop."""

    def on_worked(self, report: WorkerReport) -> None:
        """When it does no more; ``report`` says what it did."""

    def on_stopped(self) -> None:
        """When nothing runs any more."""

    # -- what is decided ---------------------------------------------------------------------

    def setup_defaults(
        self,
        concurrency: int | None = None,
        loglevel: int | str | None = "WARN",
        logfile: Any = None,
        task_events: bool | None = None,
        pool: Any = None,
        consumer_cls: Any = None,
        timer_cls: Any = None,
        timer_precision: float | None = None,
        autoscaler_cls: Any = None,
        pool_putlocks: bool | None = None,
        pool_restarts: bool | None = None,
        optimization: str | None = None,
        O: str | None = None,  # noqa: E741, N803  # Celery's name
        statedb: str | None = None,
        time_limit: float | None = None,
        soft_time_limit: float | None = None,
        scheduler: Any = None,
        pool_cls: Any = None,
        state_db: str | None = None,
        task_time_limit: float | None = None,
        task_soft_time_limit: float | None = None,
        scheduler_cls: Any = None,
        schedule_filename: str | None = None,
        max_tasks_per_child: int | None = None,
        prefetch_multiplier: int | None = None,
        disable_rate_limits: bool | None = None,
        worker_lost_wait: float | None = None,
        max_memory_per_child: int | None = None,
        **_kw: Any,
    ) -> None:
        """Fill in what was not given from the app's settings. What has no meaning here is kept all
        the same: a program finds it under its name."""
        either = self.app.either
        self.loglevel = mlevel(loglevel)
        self.logfile = logfile
        self.task_events: bool = either("worker_send_task_events", task_events)
        self.pool_cls = _pool(either("worker_pool", pool, pool_cls))
        self.pool_putlocks = bool(either("worker_pool_putlocks", pool_putlocks))
        how = _kw.get("pool_start_method")
        self.pool_start_method = _start_method(either("worker_pool_start_method", how))
        self.pool_restarts = bool(either("worker_pool_restarts", pool_restarts))
        self.consumer_cls = either("worker_consumer", consumer_cls)
        self.timer_cls = either("worker_timer", timer_cls) or self.pool_cls.Timer
        self.timer_precision: float = either("worker_timer_precision", timer_precision)
        self.optimization = optimization or O
        wanted = either("worker_concurrency", concurrency)
        self.concurrency, self.sizing = sized(wanted, self.pool_cls)
        self.max_concurrency, self.min_concurrency = self.concurrency, self.concurrency
        self.autoscaler_cls = either("worker_autoscaler", autoscaler_cls)
        # Only child processes can come and go.
        self.autoscale = _kw.get("autoscale") if self.pool_cls.engine_pool == "processes" else None
        if self.autoscale:
            most, least = map(int, self.autoscale)
            self.max_concurrency, self.min_concurrency = most, max(1, least)
            self.concurrency = self.min_concurrency
        self.state_db = either("worker_state_db", statedb, state_db)
        self.time_limit = either("task_time_limit", time_limit, task_time_limit)
        self.soft_time_limit = either("task_soft_time_limit", soft_time_limit, task_soft_time_limit)
        self.scheduler = either("beat_scheduler", scheduler, scheduler_cls)
        self.schedule_filename = schedule_filename
        self.max_tasks_per_child = either("worker_max_tasks_per_child", max_tasks_per_child)
        self.max_memory_per_child = either("worker_max_memory_per_child", max_memory_per_child)
        self.prefetch_multiplier = prefetch_multiplier
        self.disable_rate_limits = bool(either("worker_disable_rate_limits", disable_rate_limits))
        self.worker_lost_wait = either("worker_lost_wait", worker_lost_wait)

    def setup_instance(
        self,
        queues: Sequence[str] | str | None = None,
        ready_callback: Callable[[Any], Any] | None = None,
        pidfile: str | None = None,
        include: Sequence[str] | None = None,
        use_eventloop: bool | None = None,
        exclude_queues: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        """Choose queues, import further modules, make the steps.

        ``ready_callback`` is called with the consumer, instead of `on_consumer_ready`;
        ``use_eventloop``: whether there is one, `hub`.
        """
        self.pidfile = pidfile
        self.use_eventloop = use_eventloop
        self.ready_callback = self._ready_with(ready_callback or self.on_consumer_ready)
        self.setup_queues(str_to_list(queues or ()), str_to_list(exclude_queues or ()))
        self.setup_includes(str_to_list(include or ()))
        self.on_init_blueprint()
        self.events = WorkerEvents(self)
        self.blueprint = self.Blueprint(steps=self.app.steps["worker"])
        self.blueprint.apply(self, **kwargs)
        self.strategies = Strategies(self.consumer)

    def _ready_with(self, told: Callable[[Any], Any]) -> Callable[[Any], None]:
        def ready(consumer: Any) -> None:
            signals.worker_ready.send(sender=consumer)
            told(consumer)

        return ready

    def should_use_eventloop(self) -> bool:
        """Whether `hub` is to be there: as ``use_eventloop`` said. If it said nothing, if a step of
        the program requires it and tasks run in child processes, as they do with Celery."""
        if self.use_eventloop is not None:
            return self.use_eventloop
        if self.pool_cls.engine_pool != "processes":
            return False
        steps = map(_required, self.app.steps["worker"])
        needed = {str(getattr(one, "name", one)) for required in steps for one in required}
        return bool(needed & HUB)

    def register_with_event_loop(self, hub: Any) -> None:
        """Tell the steps of the event loop, which is about to begin: their method of this name."""
        self.blueprint.send_all(
            self, "register_with_event_loop", "hub.register", args=(hub,), reverse=False
        )
        if self.consumer is not None:
            self.consumer.register_with_event_loop(hub)

    def waiting(self) -> int:
        """How many tasks wait in its queues, as of a moment ago: an autoscaler asks at every task
        that arrives."""
        if self._engine is None or self._stopping:
            return 0
        now = time.monotonic()
        if now >= self._ask_again_at:
            self._ask_again_at = now + ASK_EVERY
            try:
                self._backlog = self.inspection.waiting()
            except Exception as error:  # whatever the store has: it is asked again
                logger.debug("How much waits is not known: %s", error)
                self._backlog = 0
        return self._backlog

    def setup_queues(self, include: Sequence[str], exclude: Sequence[str] | None = None) -> None:
        """Take jobs from these queues, or from all that are configured; not from ``exclude``.
        With ``worker_direct`` also from one of its own (`celery.utils.nodenames.worker_direct`).

        Raises `ImproperlyConfigured` for a queue that is not configured and may not be created.
        """
        queues = self.app.amqp.queues
        try:
            queues.select(list(include))
        except KeyError as error:
            name = error.args[0] if error.args else ""
            raise ImproperlyConfigured(UNKNOWN_QUEUE.format(list(include), name)) from None
        queues.deselect(list(exclude or ()))
        if self.app.conf.worker_direct:
            queues.select_add(worker_direct(self.hostname))

    def consume(self, queues: Mapping[str, Any]) -> None:
        """Take jobs from these queues (kombu's, by name) from now on, and from no others."""
        self.consumed = dict(queues)
        if self._engine is not None:
            self._engine.consume(list(queues))

    def limit_rates(self) -> None:
        """Keep the ``rate_limit`` of every task as it is now. Raises `taskmq.ConfigError`."""
        if self._engine is not None:
            for name in list(self.app._tasks):
                self._engine.limit(name, rate_of_task(self.app, name))

    def limit_times(self) -> None:
        """Keep the time limits of every task as they are now, for calls that have none: whoever
        calls by name does not know them."""
        if self._engine is None:
            return
        hard = soft = None
        if self.pool_cls.engine_pool == "processes":
            hard, soft = self.time_limit, self.soft_time_limit
        for name, task in list(self.app._tasks.items()):
            limits = task.time_limit or hard, task.soft_time_limit or soft
            self._engine.limit_time(name, *limits)

    def setup_includes(self, includes: Sequence[str]) -> None:
        """Import further modules with tasks."""
        if includes:
            self.app.conf.include = (*self.app.conf.include, *includes)
        for module in includes:
            self.app.loader.import_task_module(module)

    # -- its life ----------------------------------------------------------------------------

    def start(self) -> None:
        """Work until stopped; ``exitcode`` says how it ended."""
        if self.pidfile:
            self.pidlock = create_pidlock(node_format(self.pidfile, self.hostname))
        try:
            self._run()
        except WorkerTerminate as error:
            self.exitcode = _code(error)
        except WorkerShutdown as error:
            self.exitcode = _code(error)
        finally:
            self.state_name = "terminating"
            if self.pidlock is not None:
                self.pidlock.release()
        self.on_stopped()
        signals.worker_shutdown.send(sender=self)
        if self.exitcode is None:
            self.exitcode = EX_OK

    def _check_broker(self) -> None:
        """Raises `WorkerShutdown` if the broker cannot be reached and is not to be tried again
        (``broker_connection_retry_on_startup``)."""
        conf = self.app.conf
        retry = conf.broker_connection_retry_on_startup
        name = "broker_connection_retry_on_startup"
        if retry is None:
            retry, name = conf.broker_connection_retry, "broker_connection_retry"
        if retry or not carries_control(conf.broker_read_url):
            return
        with self.app.connection_for_read() as connection:
            try:
                connection.connect()
            except connection.recoverable_connection_errors as error:
                logger.critical(NO_RETRY, connection.as_uri(), error, name)
                raise WorkerShutdown(EX_FAILURE) from error

    def _run(self) -> None:
        self._check_broker()
        self._engine = EngineWorker(self.app, self._plan(), _Observer(self))
        self.on_start()
        self.state_name = "running"
        self.events.prepare()
        try:
            self._start_steps()
            if not self._stopping:  # a signal may have come before the engine was there
                self.on_worked(self._engine.run())
        finally:
            self.blueprint.stop(self, terminate=self._terminated)
            self.timer.stop()
            if self.persistence is not None:
                self.persistence.save()
            if self.consumer is not None:
                self.consumer.shutdown()
            if self.pool_cls.own_process:
                signals.worker_process_shutdown.send(
                    sender=None, pid=os.getpid(), exitcode=self.exitcode or EX_OK
                )
            self.on_end()

    def _start_steps(self) -> None:
        """A step that cannot start ends the worker, and so does Ctrl-C meanwhile."""
        try:
            self.blueprint.start(self)
        except KeyboardInterrupt:
            self.stop(exitcode=EX_FAILURE)
        except Exception as error:
            logger.critical("Unrecoverable error: %r", error, exc_info=True)
            self.stop(exitcode=EX_FAILURE)

    def close_pool(self) -> None:
        """The program can give nothing more to its pool."""
        if not self._pool_closed:
            self._pool_closed = True
            self.pool.close()

    def stop_pool(self) -> None:
        """Finish what the program has given to its pool, or end it: the engine's own slots are
        empty by now."""
        if self._pool_stopped and not self._terminated:
            return
        self._pool_stopped = True
        try:
            self.close_pool()
            if self._terminated:
                self.pool.terminate()
            else:
                self.pool.stop()
        except Exception:
            logger.exception("The end of pool %s failed", type(self.pool).__name__)

    def end_strategies(self) -> None:
        """They get no more messages: what their calls to the pool have begun is finished, and the
        rest goes back."""
        self.timer.stop()  # by which they have calls begun
        self.stop_pool()
        if self._engine is not None:
            self._engine.give_back()

    def process_task(self, request: Any) -> Any:
        """Have the pool run the request of a program's own message; the worker's own tasks are run
        by the engine."""
        try:
            return request.execute_using_pool(self.pool)
        except TaskRevokedError:
            return None  # it was told of

    def resize(self, slots: int) -> None:
        """Run so many tasks more (or, below 0, less) at once. Raises ``ValueError``: why not."""
        self.inspection.grow(slots)
        self.concurrency += slots
        self.pool.limit = self.concurrency

    def when_ready(self, function: Callable[[], Any]) -> None:
        """Have a function called once the worker is about to take its first job."""
        self._when_ready.append(function)

    def on_end(self) -> None:
        """Nothing runs any more: close the store."""
        if self._engine is not None:
            self._engine.close()

    def _plan(self) -> WorkerPlan:
        self.consumed = dict(self.app.amqp.queues.consume_from)  # signals may have added some
        multiplier = self.prefetch_multiplier
        solo = self.pool_cls.engine_pool == "solo"
        slots = 1 if solo else self.concurrency
        return WorkerPlan(
            hostname=self.hostname,
            queues=list(self.consumed),
            concurrency=slots,
            pool=self.pool_cls.engine_pool,
            prefetch=multiplier * slots if multiplier else None,
            most_taken=self._most_taken(slots),
            settings={"shutdown_timeout": FOREVER, **self._children()},
        )

    def most_held(self) -> int:
        """How many tasks it holds at most, running ones included."""
        return (self.prefetch_multiplier or 0) * self.concurrency or max(
            MOST_HELD, self.concurrency
        )

    def _most_taken(self, slots: int) -> int:
        """How many messages the strategies of tasks may have at once: as many as Celery's workers
        hold, where somebody has said so."""
        conf, multiplier = self.app.conf, self.prefetch_multiplier
        if multiplier is None and conf.value_set_for("worker_prefetch_multiplier"):
            multiplier = conf.worker_prefetch_multiplier
        if multiplier is None:
            return MOST_HELD
        return multiplier * slots or UNLIMITED

    def _children(self) -> dict[str, Any]:
        """What the engine's processes pool is told."""
        if self.pool_cls.engine_pool != "processes":
            return {}
        jobs, kibibytes = self.max_tasks_per_child, self.max_memory_per_child
        return {
            "max_jobs_per_child": int(jobs) if jobs else None,
            "max_memory_per_child": int(kibibytes) * 1024 if kibibytes else None,
        }

    def reload(
        self,
        modules: Sequence[str] | None = None,
        reload: bool = False,
        reloader: Callable[..., Any] | None = None,
    ) -> None:
        """Import modules with tasks: the configured ones, or these; ``reload``: once more."""
        for module in self.app.loader.task_modules if modules is None else modules:
            if reload and module in sys.modules:
                (reloader or importlib.reload)(sys.modules[module])
            else:
                self.app.loader.import_from_cwd(module)

    def stop(self, in_sighandler: bool = False, exitcode: int | None = None) -> None:
        """Finish what runs and stop. Returns at once; safe in a signal handler."""
        self._end(exitcode)
        if self._engine is not None:
            self._engine.stop()

    def terminate(self, in_sighandler: bool = False) -> None:
        """Stop without waiting for what runs: it will run again. Safe in a signal handler."""
        self._terminated = True
        self._end(None)
        if self._engine is not None:
            self._engine.stop_now()

    def wind_down(self, seconds: float, exitcode: int | None = None) -> None:
        """Finish what runs and stop, as `stop` does, but end and give back what still runs after
        so many seconds. Returns at once; safe in a signal handler."""
        self._terminated = True
        self._end(exitcode)
        if self._engine is not None:
            self._engine.stop(within=seconds)

    def wait_for_soft_shutdown(self) -> None:
        """Wait until nothing runs any more, ``worker_soft_shutdown_timeout`` seconds at most; not
        at all if that is 0."""
        until = time.monotonic() + (self.app.conf.worker_soft_shutdown_timeout or 0.0)
        while self._engine is not None and self.inspection.is_busy:
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(ASK_EVERY, left))

    def signal_consumer_close(self) -> None:
        """Have the receiving side begin nothing new. Safe in a signal handler."""
        if self.consumer is not None:
            self.consumer.closing = True

    def _end(self, exitcode: int | None) -> None:
        if exitcode is not None:
            self.exitcode = exitcode
        self.state_name = "closing"
        if not self._stopping:
            self._stopping = True
            self.signal_consumer_close()
            self.on_close()

    @property
    def stopping(self) -> bool:
        """Whether it has been asked to stop."""
        return self._stopping

    # -- what it tells -----------------------------------------------------------------------

    @property
    def state(self) -> Any:
        """The module `celery.worker.state`."""
        return state

    def info(self) -> dict[str, Any]:
        """Who it is and for how long it has worked."""
        up = datetime.datetime.now(datetime.timezone.utc) - self.startup_time
        return {
            "pid": os.getpid(),
            "total": self.state.total_count,
            "uptime": round(up.total_seconds()),
        }

    def stats(self) -> dict[str, Any]:
        """`info`, what the steps tell, and what the process has used."""
        consumer = self.consumer
        running = Counter(each.job.name for each in self.inspection.active())
        return {
            **self.info(),
            **self.blueprint.info(self),
            **({} if consumer is None else consumer.blueprint.info(consumer)),
            "total": self.state.total_count + running,
            "clock": str(self.app.clock.value),
            "rusage": self.rusage(),
        }

    def rusage(self) -> dict[str, Any]:
        """What the process has used, by the names that the operating system has."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        names = (name for name in dir(used) if name.startswith("ru_"))
        return {name.removeprefix("ru_"): getattr(used, name) for name in names}

    @property
    def runs(self) -> bool:
        """Whether there is anything to see in `inspection`."""
        return self._engine is not None

    @property
    def inspection(self) -> Inspection:
        """What is to be known of it. Raises ``RuntimeError`` before it runs."""
        if self._engine is None:
            raise RuntimeError(f"{self.hostname} does not run")
        return self._engine.inspection

    def __repr__(self) -> str:
        return f"<Worker: {self.hostname} ({self.state_name})>"

    def __str__(self) -> str:
        return self.hostname


class _Observer:
    """Passes on what the engine's worker tells."""

    def __init__(self, controller: WorkController) -> None:
        self._controller = controller

    def on_ready(self) -> None:
        self._controller.limit_times()
        for begin in self._controller._when_ready:
            begin()

    @property
    def wants_received(self) -> bool:
        controller = self._controller
        asked = controller.consumer is not None and bool(controller.consumer.on_task_message)
        return asked or strategy.is_heard() or controller.events.tells_of_tasks

    def on_child_start(self) -> None:
        self._controller.events.start_child()
        prefork.process_initializer(self._controller.app, self._controller.hostname)

    def on_child_stop(self) -> None:
        prefork.end_child(EX_OK)
        self._controller.events.stop_child()

    def on_dropped(self, task_id: str, task: str, reason: str) -> None:
        events = self._controller.events
        if events.tells_of(self._controller.app.tasks.get(task)):
            events.dropped(task_id, reason)

    def on_received(self, jobs: Sequence[Received]) -> None:
        theirs = self._controller.strategies.names
        if theirs:
            jobs = [job for job in jobs if job.name not in theirs]
        strategy.announce(self._controller.consumer, jobs)

    @property
    def takes(self) -> Collection[str]:
        return self._controller.strategies.names

    def on_taken(self, jobs: Sequence[TakenJob]) -> None:
        self._controller.strategies.handle(jobs)

    def on_leaving(self, taken: int) -> None:
        if taken:
            Thread(target=self._controller.end_strategies, name="strategies", daemon=True).start()

    def on_ended(self, names: Sequence[str], succeeded: Sequence[str]) -> None:
        state.total_count.update(names)
        state.all_total_count[0] += len(names)
        for each in succeeded:
            state.successful_requests.add(each)

    @property
    def refuses_some(self) -> bool:
        return strategy.remembers_revoked()

    def refuses(self, job: Received) -> bool:
        return strategy.is_revoked(self._controller.consumer, job)

    def on_stopped(self) -> None:
        """`WorkController.start` goes on by itself."""


def _pool(wanted: Any) -> type[BasePool]:
    """The pool class of a name or path, or a class itself. Raises `ImproperlyConfigured`."""
    try:
        found = concurrency.get_implementation(wanted)
    except (ImportError, AttributeError) as error:
        raise ImproperlyConfigured(f"there is no pool {wanted!r}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, BasePool)):
        raise ImproperlyConfigured(f"{wanted!r} is no celery.concurrency.base.BasePool")
    return found


def _start_method(wanted: Any) -> str:
    """How the user wants children to begin. Raises `ImproperlyConfigured` for what is no way."""
    if wanted not in (None, "fork", "spawn"):
        raise ImproperlyConfigured(f"worker_pool_start_method is 'fork' or 'spawn', not {wanted!r}")
    return wanted or "fork"


def _required(step: Any) -> Sequence[Any]:
    needed = getattr(symbol_by_name(step), "requires", ())
    return (needed,) if isinstance(needed, str) else tuple(needed)


def _code(error: SystemExit) -> int:
    return error.code if isinstance(error.code, int) else EX_OK
