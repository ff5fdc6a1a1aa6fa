"""How commands reach the server: one that is given, the one that sentinels name, or a cluster."""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import redis
from redis.backoff import NoBackoff
from redis.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.crc import key_slot
from redis.exceptions import ClusterDownError, MovedError, ResponseError
from redis.retry import Retry
from redis.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from taskmq.patience import left, within

from .options import Address, Options
from .resp import packed_command

__all__ = ["Link", "open_link"]

PUBSUB_PROTOCOL = 2
"""Of connections that only listen: there, everything that arrives is an answer of one kind."""
REDIRECTIONS = 5
UNLIMITED = 2**63
"""A pool counts what it ever made, attempts in an outage too: we keep the connections ourselves."""


class Link(Protocol):
    """Sends commands. Raises what the driver raises. Safe to use from several threads."""

    def call(self, *command: bytes | str) -> Any:
        """Send one command, whose first key decides where to; its answer."""

    def subscriber(self) -> AbstractConnection:
        """A connection of its own, connected, for a listener."""

    def close(self) -> None: ...


def open_link(options: Options, key: str) -> Link:
    """A link to the server that holds ``key``. Connects when it is first used."""
    return ClusterLink(options, key) if options.cluster else ServerLink(options)


class ServerLink:
    """One server at a time. A thread takes an idle connection, or makes one."""

    def __init__(self, options: Options) -> None:
        self._pool = _pool(options, options.protocol)
        self._subscribers = _pool(options, PUBSUB_PROTOCOL)
        for pool in (self._pool, self._subscribers):
            pool.max_connections = UNLIMITED
        self._options = options
        self._idle: deque[Line] = deque()
        self._pid = os.getpid()

    def call(self, *command: bytes | str) -> Any:
        line = self._take()
        if line is not None:
            return self._converse(line, command)
        with within(self._options.timeout):  # both together
            return self._converse(Line(self._connected(self._pool)), command)

    def _converse(self, line: Line, command: Sequence[bytes | str]) -> Any:
        try:
            answer = line.ask(command, left(self._options.timeout))
        except ResponseError:
            self._idle.append(line)
            raise
        except BaseException:
            line.close()
            raise
        self._idle.append(line)
        return answer

    def subscriber(self) -> AbstractConnection:
        return self._connected(self._subscribers)

    def close(self) -> None:
        if self._pid == os.getpid():
            while self._idle:
                self._idle.pop().close()

    def _take(self) -> Line | None:
        if self._pid != os.getpid():
            self._idle, self._pid = deque(), os.getpid()  # those are the parent's
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:  # another thread has the last one
                break
            if not line.is_stale():
                return line
            line.close()
        return None

    def _connected(self, pool: ConnectionPool) -> AbstractConnection:
        connection = cast("AbstractConnection", pool.make_connection())
        # The handshake is answered at once by a server that lives.
        seconds = left(self._options.connect_timeout)
        connection.socket_connect_timeout = connection.socket_timeout = seconds
        connection.connect()
        return connection


class ClusterLink:
    """The node of a cluster that serves the slot of a key: all keys of a namespace are there.

    It follows the slot by itself, since the driver's own client tries every node again and again
    while nobody answers, and cannot be told how long.
    """

    def __init__(self, options: Options, key: str) -> None:
        self._options = options
        self._slot = key_slot(key.encode())
        self._nodes: dict[Address, ServerLink] = {}
        self._known: tuple[Address, ...] = options.addresses
        self._owner: Address | None = None

    def call(self, *command: bytes | str) -> Any:
        with within(self._options.timeout):
            for _ in range(REDIRECTIONS):
                owner = self._find()
                try:
                    return self._node(owner).call(*command)
                except MovedError as error:
                    self._owner = (error.host or owner[0], error.port)
                except (redis.ConnectionError, redis.TimeoutError, ClusterDownError, OSError):
                    self._owner = None  # another one may have taken its place
                    raise
        raise redis.ConnectionError("its nodes send us from one to the other")

    def subscriber(self) -> AbstractConnection:
        try:
            return self._node(self._find()).subscriber()
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            self._owner = None
            raise

    def close(self) -> None:
        for node in list(self._nodes.values()):
            node.close()

    def _node(self, address: Address) -> ServerLink:
        if address not in self._nodes:
            options = replace(self._options, addresses=(address,), cluster=False)
            self._nodes[address] = ServerLink(options)
        return self._nodes[address]

    def _find(self) -> Address:
        """Who serves the slot, as far as we know; else as the first node says that answers."""
        if self._owner is not None:
            return self._owner
        failure: Exception = redis.ConnectionError("it has no nodes")
        seconds = left(self._options.timeout) / (len(self._known) + 1)
        for address in self._known:
            try:
                with within(seconds):
                    return self._ask(address)
            except (redis.RedisError, OSError) as error:
                failure = error
        raise failure

    def _ask(self, address: Address) -> Address:
        ranges = self._node(address).call("CLUSTER", "SLOTS")
        nodes = dict.fromkeys(_address(node, address) for _, _, *nodes in ranges for node in nodes)
        self._known = tuple(dict.fromkeys((*nodes, *self._options.addresses)))
        for first, last, primary, *_ in ranges:
            if first <= self._slot <= last:
                self._owner = _address(primary, address)
                return self._owner
        raise ClusterDownError("no node serves the slot of this namespace")


def _address(node: Sequence[Any], asked: Address) -> Address:
    """Where a node is that another one has named; the name may be missing if it is that one."""
    host = node[0]
    name = host.decode() if isinstance(host, bytes) else host
    return (name if name and name != "?" else asked[0], int(node[1]))


class Line:
    """A connection that was made, for one command at a time.

    The driver connects and reads. What it does beside that for each command is done here, or once:
    to a thread that has slept, every step is new.
    """

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._socket = cast("socket.socket", connection._sock)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._granted: float | None = None

    def ask(self, command: Sequence[bytes | str], seconds: float) -> Any:
        """The answer to a command, which may take so long. Raises what the driver raises."""
        if seconds != self._granted:
            self._socket.settimeout(seconds)
            self._granted = seconds
        self._socket.sendall(packed_command(command))
        return self._connection.read_response(disable_decoding=True)

    def is_stale(self) -> bool:
        """Whether the server has closed it while it was idle, or says what nobody asked for."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._connection.disconnect()


class Sentinels(Sentinel):
    """Asked over new connections each time, since the driver's know one timeout for life: all of
    them together take no longer than what is left of the call."""

    def __init__(self, options: Options, **settings: Any) -> None:
        super().__init__((), **settings)  # type: ignore[no-untyped-call]  # of the driver
        self._options = options
        self._addresses = list(options.addresses)

    def discover_master(self, service_name: str) -> Address:
        asked = self._sentinels(left(self._options.connect_timeout) / len(self._addresses))
        try:
            found: Address = asked.discover_master(service_name)
        except MasterNotFoundError:  # with a text of some kilobytes
            raise MasterNotFoundError("no sentinel that answers names a master") from None
        finally:
            for each in asked.sentinels:
                each.close()
        first = asked.sentinels[0].connection_pool.connection_kwargs  # the one that answered
        answered = (first["host"], first["port"])
        self._addresses.sort(key=lambda address: address != answered)  # stable
        return found

    def _sentinels(self, seconds: float) -> Sentinel:
        return Sentinel(
            self._addresses,
            sentinel_kwargs={
                "username": self._options.sentinel_username,
                "password": self._options.sentinel_password,
                "retry": Retry(NoBackoff(), 0),
                "socket_connect_timeout": seconds,
                "socket_timeout": seconds,
            },
        )


class NamedConnection(SentinelManagedConnection):
    """To the server that the sentinels name, in what their answers have left of the time."""

    def connect_to(self, address: Address) -> None:
        _shorten(self)
        super().connect_to(address)  # type: ignore[no-untyped-call]  # of the driver


class NamedTlsConnection(SentinelManagedSSLConnection):
    """The same over TLS."""

    def connect_to(self, address: Address) -> None:
        _shorten(self)
        super().connect_to(address)  # type: ignore[no-untyped-call]  # of the driver


def _shorten(connection: Connection) -> None:
    seconds = left(connection.socket_connect_timeout or Options.connect_timeout)
    connection.socket_connect_timeout = connection.socket_timeout = seconds


def _pool(options: Options, protocol: int) -> ConnectionPool:
    settings = _settings(options, protocol)
    if options.service is not None:
        named = NamedTlsConnection if options.tls else NamedConnection
        sentinels = Sentinels(options, connection_class=named, **settings)
        client = sentinels.master_for(options.service)  # type: ignore[no-untyped-call]
        pool: ConnectionPool = client.connection_pool
        return pool
    if options.unix_socket is not None:
        settings["path"] = options.unix_socket
        return ConnectionPool(connection_class=UnixDomainSocketConnection, **settings)
    settings["host"], settings["port"] = options.addresses[0]
    kind = SSLConnection if options.tls else Connection
    return ConnectionPool(connection_class=kind, **settings)


def _settings(options: Options, protocol: int) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "db": options.db,
        "username": options.username,
        "password": options.password,
        "socket_timeout": options.timeout,
        "protocol": protocol,
        "retry": Retry(NoBackoff(), 0),
    }
    if options.unix_socket is None:
        settings["socket_connect_timeout"] = options.connect_timeout
        settings["socket_keepalive"] = True
    for name, value in options.tls_options.items():
        is_flag = name == "ssl_check_hostname"
        settings[name] = value.lower() in ("1", "true") if is_flag else value
    return settings
