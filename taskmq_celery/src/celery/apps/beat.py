"""Beat as a program: banner, logging, pid file, and what it does when it is sent a signal."""

from __future__ import annotations

import datetime
import logging
import socket
import sys
from typing import Any

from celery import VERSION_BANNER, beat, platforms
from celery._state import get_current_app
from celery.platforms import signals as os_signals
from celery.utils.imports import qualname
from celery.utils.log import LOG_LEVELS, get_logger
from celery.utils.time import humanize_seconds

from .banner import masked

__all__ = ("Beat",)

logger = get_logger("celery.beat")

ART = "__    -    ... __   -        _"
STARTUP_INFO = """\
LocalTime -> {timestamp}
Configuration ->
    . broker -> {broker}
    . loader -> {loader}
    . scheduler -> {scheduler}
{scheduler_info}
    . logfile -> {logfile}@%{loglevel}
    . maxinterval -> {hmax_interval} ({max_interval}s){more}"""


class Beat:
    """What ``celery beat`` runs. ``app.Beat(loglevel="INFO").run()`` is the same."""

    Service: Any = beat.Service
    app: Any = None

    def __init__(
        self,
        max_interval: float | None = None,
        app: Any = None,
        socket_timeout: float | None = 30,
        pidfile: str | None = None,
        no_color: bool | None = None,
        loglevel: int | str = "WARN",
        logfile: str | None = None,
        schedule: str | None = None,
        scheduler: Any = None,
        scheduler_cls: Any = None,
        redirect_stdouts: bool | None = None,
        redirect_stdouts_level: int | str | None = None,
        quiet: bool = False,
        remote_control: bool | None = None,
        hostname: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.app = app or self.app or get_current_app()
        either = self.app.either
        self.loglevel: Any = LOG_LEVELS[loglevel.upper()] if isinstance(loglevel, str) else loglevel
        self.logfile, self.pidfile = logfile, pidfile
        self.schedule = either("beat_schedule_filename", schedule)
        self.scheduler_cls = either("beat_scheduler", scheduler, scheduler_cls)
        self.redirect_stdouts = either("worker_redirect_stdouts", redirect_stdouts)
        self.redirect_stdouts_level = either(
            "worker_redirect_stdouts_level", redirect_stdouts_level
        )
        self.quiet = quiet
        self.max_interval = max_interval
        self.socket_timeout = socket_timeout
        self.remote_control, self.hostname = remote_control, hostname
        self.no_color = no_color
        self.colored = self.app.log.colored(
            self.logfile, enabled=None if no_color is None else not no_color
        )

    def run(self) -> None:
        """Run until it is stopped."""
        if not self.quiet:
            print(  # noqa: T201  # the program's own
                self.colored.cyan(f"celery beat v{VERSION_BANNER} is starting."), flush=True
            )
        self.init_loader()
        self.set_process_title()
        self.start_scheduler()

    def setup_logging(self, colorize: bool | None = None) -> None:
        """Configure logging, unless the program did it itself."""
        if colorize is None and self.no_color is not None:
            colorize = not self.no_color
        self.app.log.setup(
            self.loglevel,
            self.logfile,
            self.redirect_stdouts,
            self.redirect_stdouts_level,
            colorize=colorize,
        )

    def start_scheduler(self) -> None:
        """Make the service, say what it is, and run it."""
        lock = platforms.create_pidlock(self.pidfile) if self.pidfile else None
        try:
            where = {"scheduler_cls": self.scheduler_cls, "schedule_filename": self.schedule}
            answering = {"remote_control": self.remote_control, "hostname": self.hostname}
            service = self.Service(
                app=self.app, max_interval=self.max_interval, **where, **answering
            )
            if not self.quiet:
                print(self.banner(service), flush=True)  # noqa: T201  # the program's own
            self.setup_logging()
            if self.socket_timeout:
                logger.debug("Setting default socket timeout to %r", self.socket_timeout)
                socket.setdefaulttimeout(self.socket_timeout)
            self.install_sync_handler(service)
            service.start()
        except Exception as exc:
            logger.critical("beat raised exception %s: %r", type(exc), exc, exc_info=True)
            raise
        finally:
            if lock is not None:
                lock.release()

    def banner(self, service: Any) -> str:
        return f"{ART}\n{self.startup_info(service)}\n"

    def startup_info(self, service: Any) -> str:
        """What it is made of, line by line."""
        scheduler = service.get_scheduler(lazy=True)
        more = self._remote_control_info(service)
        return STARTUP_INFO.format(
            timestamp=datetime.datetime.now().replace(microsecond=0),
            broker=masked(self.app.conf.broker_write_url or self.app.connection().as_uri()),
            loader=qualname(self.app.loader),
            scheduler=qualname(scheduler),
            scheduler_info=scheduler.info,
            logfile=self.logfile or "[stderr]",
            loglevel=logging.getLevelName(self.loglevel),
            hmax_interval=humanize_seconds(scheduler.max_interval),
            max_interval=scheduler.max_interval,
            more=f"\n{more}" if more else "",
        )

    def _remote_control_info(self, service: Any) -> str:
        if not service.remote_control:
            return ""
        return f"    . remote control -> {beat.beat_nodename(service.hostname)}"

    def init_loader(self) -> None:
        """Import what a worker imports: tasks, and what puts them on the schedule."""
        self.app.loader.init_worker()
        self.app.finalize()

    def set_process_title(self) -> None:
        platforms.set_process_title("celery beat", info=" ".join(sys.argv[1:]))

    def install_sync_handler(self, service: Any) -> None:
        """TERM and INT end it, after the schedule is written down."""

        def stop(number: int, frame: Any) -> None:
            service.sync()
            raise SystemExit

        os_signals.update(SIGTERM=stop, SIGINT=stop)
