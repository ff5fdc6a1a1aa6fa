"""The steps of a worker. Others come behind: ``requires = {"celery.worker.components:Pool"}``.

They make what the worker has beside the engine, start it and stop it: its timer, its event loop,
the pool for the program's own calls, its beat, its state file, and its receiving side.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps
from celery.beat import EmbeddedService
from celery.utils.log import get_logger

from .eventloop import EventLoop

__all__ = ("Beat", "Consumer", "Hub", "Pool", "StateDB", "Timer")

logger = get_logger("celery.worker.components")


class Timer(bootsteps.Step):
    """``worker.timer`` calls functions later, or again and again, in a thread of its own, which is
    there once it is first used."""

    def create(self, w: Any) -> None:
        w.timer = self.instantiate(
            w.timer_cls,
            max_interval=w.timer_precision,
            on_error=self.on_timer_error,
            on_tick=self.on_timer_tick,
        )

    def on_timer_error(self, exc: Exception) -> None:
        """A function that the timer called has raised: it is told of, and the timer goes on."""
        logger.error("Timer error: %r", exc, exc_info=exc)

    def on_timer_tick(self, delay: float) -> None:
        """Nothing is due for so many seconds."""
        logger.debug("Timer wake-up! Next ETA %s secs.", delay)


class _BegunWhenReady(bootsteps.StartStopStep):
    """What begins once the worker is about to take its first job, and ends only if it has begun."""

    begun = False

    def start(self, w: Any) -> None:
        w.when_ready(lambda: self._start(w))

    def _start(self, w: Any) -> None:
        self.begun = True
        self.begin(w)

    def begin(self, w: Any) -> None:
        self.obj.start()

    def stop(self, w: Any) -> None:
        if self.begun:
            self.end(w)

    def end(self, w: Any) -> None:
        self.obj.stop()

    def terminate(self, w: Any) -> None:
        self.stop(w)


class Hub(_BegunWhenReady):
    """``worker.hub``, an event loop in a thread of its own, for what the program has to watch: the
    engine needs none. It is there if the worker was made with ``use_eventloop``, or if a step of
    the program requires this one and tasks run in child processes, where Celery has it too.

    It does not begin before the worker has its first children: they are forked, and no other thread
    should run then."""

    requires = (Timer,)

    def __init__(self, w: Any, **kwargs: Any) -> None:
        super().__init__(w, **kwargs)
        w.hub = None

    def include_if(self, w: Any) -> bool:
        return bool(w.should_use_eventloop())

    def create(self, w: Any) -> Any:
        w.hub = EventLoop()
        return w.hub

    def begin(self, w: Any) -> None:
        w.register_with_event_loop(w.hub)
        w.hub.start()

    def end(self, w: Any) -> None:
        w.hub.end()


class Pool(bootsteps.StartStopStep):
    """``worker.pool``: what the program gives it to do. Tasks run in the engine's pool of that
    kind, which has as many slots."""

    requires = (Hub,)

    def __init__(self, w: Any, autoscale: Any = None, **kwargs: Any) -> None:
        super().__init__(w, **kwargs)
        w.pool = None

    def create(self, w: Any) -> Any:
        w.pool = self.instantiate(
            w.pool_cls,
            w.concurrency,
            maxtasksperchild=w.max_tasks_per_child,
            max_memory_per_child=w.max_memory_per_child,
            soft_timeout=w.soft_time_limit,
            timeout=w.time_limit,
            lost_worker_timeout=w.worker_lost_wait,
            putlocks=w.pool_putlocks,
            allow_restart=w.pool_restarts,
            forking_enable=True,
            app=w.app,
            initargs=(w.app, w.hostname),
        )
        w.pool._resize = w.resize
        w.pool._waiting = w.waiting
        return w.pool

    def start(self, parent: Any) -> None:
        super().start(parent)
        if parent.strategies.wanted:
            parent.pool.prepare_calls()

    def close(self, w: Any) -> None:
        """It gets no more to do."""
        w.close_pool()

    def stop(self, parent: Any) -> None:
        parent.stop_pool()

    def terminate(self, w: Any) -> None:
        w.stop_pool()

    def info(self, w: Any) -> dict[str, Any]:
        return {"pool": {**w.pool.info, "processes": list(w.inspection.children())}}

    def register_with_event_loop(self, w: Any, hub: Any) -> None:
        """Tell the pool of the worker's event loop, if it wants to know."""
        told = getattr(w.pool, "register_with_event_loop", None)
        if told is not None:
            told(hub)


class Beat(_BegunWhenReady):
    """``worker.beat``: the scheduler of periodic tasks, with the option ``-B``, in a thread, which
    ends with this process, whatever ends it."""

    label = "Beat"
    conditional = True

    def __init__(self, w: Any, beat: bool = False, **kwargs: Any) -> None:
        super().__init__(w, **kwargs)
        self.enabled = bool(beat)
        w.beat = None

    def create(self, w: Any) -> Any:
        w.beat = EmbeddedService(
            w.app,
            thread=True,
            schedule_filename=w.schedule_filename,
            scheduler_cls=w.scheduler,
        )
        return w.beat


class StateDB(bootsteps.Step):
    """``worker.persistence``: the file (``--statedb``) with what this worker was told to be
    revoked, stamps left out. The store knows it of all tasks that are in it; the file, also of
    those that are yet to come."""

    def __init__(self, w: Any, **kwargs: Any) -> None:
        super().__init__(w, **kwargs)
        self.enabled = bool(w.state_db)

    def create(self, w: Any) -> Any:
        w.persistence = w.state.Persistent(w.state, w.state_db, w.app.clock)


class Consumer(bootsteps.StartStopStep):
    """``worker.consumer``: the receiving side, which comes last."""

    last = True

    def create(self, w: Any) -> Any:
        w.consumer = self.instantiate(
            w.consumer_cls,
            w.process_task,
            init_callback=w.ready_callback,
            hostname=w.hostname,
            pool=w.pool,
            app=w.app,
            timer=w.timer,
            controller=w,
            hub=w.hub,
            worker_options=w.options,
            disable_rate_limits=w.disable_rate_limits,
            prefetch_multiplier=w.prefetch_multiplier,
        )
        return w.consumer

    def start(self, parent: Any) -> None:
        """Once the engine has opened the store, and the rest is there."""
        parent.when_ready(self.obj.start)
