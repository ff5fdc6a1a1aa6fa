"""One connection to the broker, with one channel: what kombu's transports have in common.

Neither kombu nor py-amqp is safe to use from several threads: a link belongs to one thread, or to
whoever holds its owner's lock.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from amqp import spec
from kombu.connection import Connection

from taskmq.errors import ConfigError
from taskmq.patience import left

from .options import GENERIC, Options

__all__ = ["Broker", "Link"]

TLS_NAMES = {"ca": "ca_certs", "cert": "certfile", "key": "keyfile"}
UPWARDS = frozenset({"mongodb"})
DOWNWARDS = frozenset({"redis", "rediss", "sentinel"})
"""Of kombu's other transports those that have priorities, 0 to 9, of which the most urgent is 9, or
0. Kombu itself does not say."""
MOST_AT_ONCE = 512
"""How many messages are taken from the socket before anything else is looked at."""
STEP = 0.05
"""Seconds for which a broker without a socket to watch is asked for messages, each time."""


class Broker:
    """Opens links to the broker of some options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.is_amqp = options.is_amqp
        if not self.is_amqp:
            _check_known(options)
        self.where = options.where
        self._urls = options.brokers
        self._at = 0  # the one that answered last

    def open(self, *, heartbeat: float, on_blocked: Callable[[bool], None] | None = None) -> Link:
        """Connect, where there are several brokers to the next that answers, from the one that
        did last; each try is bounded by ``connect_timeout``. Raises whatever the driver raises.

        ``on_blocked`` hears when the broker stops to take messages (true), and when it goes on.
        """
        first, count = self._at, len(self._urls)
        for turn in range(count):
            at = (first + turn) % count
            try:
                link = self._open(self._urls[at], heartbeat, on_blocked)
            except Exception:
                if turn + 1 == count:
                    raise
            else:
                self._at = at
                break
        return link

    def _open(self, url: str, heartbeat: float, on_blocked: Callable[[bool], None] | None) -> Link:
        options = self.options
        connect_timeout = left(options.connect_timeout)
        forwarded: dict[str, Any] = dict(options.forwarded)
        if self.is_amqp:
            forwarded |= {
                "read_timeout": connect_timeout,
                "write_timeout": options.publish_timeout,
                "login_method": "PLAIN",
                "client_properties": {"connection_name": f"taskmq {options.namespace}"},
            }
            if on_blocked is not None:
                forwarded["on_blocked"] = lambda *_: on_blocked(True)
                forwarded["on_unblocked"] = lambda *_: on_blocked(False)
        connection = Connection(
            url,
            connect_timeout=connect_timeout,
            heartbeat=heartbeat,
            ssl=self._tls(url),
            transport_options=forwarded,
        )
        return Link(connection, is_amqp=self.is_amqp, timeout=options.publish_timeout)

    @property
    def delays(self) -> bool:
        """Whether it can hold a message back: time to live and dead-letter exchange."""
        return self.is_amqp

    @property
    def top_priority(self) -> int:
        """The most urgent priority of a message; 0 where there are none."""
        if self.is_amqp:
            return self.options.max_priority
        return 9 if self._scheme in (*UPWARDS, *DOWNWARDS) else 0

    def priority_of(self, priority: int) -> int:
        """The engine's -9 to 9 as the broker counts, in order."""
        top = self.top_priority
        level = max(0, min(top, round((priority + 9) * top / 18)))
        return top - level if self._scheme in DOWNWARDS else level

    @property
    def _scheme(self) -> str:
        return urlsplit(self.options.broker).scheme

    def _tls(self, url: str) -> Any:
        if urlsplit(url).scheme != "amqps":
            return None
        named = {TLS_NAMES[name]: path for name, path in self.options.tls.items()}
        host = urlsplit(url).hostname
        return {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host, **named}


def _check_known(options: Options) -> None:
    try:
        Connection(options.broker).get_transport_cls()
    except (ImportError, KeyError) as error:
        raise ConfigError(
            f"{GENERIC}{options.where!r}: kombu cannot load this transport: {error}"
        ) from error


class Reader:
    """Reads from a socket what is there, and gives it out in pieces: py-amqp asks for some ten
    bytes at a time, nine times a message."""

    SIZE = 65_536

    def __init__(self, recv: Callable[[int], bytes]) -> None:
        self._recv = recv
        self._data = b""
        self._start = 0

    def __call__(self, count: int) -> bytes:
        if self._start == len(self._data):
            self._data, self._start = self._recv(self.SIZE), 0
        piece = self._data[self._start : self._start + count]
        self._start += len(piece)
        return piece

    def __bool__(self) -> bool:
        """Whether something is left."""
        return self._start < len(self._data)


class Link:
    """An open connection and its channel."""

    def __init__(self, connection: Any, *, is_amqp: bool, timeout: float) -> None:
        self._is_amqp = is_amqp
        self._kombu = connection
        self._transport = connection.transport
        self._raw = self._transport.establish_connection()
        self._reader: Reader | None = None
        self._granted: float | None = None
        if is_amqp:
            self.grant(timeout)
            self._read_ahead()
        try:
            self.channel = self._transport.create_channel(self._raw)
        except BaseException:
            self.close()
            raise

    def grant(self, seconds: float) -> None:
        """Wait no longer than that for each answer from now on."""
        if self._is_amqp and seconds != self._granted:
            self._socket.settimeout(seconds)
            self._granted = seconds

    # -- sending -----------------------------------------------------------------------------

    def publish(
        self, body: bytes, properties: dict[str, Any], exchange: str, routing_key: str
    ) -> None:
        """Send a message that comes back (``basic_return``) where no queue takes it."""
        priority, headers = properties.pop("priority", 0), properties.pop("headers", None)
        message = self.channel.prepare_message(
            body,
            priority=priority,
            content_type=properties.pop("content_type"),
            content_encoding="utf-8",
            headers=headers,
            properties=properties,
        )
        if self._is_amqp:
            # basic_publish would look for answers before each message, with a system call or five.
            values = (0, exchange, routing_key, True, False)
            self.channel.send_method(spec.Basic.Publish, "Bssbb", values, message)
        else:
            self.channel.basic_publish(message, exchange=exchange, routing_key=routing_key)

    @contextlib.contextmanager
    def gathered(self, count: int) -> Iterator[None]:
        """Send the ``count`` messages that are published here in few packets: with one each, the
        broker is woken by every message."""
        cork = getattr(socket, "TCP_CORK", None)  # Linux
        if not self._is_amqp or cork is None or count == 1:
            yield
            return
        held = self._socket
        held.setsockopt(socket.IPPROTO_TCP, cork, 1)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                held.setsockopt(socket.IPPROTO_TCP, cork, 0)

    # -- receiving ---------------------------------------------------------------------------

    def drain(self, timeout: float) -> None:
        """Handle one message or answer; raises ``TimeoutError`` where none comes."""
        self._transport.drain_events(self._raw, timeout=timeout)

    def drain_all(self, bell: int, timeout: float) -> None:
        """Handle what comes, at least until ``timeout`` or until ``bell`` can be read."""
        if not self._is_amqp:
            with contextlib.suppress(TimeoutError):
                self.drain(min(timeout, STEP))
                for _ in range(MOST_AT_ONCE):
                    self.drain(0.001)
            return
        waiter = select.poll()
        waiter.register(bell, select.POLLIN)
        waiter.register(self._socket, select.POLLIN)
        if not self._has_pending() and not waiter.poll(timeout * 1000):
            return
        reader = select.poll()
        reader.register(self._socket, select.POLLIN)
        for _ in range(MOST_AT_ONCE):
            if not self._has_pending() and not reader.poll(0):
                return
            with contextlib.suppress(TimeoutError):
                self._raw.blocking_read(self._kombu.connect_timeout)

    def heartbeat(self) -> None:
        """Keep it alive, and notice that it is not. To be called twice in each interval."""
        if self._is_amqp:
            self._raw.heartbeat_tick(rate=2)

    @property
    def _socket(self) -> Any:
        return self._raw.transport.sock

    def _read_ahead(self) -> None:
        stream = self._raw.transport
        if callable(getattr(stream, "_quick_recv", None)):  # else it is slower, no more
            stream._quick_recv = self._reader = Reader(stream._quick_recv)

    def _has_pending(self) -> bool:
        """Whether more was read than was asked for, by us or by TLS."""
        if self._reader:
            return True
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0

    # -- ending ------------------------------------------------------------------------------

    def close(self) -> None:
        """Say goodbye, briefly; errors do not matter any more."""
        if self._is_amqp:
            with contextlib.suppress(Exception):
                self._socket.settimeout(1.0)
        with contextlib.suppress(Exception):
            self._transport.close_connection(self._raw)
        self.drop()

    def drop(self) -> None:
        """Close the socket without a word."""
        with contextlib.suppress(Exception):
            self._raw.collect()

    def abandon(self) -> None:
        """In a child process: let go of the descriptor; the connection is the parent's."""
        if not self._is_amqp:
            return
        with contextlib.suppress(Exception):
            held: socket.socket = self._socket
            os.close(held.detach())
