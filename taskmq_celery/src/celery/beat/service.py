"""The loop around a scheduler."""

from __future__ import annotations

import threading
import time
from functools import cached_property
from typing import Any

from kombu.utils.imports import symbol_by_name

from celery import beat, platforms, signals
from celery.utils.imports import load_extension_class_names
from celery.utils.time import humanize_seconds

from .persistent import PersistentScheduler

__all__ = ("Service",)


class Service:
    """Runs a scheduler until it is stopped.

    ``scheduler_cls`` is a class, its path, or the name of an entry point of the group
    ``celery.beat_schedulers``. ``remote_control``: answer ``inspect().ping()``, by the name
    ``hostname``. What is not given comes from the settings ``beat_…``.
    """

    scheduler_cls: Any = PersistentScheduler

    def __init__(
        self,
        app: Any,
        max_interval: float | None = None,
        schedule_filename: str | None = None,
        scheduler_cls: Any = None,
        remote_control: bool | None = None,
        hostname: str | None = None,
    ) -> None:
        conf = app.conf
        self.app = app
        self.max_interval = max_interval or conf.beat_max_loop_interval
        self.schedule_filename = schedule_filename or conf.beat_schedule_filename
        self.scheduler_cls = scheduler_cls or self.scheduler_cls
        if remote_control is None:
            remote_control = conf.beat_enable_remote_control
        self.remote_control = remote_control
        self.hostname = hostname
        self.effective_max_interval: float | None = None
        """What the scheduler has settled on, once it runs."""
        self._last_tick: float | None = None
        self._pidbox: Any = None
        self._is_shutdown = threading.Event()
        self._is_stopped = threading.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        what = (self.app, self.max_interval, self.schedule_filename, self.scheduler_cls)
        return type(self), (*what, self.remote_control, self.hostname)

    def start(self, embedded_process: bool = False) -> None:
        """Run until `stop` is called, or the process is interrupted."""
        beat.info("beat: Starting...")
        self.effective_max_interval = self.scheduler.max_interval
        longest = humanize_seconds(self.scheduler.max_interval)
        beat.debug("beat: Ticking with max interval->%s", longest)
        signals.beat_init.send(sender=self)
        if embedded_process:
            signals.beat_embedded_init.send(sender=self)
            platforms.set_process_title("celery beat")
        if self.remote_control:
            self._pidbox = beat.BeatPidbox(self)
            self._pidbox.start()
        try:
            self._loop()
        except (KeyboardInterrupt, SystemExit):
            self._is_shutdown.set()
        finally:
            if self._pidbox is not None:
                self._pidbox.stop()
            self.sync()

    def _loop(self) -> None:
        self._last_tick = time.monotonic()
        while not self._is_shutdown.is_set():
            interval = self.scheduler.tick()
            self._last_tick = time.monotonic()
            if interval and interval > 0.0:
                beat.debug("beat: Waking up %s.", humanize_seconds(interval, "in ", " "))
                self._is_shutdown.wait(interval)
                if self.scheduler.should_sync():
                    self.scheduler._do_sync()

    def sync(self) -> None:
        """Close the scheduler."""
        self.scheduler.close()
        self._is_stopped.set()

    def stop(self, wait: bool = False) -> None:
        """Let `start` return; ``wait`` until it has closed the scheduler."""
        beat.info("beat: Shutting down...")
        self._is_shutdown.set()
        if wait:
            self._is_stopped.wait()

    def get_scheduler(
        self, lazy: bool = False, extension_namespace: str = "celery.beat_schedulers"
    ) -> Any:
        """Make the scheduler; ``lazy``: without its schedule, for a look at its class."""
        aliases = dict(load_extension_class_names(extension_namespace))
        return symbol_by_name(self.scheduler_cls, aliases=aliases)(
            app=self.app,
            schedule_filename=self.schedule_filename,
            max_interval=self.max_interval,
            lazy=lazy,
        )

    @cached_property
    def scheduler(self) -> Any:
        return self.get_scheduler()


Service.__module__ = "celery.beat"
