"""What a worker decides before it starts: its pool, its size, its queues, its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kombu.utils.imports import symbol_by_name

from celery import concurrency
from celery.concurrency.base import BasePool
from celery.exceptions import ImproperlyConfigured
from celery.utils.log import mlevel
from celery.utils.nodenames import worker_direct
from taskmq_celery.worker import MOST_HELD, WorkerPlan

from .sizing import sized

__all__ = ("Decided",)

FOREVER = 10 * 365 * 86_400.0
"""Celery's warm shutdown waits for as long as the tasks take."""

UNLIMITED = 100_000
"""Messages that strategies may have at once if that is not to be limited."""

HUB = {"celery.worker.components:Hub", "celery.worker.components.Hub"}
"""How steps name the one that others require for the sake of `WorkController.hub`."""

UNKNOWN_QUEUE = """Trying to select queue subset of {0!r}, but queue {1} isn't defined in the \
`task_queues` setting. If you want to automatically declare unknown queues you can enable the \
`task_create_missing_queues` setting."""


class Decided:
    """The part of a worker that knows what was given to it and what the settings say;
    `celery.worker.worker.WorkController` is the whole."""

    app: Any = None
    hostname: str
    state_db: str | None = None
    autoscaler: Any = None
    """What changes the number of its slots, if anything does."""
    use_eventloop: bool | None = None
    consumed: Mapping[str, Any] = {}
    """The queues that it takes jobs from: kombu's, by name."""

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

    def setup_includes(self, includes: Sequence[str]) -> None:
        """Import further modules with tasks."""
        if includes:
            self.app.conf.include = (*self.app.conf.include, *includes)
        for module in includes:
            self.app.loader.import_task_module(module)

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
