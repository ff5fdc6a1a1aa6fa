"""What looks after a worker that is all its process is for: signals, probes, the service manager,
and the end of the process.

Signal handlers of Python run in the main thread, between two of its instructions. A job of the solo
pool may keep it from ever coming to the next one. So signals are heard twice: in the handler, and
by a thread to which the interpreter's own C handler writes. Either may be late; neither counts one
signal as two.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from taskmq.envelope import load
from taskmq.errors import MessageError, TransportError
from taskmq.transport import Delivery
from taskmq.worker import Health, Worker, WorkerHook, WorkerReport

from .exits import Exit
from .systemd import ServiceManager

if TYPE_CHECKING:
    from .probe import HealthServer

__all__ = ["Caretaker"]

logger = logging.getLogger("taskmq.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
TRAPPED, OVER = 0, 255
"""What else is written to the thread; signals have other numbers."""
FOREVER = float("inf")
STATUS_INTERVAL = 10.0
AT_ONCE = 0.5
"""Seconds that a worker has to end by itself when it is to stop now."""
SOONER = 0.25
"""Seconds before the end of the grace at which a process is ended whose worker should have ended
by itself a moment ago."""
LAST_WORDS = 4.0
"""Seconds for what is left to say to the store when the process ends."""
NAMED = 3


class Caretaker(WorkerHook):
    """One for each process. ``leave`` does not return where jobs still run: it ends the process.

    >>> caretaker = Caretaker(ServiceManager.from_env(), grace=30.0)
    >>> worker = Worker(app, hook=caretaker)
    >>> with caretaker.beside(worker):
    ...     code = caretaker.leave(worker.run())
    """

    def __init__(
        self,
        manager: ServiceManager,
        *,
        grace: float,
        stuck_after: float = 30.0,
        end_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._manager = manager
        self._grace = grace
        self._stuck_after = stuck_after
        self._end_process = end_process
        self._worker: Worker
        self.probe: HealthServer | None = None
        self.on_stopping: Callable[[], object] = lambda: None
        """Called at the first signal, in a thread of its own."""

        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._trapped = self._heard = 0  # signals so far, by either way
        self._told = 0
        self._force_at = FOREVER
        self._report_at = FOREVER
        self._previous_fd: int | None = None
        self._thread = threading.Thread(target=self._watch, name="taskmq-caretaker", daemon=True)
        self._end = threading.Lock()
        self._over = False

    def health(self) -> Health:
        """Of the worker."""
        return self._worker.health(self._stuck_after)

    @contextmanager
    def beside(self, worker: Worker) -> Iterator[None]:
        """While inside, SIGTERM and SIGINT stop the worker, and probes are answered."""
        self._worker = worker
        previous = {number: signal.signal(number, self._trap) for number in SIGNALS}
        try:
            yield
        finally:
            self._retire()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def on_ready(self, worker: Worker) -> None:
        # Not before: a pool that forks wants to do so while there is no other thread.
        self._previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        if self._manager.listens:
            self._report_at = 0.0
        self._manager.ready(self.health().status)
        self._thread.start()
        if self.probe is not None:
            self.probe.start()

    def leave(self, report: WorkerReport) -> int:
        """After the run: the exit code. Where jobs still run, give them back and end the process,
        which is the only way to end them."""
        code = Exit.INTERRUPTED if self._signals > 1 else Exit.OK
        with self._end:  # waits for ever if the process is about to end already
            self._over = True
            if report.abandoned:
                self._finish(code)
        return code

    @property
    def _signals(self) -> int:
        return max(self._trapped, self._heard)

    # -- signals -----------------------------------------------------------------------------

    def _trap(self, number: int, frame: FrameType | None) -> None:
        self._trapped += 1
        self._obey()
        self._ring(TRAPPED)

    def _obey(self) -> None:
        if self._signals > 1:
            self._worker.stop_now()
        elif self._signals:
            self._worker.stop()

    def _ring(self, what: int) -> None:
        with contextlib.suppress(OSError):  # full: it is awake anyway
            self._writer.send(bytes([what]))

    # -- the thread --------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            until = min(self._force_at, self._report_at)
            timeout = None if until == FOREVER else max(0.001, until - time.monotonic())
            self._reader.settimeout(timeout)
            try:
                heard = self._reader.recv(4096)
            except TimeoutError:
                heard = b""
            if OVER in heard:
                return
            self._heard += sum(number in SIGNALS for number in heard)
            self._obey()
            if self._signals > self._told:
                self._told = self._signals
                self._begin_to_stop()
            now = time.monotonic()
            if now >= self._force_at:
                self._force()
            if now >= self._report_at:
                self._report_at = now + self._report()

    def _begin_to_stop(self) -> None:
        if self._told > 1:
            self._force_at = min(self._force_at, time.monotonic() + AT_ONCE)
            return
        self._force_at = time.monotonic() + self._grace - min(SOONER, self._grace / 20)
        held = self._worker.in_flight()
        text = "stops"
        if held:
            text = f"stops; waits up to {self._grace:g} s for {_named(held)}"
        if sys.stderr.isatty():
            sys.stderr.write(f"taskmq: {text} (Ctrl-C again: stop now)\n")
        else:
            logger.info("%s %s", self._worker.name, text)
        self._manager.stopping(text, self._grace + LAST_WORDS)
        self.on_stopping()

    def _report(self) -> float:
        """To the service manager; seconds until the next time."""
        health = self.health()
        if self._manager.watchdog is None:
            self._manager.status(health.status)
            return STATUS_INTERVAL
        if health.live:
            self._manager.alive(health.status)
        else:
            self._manager.status(health.status)
        return min(STATUS_INTERVAL, self._manager.watchdog / 2)

    # -- the end -----------------------------------------------------------------------------

    def _retire(self) -> None:
        with self._end:
            self._over = True
        if self._previous_fd is not None:
            signal.set_wakeup_fd(self._previous_fd)
        if self._thread.ident is not None:
            self._reader.settimeout(None)
            self._ring(OVER)
            self._thread.join()
        if self.probe is not None:
            self.probe.stop()
        self._reader.close()
        self._writer.close()

    def _force(self) -> None:
        """The worker has not ended by itself: a job has its thread."""
        self._force_at = FOREVER
        with self._end:
            if not self._over:
                self._finish(Exit.INTERRUPTED if self._signals > 1 else Exit.OK)

    def _finish(self, code: int) -> None:
        """End the process, with what can be said in a few seconds."""
        codes = [int(Exit.FAILED)]

        def last_words() -> None:
            if self._hand_over():
                codes.append(code)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()

        # In a thread that need not come back: what still runs may hold any lock.
        speaker = threading.Thread(target=last_words, daemon=True)
        speaker.start()
        speaker.join(LAST_WORDS)
        self._end_process(codes[-1])

    def _hand_over(self) -> bool:
        try:
            count = self._worker.hand_over()
        except TransportError as error:
            logger.warning("cannot give back what runs, it waits for its leases: %s", error)
            return False
        text = f"{count} running job" + ("" if count == 1 else "s")
        logger.info("%s gave %s back, to run again", self._worker.name, text)
        return True


def _named(deliveries: list[Delivery]) -> str:
    """What they are, in words."""
    first = ", ".join(f"{_task_of(each)} {each.job_id}" for each in deliveries[:NAMED])
    more = len(deliveries) - NAMED
    count = "1 job" if len(deliveries) == 1 else f"{len(deliveries)} jobs"
    return f"{count}: {first}" + (f" and {more} more" if more > 0 else "")


def _task_of(delivery: Delivery) -> str:
    try:
        return load(delivery.envelope).task
    except MessageError:
        return "?"
