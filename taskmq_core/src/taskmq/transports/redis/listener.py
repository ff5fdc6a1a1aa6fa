"""Wake-ups over one connection a process, which blocks: no polling.

The scripts publish to a channel for each queue and job. Who listens subscribes, and is told once
that is in force; what comes afterwards is not missed. When the connection breaks, everybody is
woken, and once more when it is back: whatever was published meanwhile is found by looking. A
server that has gone silent without closing the connection is noticed by a PING that stays
unanswered.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, cast

from redis.connection import AbstractConnection

from taskmq.errors import TransportError, TransportUnavailable
from taskmq.transports._tokens import TokenListener

from .errors import FAILURES
from .resp import Pushes, packed_command
from .server import Server

__all__ = ["Hub", "RedisListener"]

QUIET = 4.0
"""Seconds without a word after which the server is asked for one."""
SILENCE = 2.0
"""Seconds that it may take then. A worker that waits has to hear of a job within ten seconds."""
PATIENCE = 5.0
"""Seconds that a subscription may take."""
READ_AT_ONCE = 65536
LEFT_OVER = 32
"""Channels that nobody listens to any more before the server is told by itself."""
RECONNECT = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds between attempts to connect; the last one is repeated."""


class RedisListener(TokenListener):
    """A `taskmq.transport.Listener`, for one waiting thread."""

    def __init__(self, channels: Iterable[str], on_close: Callable[[RedisListener], None]) -> None:
        super().__init__()
        self.channels = frozenset(channel.encode() for channel in channels)
        self._on_close = on_close

    def close(self) -> None:
        self._on_close(self)


class Bell:
    """Ends another thread's wait for events, which watches it."""

    def __init__(self) -> None:
        self._listening, self._ringing = socket.socketpair()
        self._listening.setblocking(False)
        self._ringing.setblocking(False)

    def fileno(self) -> int:
        return self._listening.fileno()

    def ring(self) -> None:
        with contextlib.suppress(OSError):
            self._ringing.send(b"!")

    def drain(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.recv(4096)

    def close(self) -> None:
        self._listening.close()
        self._ringing.close()


class Hub:
    """The listeners of a store in this process, and the thread that wakes them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._bell: Bell | None = None  # until there is a thread
        self._changed = threading.Condition()
        self._listeners: defaultdict[bytes, set[RedisListener]] = defaultdict(set)
        self._confirmed: set[bytes] = set()
        self._requested: set[bytes] = set()
        self._failure: Exception | None = None
        self._source: socket.socket | None = None  # of the connection, while there is one
        self._thread: threading.Thread | None = None
        self._closed = False

    def listen(self, channels: Iterable[str]) -> RedisListener:
        """A listener that is told of everything from now on. Raises `TransportUnavailable`."""
        if self._pid != os.getpid():
            self._begin()  # the thread and the connection are the parent's
        listener = RedisListener(channels, self._stop)
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            for channel in listener.channels:
                self._listeners[channel].add(listener)
            self._failure = None
            if listener.channels:
                self._run()
                self._subscribe_soon()
            while not listener.channels <= self._confirmed:
                left = deadline - time.monotonic()
                refusal = self._refusal(left)
                if refusal is not None:
                    self._forget(listener)
                    raise refusal
                self._changed.wait(left)
        return listener

    def close(self) -> None:
        """End the thread."""
        if self._pid != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._ring()
            thread = self._thread
        if thread is not None:
            thread.join(PATIENCE)

    # -- callers' side, with the lock --------------------------------------------------------

    def _run(self) -> None:
        if self._thread is None and not self._closed:
            self._bell = Bell()
            self._thread = threading.Thread(
                target=self._work, args=[self._bell], name="taskmq-redis", daemon=True
            )
            self._thread.start()

    def _subscribe_soon(self) -> None:
        """At once, from this thread, where that can be: TLS is for one thread at a time."""
        if self._source is None or isinstance(self._source, ssl.SSLSocket):
            self._ring()
            return
        try:
            self._subscribe(self._source)
        except OSError:
            with contextlib.suppress(OSError):
                self._source.shutdown(socket.SHUT_RDWR)  # the thread sees that, and tells why

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def _subscribe(self, source: socket.socket) -> None:
        """Ask for what is listened to now, and for nothing else any more."""
        wanted = self._listeners.keys()
        new, old = wanted - self._requested, self._requested - wanted
        if not new and not old:
            return
        self._requested = set(wanted)
        self._confirmed -= old
        source.sendall(
            (packed_command([b"SUBSCRIBE", *new]) if new else b"")
            + (packed_command([b"UNSUBSCRIBE", *old]) if old else b"")
        )

    def _refusal(self, left: float) -> TransportError | None:
        if self._failure is not None:
            return self._server.translated(self._failure)
        if left > 0:
            return None
        return TransportUnavailable(f"{self._server.where} did not confirm a subscription in time")

    def _stop(self, listener: RedisListener) -> None:
        """The server hears of it with the next subscription, in silence, or when there are some:
        until then it may say what nobody listens to any more."""
        if self._pid == os.getpid():
            with self._changed:
                self._forget(listener)
                if len(self._requested) >= len(self._listeners) + LEFT_OVER:
                    self._ring()

    def _forget(self, listener: RedisListener) -> None:
        for channel in listener.channels:
            listeners = self._listeners.get(channel, set())
            listeners.discard(listener)
            if not listeners:
                self._listeners.pop(channel, None)

    # -- the thread --------------------------------------------------------------------------

    def _work(self, bell: Bell) -> None:
        failures = 0
        while not self._closed:
            connection: AbstractConnection | None = None
            try:
                connection = self._server.subscriber()
                failures = 0
                self._serve(connection, bell)
            except FAILURES as error:
                self._fail(error)
            finally:
                if connection is not None:
                    connection.disconnect()
            if not self._closed:
                self._rest(bell, RECONNECT[min(failures, len(RECONNECT) - 1)])
                failures += 1
        bell.close()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._source = None
            self._confirmed.clear()
            self._requested.clear()
            self._failure = error
            self._changed.notify_all()
            everybody = {each for group in self._listeners.values() for each in group}
        for listener in everybody:
            listener.wake()

    def _rest(self, bell: Bell, seconds: float) -> None:
        poll = select.poll()
        poll.register(bell, select.POLLIN)
        poll.poll(seconds * 1000)
        bell.drain()

    def _serve(self, connection: AbstractConnection, bell: Bell) -> None:
        """Pass on what arrives, until the connection breaks or the hub is closed. Nothing is done
        for a message that need not be: a thread that has slept takes fifty times as long for it."""
        source, pushes = _socket_of(connection), Pushes()
        poll, bell_rings = select.poll(), bell.fileno()
        poll.register(source, select.POLLIN)
        poll.register(bell_rings, select.POLLIN)
        heard, asked = time.monotonic(), False
        with self._changed:
            self._source = source
            self._subscribe(source)
        while not self._closed:
            due = heard + QUIET + (SILENCE if asked else 0.0)
            ready = [each for each, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000)]
            if ready and ready != [bell_rings]:
                self._receive(source, pushes)
                heard, asked = time.monotonic(), False
            elif time.monotonic() >= due:
                if asked:
                    raise TimeoutError("the server has gone silent")
                asked = True
                with self._changed:
                    source.sendall(packed_command([b"PING"]))
                    self._subscribe(source)
            if bell_rings in ready:
                bell.drain()
                with self._changed:
                    self._subscribe(source)

    def _receive(self, source: socket.socket, pushes: Pushes) -> None:
        told: set[Any] = set()
        confirmed: set[Any] = set()
        for push in pushes.feed(_received(source)):
            if len(push) != 3:  # the answer to a PING
                continue
            kind, channel, word = push
            if kind == b"subscribe":
                told.add(channel)
                confirmed.add(channel)
            elif kind == b"message" and not self._is_own(channel, word):
                told.add(channel)
        if confirmed:
            with self._changed:
                self._confirmed |= confirmed & self._requested
                self._changed.notify_all()
        for channel in told:
            for listener in tuple(self._listeners.get(channel, ())):  # others may come and go
                listener.wake()

    def _is_own(self, channel: Any, word: Any) -> bool:
        """Whether this process tells itself of a reservation, and nobody else in it listens: who
        made it knows."""
        if not word or word != self._server.sender().encode():
            return False
        return len(self._listeners.get(channel, ())) == 1


def _received(source: socket.socket) -> bytes:
    """All that is there. Raises ``OSError``."""
    data = source.recv(READ_AT_ONCE)
    if not data:
        raise ConnectionResetError("the server has closed the connection")
    while isinstance(source, ssl.SSLSocket) and source.pending():  # poll does not see that
        data += source.recv(READ_AT_ONCE)
    return data


def _socket_of(connection: AbstractConnection) -> socket.socket:
    found = connection._sock
    if found is None:
        raise TimeoutError("the connection was closed")
    return cast("socket.socket", found)
