"""Waking up when something was committed: LISTEN on one connection that all listeners share.

A thread reads notifications and wakes whom they concern. It connects when the first listener comes,
and again after the connection is lost; whoever waits is woken then, since something may have been
missed. While nothing can notify (no connection, or a pooler that gives no session), one look a
while at the server's snapshot of transactions tells whether anything was committed, in any of its
databases: at intervals that grow while no job is got.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Sequence

import msgspec
import psycopg

from taskmq.errors import TransportError
from taskmq.transports._tokens import TokenListener

from . import fork
from .database import Connection, Database, connect

__all__ = ["Hub", "PostgresListener"]

TOPICS = {"queues": 1, "jobs": 2, "kinds": 4}
"""What can be listened to, and the advisory lock that says that somebody does."""
FIRST_INTERVAL, LONGEST_INTERVAL = 0.01, 1.0
"""Seconds between two looks where nothing notifies."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the listening connection is tried again."""
SECONDS_TO_SUBSCRIBE = 5.0
LOOK_EVERY = 3.0
"""Seconds of silence after which the listening connection is asked whether it lives, and for which
its answer is waited for. Keepalives do not tell where a proxy answers them."""
PROBE = "SELECT 1 -- does the listening connection live?"
SNAPSHOT = "SELECT pg_current_snapshot()::text"

_decode = msgspec.json.Decoder(list[str]).decode


class PostgresListener(TokenListener):
    """A `taskmq.transport.Listener`, for one waiting thread."""

    def __init__(self, hub: Hub, wanted: dict[str, frozenset[str]]) -> None:
        super().__init__()
        self.wanted = wanted
        self._hub = hub
        self._snapshot: str | None = None
        self._interval = FIRST_INTERVAL
        self._hauls = hub.hauls

    def clear(self) -> None:
        super().clear()
        if not self._hub.is_listening:
            self._snapshot = self._hub.snapshot()

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if self._hub.is_listening:
                woken = self._take(left)
            else:
                woken = self._take(self._interval if left is None else min(left, self._interval))
                woken = woken or self._has_changed()
            if woken:
                self._tokens.put(None)  # it stays signalled until clear()
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def call_back(self, on_change: Callable[[], None]) -> bool:
        # Should the connection be lost after the look here, the hub wakes everybody.
        return self._hub.is_listening and super().call_back(on_change)

    def close(self) -> None:
        self._hub.leave(self)
        self.wake()

    def _has_changed(self) -> bool:
        now = self._hub.snapshot()
        # What was committed may be others': looking often is worth it while jobs come of it.
        hauls = self._hub.hauls
        self._interval = (
            min(2 * self._interval, LONGEST_INTERVAL) if hauls == self._hauls else FIRST_INTERVAL
        )
        self._hauls = hauls
        return now is None or now != self._snapshot


class Hub:
    """What the listeners of one process on one store share."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.hauls = 0
        """How often jobs were got from the store so far."""
        self._begin()
        fork.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[PostgresListener] = set()
        self._topics: set[str] = set()
        self._heard = threading.Event()  # the thread has done what was asked last
        self._thread: threading.Thread | None = None
        self._nudge: tuple[int, int] | None = None
        self._closed = False
        self.is_listening = False

    def listen(
        self, queues: Sequence[str], jobs: Sequence[str], kinds: Sequence[str]
    ) -> PostgresListener:
        """A new listener, which hears of every commit from now on."""
        wanted = {"queues": frozenset(queues), "jobs": frozenset(jobs), "kinds": frozenset(kinds)}
        listener = PostgresListener(self, wanted)
        topics = {topic for topic, names in wanted.items() if names}
        with self._lock:
            self._listeners.add(listener)
            new = topics - self._topics
            self._topics |= topics
        if new and not self._database.options.pooler:
            self._subscribe()
        listener.clear()
        return listener

    def leave(self, listener: PostgresListener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End every wait, and the thread."""
        self._closed = True
        self._wake_all()
        self._poke()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(SECONDS_TO_SUBSCRIBE)

    def snapshot(self) -> str | None:
        """Differs after every commit in the server, in whichever database; ``None`` if it cannot
        be asked. Whoever looks into the store then is told why."""
        try:
            return str(self._database.call(SNAPSHOT)[0][0])
        except TransportError:
            return None

    # -- the thread --------------------------------------------------------------------------

    def _subscribe(self) -> None:
        self._heard.clear()
        with self._lock:
            if self._thread is None:
                self._nudge = os.pipe()
                os.set_blocking(self._nudge[0], False)
                os.set_blocking(self._nudge[1], False)
                self._thread = threading.Thread(
                    target=self._run, args=self._nudge, name="taskmq-listen", daemon=True
                )
                self._thread.start()
        self._poke()
        self._heard.wait(SECONDS_TO_SUBSCRIBE)

    def _poke(self) -> None:
        if self._nudge is not None:
            with contextlib.suppress(OSError):
                os.write(self._nudge[1], b"!")

    def _run(self, reader: int, writer: int) -> None:
        pause = FIRST_PAUSE
        while not self._closed:
            try:
                with connect(self._database.options) as connection:
                    connection.add_notify_handler(self._on_notify)
                    pause = FIRST_PAUSE
                    self._serve(connection, reader)
            except (psycopg.Error, OSError):
                self.is_listening = False
                self._heard.set()
                self._wake_all()
                if not self._closed:
                    select.select([reader], [], [], pause)
                    _drain(reader)
                pause = min(2 * pause, LONGEST_PAUSE)
        self._nudge = None
        os.close(reader)
        os.close(writer)

    def _serve(self, connection: Connection, reader: int) -> None:
        heard: set[str] = set()
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(reader, select.POLLIN)
        while not self._closed:
            _drain(reader)
            for topic in self._topics - heard:
                self._hear(connection, topic)
                heard.add(topic)
            if heard >= self._topics:
                if not self.is_listening:
                    self.is_listening = True
                    self._wake_all()
                self._heard.set()
            if not poll.poll(LOOK_EVERY * 1000):
                connection.patience = LOOK_EVERY
                connection.execute(PROBE)
            connection.pgconn.consume_input()
            while notification := connection.pgconn.notifies():
                self._tell(notification.relname, notification.extra, notification.be_pid)
        self.is_listening = False

    def _hear(self, connection: Connection, topic: str) -> None:
        schema = self._database.options.schema
        connection.execute(f'LISTEN "{schema}.{topic}"')
        # Waits for those who did not know yet that somebody listens: what they commit is seen.
        connection.execute(
            "SELECT pg_advisory_lock_shared(hashtext(%s), %s)", (schema, TOPICS[topic])
        )

    def _on_notify(self, notify: psycopg.Notify) -> None:
        self._tell(notify.channel.encode(), notify.payload.encode(), notify.pid)

    def _tell(self, channel: bytes, payload: bytes, pid: int) -> None:
        topic = channel.decode().rpartition(".")[2]
        if topic == "queues":
            # A reservation tells others when to look next; who made it knows.
            if payload[:1] == b"r" and pid in self._database.pids:
                return
            payload = payload[1:]
        names = frozenset(_decode(payload)) if payload else None
        with self._lock:
            for listener in self._listeners:
                wanted = listener.wanted[topic]
                if wanted and (names is None or not wanted.isdisjoint(names)):
                    listener.wake()

    def _wake_all(self) -> None:
        with self._lock:
            for listener in self._listeners:
                listener.wake()

    # -- fork.ForkAware ----------------------------------------------------------------------

    def after_fork_in_child(self) -> None:
        """The thread is the parent's, and so is its connection. A listener of the parent that is
        used here goes by looking, until a new one is made."""
        nudge = self._nudge
        self._begin()
        for descriptor in nudge or ():
            os.close(descriptor)


def _drain(reader: int) -> None:
    with contextlib.suppress(OSError):
        os.read(reader, 4096)
