"""Waking up when any process has committed something, without polling at a fixed interval.

Every commit writes to the write-ahead log, so a change of that file is a *hint*. Whether something
was committed says `Database.version`, in a few microseconds and without I/O. A hint comes a moment
before its commit can be seen (as much as a sync of the disk, with ``synchronous=full``), so that
after a hint, and when a wait begins, we look several times at growing intervals; at rest once a
second, in case the file system does not notify. Where nothing can notify, the longest interval is
50 ms.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable

from taskmq.errors import TransportError

from . import fork
from .database import Database
from .watch import OpenSource, Source, open_source

__all__ = ["Hub", "SqliteListener"]

FIRST_INTERVAL = 0.001
LONGEST_INTERVAL = 1.0
LONGEST_INTERVAL_UNNOTIFIED = 0.05

ONE = (1).to_bytes(8, sys.byteorder)

Version = tuple[int, int]


class Hub:
    """What the listeners of one process on one database share: one watch on its log.

    (Linux gives a user 128 inotify instances by default. Listeners may be many more.)
    """

    def __init__(self, database: Database, open_source: OpenSource = open_source) -> None:
        self._database = database
        self._open_source = open_source
        self._lock = threading.Lock()
        self._listeners: set[SqliteListener] = set()
        self._source: Source | None = None
        fork.watch(self)

    def listen(self) -> SqliteListener:
        """A new listener, which hears of every commit from now on."""
        listener = SqliteListener(self)
        with self._lock:
            self._listeners.add(listener)
        listener.clear()  # has the log opened, if it is not
        self.rearm()
        return listener

    def leave(self, listener: SqliteListener) -> None:
        with self._lock:
            self._listeners.discard(listener)
            listener.close_signal()  # under the lock, so that nobody here writes to it any more
            if not self._listeners:
                self._disarm()

    def close(self) -> None:
        """End every wait. The listeners stay open until their owners close them."""
        with self._lock:
            self._disarm()
            for listener in self._listeners:
                listener.wake()

    @property
    def descriptor(self) -> int | None:
        """What becomes readable with a hint."""
        source = self._source
        return None if source is None else source.fileno()

    @property
    def longest_interval(self) -> float:
        return LONGEST_INTERVAL_UNNOTIFIED if self._source is None else LONGEST_INTERVAL

    def version(self) -> Version | None:
        """Differs after every commit; ``None`` if the store cannot say. Whoever looks into the
        store then is told why."""
        try:
            return self._database.version()
        except TransportError:
            return None

    def collect(self, collector: SqliteListener) -> None:
        """Take the hints that are there, and pass them on to the others who wait."""
        with self._lock:
            if self._source is None or not self._source.drain():
                return
            for listener in self._listeners:
                if listener.waiting and listener is not collector:
                    listener.nudge()

    def rearm(self) -> None:
        """Watch the log that is there now: it is another file after the last user left it."""
        with self._lock:
            if self._source is None or not self._source.is_current():
                self._disarm()
                self._source = self._open_source(self._database.log_path)

    def _disarm(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    # -- fork.ForkAware ----------------------------------------------------------------------

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """The descriptors are shared with the parent, and so would be what they signal."""
        self._lock = threading.Lock()
        self._disarm()
        for listener in self._listeners:
            listener.renew()


class SqliteListener:
    """A `taskmq.transport.Listener`, for one waiting thread."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._woken = False
        self._closed = False
        self._version: Version | None = None
        self._reader, self._writer = _signal()
        self.waiting = False

    def clear(self) -> None:
        self._drain()
        self._woken = False
        self._hub.collect(self)
        self._version = self._hub.version()

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        self.waiting = True
        try:
            return self._wait(deadline)
        finally:
            self.waiting = False

    def call_back(self, on_change: Callable[[], None]) -> bool:
        return False  # nobody watches but who waits

    def wake(self) -> None:
        self._woken = True
        self.nudge()

    def nudge(self) -> None:
        """Have the waiting thread look again."""
        with contextlib.suppress(OSError):  # full: it is nudged already; closed: nobody waits
            os.write(self._writer, ONE)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.wake()
            self._hub.leave(self)

    def renew(self) -> None:
        """In a child process: a signal of its own."""
        self.close_signal()
        self._reader, self._writer = _signal()

    def close_signal(self) -> None:
        descriptors = {self._reader, self._writer}
        self._reader = self._writer = -1  # a late wake() must not write to somebody else's file
        for descriptor in descriptors:
            os.close(descriptor)

    def _wait(self, deadline: float | None) -> bool:
        interval = FIRST_INTERVAL
        while not self._has_changed():
            left = interval if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            if self._poll(min(interval, left)):
                interval = FIRST_INTERVAL
            elif interval >= self._hub.longest_interval:
                self._hub.rearm()
            else:
                interval = min(2 * interval, self._hub.longest_interval)
        return True

    def _has_changed(self) -> bool:
        if self._woken or self._closed:
            return True
        version = self._hub.version()
        return version is None or version != self._version

    def _poll(self, seconds: float) -> bool:
        """Wait for a hint or a nudge; whether there was one."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        hints = self._hub.descriptor
        if hints is not None:
            poll.register(hints, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(seconds * 1000)]
        if hints in ready:
            self._hub.collect(self)
        if self._reader in ready:
            self._drain()
        return bool(ready)

    def _drain(self) -> None:
        with contextlib.suppress(OSError):  # empty, or closed meanwhile
            os.read(self._reader, 4096)


def _signal() -> tuple[int, int]:
    """A descriptor that becomes readable, and the one to write to for that."""
    if sys.platform == "linux":
        both = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return both, both
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer
