"""`WorkController`: a worker as Celery's users and signals know it, run by the engine."""

from __future__ import annotations

import datetime
import importlib
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from celery import bootsteps, signals
from celery.exceptions import TaskRevokedError, WorkerShutdown, WorkerTerminate
from celery.platforms import EX_FAILURE, EX_OK, Pidfile, create_pidlock
from celery.utils.log import get_logger
from celery.utils.nodenames import default_nodename, node_format
from celery.utils.text import str_to_list
from taskmq_celery.brokers import carries_control
from taskmq_celery.inspection import Inspection
from taskmq_celery.rates import rate_of_task
from taskmq_celery.worker import EngineWorker, WorkerReport

from . import state
from .consumer import Consumer
from .decided import Decided
from .events import WorkerEvents
from .observer import Observer
from .strategies import Strategies

__all__ = ("WorkController",)

logger = get_logger("celery.worker")

ASK_EVERY = 0.5
"""Seconds for which what waits in the store is taken to be what it was."""


NO_RETRY = (
    "Cannot connect to %s: %s. Retrying to establish a connection to the message broker after a "
    "connection loss has been disabled (app.conf.%s=False). Shutting down..."
)


class WorkController(Decided):
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

    pidlock: Pidfile | None = None
    pool: Any = None
    hub: Any = None
    """An event loop, if there is one: see `celery.worker.components.Hub`."""
    consumer: Consumer | None = None
    timer: Any
    """Calls functions later, in a thread that is there once it is first used."""
    exitcode: int | None = None
    state_name = "INIT"
    persistence: Any = None
    """The file `state_db`, with what it knows to be revoked."""

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
        self._engine = EngineWorker(self.app, self._plan(), Observer(self))
        self.on_start()
        self.state_name = "running"
        self.events.prepare()
        try:
            # A signal may have come before the engine was there.
            if self._start_steps() and not self._stopping:
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

    def _start_steps(self) -> bool:
        """A step that cannot start ends the worker, and so does Ctrl-C meanwhile: False."""
        try:
            self.blueprint.start(self)
        except KeyboardInterrupt:
            self.stop(exitcode=EX_FAILURE)
        except Exception as error:
            logger.critical("Unrecoverable error: %r", error, exc_info=True)
            self.stop(exitcode=EX_FAILURE)
        else:
            return True
        return False

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

    def begin(self) -> None:
        """The engine is about to take the first job."""
        self.limit_times()
        for function in self._when_ready:
            function()

    def on_end(self) -> None:
        """Nothing runs any more: close the store."""
        if self._engine is not None:
            self._engine.close()

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


def _code(error: SystemExit) -> int:
    return error.code if isinstance(error.code, int) else EX_OK
