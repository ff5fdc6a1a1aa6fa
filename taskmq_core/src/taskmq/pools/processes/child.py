"""The life of a child: it runs jobs, one after the other, in its main thread, and has no other.

* A delivery may be started by whoever takes its token, four bytes in a pipe that parent and child
  both read. Reading them is atomic, so one of the two gets it, even while the other is busy.
* What happened to a job is told when the next one starts, or when there is none: one write a job.
* While a task runs, the parent speaks through the control pipe. Its bytes come with a signal, and
  so does its end: the parent is gone then, and so is the child.
"""

from __future__ import annotations

import fcntl
import logging
import os
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from taskmq.dedup import Dedup
from taskmq.events import Event, JobStarted
from taskmq.executor import Executor
from taskmq.pools.base import run_one
from taskmq.transport import Delivery

from .limits import Alarm, resident_bytes
from .nursery import Fds, ignore_terminal_and_terminate
from .site import Site
from .wire import (
    LENGTH,
    RELAYED,
    Ended,
    Happened,
    Leaving,
    Ready,
    Report,
    Started,
    Work,
    decode_works,
    encode,
    verdict_of,
)

__all__ = ["CONTROL", "TOKEN", "Child", "read_frame"]

logger = logging.getLogger("taskmq.pools")

TOKEN = struct.Struct("=I")
CONTROL = struct.Struct("=I?")
"""Number of the delivery, and whether its lease is lost; else its job was revoked."""


class Child:
    """One child. ``live`` does not return."""

    def __init__(self, fds: Fds, site: Site) -> None:
        self._site = site
        self._socket = socket.socket(fileno=fds.data)
        self._tokens = fds.tokens
        self._control = fds.control
        self._works: deque[Work] = deque()
        self._reports: list[Report] = []
        self._running: Work | None = None
        self._leaving = ""
        self._alarm = Alarm(site.app.soft_limit_error)
        self._executor: Executor

    def live(self) -> NoReturn:
        try:
            self._socket.setblocking(True)
            self._listen()
            self._move_in()
            self._report(Ready())
            self._work()
            self._call("on_child_stop")
            self._report(Leaving(self._leaving or "retired"))
            self._flush()
            logging.shutdown()
            sys.stdout.flush()
        except BrokenPipeError:
            pass  # the parent is gone
        finally:
            # Not by an exception or sys.exit: what is further up the stack of a fork, and what was
            # registered to be done at exit, is the parent's.
            os._exit(0)

    # -- arriving ----------------------------------------------------------------------------

    def _listen(self) -> None:
        """Hear signals: of the service manager, of the timer, and of the control pipe."""
        ignore_terminal_and_terminate()
        signal.signal(signal.SIGTERM, self._on_terminate)
        self._alarm.install()
        signal.signal(signal.SIGIO, self._on_control)
        os.set_blocking(self._control, False)
        fcntl.fcntl(self._control, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(self._control, fcntl.F_GETFL)
        fcntl.fcntl(self._control, fcntl.F_SETFL, flags | os.O_ASYNC)
        self._wake, wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._on_control(0, None)  # what came before

    def _move_in(self) -> None:
        site, app = self._site, self._site.app
        app.emitter.redirect(self if site.events else None)
        if not site.shared:
            app.deny_transport(
                f"{site.config.transport} is of the worker's own process: a task in a child of the "
                "processes pool cannot reach it (use a store that processes can share)"
            )
        self._executor = Executor(
            app,
            worker=site.worker,
            extend=self._still_held,
            interrupt=self._alarm,
            dedup=Dedup(app, lease=site.config.lease, closes=False),
        )
        self._call("on_child_start")

    def _call(self, name: str) -> None:
        for hook in self._site.hooks:
            try:
                getattr(hook, name)(self._site.app)
            except Exception:
                logger.exception("%s of the worker hook failed", name)

    # -- working -----------------------------------------------------------------------------

    def _work(self) -> None:
        execute, config = self._executor.execute, self._site.config
        most, heaviest, done = config.max_jobs_per_child, config.max_memory_per_child, 0
        while not self._leaving and (work := self._next()) is not None:
            self._reports.append(Started(work.seq, time.monotonic()))
            self._flush()
            self._running = work
            outcome = run_one(execute, work.delivery)
            self._running = None
            self._reports.append(Ended(work.seq, verdict_of(outcome.settlement), outcome.runtime))
            done += 1
            if most is not None and done >= most:
                self._leaving = f"has run {done} jobs"
            elif heaviest is not None and (size := resident_bytes()) > heaviest:
                self._leaving = f"has {size:,} bytes of memory"

    def _next(self) -> Work | None:
        """The next delivery that is ours to start; ``None`` to end."""
        while True:
            try:
                token = os.read(self._tokens, TOKEN.size)
            except BlockingIOError:
                if self._leaving:
                    return None
                self._flush()
                select.select([self._tokens, self._wake], [], [])
                self._drain_wake()
                continue
            return self._fetch(TOKEN.unpack(token)[0]) if token else None

    def _fetch(self, seq: int) -> Work | None:
        """The delivery with that number. Those before it were taken back."""
        while True:
            while self._works:
                work = self._works.popleft()
                if work.seq == seq:
                    return work
            self._flush()  # it may take a while to come
            frame = read_frame(self._socket)
            if frame is None:
                return None
            self._works.extend(decode_works(frame))

    def _drain_wake(self) -> None:
        try:
            while os.read(self._wake, 4096):
                pass
        except BlockingIOError:
            pass

    # -- speaking ----------------------------------------------------------------------------

    def handle(self, events: Sequence[Event]) -> None:
        """An event sink: they belong to the parent's."""
        self._reports.append(Happened([event for event in events if type(event) in RELAYED]))  # type: ignore[misc]  # just checked
        if any(type(event) is JobStarted for event in events):
            self._flush()  # it would die with a task that is killed

    def _report(self, report: Report) -> None:
        self._reports.append(report)

    def _flush(self) -> None:
        if self._reports:
            reports, self._reports = self._reports, []
            self._socket.sendall(encode(reports))

    # -- listening ---------------------------------------------------------------------------

    def _on_terminate(self, number: int, frame: FrameType | None) -> None:
        """Finish what runs and go."""
        self._leaving = "was told to end (SIGTERM)"

    def _on_control(self, number: int, frame: FrameType | None) -> None:
        while True:
            try:
                data = os.read(self._control, CONTROL.size)
            except BlockingIOError:
                return
            if not data:
                os._exit(1)  # the worker is gone: nobody is there to tell what a task has done
            seq, lost = CONTROL.unpack(data)
            work = self._running
            if work is not None and work.seq == seq:
                self._cancel(work.delivery, lost)

    def _cancel(self, delivery: Delivery, lost: bool) -> None:
        context = self._executor.running.get(delivery.job_id)
        if context is not None:
            context.lease_lost, context.cancelled = lost, True

    def _still_held(self, delivery: Delivery) -> bool:
        """The worker renews the lease, whatever the task does; it would have said."""
        context = self._executor.running.get(delivery.job_id)
        return context is None or not context.lease_lost


def read_frame(sock: socket.socket) -> bytearray | None:
    """The next frame of a blocking socket, without its length; ``None`` at its end."""
    head = _read(sock, LENGTH.size)
    return _read(sock, LENGTH.unpack(head)[0]) if head else None


def _read(sock: socket.socket, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        count = sock.recv_into(view[got:])
        if not count:
            return None
        got += count
    return buffer
