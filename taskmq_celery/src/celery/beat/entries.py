"""What is on a schedule."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from functools import total_ordering
from typing import Any, NamedTuple

from kombu.utils.functional import reprcall

from celery._state import get_current_app
from celery.schedules import maybe_schedule

__all__ = ("BeatLazyFunc", "ScheduleEntry", "SchedulingError", "event_t")

COMPARED = ("task", "args", "kwargs", "options", "schedule")


class SchedulingError(Exception):
    """A task that was due could not be sent."""


class BeatLazyFunc:
    """An argument that is worked out each time the task is due.

    >>> app.conf.beat_schedule = {"report": {
    ...     "task": "report", "schedule": 3600.0, "args": (BeatLazyFunc(datetime.date.today),)}}
    """

    def __init__(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._func = func
        self._func_params = {"args": args, "kwargs": kwargs}

    def __call__(self) -> Any:
        return self.delay()

    def delay(self) -> Any:
        """The value now."""
        given: Any = self._func_params
        return self._func(*given["args"], **given["kwargs"])


def _evaluate_entry_args(entry_args: Any) -> list[Any]:
    return [each() if isinstance(each, BeatLazyFunc) else each for each in entry_args or ()]


def _evaluate_entry_kwargs(entry_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        name: each() if isinstance(each, BeatLazyFunc) else each
        for name, each in (entry_kwargs or {}).items()
    }


class event_t(NamedTuple):  # noqa: N801  # Celery's name
    """When to look at an entry: ``time`` is epoch seconds."""

    time: float
    priority: int
    entry: Any


@total_ordering
class ScheduleEntry:
    """A task that is called again and again.

    ``schedule`` is a schedule, seconds, or a ``timedelta``; ``options`` are those of
    ``apply_async``. An entry is never changed by its runs: `next` gives what takes its place.
    """

    name: Any = None
    schedule: Any = None
    args: Any = None
    kwargs: Any = None
    options: Any = None
    last_run_at: Any = None
    total_run_count = 0

    def __init__(
        self,
        name: str | None = None,
        task: str | None = None,
        last_run_at: datetime.datetime | None = None,
        total_run_count: int | None = None,
        schedule: Any = None,
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        relative: bool = False,
        app: Any = None,
    ) -> None:
        self.app = app or get_current_app()
        self.name, self.task = name, task
        self.args, self.kwargs, self.options = args, kwargs or {}, options or {}
        if schedule is not None:
            schedule = maybe_schedule(schedule, relative, app=self.app)
        self.schedule = schedule
        self.last_run_at = last_run_at or self.default_now()
        self.total_run_count = total_run_count or 0

    def default_now(self) -> datetime.datetime:
        """The current time, by the clock of the schedule."""
        now: datetime.datetime = self.schedule.now() if self.schedule else self.app.now()
        return now

    _default_now = default_now

    def is_due(self) -> Any:
        """Whether it is due, and in how many seconds to look again."""
        return self.schedule.is_due(self.last_run_at)

    def next(self, last_run_at: datetime.datetime | None = None) -> ScheduleEntry:
        """The entry after it has run: now, or at ``last_run_at``."""
        changed = {
            "last_run_at": last_run_at or self.default_now(),
            "total_run_count": self.total_run_count + 1,
        }
        return type(self)(**{**dict(self), **changed})

    __next__ = _next_instance = next

    def update(self, other: ScheduleEntry) -> None:
        """Take over what the user may change; what has been stays."""
        vars(self).update({name: getattr(other, name) for name in COMPARED})

    def editable_fields_equal(self, other: ScheduleEntry) -> bool:
        """Whether both call the same, in the same way, at the same times."""
        return all(getattr(self, name) == getattr(other, name) for name in COMPARED)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(vars(self).items())

    def __repr__(self) -> str:
        call = reprcall(self.task, self.args or (), self.kwargs or {})
        return f"<{type(self).__name__}: {self.name} {call} {self.schedule}>"

    def __reduce__(self) -> tuple[Any, ...]:
        history = (self.name, self.task, self.last_run_at, self.total_run_count)
        return type(self), (*history, self.schedule, self.args, self.kwargs, self.options)

    def __lt__(self, other: object) -> bool:
        # Any order will do: heaps compare entries that are due at the same time.
        if isinstance(other, ScheduleEntry):
            return id(self) < id(other)
        return NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScheduleEntry) and self.editable_fields_equal(other)

    __hash__ = None  # type: ignore[assignment]  # entries can be changed


# Where Celery has them: files of schedules name the place.
ScheduleEntry.__module__ = BeatLazyFunc.__module__ = SchedulingError.__module__ = "celery.beat"
