"""A worker in a thread of the test.

>>> with start_worker(app):
...     assert add.delay(2, 2).get(timeout=10) == 4
"""

from __future__ import annotations

import copy
import logging
import logging.handlers
import multiprocessing
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import _state, worker
from celery.concurrency.prefork import TaskPool as Prefork
from celery.result import allow_join_result
from celery.utils.dispatch import Signal
from celery.utils.nodenames import anon_nodename
from celery.worker import state

from .tasks import PING

__all__ = (
    "TestWorkController",
    "setup_app_for_worker",
    "start_worker",
    "test_worker_started",
    "test_worker_starting",
    "test_worker_stopped",
)

WORKER_LOGLEVEL = os.environ.get("WORKER_LOGLEVEL", "error")
START_TIMEOUT = 60.0
"""Longest time in seconds for a worker to come up."""

test_worker_starting = Signal(name="test_worker_starting", providing_args={})
test_worker_started = Signal(name="test_worker_started", providing_args={"worker", "consumer"})
test_worker_stopped = Signal(name="test_worker_stopped", providing_args={"worker"})


class TestWorkController(worker.WorkController):
    """A worker that tells when it is ready, and shows what its child processes log."""

    __test__ = False

    logger_queue: Any = None
    """Where child processes put their log records."""

    class QueueHandler(logging.handlers.QueueHandler):
        """Puts the records of a child process, and only those, into a queue."""

        def __init__(self, queue: Any) -> None:
            super().__init__(queue)
            self.parent = os.getpid()

        def emit(self, record: logging.LogRecord) -> None:
            if os.getpid() != self.parent:
                super().emit(record)

        def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
            """The record as it is, with its arguments, if it can travel; else as text."""
            made = copy.copy(record)
            if made.exc_info:
                made.exc_text = logging.Formatter().formatException(made.exc_info)
                made.exc_info = None
            try:
                pickle.dumps(made)
            except Exception:  # an argument of the record, whatever it is
                made = super().prepare(record)
            return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._on_started = threading.Event()
        self._failure: BaseException | None = None
        self._listener: logging.handlers.QueueListener | None = None
        super().__init__(*args, **kwargs)

    def start(self) -> None:
        handler = self._listen_to_children()
        try:
            super().start()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._on_started.set()  # whoever waits for it need not wait any more
            if handler is not None:
                logging.getLogger().removeHandler(handler)
            if self._listener is not None:
                self._listener.stop()

    def _listen_to_children(self) -> logging.Handler | None:
        if not issubclass(self.pool_cls, Prefork):
            return None
        self.logger_queue = multiprocessing.get_context("fork").Queue()
        handler = self.QueueHandler(self.logger_queue)
        logging.getLogger().addHandler(handler)
        self._listener = logging.handlers.QueueListener(self.logger_queue, _Relay())
        self._listener.start()
        return handler

    def on_consumer_ready(self, consumer: Any) -> None:
        """The worker is about to take its first job."""
        self._on_started.set()
        test_worker_started.send(sender=self.app, worker=self, consumer=consumer)

    def ensure_started(self) -> None:
        """Wait until the worker can take jobs. Raises what kept it from starting."""
        if not self._on_started.wait(START_TIMEOUT):
            raise RuntimeError(f"the worker did not start within {START_TIMEOUT:g} s")
        if self._failure is not None:
            raise RuntimeError(f"the worker did not start: {self._failure!r}") from self._failure

    def on_end(self) -> None:
        """The store stays open: the test goes on using the app."""


class _Relay(logging.Handler):
    """Hands a child's record to the logger it was made for, in the process of the test."""

    def handle(self, record: logging.LogRecord) -> bool:
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)
        return True


@contextmanager
def start_worker(
    app: Any,
    concurrency: int = 1,
    pool: Any = "solo",
    loglevel: int | str = WORKER_LOGLEVEL,
    logfile: Any = None,
    perform_ping_check: bool = True,
    ping_task_timeout: float = 10.0,
    shutdown_timeout: float = 10.0,
    **kwargs: Any,
) -> Iterator[Any]:
    """Run a worker of ``app`` in a thread while inside; gives the worker.

    It has answered ``celery.ping``, a task of `celery.contrib.testing.tasks`, before the test goes
    on; without a result backend say ``perform_ping_check=False``. At the end tasks that run have
    ``shutdown_timeout`` seconds; after that it is a ``RuntimeError``. Other keywords are options of
    the worker, such as ``queues``, ``hostname`` and ``WorkController``, its class.
    """
    test_worker_starting.send(sender=app)
    running = None
    try:
        with _start_worker_thread(
            app,
            concurrency=concurrency,
            pool=pool,
            loglevel=loglevel,
            logfile=logfile,
            perform_ping_check=perform_ping_check,
            shutdown_timeout=shutdown_timeout,
            **kwargs,
        ) as running:
            if perform_ping_check:
                with allow_join_result():
                    answer = app.tasks[PING].delay().get(timeout=ping_task_timeout)
                if answer != "pong":
                    raise RuntimeError(f"the worker answered celery.ping with {answer!r}")
            yield running
    finally:
        test_worker_stopped.send(sender=app, worker=running)


@contextmanager
def _start_worker_thread(
    app: Any,
    concurrency: int = 1,
    pool: Any = "solo",
    loglevel: int | str = WORKER_LOGLEVEL,
    logfile: Any = None,
    WorkController: Any = TestWorkController,  # noqa: N803  # Celery's parameter
    perform_ping_check: bool = True,
    shutdown_timeout: float = 10.0,
    **kwargs: Any,
) -> Iterator[Any]:
    setup_app_for_worker(app, loglevel, logfile)
    if perform_ping_check and PING not in app.tasks:
        raise RuntimeError(
            f"{PING} is no task of {app!r}: the app has been finalized before "
            "celery.contrib.testing.tasks was imported"
        )
    made = WorkController(
        app=app,
        hostname=kwargs.pop("hostname", anon_nodename()),
        concurrency=concurrency,
        pool=pool,
        loglevel=loglevel,
        logfile=logfile,
        **kwargs,
    )
    thread = threading.Thread(target=made.start, name="celery-test-worker", daemon=True)
    thread.start()
    join_blocks = getattr(_state._task_join_will_block, "value", None)
    try:
        made.ensure_started()
        _state._set_task_join_will_block(False)
        yield made
    finally:
        _state._set_task_join_will_block(join_blocks)
        made.stop()
        thread.join(shutdown_timeout)
        state.should_terminate = None
        if thread.is_alive():
            made.terminate()
            raise RuntimeError(
                "Worker thread failed to exit within the allocated timeout. "
                "Consider raising `shutdown_timeout` if your tasks take longer to execute."
            )


def setup_app_for_worker(app: Any, loglevel: int | str, logfile: Any) -> None:
    """What the ``celery worker`` command does before it makes its worker."""
    app.finalize()
    app.set_current()
    app.set_default()
    app.log.already_setup = False
    app.log.setup(loglevel, logfile)
