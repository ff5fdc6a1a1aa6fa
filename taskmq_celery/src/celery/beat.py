"""The periodic scheduler: what is due, in which order, and what has been sent.

`Scheduler` keeps the schedule in memory, `PersistentScheduler` in a file. Both are made to be
subclassed: schedulers that keep it in a database override ``setup_schedule``, ``schedule``,
``sync`` and `Scheduler.Entry`; libraries replace `Scheduler.apply_entry` and `Scheduler.tick`.
"""

from __future__ import annotations

import copy
import heapq
import shelve
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import total_ordering
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, NoReturn

from kombu.utils.functional import maybe_evaluate
from kombu.utils.imports import symbol_by_name
from kombu.utils.objects import cached_property

from celery import __version__, signals
from celery.schedules import crontab, maybe_schedule
from celery.utils.log import get_logger

__all__ = (
    "DEFAULT_MAX_INTERVAL",
    "BeatLazyFunc",
    "EmbeddedService",
    "PersistentScheduler",
    "ScheduleEntry",
    "Scheduler",
    "SchedulingError",
    "Service",
)

logger = get_logger(__name__)
debug, info, error, warning = logger.debug, logger.info, logger.error, logger.warning

DEFAULT_MAX_INTERVAL = 300
"""Seconds between two looks at the schedule, if nothing is due before."""

PRIORITY = 5
CLEANUP = "celery.backend_cleanup"


class SchedulingError(Exception):
    """A task that was due could not be sent."""


class event_t(NamedTuple):  # noqa: N801  # Celery's name
    """A place in the queue of entries."""

    time: float
    priority: int
    entry: Any


class BeatLazyFunc:
    """An argument that is computed when the task is sent."""

    def __init__(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._func = func
        self._func_params = {"args": args, "kwargs": kwargs}

    def __call__(self) -> Any:
        return self.delay()

    def delay(self) -> Any:
        return self._func(*self._func_params["args"], **self._func_params["kwargs"])  # type: ignore[arg-type]  # a mapping


def reraise(tp: Any, value: BaseException, tb: Any = None) -> NoReturn:
    """Raise ``value`` with the traceback ``tb``."""
    raise value.with_traceback(tb)


def _evaluated(value: Any) -> Any:
    return value() if isinstance(value, BeatLazyFunc) else value


def _evaluate_entry_args(entry_args: Iterable[Any] | None) -> list[Any]:
    return [_evaluated(value) for value in entry_args or ()]


def _evaluate_entry_kwargs(entry_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: _evaluated(value) for name, value in (entry_kwargs or {}).items()}


@total_ordering
class ScheduleEntry:
    """One task and when it runs. ``schedule`` is a schedule, a timedelta or seconds; ``options``
    are those of ``apply_async``."""

    name: Any = None
    schedule: Any = None
    args: Any = None
    kwargs: Any = None
    options: Any = None
    last_run_at: Any = None
    total_run_count: int = 0

    def __init__(
        self,
        name: Any = None,
        task: Any = None,
        last_run_at: Any = None,
        total_run_count: int | None = None,
        schedule: Any = None,
        args: Any = (),
        kwargs: Any = None,
        options: Any = None,
        relative: bool = False,
        app: Any = None,
    ) -> None:
        self.app = app
        self.name = name
        self.task = task
        self.args = args
        self.kwargs = kwargs or {}
        self.options = options or {}
        self.schedule = maybe_schedule(schedule, relative, app=app)
        self.last_run_at = last_run_at or self.default_now()
        self.total_run_count = total_run_count or 0

    def default_now(self) -> Any:
        """The time, as the entry's schedule has it."""
        return self.schedule.now() if self.schedule else self.app.now()

    _default_now = default_now

    def is_due(self) -> Any:
        """Whether it is due, and the seconds until to ask again."""
        return self.schedule.is_due(self.last_run_at)

    def _next_instance(self, last_run_at: Any = None) -> Any:
        """This entry after one more run."""
        fields = dict(self)
        fields.update(
            last_run_at=last_run_at or self.default_now(),
            total_run_count=self.total_run_count + 1,
        )
        return type(self)(**fields)

    __next__ = next = _next_instance

    def update(self, other: ScheduleEntry) -> None:
        """Take over what a program can change: not when it ran, nor how often."""
        for field in ("task", "schedule", "args", "kwargs", "options"):
            setattr(self, field, getattr(other, field))

    def editable_fields_equal(self, other: Any) -> bool:
        return all(
            getattr(self, field) == getattr(other, field)
            for field in ("task", "args", "kwargs", "options", "schedule")
        )

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(vars(self).items())

    def __reduce__(self) -> tuple[Any, ...]:
        order = ("name", "task", "last_run_at", "total_run_count", "schedule")
        more = ("args", "kwargs", "options")
        return type(self), tuple(getattr(self, field) for field in (*order, *more))

    def __lt__(self, other: object) -> bool:
        # In the heap, entries of the same time have no order of their own.
        return id(self) < id(other) if isinstance(other, ScheduleEntry) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScheduleEntry) and self.editable_fields_equal(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        arguments = [repr(one) for one in self.args or ()]
        arguments += [f"{name}={value!r}" for name, value in (self.kwargs or {}).items()]
        call = f"{self.task}({', '.join(arguments)})"
        return f"<{type(self).__name__}: {self.name} {call} {self.schedule}>"


class Scheduler:
    """Sends what is due. `tick` does one step and says how long to wait for the next one."""

    Entry: Any = ScheduleEntry
    max_interval: float = DEFAULT_MAX_INTERVAL
    sync_every: float = 3 * 60
    """Seconds between two calls of `sync`."""
    sync_every_tasks: int | None = None
    """The same, in tasks that were sent."""
    logger = logger

    _last_sync: float | None = None
    _tasks_since_sync = 0

    def __init__(
        self,
        app: Any,
        schedule: Any = None,
        max_interval: float | None = None,
        Producer: Any = None,  # noqa: N803  # Celery's parameter
        lazy: bool = False,
        sync_every_tasks: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.app = app
        self.data = maybe_evaluate({} if schedule is None else schedule)
        conf = app.conf
        self.max_interval = max_interval or conf.beat_max_loop_interval or self.max_interval
        every = conf.beat_sync_every if sync_every_tasks is None else sync_every_tasks
        self.sync_every_tasks = every
        self.Producer = Producer or app.amqp.Producer
        self._heap: list[event_t] | None = None
        self.old_schedulers: dict[str, Any] | None = None
        if not lazy:
            self.setup_schedule()

    # -- the schedule ------------------------------------------------------------------------

    def setup_schedule(self) -> None:
        """Fill the schedule, when the scheduler is made."""
        self.merge_inplace(self.app.conf.beat_schedule)
        self.install_default_entries(self.schedule)

    def install_default_entries(self, data: Any) -> None:
        """Results that do not expire by themselves are deleted every night at four."""
        conf = self.app.conf
        if not conf.result_expires or self.app.backend.supports_autoexpire:
            return
        if CLEANUP not in conf.beat_schedule:
            nightly = crontab("0", "4", "*")
            entry = {"task": CLEANUP, "schedule": nightly, "options": {"expires": 12 * 3600}}
            self.update_from_dict({CLEANUP: entry})

    def get_schedule(self) -> Any:
        return self.data

    def set_schedule(self, schedule: Any) -> None:
        self.data = schedule

    schedule: Any = property(get_schedule, set_schedule)
    """Entries by name."""

    def add(self, **kwargs: Any) -> Any:
        """Put an entry with these fields on the schedule."""
        entry = self.Entry(app=self.app, **kwargs)
        self.schedule[entry.name] = entry
        return entry

    def _maybe_entry(self, name: str, entry: Any) -> Any:
        if isinstance(entry, self.Entry):
            entry.app = self.app
            return entry
        return self.Entry(**{**entry, "name": name, "app": self.app})

    def update_from_dict(self, dict_: Mapping[str, Any]) -> None:
        made = {name: self._maybe_entry(name, entry) for name, entry in dict_.items()}
        self.schedule.update(made)

    def merge_inplace(self, b: Mapping[str, Any]) -> None:
        """Make the schedule consist of the entries of ``b``; those that stay keep their times."""
        schedule = self.schedule
        for name in set(schedule) - set(b):
            schedule.pop(name, None)
        for name, fields in b.items():
            entry = self._maybe_entry(name, fields)
            known = schedule.get(name)
            if known:
                known.update(entry)
            else:
                schedule[name] = entry

    def schedules_equal(self, old_schedules: Any, new_schedules: Any) -> bool:
        if old_schedules is None or new_schedules is None:
            return old_schedules is new_schedules
        return set(old_schedules) == set(new_schedules) and all(
            new_schedules[name] == entry for name, entry in old_schedules.items()
        )

    # -- what is due -------------------------------------------------------------------------

    def adjust(self, n: Any, drift: float = -0.010) -> Any:
        """A little less than ``n`` seconds: rather early than late."""
        return n + drift if n and n > 0 else n

    def is_due(self, entry: Any) -> Any:
        return entry.is_due()

    def _when(self, entry: Any, next_time_to_run: Any, mktime: Any = None) -> float:
        now: float = entry.default_now().timestamp()
        return now + (self.adjust(next_time_to_run) or 0)

    def populate_heap(self, event_t: Any = event_t, heapify: Any = heapq.heapify) -> None:
        """Order the entries by when they are due."""
        self._heap = [
            event_t(self._when(entry, self.is_due(entry)[1] or 0), PRIORITY, entry)
            for entry in self.schedule.values()
        ]
        heapify(self._heap)

    def tick(
        self,
        event_t: Any = event_t,
        min: Any = min,  # Celery's parameters
        heappop: Any = heapq.heappop,
        heappush: Any = heapq.heappush,
    ) -> float:
        """Send one task if one is due; gives the seconds until the next call."""
        if self._heap is None or not self.schedules_equal(self.old_schedulers, self.schedule):
            self.old_schedulers = copy.copy(self.schedule)
            self.populate_heap()
        heap: Any = self._heap
        if not heap:
            return self.max_interval
        entry = heap[0][2]
        due, wait = self.is_due(entry)
        if due:
            first = heappop(heap)
            if first[2] is not entry:  # something was put before it meanwhile
                heappush(heap, first)
                return float(min(first[0], self.max_interval))
            following = self.reserve(entry)
            self.apply_entry(entry, producer=self.producer)
            heappush(heap, event_t(self._when(following, wait), first[1], following))
            return 0
        adjusted = self.adjust(wait)
        known = isinstance(adjusted, (int, float)) and not isinstance(adjusted, bool)
        return float(min(adjusted if known else self.max_interval, self.max_interval))

    def reserve(self, entry: Any) -> Any:
        """Put the entry's next run on the schedule."""
        new_entry = self.schedule[entry.name] = next(entry)
        return new_entry

    # -- sending -----------------------------------------------------------------------------

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send the task of an entry. What goes wrong is logged."""
        info("Scheduler: Sending due task %s (%s)", entry.name, entry.task)
        try:
            result = self.apply_async(entry, producer=producer, advance=False)
        except Exception as exc:
            error("Message Error: %s", exc, exc_info=True)
            return
        if result and hasattr(result, "id"):
            debug("%s sent. id->%s", entry.task, result.id)
        else:
            debug("%s sent.", entry.task)

    def apply_async(
        self, entry: Any, producer: Any = None, advance: bool = True, **kwargs: Any
    ) -> Any:
        """Send the task of an entry. Raises `SchedulingError`."""
        entry = self.reserve(entry) if advance else entry
        task = self.app.tasks.get(entry.task)
        try:
            given = _evaluate_entry_args(entry.args), _evaluate_entry_kwargs(entry.kwargs)
            if task:
                return task.apply_async(*given, producer=producer, **entry.options)
            return self.send_task(entry.task, *given, producer=producer, **entry.options)
        except Exception as exc:
            text = f"Couldn't apply scheduled task {entry.name}: {exc}"
            reraise(SchedulingError, SchedulingError(text), sys.exc_info()[2])
        finally:
            self._tasks_since_sync += 1
            if self.should_sync():
                self._do_sync()

    def send_task(self, *args: Any, **kwargs: Any) -> Any:
        return self.app.send_task(*args, **kwargs)

    @cached_property
    def connection(self) -> Any:
        """A connection for publishing; the engine has its own, and this one is not opened."""
        return self.app.connection_for_write()

    @cached_property
    def producer(self) -> Any:
        return self.Producer(self.connection, auto_declare=False)

    # -- keeping it --------------------------------------------------------------------------

    def should_sync(self) -> bool:
        if self._last_sync is None or time.monotonic() - self._last_sync > self.sync_every:
            return True
        return bool(self.sync_every_tasks and self._tasks_since_sync >= self.sync_every_tasks)

    def _do_sync(self) -> None:
        try:
            debug("beat: Synchronizing schedule...")
            self.sync()
        finally:
            self._last_sync = time.monotonic()
            self._tasks_since_sync = 0

    def sync(self) -> None:
        """Write the schedule down, where it is kept anywhere."""

    def close(self) -> None:
        self.sync()

    @property
    def info(self) -> str:
        """A line about where the schedule is kept."""
        return ""


class PersistentScheduler(Scheduler):
    """A scheduler that keeps when each task ran in a file, ``schedule_filename``."""

    persistence = shelve
    known_suffixes = ("", ".db", ".dat", ".bak", ".dir")
    _store: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.schedule_filename = kwargs.get("schedule_filename")
        super().__init__(*args, **kwargs)

    def _remove_db(self) -> None:
        for suffix in self.known_suffixes:
            Path(f"{self.schedule_filename}{suffix}").unlink(missing_ok=True)

    def _open_schedule(self) -> Any:
        return self.persistence.open(str(self.schedule_filename), writeback=True)

    def _destroy_open_corrupted_schedule(self, exc: BaseException) -> Any:
        error("Removing corrupted schedule file %r: %r", self.schedule_filename, exc)
        self._remove_db()
        return self._open_schedule()

    def setup_schedule(self) -> None:
        try:
            self._store = self._open_schedule()
            self._store.keys()  # a file that cannot be read fails here
        except Exception as exc:
            self._store = self._destroy_open_corrupted_schedule(exc)
        self._create_schedule()
        conf = self.app.conf
        entries = self._store.setdefault("entries", {})
        zone, utc = str(conf.timezone), bool(conf.enable_utc)
        if (self._store.get("tz"), self._store.get("utc_enabled")) not in (
            (None, None),
            (zone, utc),
        ):
            warning("Reset: the time zone is not that of the stored schedule")
            entries.clear()
        self.merge_inplace(conf.beat_schedule)
        self.install_default_entries(self.schedule)
        self._store.update({"__version__": __version__, "tz": zone, "utc_enabled": utc})
        self.sync()
        debug("Current schedule: %r", list(entries.values()))

    def _create_schedule(self) -> None:
        """Make sure that entries can be read, or begin anew."""
        try:
            self._store["entries"]
        except KeyError:
            self._store["entries"] = {}
        except Exception as exc:  # whatever was written there
            self._store = self._destroy_open_corrupted_schedule(exc)
            self._store["entries"] = {}

    def get_schedule(self) -> Any:
        return self._store["entries"]

    def set_schedule(self, schedule: Any) -> None:
        self._store["entries"] = schedule

    schedule = property(get_schedule, set_schedule)

    def sync(self) -> None:
        if self._store is not None:
            self._store.sync()

    def close(self) -> None:
        self.sync()
        self._store.close()

    @property
    def info(self) -> str:
        return f"    . db -> {self.schedule_filename}"


class Service:
    """Runs a scheduler until it is stopped."""

    scheduler_cls: Any = PersistentScheduler

    def __init__(
        self,
        app: Any,
        max_interval: float | None = None,
        schedule_filename: str | None = None,
        scheduler_cls: Any = None,
    ) -> None:
        self.app = app
        conf = app.conf
        self.max_interval = max_interval or conf.beat_max_loop_interval
        self.scheduler_cls = scheduler_cls or conf.beat_scheduler or self.scheduler_cls
        self.schedule_filename = schedule_filename or conf.beat_schedule_filename
        self._is_shutdown = Event()
        self._is_stopped = Event()

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.app, self.max_interval, self.schedule_filename, self.scheduler_cls)
        return type(self), given

    def start(self, embedded_process: bool = False) -> None:
        """Send what is due until `stop` is called."""
        info("beat: Starting...")
        scheduler = self.scheduler
        debug("beat: Ticking with max interval->%s s", scheduler.max_interval)
        signals.beat_init.send(sender=self)
        if embedded_process:
            signals.beat_embedded_init.send(sender=self)
        try:
            while not self._is_shutdown.is_set():
                interval = scheduler.tick()
                if interval and interval > 0:
                    debug("beat: Waking up in %s s.", interval)
                    self._is_shutdown.wait(interval)
                    if scheduler.should_sync():
                        scheduler._do_sync()
        except (KeyboardInterrupt, SystemExit):
            self._is_shutdown.set()
        finally:
            self.sync()

    def sync(self) -> None:
        self.scheduler.close()
        self._is_stopped.set()

    def stop(self, wait: bool = False) -> None:
        """Make `start` return; with ``wait``, when it has."""
        info("beat: Shutting down...")
        self._is_shutdown.set()
        if wait:
            self._is_stopped.wait()

    def get_scheduler(
        self, lazy: bool = False, extension_namespace: str = "celery.beat_schedulers"
    ) -> Any:
        """A scheduler of the class that is wanted: a class, its path, or the name of an entry
        point of the group ``extension_namespace``."""
        from celery.utils.imports import load_extension_class_names

        aliases = dict(load_extension_class_names(extension_namespace))
        make = symbol_by_name(self.scheduler_cls, aliases=aliases)
        return make(
            app=self.app,
            schedule_filename=self.schedule_filename,
            max_interval=self.max_interval,
            lazy=lazy,
        )

    @cached_property
    def scheduler(self) -> Any:
        return self.get_scheduler()


class _Threaded(Thread):
    """A service in a thread of its own."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(name="Beat", daemon=True)
        self.app = app
        self.service = Service(app, **kwargs)

    def run(self) -> None:
        self.app.set_current()
        self.service.start()

    def stop(self) -> None:
        self.service.stop(wait=True)


def EmbeddedService(  # noqa: N802  # Celery's name
    app: Any, max_interval: float | None = None, **kwargs: Any
) -> Any:
    """A service inside a worker, to `start` and `stop`: a thread. Celery also knows a process,
    which ``thread`` would choose; it is accepted."""
    kwargs.pop("thread", None)
    return _Threaded(app, max_interval=1 if max_interval is None else max_interval, **kwargs)
