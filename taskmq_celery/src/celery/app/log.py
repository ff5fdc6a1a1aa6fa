"""Logging of a worker: one format for the process, one for its tasks, and redirected prints.

A program that wants to configure logging itself connects to ``signals.setup_logging`` (then
nothing is done here) or adds to it through ``after_setup_logger`` and ``after_setup_task_logger``.
"""

from __future__ import annotations

import logging
import os
import sys
from logging.handlers import WatchedFileHandler
from typing import Any, ClassVar

from celery import signals
from celery._state import get_current_task
from celery.local import class_property
from celery.platforms import isatty
from celery.utils.log import ColorFormatter, LoggingProxy, get_logger, mlevel
from celery.utils.nodenames import node_format
from celery.utils.term import colored

__all__ = ("Logging", "TaskFormatter")


class TaskFormatter(ColorFormatter):
    """Lets a format name the task that is running: ``%(task_name)s`` and ``%(task_id)s``."""

    def format(self, record: logging.LogRecord) -> str:
        task = get_current_task()
        request = task.request if task is not None else None
        fields = record.__dict__
        if task is not None and request:
            fields.update(task_name=task.name, task_id=request.id)
        else:
            fields.setdefault("task_name", "???")
            fields.setdefault("task_id", "???")
        return super().format(record)


class Logging:
    """``app.log``. A subclass is given to the app as ``Celery(log=...)``."""

    _setup: ClassVar[bool] = False
    """Logging belongs to the process: it is configured once, whichever app does it."""

    def __init__(self, app: Any) -> None:
        conf = app.conf
        self.app = app
        self.loglevel: int = logging.WARNING
        self.format: str = conf.worker_log_format
        self.task_format: str = conf.worker_task_log_format
        self.datefmt: str | None = conf.worker_log_datefmt
        self.task_datefmt: str | None = conf.worker_task_log_datefmt
        self.colorize: bool | None = conf.worker_log_color

    def setup(
        self,
        loglevel: int | str | None = None,
        logfile: Any = None,
        redirect_stdouts: bool = False,
        redirect_level: int | str = "WARNING",
        colorize: bool | None = None,
        hostname: str | None = None,
    ) -> Any:
        """Configure the process: log handlers, and on request what is printed.

        Gives what `setup_logging_subsystem` gives.
        """
        level = mlevel(loglevel)
        handled = self.setup_logging_subsystem(level, logfile, colorize=colorize, hostname=hostname)
        if not handled and redirect_stdouts:
            self.redirect_stdouts(redirect_level)
        os.environ.update(
            CELERY_LOG_LEVEL=str(level) if level else "", CELERY_LOG_FILE=str(logfile or "")
        )
        return handled

    def redirect_stdouts(
        self, loglevel: int | str | None = None, name: str = "celery.redirected"
    ) -> None:
        """Turn what is printed into log records of the logger ``name``."""
        self.redirect_stdouts_to_logger(get_logger(name), loglevel=loglevel)
        os.environ.update(CELERY_LOG_REDIRECT="1", CELERY_LOG_REDIRECT_LEVEL=str(loglevel or ""))

    def setup_logging_subsystem(
        self,
        loglevel: int | str | None = None,
        logfile: Any = None,
        format: str | None = None,
        colorize: bool | None = None,
        hostname: str | None = None,
        datefmt: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Add handlers to the root logger and to ``celery.task``; once in a process.

        Gives the answers of the receivers of ``signals.setup_logging``: where there are any, the
        program has configured logging and nothing else was done. ``None`` if it was done before.
        """
        if self.already_setup:
            return None
        if logfile and hostname:
            logfile = node_format(logfile, hostname)
        _configured(True)
        level = mlevel(loglevel or self.loglevel)
        format = format or self.format
        colorize = self.supports_color(colorize, logfile)
        told = {"loglevel": level, "logfile": logfile, "colorize": colorize}
        handled = signals.setup_logging.send(sender=None, format=format, **told)
        if handled:
            return handled

        root = logging.getLogger()
        if self.app.conf.worker_hijack_root_logger:
            root.handlers = []
        datefmt = self.datefmt if datefmt is None else datefmt
        self._configure_logger(root, logfile, level, format, colorize, datefmt=datefmt, **kwargs)
        signals.after_setup_logger.send(sender=None, logger=root, format=format, **told)
        self.setup_task_loggers(level, logfile, colorize=colorize)
        return handled

    def _configure_logger(
        self,
        logger: logging.Logger | None,
        logfile: Any,
        loglevel: int | None,
        format: str,
        colorize: bool | None,
        **kwargs: Any,
    ) -> None:
        if logger is not None:
            self.setup_handlers(logger, logfile, format, colorize, **kwargs)
            if loglevel:
                logger.setLevel(loglevel)

    def setup_task_loggers(
        self,
        loglevel: int | str | None = None,
        logfile: Any = None,
        format: str | None = None,
        colorize: bool | None = None,
        propagate: bool = False,
        datefmt: str | None = None,
        **kwargs: Any,
    ) -> logging.Logger:
        """Give ``celery.task``, the parent of every task's logger, its own handler and format."""
        level = mlevel(loglevel or self.loglevel)
        format = format or self.task_format
        colorize = self.supports_color(colorize, logfile)
        datefmt = self.task_datefmt if datefmt is None else datefmt
        logger = self.setup_handlers(
            get_logger("celery.task"),
            logfile,
            format,
            colorize,
            formatter=TaskFormatter,
            datefmt=datefmt,
            **kwargs,
        )
        logger.setLevel(level)
        logger.propagate = propagate
        signals.after_setup_task_logger.send(
            sender=None,
            logger=logger,
            loglevel=level,
            logfile=logfile,
            format=format,
            colorize=colorize,
        )
        return logger

    def redirect_stdouts_to_logger(
        self,
        logger: logging.Logger,
        loglevel: int | str | None = None,
        stdout: bool = True,
        stderr: bool = True,
    ) -> LoggingProxy:
        """Put a `LoggingProxy` in the place of ``sys.stdout`` and ``sys.stderr``."""
        proxy: Any = LoggingProxy(logger, loglevel)
        if stdout:
            sys.stdout = proxy
        if stderr:
            sys.stderr = proxy
        made: LoggingProxy = proxy
        return made

    def supports_color(self, colorize: bool | None = None, logfile: Any = None) -> bool:
        """Whether lines are coloured: only on a terminal, and never in a file."""
        wanted = self.colorize if colorize is None else colorize
        if wanted is False:
            return False
        return logfile is None and bool(isatty(sys.stderr))

    def colored(self, logfile: Any = None, enabled: bool | None = None) -> colored:
        return colored(enabled=self.supports_color(enabled, logfile))

    def setup_handlers(
        self,
        logger: logging.Logger,
        logfile: Any,
        format: str,
        colorize: bool | None,
        formatter: type[ColorFormatter] = ColorFormatter,
        datefmt: str | None = None,
        **kwargs: Any,
    ) -> logging.Logger:
        """Give ``logger`` a handler, unless the program gave it one. Further arguments are for
        those who override this."""
        if not self._is_configured(logger):
            handler = self._detect_handler(logfile)
            handler.setFormatter(formatter(format, use_color=bool(colorize), datefmt=datefmt))
            logger.addHandler(handler)
        return logger

    def _detect_handler(self, logfile: Any = None) -> logging.Handler:
        """A handler for a path, for a stream, or for the real standard error."""
        target: Any = sys.__stderr__ if logfile is None else logfile
        if hasattr(target, "write"):
            return logging.StreamHandler(target)
        return WatchedFileHandler(target, encoding="utf-8")

    def _has_handler(self, logger: logging.Logger) -> bool:
        return any(not isinstance(one, logging.NullHandler) for one in logger.handlers)

    def _is_configured(self, logger: logging.Logger) -> bool:
        return self._has_handler(logger) and not getattr(logger, "_rudimentary_setup", False)

    def get_default_logger(self, name: str = "celery", **kwargs: Any) -> logging.Logger:
        return get_logger(name)

    already_setup = class_property(lambda cls: cls._setup, lambda cls, done: _configured(done))
    """Whether logging is configured in this process. Set it to false to do it again."""


def _configured(done: bool) -> None:
    Logging._setup = done
