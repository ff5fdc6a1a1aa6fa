"""What is due, and calling it."""

from __future__ import annotations

import copy
import heapq
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from celery import beat
from celery.local import maybe_evaluate
from celery.schedules import crontab
from celery.utils.log import get_logger
from celery.utils.time import humanize_seconds, maybe_make_aware
from taskmq_celery.brokers import carries_control

from .entries import (
    ScheduleEntry,
    SchedulingError,
    _evaluate_entry_args,
    _evaluate_entry_kwargs,
    event_t,
)

__all__ = ("DEFAULT_MAX_INTERVAL", "Scheduler")

DEFAULT_MAX_INTERVAL = 300
"""Longest time in seconds between two looks at the schedule."""

PRIORITY = 5
CLEANUP = "celery.backend_cleanup"
CLEANUP_EXPIRES = 12 * 3600


def reraise(kind: type[BaseException], value: BaseException, tb: Any = None) -> None:
    """Raise an exception with the traceback of another one."""
    raise value.with_traceback(tb) if tb is not None else value


class Scheduler:
    """Knows the entries of ``data``, and which of them is due next.

    To keep entries elsewhere override `setup_schedule`, `get_schedule` (or the property
    ``schedule``), `sync` and `close`; ``Entry`` is the class of entries. Nothing here sleeps:
    `tick` does what is to be done now. With ``lazy`` the schedule is not set up.
    """

    Entry: Any = ScheduleEntry
    max_interval: Any = DEFAULT_MAX_INTERVAL
    sync_every: Any = 3 * 60
    """Longest time in seconds between two calls of `sync`."""
    sync_every_tasks: int | None = None
    """Most tasks that are sent between two calls of `sync`; 0: any number."""
    logger = get_logger("celery.beat")

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
        self.max_interval = max_interval or app.conf.beat_max_loop_interval or self.max_interval
        self.Producer = Producer or app.amqp.Producer
        self._heap: list[Any] | None = None
        self.old_schedulers: Any = None
        if sync_every_tasks is None:
            sync_every_tasks = app.conf.beat_sync_every
        self.sync_every_tasks = sync_every_tasks
        if not lazy:
            self.setup_schedule()

    # -- the schedule ------------------------------------------------------------------------

    def setup_schedule(self) -> None:
        """Fill the schedule: with what the app has, and what every app needs."""
        self.install_default_entries(self.data)
        self.merge_inplace(self.app.conf.beat_schedule)

    def install_default_entries(self, data: Any) -> None:
        """Add the cleaning of a result backend that does not expire results by itself."""
        if not self.app.conf.result_expires or self.app.backend.supports_autoexpire:
            return
        if CLEANUP not in self.app.conf.beat_schedule:
            entry = {
                "task": CLEANUP,
                "schedule": crontab("0", "4", "*"),
                "options": {"expires": CLEANUP_EXPIRES},
            }
            self.update_from_dict({CLEANUP: entry})

    def get_schedule(self) -> Any:
        return self.data

    def set_schedule(self, schedule: Any) -> None:
        self.data = schedule

    schedule = property(lambda self: self.get_schedule(), lambda self, new: self.set_schedule(new))
    """The entries, by name."""

    def add(self, **kwargs: Any) -> Any:
        """Put an entry on the schedule, in place of one of its name; gives it."""
        entry = self.Entry(app=self.app, **kwargs)
        self.schedule[entry.name] = entry
        return entry

    def update_from_dict(self, dict_: Mapping[str, Any]) -> None:
        """Put entries on the schedule: as in the setting ``beat_schedule``."""
        self.schedule.update({name: self._maybe_entry(name, each) for name, each in dict_.items()})

    def merge_inplace(self, b: Mapping[str, Any]) -> None:
        """Make the schedule that of ``b``. Entries that stay keep when they ran last."""
        schedule = self.schedule
        for gone in set(schedule) - set(b):
            schedule.pop(gone, None)
        for name, given in b.items():
            entry = self._maybe_entry(name, given)
            if name in schedule:
                schedule[name].update(entry)
            else:
                schedule[name] = entry

    def _maybe_entry(self, name: str, entry: Any) -> Any:
        if isinstance(entry, self.Entry):
            entry.app = self.app
            return entry
        return self.Entry(**{**entry, "name": name, "app": self.app})

    def schedules_equal(self, old_schedules: Any, new_schedules: Any) -> bool:
        """Whether two schedules have the same entries."""
        if old_schedules is None or new_schedules is None:
            return old_schedules is new_schedules
        return set(old_schedules) == set(new_schedules) and all(
            new_schedules.get(name) == entry for name, entry in old_schedules.items()
        )

    @property
    def info(self) -> str:
        """A line about where the schedule is, for the banner."""
        return ""

    # -- what is due -------------------------------------------------------------------------

    def is_due(self, entry: Any) -> Any:
        """Whether an entry is due, and in how many seconds to look again."""
        return entry.is_due()

    def adjust(self, n: Any, drift: float = -0.010) -> Any:
        """A time to wait, less what waking up takes."""
        return n + drift if n and n > 0 else n

    def _when(self, entry: Any, next_time_to_run: Any) -> float:
        """The time in so many seconds by the clock of an entry, in epoch seconds."""
        now = maybe_make_aware(entry.default_now())
        return float(now.timestamp() + (self.adjust(next_time_to_run) or 0))

    def populate_heap(
        self,
        event_t: Callable[..., Any] = event_t,
        heapify: Callable[[list[Any]], None] = heapq.heapify,
    ) -> None:
        """Look at all entries: when each is due next."""
        heap = []
        for entry in self.schedule.values():
            try:
                is_due, wait = entry.is_due()
            except Exception:
                is_due, wait = self._is_due_failed(entry)
            heap.append(event_t(self._when(entry, 0 if is_due else wait) or 0, PRIORITY, entry))
        heapify(heap)
        self._heap = heap

    def _is_due_failed(self, entry: Any) -> tuple[bool, float]:
        """One broken entry does not stop the others: it is looked at again later."""
        beat.error(
            "beat: entry %s cannot say when it is due; looking again in %s seconds",
            *(entry.name, self.max_interval),
            exc_info=True,
        )
        return False, self.max_interval

    def tick(
        self,
        event_t: Callable[..., Any] = event_t,
        min: Callable[..., Any] = min,
        heappop: Callable[[list[Any]], Any] = heapq.heappop,
        heappush: Callable[[list[Any], Any], None] = heapq.heappush,
    ) -> Any:
        """Call the entry that is due longest, if there is one; in how many seconds to ask again.

        0 says that another one may be due already.
        """
        if self._heap is None or not self.schedules_equal(self.old_schedulers, self.schedule):
            self.old_schedulers = copy.copy(self.schedule)
            self.populate_heap()
        heap: list[Any] = self._heap or []
        if not heap:
            return self.max_interval
        event = heap[0]
        entry = event[2]
        try:
            is_due, wait = self.is_due(entry)
        except Exception:
            is_due, wait = self._is_due_failed(entry)
        if heap[0] is not event:  # the question has changed the schedule
            return min(self._wait_for(heap[0]), self.max_interval)
        heappop(heap)
        if is_due:
            entry = self.reserve(entry)
            self.apply_entry(event[2], producer=self.producer)
            heappush(heap, event_t(self._when(entry, wait), event[1], entry))
            return 0
        wait = self.max_interval if wait is None else wait
        heappush(heap, event_t(self._when(entry, wait), event[1], entry))
        if heap[0][2] is not entry and self._wait_for(heap[0]) <= 0:
            return 0
        return min(self.adjust(wait), self.max_interval)

    def _wait_for(self, event: Any) -> Any:
        """Seconds until an event, by the clock of its entry."""
        return event[0] - self._when(event[2], 0)

    def reserve(self, entry: Any) -> Any:
        """Note that an entry runs now; gives what takes its place."""
        new_entry = self.schedule[entry.name] = next(entry)
        return new_entry

    # -- calling -----------------------------------------------------------------------------

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Call the task of an entry. That it cannot be sent is logged."""
        beat.info("Scheduler: Sending due task %s (%s)", entry.name, entry.task)
        try:
            result = self.apply_async(entry, producer=producer, advance=False)
        except Exception as exc:
            beat.error("Message Error: %s", exc, exc_info=True)
            return
        if result and hasattr(result, "id"):
            beat.debug("%s sent. id->%s", entry.task, result.id)
        else:
            beat.debug("%s sent.", entry.task)

    def apply_async(
        self, entry: Any, producer: Any = None, advance: bool = True, **kwargs: Any
    ) -> Any:
        """Call the task of an entry, with ``advance`` after `reserve`. Raises `SchedulingError`."""
        if advance:
            entry = self.reserve(entry)
        task = self.app.tasks.get(entry.task)
        try:
            args = _evaluate_entry_args(entry.args)
            named = _evaluate_entry_kwargs(entry.kwargs)
            options = {**self._options(entry), "producer": producer}
            if task is not None:
                return task.apply_async(args, named, **options)
            return self.send_task(entry.task, args, named, **options)
        except Exception as exc:
            what = f"Couldn't apply scheduled task {entry.name}: {exc}"
            raise SchedulingError(what).with_traceback(sys.exc_info()[2]) from exc
        finally:
            self._tasks_since_sync += 1
            if self.should_sync():
                self._do_sync()

    def _options(self, entry: Any) -> dict[str, Any]:
        return dict(entry.options or {})

    def send_task(self, *args: Any, **kwargs: Any) -> Any:
        """Call a task that this process does not know."""
        return self.app.send_task(*args, **kwargs)

    # -- keeping -----------------------------------------------------------------------------

    def should_sync(self) -> bool:
        """Whether it is time to write down what has happened."""
        late = self._last_sync is None or time.monotonic() - self._last_sync > self.sync_every
        many = self.sync_every_tasks and self._tasks_since_sync >= self.sync_every_tasks
        return bool(late or many)

    def _do_sync(self) -> None:
        try:
            beat.debug("beat: Synchronizing schedule...")
            self.sync()
        finally:
            self._last_sync = time.monotonic()
            self._tasks_since_sync = 0

    def sync(self) -> None:
        """Write down what has happened; for subclasses."""

    def close(self) -> None:
        """Write down what has happened, and let go of the broker, whatever fails."""
        _all_of((self.sync, self._release))

    def _release(self) -> None:
        connection = vars(self).pop("connection", None)
        vars(self).pop("producer", None)
        if connection is not None:
            try:
                connection.release()
            except connection.connection_errors + connection.channel_errors as exc:
                beat.debug("beat: the broker was gone already: %r", exc)

    # -- the broker --------------------------------------------------------------------------

    @cached_property
    def connection(self) -> Any:
        """A connection of kombu's, for subclasses that publish by themselves."""
        return self.app.connection_for_write()

    @cached_property
    def producer(self) -> Any:
        """A producer on `connection`; ``None`` for a store that kombu does not know."""
        if not carries_control(self.app.conf.broker_write_url):
            return None
        return self.Producer(self._ensure_connected(), auto_declare=False)

    def _ensure_connected(self) -> Any:
        """`connection`, once the broker answers."""

        def failed(exc: Exception, interval: float) -> None:
            again = humanize_seconds(interval, "in", " ")
            beat.error("beat: Connection error: %s. Trying again %s...", exc, again)

        retries = self.app.conf.broker_connection_max_retries
        return self.connection.ensure_connection(failed, retries)


def _all_of(steps: Iterable[Callable[[], None]]) -> None:
    """Do every step, whichever fails. The first error is raised, others are logged."""
    first: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as exc:
            if first is None:
                first = exc
            else:
                beat.error("beat: error while closing: %r", exc, exc_info=True)
    if first is not None:
        raise first


Scheduler.__module__ = "celery.beat"
