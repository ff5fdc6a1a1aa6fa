"""The worker as a program: banner, logging, and what it does when it is sent a signal."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal as _signal
import sys
from collections.abc import Callable
from os import write  # this one: libraries of green threads replace it in its module
from typing import Any

from celery import signals
from celery.app import trace
from celery.platforms import (
    EX_FAILURE,
    EX_OK,
    IS_macOS,
    check_privileges,
    set_mp_process_title,
)
from celery.platforms import signals as os_signals
from celery.utils.log import get_logger
from celery.utils.text import pluralize
from celery.worker import WorkController
from taskmq_celery.config import unused_settings

from .banner import banner, masked

__all__ = ("Worker",)

logger = get_logger(__name__)
connection_logger = get_logger("celery.worker.consumer.connection")


class Worker(WorkController):
    """What ``celery worker`` runs. ``app.Worker(loglevel="INFO").start()`` is the same."""

    quiet = False
    restart_wanted = False
    winding_down = False
    """Whether it gives what runs some time before a cold shutdown, and that is not over."""

    def start(self) -> None:
        printed = sys.stdout, sys.stderr
        try:
            super().start()
        finally:
            # What is printed from here on, errors above all, is no log line any more.
            sys.stdout, sys.stderr = printed
        if self.restart_wanted:
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # ourselves

    def on_before_init(self, quiet: bool = False, **kwargs: Any) -> None:
        self.quiet = quiet
        trace.setup_worker_optimizations(self.app, self.hostname)
        signals.celeryd_init.send(
            sender=self.hostname, instance=self, conf=self.app.conf, options=kwargs
        )
        check_privileges(self.app.conf.accept_content)

    def on_after_init(
        self,
        purge: bool = False,
        no_color: bool | None = None,
        redirect_stdouts: bool | None = None,
        redirect_stdouts_level: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        either = self.app.either
        self.redirect_stdouts: bool = either("worker_redirect_stdouts", redirect_stdouts)
        self.redirect_stdouts_level = either(
            "worker_redirect_stdouts_level", redirect_stdouts_level
        )
        self.purge = purge
        self.no_color = no_color
        signals.worker_init.send(sender=self)
        # None leaves it to the configuration; without colour there is nothing to decide.
        self._custom_logging = self.setup_logging(colorize=False if no_color else None)

    def on_init_blueprint(self) -> None:
        signals.celeryd_after_setup.send(sender=self.hostname, instance=self, conf=self.app.conf)

    def on_start(self) -> None:
        if self.purge:
            self.purge_messages()
        if not self.quiet:
            self.emit_banner()
        if not self._custom_logging and self.redirect_stdouts:
            self.app.log.redirect_stdouts(self.redirect_stdouts_level)
        if self.sizing:
            logger.info("%s", self.sizing)
        self._tell_differences()
        self.install_platform_tweaks(self)

    def on_consumer_ready(self, consumer: Any) -> None:
        url = self.app.conf.broker_read_url or self.app.conf.broker_url
        connection_logger.info("Connected to %s", masked(url))
        self.set_process_status("-active-")
        logger.info("%s ready.", self)

    def on_worked(self, report: Any) -> None:
        if self.winding_down:
            safe_say("worker: Cold shutdown (MainProcess)", sys.__stdout__)
        if report.interrupted:
            _say(f"Restoring {report.interrupted} unacknowledged message(s)")

    def wind_down(self, seconds: float, exitcode: int | None = None) -> None:
        self.winding_down = True
        logger.warning("Initiating Soft Shutdown, terminating in %s seconds", seconds)
        super().wind_down(seconds, exitcode)

    def terminate(self, in_sighandler: bool = False) -> None:
        self.winding_down = False
        super().terminate(in_sighandler)

    @property
    def grace(self) -> float:
        """Seconds that what runs has before a cold shutdown (``worker_soft_shutdown_timeout``);
        0: none. Only the first time."""
        conf = self.app.conf
        seconds: float = conf.worker_soft_shutdown_timeout or 0.0
        if self.winding_down or self._terminated or self._engine is None:
            return 0.0
        if not (conf.worker_enable_soft_shutdown_on_idle or self.inspection.is_busy):
            return 0.0
        return seconds

    def on_stopped(self) -> None:
        faulthandler.unregister(_signal.SIGUSR1)

    def setup_logging(self, colorize: bool | None = None) -> Any:
        """Configure logging; true if the program did it itself (``signals.setup_logging``)."""
        return self.app.log.setup(
            self.loglevel,
            self.logfile,
            redirect_stdouts=False,
            colorize=colorize,
            hostname=self.hostname,
        )

    def purge_messages(self) -> None:
        """Delete what waits in the queues, and say how much it was."""
        if self._engine is not None:
            count = self._engine.purge()
            if count:
                _say(f"purge: Erased {count} {pluralize(count, 'message')} from the queue.\n")

    def emit_banner(self) -> None:
        """Print who this is, what it is connected to, and what it can run."""
        paint = self.app.log.colored(self.logfile, enabled=False if self.no_color else None)
        text = f" \n{paint.cyan(self.startup_info())}\n"
        if self.loglevel is None or self.loglevel <= logging.INFO:
            text += f"\n{self.extra_info()}\n"
        _say(text)

    def install_platform_tweaks(self, worker: Worker) -> None:
        """Called before it starts: what the signals of the operating system do."""
        if IS_macOS:
            self.macOS_proxy_detection_workaround()
        install_signal_handlers(worker)

    def macOS_proxy_detection_workaround(self) -> None:  # noqa: N802  # Celery's name
        """Have a variable whose name ends as those of proxies do. Without any, macOS is asked for
        proxies, which a forked child does not survive."""
        os.environ.setdefault("celery_dummy_proxy", "set_by_celeryd")

    def set_process_status(self, info: str) -> Any:
        """Show this in ``ps``, with its name and command line; with the package setproctitle."""
        shown = f"{info} ({' '.join(sys.argv)})"
        return set_mp_process_title("celeryd", info=shown, hostname=self.hostname)

    def startup_info(self, artlines: bool = True) -> str:
        return banner(self, art=artlines)

    def extra_info(self) -> str:
        builtins = (self.loglevel or 0) <= logging.DEBUG
        return f"[tasks]\n{self.tasklist(include_builtins=builtins)}"

    def tasklist(
        self, include_builtins: bool = True, sep: str = "\n", int_: str = "celery."
    ) -> str:
        """The registered tasks, sorted, each with ``sep`` between it and the next; those whose
        names begin with ``int_`` only with ``include_builtins``."""
        wanted = (name for name in self.app.tasks if include_builtins or not name.startswith(int_))
        return sep.join(f"  . {name}" for name in sorted(wanted))

    def _tell_differences(self) -> None:
        """One line for each thing that was asked for and is done another way, or not at all."""
        if self.pool_cls.instead:
            threads = f"{self.concurrency} {pluralize(self.concurrency, 'thread')}"
            name, why = self.pool_cls.name, self.pool_cls.instead
            logger.info("Pool %s: %s; tasks run in %s", name, why, threads)
        has_children = self.pool_cls.engine_pool == "processes"
        for option, why in NO_MEANING.items():
            if self.options.get(option) and not (has_children and option in OF_CHILDREN):
                logger.info("Option --%s: %s", option.replace("_", "-"), why)
        for setting, why in unused_settings(self.app.conf).items():
            if not (has_children and setting in SETTINGS_OF_CHILDREN):
                logger.info("Setting %s: %s", setting, why)


NO_MEANING = {
    "autoscale": "the number of slots is fixed; set it with --concurrency",
    "max_memory_per_child": "there are no child processes to replace",
    "max_tasks_per_child": "there are no child processes to replace",
    "pool_start_method": "children are always forked",
    "soft_time_limit": "there are no child processes to end",
    "time_limit": "there are no child processes to end",
}
"""What this version accepts for the sake of existing command lines."""

OF_CHILDREN = {
    *("autoscale", "max_memory_per_child", "max_tasks_per_child"),
    *("soft_time_limit", "time_limit"),
}
SETTINGS_OF_CHILDREN = {
    "task_soft_time_limit",
    "task_time_limit",
    "worker_max_memory_per_child",
    "worker_max_tasks_per_child",
}
"""What has a meaning where tasks run in child processes."""


def safe_say(msg: str, f: Any = sys.__stderr__) -> None:
    """Print a line of its own, from a signal handler too: no buffer, no lock, and no error if
    nobody reads it."""
    _print(f"\n{msg}\n", f)


def _say(message: str) -> None:
    _print(f"{message}\n", sys.__stdout__)


def _print(text: str, stream: Any) -> None:
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        stream.flush()  # closed, nobody reads it, or the signal came in the middle of a flush
    with contextlib.suppress(OSError, ValueError):
        write(stream.fileno(), text.encode(errors="replace"))


def install_signal_handlers(worker: Worker) -> None:
    """TERM: warm shutdown. INT: warm, then cold. QUIT: cold. HUP: start anew. USR1: say where
    every thread is."""
    term = _shutdown_handler(worker, "SIGTERM", warm=True, exitcode=EX_OK)
    quit_ = _shutdown_handler(worker, "SIGQUIT", warm=False, exitcode=EX_FAILURE)
    os_signals["TERM"] = quit_ if os.environ.get("REMAP_SIGTERM") == "SIGQUIT" else term
    os_signals["QUIT"] = quit_
    os_signals["INT"] = _interrupt_handler(worker)
    os_signals["HUP"] = _restart_handler(worker)
    faulthandler.register(_signal.SIGUSR1, file=sys.__stderr__ or sys.stderr, all_threads=True)


Handler = Callable[[int, Any], None]


def _shutdown_handler(worker: Worker, sig: str, *, warm: bool, exitcode: int) -> Handler:
    how = "Warm" if warm else "Cold"

    def tell() -> None:
        signals.worker_shutting_down.send(
            sender=worker.hostname, sig=sig, how=how, exitcode=exitcode
        )

    def handle_warm(number: int, frame: Any) -> None:
        safe_say("worker: Warm shutdown (MainProcess)", sys.__stdout__)
        tell()
        worker.stop(in_sighandler=True, exitcode=exitcode)

    def handle_cold(number: int, frame: Any) -> None:
        grace = worker.grace
        if grace:
            tell()
            worker.wind_down(grace, exitcode=exitcode)
            return
        if worker.winding_down:
            safe_say("Waiting gracefully for cold shutdown to complete...", sys.__stdout__)
        safe_say("worker: Cold shutdown (MainProcess)", sys.__stdout__)
        tell()
        worker.exitcode = exitcode
        worker.terminate(in_sighandler=True)

    return handle_warm if warm else handle_cold


def _interrupt_handler(worker: Worker) -> Handler:
    """The first waits for what runs, the second does not, the third leaves at once: a task in the
    worker's own thread (the solo pool) cannot be left in any other way. Nothing is lost by it."""
    warm = _shutdown_handler(worker, "SIGINT", warm=True, exitcode=EX_FAILURE)
    cold = _shutdown_handler(worker, "SIGINT", warm=False, exitcode=EX_FAILURE)

    def third(number: int, frame: Any) -> None:
        os._exit(EX_FAILURE)

    def second(number: int, frame: Any) -> None:
        if not worker.grace:
            os_signals["INT"] = third
        safe_say("worker: Hitting Ctrl+C again will terminate all running tasks!", sys.__stdout__)
        cold(number, frame)

    def first(number: int, frame: Any) -> None:
        os_signals["INT"] = second
        safe_say(
            "worker: Hitting Ctrl+C again will initiate cold shutdown, "
            "terminating all running tasks!",
            sys.__stdout__,
        )
        warm(number, frame)

    return first


def _restart_handler(worker: Worker) -> Handler:
    def handle(number: int, frame: Any) -> None:
        safe_say(f"Restarting celery worker ({' '.join(sys.argv)})", sys.__stdout__)
        worker.restart_wanted = True
        worker.stop(in_sighandler=True, exitcode=EX_OK)

    return handle
