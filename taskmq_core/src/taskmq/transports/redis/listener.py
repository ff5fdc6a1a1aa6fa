"""Wake-ups over one connection a process, which blocks: no polling.

A thread of the hub reads what arrives. While one listener only is in a hurry, and waits, the thread
that waits reads for all: to a job that comes alone a switch of threads costs as much as its run.

The scripts publish to a channel for each queue and job. Who listens subscribes, and is told once
that is in force; what comes afterwards is not missed. When the connection breaks, everybody is
woken, and once more when it is back: whatever was published meanwhile is found by looking. A
server that has gone silent without closing the connection is noticed by a PING that stays
unanswered. A worker, which looks every few seconds who else there is, spares that: the script
says so on a channel of its process.
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

import msgspec
from redis.connection import AbstractConnection

from taskmq.errors import TransportError, TransportUnavailable
from taskmq.records import JobRecord
from taskmq.transports._tokens import TokenListener

from .errors import FAILURES
from .resp import Pushes, packed_command
from .server import Server
from .wire import record_told

__all__ = ["Hub", "RedisListener"]

QUIET = 4.5
"""Seconds without a word after which the server is asked for one."""
SILENCE = 1.5
"""Seconds that it may take then. A worker that waits has to hear of a job within ten seconds."""
PATIENCE = 5.0
"""Seconds that a subscription may take."""
FOREVER = float("inf")
READ_AT_ONCE = 65536
GONE = getattr(select, "POLLRDHUP", 0)
"""That the server has closed the connection, whatever there is to read."""
LENT = 0.5
"""Seconds after which the hub's thread looks whether a worker that has read for patient listeners
still does: what these wait for lies unread no longer than twice that."""
LEFT_OVER = 32
"""Channels that nobody listens to any more before the server is told by itself."""
RECONNECT = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds between attempts to connect; the last one is repeated."""


class RedisListener(TokenListener):
    """A `taskmq.transport.Listener`, for one waiting thread."""

    def __init__(self, channels: Iterable[str], hub: Hub, *, patient: bool = False) -> None:
        super().__init__()
        self.patient = patient
        self.ended: JobRecord | None = None
        """The job that is listened to, if its end was told with all that a look would find."""
        self.channels = frozenset(channel.encode() for channel in channels)
        self.bell: Bell | None = None
        """Ends the wait of its thread, while that reads for itself."""
        self._hub = hub

    @property
    def attends(self) -> bool:
        """Whether its `wait` reads what the server says: what calls back would be slower."""
        return self._hub.is_for(self)

    def _is_woken(self) -> bool:
        return not self._tokens.empty()

    def wait(self, timeout: float | None) -> bool:
        if self._is_woken() or not self._hub.is_for(self):
            return super().wait(timeout)
        until = FOREVER if timeout is None else time.monotonic() + timeout
        self._hub.attend(self, until, self._is_woken)
        if self._is_woken():
            return True
        return super().wait(None if timeout is None else until - time.monotonic())

    def call_back(self, on_change: Callable[[], None]) -> bool:
        self._hub.take_over()
        return super().call_back(on_change)

    def wake(self) -> None:
        self.tell()
        bell = self.bell
        if bell is not None:
            bell.ring()

    def tell(self) -> None:
        """The same by the thread that waits for it."""
        super().wake()

    def close(self) -> None:
        self._hub.stop(self)


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
        self._jobs = self._server.name("job:").encode()
        self._pulse = self._server.name(f"pulse:{self._server.sender()}").encode()
        self._bell: Bell | None = None  # until there is a thread
        self._changed = threading.Condition()
        self._all: set[RedisListener] = set()
        self._eager: set[RedisListener] = set()  # those of them that are not patient
        self._listeners: defaultdict[bytes, set[RedisListener]] = defaultdict(set)
        self._confirmed: set[bytes] = set()
        self._requested: set[bytes] = set()
        self._failure: Exception | None = None
        self._source: socket.socket | None = None  # of the connection, while there is one
        self._pushes = Pushes()
        self._reading = threading.Lock()  # who has it reads; never taken by who has the other
        self._heard = 0.0
        self._attender: RedisListener | None = None  # reads now, in the thread that waits for it
        self._attended = False  # since the thread looked last
        self._lent = False  # the thread leaves the reading to those that wait
        self._broken: Exception | None = None  # what an attender has met
        self._nudge: Bell | None = None  # ends the wait of an attender
        self._thread: threading.Thread | None = None
        self._closed = False

    def listen(self, channels: Iterable[str], *, patient: bool = False) -> RedisListener:
        """A listener that is told of everything from now on. One that is patient may be told up to
        twice `LENT` seconds late. Raises `TransportUnavailable`."""
        if self._pid != os.getpid():
            self._begin()  # the thread and the connection are the parent's
        listener = RedisListener(channels, self, patient=patient)
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            self._all.add(listener)
            if not patient:
                self._eager.add(listener)
            if self._eager != {listener}:
                self._take_back()
            for channel in listener.channels:
                self._listeners[channel].add(listener)
            self._failure = None
            if listener.channels:
                self._run()
                self._subscribe_soon()
        self.attend(listener, deadline, lambda: self._is_settled(listener))
        with self._changed:
            while not listener.channels <= self._confirmed:
                left = deadline - time.monotonic()
                refusal = self._refusal(left)
                if refusal is not None:
                    self._forget(listener)
                    raise refusal
                self._changed.wait(left)
        return listener

    def is_for(self, listener: RedisListener) -> bool:
        """Whether a listener's own thread may read: nobody else is in a hurry, and it is not TLS,
        which is for one thread at a time."""
        if self._eager != {listener} or self._attender is not None:
            return False
        source = self._source
        if source is None or isinstance(source, ssl.SSLSocket):
            return False
        return self._pid == os.getpid()

    def attend(self, listener: RedisListener, until: float, is_done: Callable[[], bool]) -> None:
        """Read what arrives, in the thread of the only eager listener, until then. Returns early
        where the hub's own thread has to do it."""
        with self._changed:
            source = self._source
            if source is None or not self.is_for(listener):
                return
            self._attender, self._attended = listener, True
            if self._nudge is None:
                self._nudge = Bell()
            bell = listener.bell = self._nudge
            if not self._lent:
                self._lent = True
                self._ring()
        poll, bell_rings = select.poll(), bell.fileno()
        poll.register(source, select.POLLIN)
        poll.register(bell_rings, select.POLLIN)
        try:
            while self._lent and not is_done():
                left = until - time.monotonic()
                if left <= 0:
                    break
                ready = [each for each, _ in poll.poll(None if left == FOREVER else left * 1000)]
                if bell_rings in ready:
                    bell.drain()
                if ready and ready != [bell_rings]:
                    self._receive(source, listener)
        except FAILURES as error:
            with self._changed:
                if self._source is source:
                    self._broken = error
                    self._take_back()
        finally:
            listener.bell = self._attender = None
            if self._closed:
                with self._changed:
                    self._clear_up()

    def take_over(self) -> None:
        """Somebody waits who cannot read."""
        if self._lent and self._pid == os.getpid():
            with self._changed:
                self._take_back()

    def stop(self, listener: RedisListener) -> None:
        """The server hears of it with the next subscription, in silence, or when there are some:
        until then it may say what nobody listens to any more."""
        if self._pid == os.getpid():
            with self._changed:
                self._forget(listener)
                if self._all and not self._eager:
                    self._take_back()
                if len(self._requested) > len(self._listeners) + LEFT_OVER:
                    self._ring()

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
        wanted = {*self._listeners, self._pulse} if self._listeners else set()
        new, old = wanted - self._requested, self._requested - wanted
        if not new and not old:
            return
        self._requested = wanted
        self._confirmed -= old
        source.sendall(
            (packed_command([b"SUBSCRIBE", *new]) if new else b"")
            + (packed_command([b"UNSUBSCRIBE", *old]) if old else b"")
        )

    def _is_settled(self, listener: RedisListener) -> bool:
        return listener.channels <= self._confirmed or self._failure is not None

    def _take_back(self) -> None:
        """The thread reads again."""
        if self._lent:
            self._lent = False
            self._ring()
            if self._nudge is not None:
                self._nudge.ring()

    def _clear_up(self) -> None:
        if self._closed and self._attender is None and self._nudge is not None:
            self._nudge.close()
            self._nudge = None

    def _refusal(self, left: float) -> TransportError | None:
        if self._failure is not None:
            return self._server.translated(self._failure)
        if left > 0:
            return None
        return TransportUnavailable(f"{self._server.where} did not confirm a subscription in time")

    def _forget(self, listener: RedisListener) -> None:
        self._all.discard(listener)
        self._eager.discard(listener)
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
                with self._changed:
                    self._source = None
                    self._take_back()
                if connection is not None:
                    with self._reading:  # nobody does, from a socket that may be another's by now
                        connection.disconnect()
            if not self._closed:
                self._rest(bell, RECONNECT[min(failures, len(RECONNECT) - 1)])
                failures += 1
        bell.close()
        with self._changed:
            self._clear_up()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._source = None
            self._take_back()
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
        source = _socket_of(connection)
        poll, bell_rings = select.poll(), bell.fileno()
        poll.register(source, select.POLLIN)
        poll.register(bell_rings, select.POLLIN)
        self._heard, asked_at = time.monotonic(), FOREVER
        with self._changed:
            self._pushes, self._source, self._broken = Pushes(), source, None
            self._subscribe(source)
        while not self._closed:
            heard = self._heard
            asked = heard <= asked_at < FOREVER
            due = heard + QUIET + (SILENCE if asked else 0.0)
            lent, wait = self._lent, max(0.0, due - time.monotonic())
            if lent and len(self._all) > 1:
                wait = min(wait, LENT)
            poll.modify(source, GONE if lent else select.POLLIN)
            ready = [each for each, _ in poll.poll(wait * 1000)]
            if self._broken is not None:
                raise self._broken
            if ready and ready != [bell_rings]:
                self._receive(source)
            elif not ready and lent and self._is_neglected():
                continue  # and read what there may be, before the server is thought silent
            elif self._heard + (due - heard) <= time.monotonic():
                if asked:
                    raise TimeoutError("the server has gone silent")
                asked_at = time.monotonic()
                with self._changed:
                    source.sendall(packed_command([b"PING"]))
                    self._subscribe(source)
            if bell_rings in ready:
                bell.drain()
                with self._changed:
                    self._subscribe(source)

    def _is_neglected(self) -> bool:
        """Whether nobody has read since this was asked last: then the thread does, from now on."""
        with self._changed:
            attended, self._attended = self._attended or self._attender is not None, False
            self._lent = self._lent and attended
        return not attended

    def _receive(self, source: socket.socket, reader: RedisListener | None = None) -> None:
        """Read what is there, and wake those that it is for; ``reader`` is awake. Raises what the
        driver raises, and ``OSError``."""
        with self._reading:
            if self._source is not source:
                return
            data = _received(source)
            if not data:
                return
            self._heard = time.monotonic()
            told: dict[Any, Any] = {}
            confirmed: set[Any] = set()
            for push in self._pushes.feed(data):
                if len(push) != 3:  # the answer to a PING
                    continue
                kind, channel, word = push
                if kind == b"subscribe":
                    told[channel] = b""
                    confirmed.add(channel)
                elif kind == b"message" and not self._is_own(channel, word):
                    told[channel] = word
            if confirmed:
                with self._changed:
                    self._confirmed |= confirmed & self._requested
                    self._changed.notify_all()
            for channel, word in told.items():
                ended = self._ended(channel, word) if word else None
                for listener in tuple(self._listeners.get(channel, ())):  # others come and go
                    listener.ended = ended
                    if listener is reader:
                        listener.tell()
                    else:
                        listener.wake()

    def _ended(self, channel: bytes, word: bytes) -> JobRecord | None:
        if not channel.startswith(self._jobs):
            return None
        try:
            return record_told(channel.removeprefix(self._jobs).decode(), word)
        except (msgspec.DecodeError, ValueError):  # not ours: then a look tells
            return None

    def _is_own(self, channel: Any, word: Any) -> bool:
        """Whether this process tells itself of a reservation, and nobody else in it listens: who
        made it knows."""
        if not word or word != self._server.sender().encode():
            return False
        return len(self._listeners.get(channel, ())) == 1


def _received(source: socket.socket) -> bytes:
    """All that is there; nothing, if another thread was first. Raises ``OSError``."""
    try:
        if isinstance(source, ssl.SSLSocket):
            data = source.recv(READ_AT_ONCE)
            while source.pending():  # poll does not see that
                data += source.recv(READ_AT_ONCE)
        else:  # at once: a socket with a time limit waits for its whole length
            data = os.read(source.fileno(), READ_AT_ONCE)
    except BlockingIOError:
        return b""
    if not data:
        raise ConnectionResetError("the server has closed the connection")
    return data


def _socket_of(connection: AbstractConnection) -> socket.socket:
    found = connection._sock
    if found is None:
        raise TimeoutError("the connection was closed")
    return cast("socket.socket", found)
