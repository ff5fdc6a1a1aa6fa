"""A scheduler as a program: ``taskmq beat``; and beside a worker."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from taskmq import App, logs
from taskmq.scheduler import Scheduler
from taskmq.worker import Worker, WorkerHook, WorkerReport

from .apps import open_store, program_of
from .exits import Exit
from .output import wants_color
from .systemd import ServiceManager
from .values import counted

__all__ = ["SchedulerBeside", "beat"]

logger = logging.getLogger("taskmq.scheduler")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LAST_WORDS = 2.0
"""Seconds that a scheduler has to give up the lead when its process ends. The lease ends soon."""


def beat(arguments: argparse.Namespace) -> int:
    """Run a scheduler alone until it is told to stop, or look once with ``--once``."""
    app = open_store(arguments)
    log_format = arguments.log_format or app.config.log_format
    color = log_format == "pretty" and wants_color(sys.stderr)
    logs.configure(arguments.log_level, format=log_format, stream=sys.stderr, color=color)
    app.add_sink(logs.LogSink())
    if not app.transport.capabilities.shared:
        sys.stderr.write(
            f"taskmq: warning: {app.store_name} is of this process alone: no worker gets these "
            "jobs\n"
        )
    with app:
        scheduler = Scheduler(app, program=program_of(arguments))
        if arguments.once:
            scheduler.run_once()
            return Exit.OK
        return _run(scheduler)


def _run(scheduler: Scheduler) -> int:
    name, manager = f"beat {socket.gethostname()}-{os.getpid()}", ServiceManager.from_env()
    with _signals(scheduler):
        scheduler.step()
        ready = counted(scheduler.schedules, "schedule")
        logger.info("%s ready: %s on %s", name, ready, scheduler.app.store_name)
        manager.ready(ready)
        scheduler.run()
        manager.stopping("stops", LAST_WORDS)
    logger.info("%s stopped", name)
    return Exit.OK


@contextmanager
def _signals(scheduler: Scheduler) -> Iterator[None]:
    """While inside, SIGTERM and SIGINT stop the scheduler; a second one ends the process."""
    heard = 0

    def trap(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        heard += 1
        scheduler.stop()
        if heard > 1:
            os._exit(Exit.INTERRUPTED)

    previous = {number: signal.signal(number, trap) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class SchedulerBeside(WorkerHook):
    """Lets a scheduler run as long as a worker does, in a thread of its own. It gives up the lead
    as soon as the worker begins to stop, if whoever hears of that calls `stop`."""

    def __init__(self, app: App, program: str) -> None:
        self._scheduler = Scheduler(app, program=program)

    def on_ready(self, worker: Worker) -> None:
        # Not before: a pool that forks wants to do so while there is no other thread.
        self._scheduler.start()

    def on_stop(self, worker: Worker, report: WorkerReport) -> None:
        self.end()

    def stop(self) -> None:
        """Ask it to end. From any thread, and from a signal handler."""
        self._scheduler.stop()

    def end(self) -> None:
        """Before the store is closed."""
        self._scheduler.stop()
        if not self._scheduler.join(LAST_WORDS):
            logger.warning("the scheduler hangs in the store: its lease ends by itself")
