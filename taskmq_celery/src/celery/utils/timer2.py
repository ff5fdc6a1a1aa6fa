"""A thread that calls functions later.

>>> timer = Timer()
>>> timer.call_after(2.0, print, ("later",))
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from threading import TIMEOUT_MAX as THREAD_TIMEOUT_MAX
from time import sleep
from typing import Any

from kombu.asynchronous.timer import Entry, logger, to_timestamp
from kombu.asynchronous.timer import Timer as Schedule

__all__ = ("Entry", "Schedule", "Timer", "to_timestamp")


class Timer(threading.Thread):
    """Calls what was entered into its ``schedule``. It starts with the first entry."""

    Entry: Any = Entry
    Schedule: Any = Schedule

    running = False
    on_tick: Callable[[float], Any] | None = None
    _timer_count = 0

    def __init__(
        self,
        schedule: Any = None,
        on_error: Callable[..., Any] | None = None,
        on_tick: Callable[[float], Any] | None = None,
        on_start: Callable[[Timer], Any] | None = None,
        max_interval: float | None = None,
        **kwargs: Any,
    ) -> None:
        Timer._timer_count += 1
        super().__init__(name=f"Timer-{Timer._timer_count}", daemon=True)
        if schedule is None:  # an empty one is false
            schedule = self.Schedule(max_interval=max_interval, on_error=on_error)
        self.schedule = schedule
        self.on_tick = on_tick or self.on_tick
        self.on_start = on_start
        self.not_empty = threading.Condition()
        self.mutex = self.not_empty
        self.__is_stopped, self.__is_shutdown = threading.Event(), threading.Event()

    def _next_entry(self) -> float | None:
        """Call what is due; seconds until there is more."""
        with self.not_empty:
            delay: float | None
            delay, entry = next(self.scheduler)
            if entry is None:
                if delay is None:
                    self.not_empty.wait(1.0)
                return delay
        self.schedule.apply_entry(entry)
        return None

    def run(self) -> None:
        try:
            self.running = True
            self.scheduler: Iterator[Any] = iter(self.schedule)
            while not self.__is_shutdown.is_set():
                delay = self._next_entry()
                if delay:
                    if self.on_tick is not None:
                        self.on_tick(delay)
                    sleep(delay)
            with contextlib.suppress(TypeError):  # the interpreter is ending: modules are empty
                self.__is_stopped.set()
        except Exception as error:
            logger.error("Thread Timer crashed: %r", error, exc_info=True)
            sys.stderr.flush()
            os._exit(1)

    def stop(self) -> None:
        """Call nothing more, and wait for the thread."""
        self.__is_shutdown.set()
        if self.running:
            self.__is_stopped.wait()
            self.join(THREAD_TIMEOUT_MAX)
            self.running = False

    def ensure_started(self) -> None:
        """Start the thread unless it runs."""
        if not self.running and not self.is_alive():
            if self.on_start is not None:
                self.on_start(self)
            self.start()

    def _do_enter(self, meth: str, *args: Any, **kwargs: Any) -> Any:
        self.ensure_started()
        with self.mutex:
            entry = getattr(self.schedule, meth)(*args, **kwargs)
            self.not_empty.notify()
            return entry

    __next__ = next = _next_entry

    def enter(self, entry: Any, eta: Any, priority: int | None = None) -> Any:
        return self._do_enter("enter_at", entry, eta, priority=priority)

    def call_at(self, *args: Any, **kwargs: Any) -> Any:
        return self._do_enter("call_at", *args, **kwargs)

    def enter_after(self, *args: Any, **kwargs: Any) -> Any:
        return self._do_enter("enter_after", *args, **kwargs)

    def call_after(self, *args: Any, **kwargs: Any) -> Any:
        """Call a function in so many seconds."""
        return self._do_enter("call_after", *args, **kwargs)

    def call_repeatedly(self, *args: Any, **kwargs: Any) -> Any:
        """Call a function every so many seconds."""
        return self._do_enter("call_repeatedly", *args, **kwargs)

    def exit_after(self, secs: float, priority: int = 10) -> None:
        self.call_after(secs, sys.exit, priority)

    def cancel(self, tref: Any) -> None:
        tref.cancel()

    def clear(self) -> None:
        self.schedule.clear()

    def empty(self) -> bool:
        return not len(self)

    def __len__(self) -> int:
        return len(self.schedule)

    def __bool__(self) -> bool:
        """A timer is one even if nothing waits in it."""
        return True

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("iterate over its schedule")

    @property
    def queue(self) -> list[Any]:
        """What waits, in order."""
        return list(self.schedule.queue)
