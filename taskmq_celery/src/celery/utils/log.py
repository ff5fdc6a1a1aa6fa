"""Loggers of tasks and workers, and what formats and redirects into them."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from .term import colored

__all__ = (
    "LOG_LEVELS",
    "ColorFormatter",
    "LoggingProxy",
    "base_logger",
    "get_logger",
    "get_multiprocessing_logger",
    "get_task_logger",
    "in_sighandler",
    "mlevel",
    "reset_multiprocessing_logger",
    "set_in_sighandler",
)

_NAMES = ("CRITICAL", "FATAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "NOTSET")
LOG_LEVELS: dict[Any, Any] = {name: getattr(logging, name) for name in _NAMES}
LOG_LEVELS |= {number: logging.getLevelName(number) for number in set(LOG_LEVELS.values())}

RESERVED_LOGGER_NAMES = {"celery", "celery.task"}


def _quiet(name: str) -> logging.Logger:
    """A logger that is silent, instead of complaining, where nobody configured logging."""
    found = logging.getLogger(name)
    if not found.handlers:
        found.addHandler(logging.NullHandler())
    return found


base_logger = logger = _quiet("celery")
task_logger = _quiet("celery.task")
worker_logger = _quiet("celery.worker")


class _Signals(threading.local):
    handling = False


_signals = _Signals()


def set_in_sighandler(value: bool) -> None:
    """Say that this thread is inside a signal handler now (or no longer)."""
    _signals.handling = value


@contextlib.contextmanager
def in_sighandler() -> Iterator[None]:
    """Marks the body of a ``with`` as running inside a signal handler."""
    set_in_sighandler(True)
    try:
        yield
    finally:
        set_in_sighandler(False)


def get_logger(name: str | logging.Logger) -> logging.Logger:
    """A logger that says nothing until logging is configured."""
    if isinstance(name, logging.Logger):
        return name
    return _quiet(name)


def get_task_logger(name: str) -> logging.Logger:
    """The logger for a module of tasks: records carry ``task_name`` and ``task_id``.

    >>> logger = get_task_logger(__name__)

    It is a child of ``celery.task`` whatever its name, so that the worker's task log format
    applies to it. Raises ``RuntimeError`` for the names that Celery keeps for itself.
    """
    if name in RESERVED_LOGGER_NAMES:
        raise RuntimeError(f"Logger name {name!r} is reserved!")
    found = get_logger(name)
    if not _descends(found, task_logger):
        found.parent = task_logger
    return found


def _descends(child: logging.Logger, ancestor: logging.Logger, most: int = 1000) -> bool:
    current: logging.Logger | None = child
    for _ in range(most):
        if current is None or current is ancestor:
            return current is not None
        current = current.parent
    raise RuntimeError(f"logger {child.name!r} is among its own ancestors")


def logger_isa(l: logging.Logger, p: logging.Logger, max: int = 1000) -> bool:  # noqa: E741  # Celery's parameter name
    """Whether ``p`` is the logger ``l`` or above it. Raises ``RuntimeError`` for more than ``max``
    generations: there is a circle."""
    return _descends(l, p, max)


def mlevel(level: Any) -> Any:
    """A level as a number: names (in any case) are looked up, numbers and ``None`` stay."""
    return LOG_LEVELS[level.upper()] if isinstance(level, str) else level


def iter_open_logger_fds() -> Iterator[Any]:
    """The stream of every handler that has one; a process that detaches must not close them."""
    seen: set[int] = set()
    known = (one for one in logging.Logger.manager.loggerDict.values())
    for found in [logging.getLogger(), *known]:
        for handler in getattr(found, "handlers", ()):
            stream = getattr(handler, "stream", None)
            if stream is not None and id(stream) not in seen:
                seen.add(id(stream))
                yield stream


def get_multiprocessing_logger() -> logging.Logger:
    return multiprocessing.get_logger()


def reset_multiprocessing_logger() -> None:
    """Nothing to reset: the standard library's logger is never replaced here."""


def current_process() -> Any:
    return multiprocessing.current_process()


def current_process_index(base: int = 1) -> int | None:
    """The number of this child process in its pool; ``None`` in the parent."""
    index = getattr(current_process(), "index", None)
    return None if index is None else index + base


class ColorFormatter(logging.Formatter):
    """Colours whole lines by level. ``use_color=False`` is a plain formatter."""

    COLORS = colored().names
    colors = {  # noqa: RUF012  # a class attribute that subclasses replace
        "DEBUG": COLORS["blue"],
        "WARNING": COLORS["yellow"],
        "ERROR": COLORS["red"],
        "CRITICAL": COLORS["magenta"],
    }

    def __init__(
        self, fmt: str | None = None, use_color: bool = True, datefmt: str | None = None
    ) -> None:
        super().__init__(fmt, datefmt)
        self.use_color = use_color

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        paint = self.colors.get(record.levelname) if self.use_color else None
        return text if paint is None else str(paint(text))


class LoggingProxy:
    """A stand-in for ``sys.stdout`` that logs each line written to it.

    What a handler itself prints while it handles such a line goes to the real standard error:
    otherwise a failing handler would log its own failure for ever.
    """

    mode = "w"
    name: str | None = None
    closed = False
    loglevel: int = logging.ERROR

    def __init__(self, logger: logging.Logger, loglevel: int | str | None = None) -> None:
        self.logger = logger
        self.loglevel = mlevel(loglevel or self.logger.level or self.loglevel)
        self._thread = threading.local()
        for handler in self.logger.handlers:
            setattr(handler, "handleError", _report_to_stderr)  # noqa: B010  # replaces a method

    def write(self, data: str | bytes) -> int:
        """Log ``data`` unless it is empty; how much of it was logged. A handler of an operating
        system signal must not log: what it prints goes to the real standard error."""
        if getattr(self._thread, "recurse_protection", False):
            return 0
        text = data.decode(errors="replace") if isinstance(data, bytes) else data
        line = text.rstrip("\n")
        if not line or (self.closed and not _signals.handling):
            return 0
        self._thread.recurse_protection = True
        try:
            if _signals.handling:
                (sys.__stderr__ or sys.stderr).write(f"{line}\n")
            else:
                self.logger.log(self.loglevel, "%s", line)
        finally:
            self._thread.recurse_protection = False
        return len(line)

    def writelines(self, sequence: Iterable[str]) -> None:
        for part in sequence:
            self.write(part)

    def flush(self) -> None:
        """Lines are logged as they come: nothing is held back."""

    def close(self) -> None:
        self.closed = True

    def isatty(self) -> bool:
        return False


def _report_to_stderr(record: logging.LogRecord) -> None:
    stream = sys.__stderr__
    if stream is not None and sys.exc_info()[0] is not None:
        with contextlib.suppress(OSError):  # a closed terminal cannot be told anything
            traceback.print_exc(file=stream)
