"""Loggers, formats and redirected prints of workers. What is expected was seen with Celery 5.7."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from celery import Celery
from celery.app.log import Logging
from celery.utils.log import (
    ColorFormatter,
    LoggingProxy,
    get_logger,
    get_task_logger,
    in_sighandler,
    logger_isa,
    mlevel,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What the logger ``taskmq.test.proxy`` writes."""
    logger, written = logging.getLogger("taskmq.test.proxy"), io.StringIO()
    handler = logging.StreamHandler(written)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield written
    logger.removeHandler(handler)


def record(level: int, message: object, *args: object) -> logging.LogRecord:
    return logging.LogRecord("name", level, "file", 1, message, args, None)


@pytest.mark.parametrize("name", ["celery", "celery.task"])
def test_the_names_of_celerys_own_loggers_are_reserved(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"Logger name '{name}' is reserved!"):
        get_task_logger(name)


def test_task_loggers_are_children_of_the_task_logger_whatever_their_name() -> None:
    task_logger = logging.getLogger("celery.task")
    assert get_task_logger("proj.tasks").parent is task_logger
    assert get_task_logger("celery.something").parent is task_logger
    assert get_logger("proj.other").parent is logging.getLogger()


def test_a_logger_without_configuration_is_silent() -> None:
    assert isinstance(get_logger("proj.silent").handlers[0], logging.NullHandler)
    assert get_logger(logging.getLogger("proj.given")) is logging.getLogger("proj.given")


def test_levels_are_known_by_name_in_any_case() -> None:
    assert [mlevel(level) for level in ("info", "INFO", 10, None, 0)] == [20, 20, 10, None, 0]
    with pytest.raises(KeyError):
        mlevel("nope")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (logging.DEBUG, "\x1b[1;34mDEBUG hi\x1b[0m"),
        (logging.INFO, "INFO hi"),
        (logging.WARNING, "\x1b[1;33mWARNING hi\x1b[0m"),
        (logging.ERROR, "\x1b[1;31mERROR hi\x1b[0m"),
        (logging.CRITICAL, "\x1b[1;35mCRITICAL hi\x1b[0m"),
    ],
)
def test_lines_are_coloured_by_level(level: int, expected: str) -> None:
    formatter = ColorFormatter("%(levelname)s %(message)s", use_color=True)
    assert formatter.format(record(level, "h%s", "i")) == expected
    plain = ColorFormatter("%(levelname)s %(message)s", use_color=False)
    assert "\x1b" not in plain.format(record(level, "h%s", "i"))


def test_printed_lines_become_records(stream: io.StringIO) -> None:
    proxy = LoggingProxy(logging.getLogger("taskmq.test.proxy"), "INFO")
    assert [proxy.write(text) for text in ("hello\n", "\n", "  a b \n", "")] == [5, 0, 6, 0]
    assert proxy.write(b"bytes\n") == 5
    proxy.writelines(["x", "100%\n"])
    assert stream.getvalue() == "hello\n  a b \nbytes\nx\n100%\n"
    assert not proxy.isatty()
    proxy.close()
    assert proxy.write("more") == 0


def test_what_a_signal_handler_prints_is_not_logged(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", real)
    proxy = LoggingProxy(logging.getLogger("taskmq.test.proxy"), "INFO")
    with in_sighandler():
        proxy.write("bye\n")
    assert (real.getvalue(), stream.getvalue()) == ("bye\n", "")


def test_a_circle_of_loggers_is_an_error() -> None:
    one, two = logging.getLogger("taskmq.test.one"), logging.getLogger("taskmq.test.two")
    before = one.parent, two.parent
    one.parent, two.parent = two, one
    try:
        with pytest.raises(RuntimeError, match="among its own ancestors"):
            logger_isa(one, logging.getLogger("celery.task"))
    finally:
        one.parent, two.parent = before


def test_logging_setup_takes_what_it_does_not_know() -> None:
    """Programs that override parts of it pass arguments of their own."""
    app = Celery("own", set_as_current=False)
    found = app.log.setup_handlers(
        logging.getLogger("taskmq.test.more"), None, "%(message)s", False, own=1
    )
    try:
        assert len(found.handlers) == 1
    finally:
        found.handlers.clear()


def test_what_a_handler_prints_is_not_logged_again(stream: io.StringIO) -> None:
    logger = logging.getLogger("taskmq.test.proxy")
    proxy = LoggingProxy(logger, "INFO")

    class Chatty(logging.Handler):
        def emit(self, one: logging.LogRecord) -> None:
            proxy.write("again")

    chatty = Chatty()
    logger.addHandler(chatty)
    try:
        proxy.write("once")
    finally:
        logger.removeHandler(chatty)
    assert stream.getvalue() == "once\n"


def test_a_failing_handler_reports_to_the_real_stderr(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("taskmq.test.proxy")
    real = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", real)
    monkeypatch.setattr(sys, "stderr", LoggingProxy(logger, "INFO"))
    logger.info("one argument, %s %s", "missing")
    assert "not enough arguments for format string" in real.getvalue()
    assert stream.getvalue() == ""


class Seen(Logging):
    """Tells how the loggers would be configured."""

    def setup_handlers(self, logger: logging.Logger, *args: Any, **kwargs: Any) -> logging.Logger:
        self.dated = {**getattr(self, "dated", {}), logger.name: kwargs.get("datefmt")}
        return logging.getLogger("taskmq.test.dated")


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers, done = root.level, list(root.handlers), Logging._setup
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    Logging._setup = done


@pytest.mark.usefixtures("logging_as_before")
def test_the_date_format_of_the_settings() -> None:
    app = Celery("proj", set_as_current=False, broker="memory://")
    app.conf.update(worker_log_datefmt="%H", worker_task_log_datefmt="%M")
    log = Seen(app)
    log.already_setup = False
    log.setup_logging_subsystem()
    assert log.dated == {"root": "%H", "celery.task": "%M"}
    log.already_setup = False
    log.setup_logging_subsystem(datefmt="%S")
    assert log.dated["root"] == "%S"
