"""How commands reach the server: one that is given, the one that sentinels name, or a cluster."""

from __future__ import annotations

import os
from collections import deque
from typing import Any, Protocol, cast

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import ResponseError
from redis.retry import Retry
from redis.sentinel import Sentinel

from .options import Options

__all__ = ["Link", "open_link"]

PUBSUB_PROTOCOL = 2
"""Of connections that only listen: there, everything that arrives is an answer of one kind."""


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
        self._idle: deque[AbstractConnection] = deque()
        self._pid = os.getpid()

    def call(self, *command: bytes | str) -> Any:
        connection = self._take()
        try:
            connection.send_command(*command)
            answer = connection.read_response(disable_decoding=True)
        except ResponseError:
            self._idle.append(connection)
            raise
        except BaseException:
            connection.disconnect()
            raise
        self._idle.append(connection)
        return answer

    def subscriber(self) -> AbstractConnection:
        return _connected(self._subscribers)

    def close(self) -> None:
        if self._pid == os.getpid():
            while self._idle:
                self._idle.pop().disconnect()

    def _take(self) -> AbstractConnection:
        if self._pid != os.getpid():
            self._idle, self._pid = deque(), os.getpid()  # those are the parent's
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if not _is_stale(connection):
                return connection
            connection.disconnect()
        return _connected(self._pool)


class ClusterLink:
    """A cluster: the driver follows its slots."""

    def __init__(self, options: Options, key: str) -> None:
        self._options = options
        self._key = key
        self._cluster: RedisCluster | None = None
        self._pid = 0

    def call(self, *command: bytes | str) -> Any:
        return self._connected().execute_command(*command, NEVER_DECODE=True)

    def subscriber(self) -> AbstractConnection:
        cluster = self._connected()
        node = cluster.nodes_manager.get_node_from_slot(cluster.keyslot(self._key))
        options = _settings(self._options, PUBSUB_PROTOCOL)
        kind = SSLConnection if self._options.tls else Connection
        connection: AbstractConnection = kind(host=node.host, port=node.port, **options)
        connection.connect()
        return connection

    def close(self) -> None:
        if self._cluster is not None and self._pid == os.getpid():
            self._cluster.close()
        self._cluster = None

    def _connected(self) -> RedisCluster:
        if self._cluster is None or self._pid != os.getpid():
            options = self._options
            settings = _settings(options, options.protocol)
            settings.pop("db")
            self._cluster = RedisCluster(
                startup_nodes=[ClusterNode(host, port) for host, port in options.addresses],
                ssl=options.tls,
                require_full_coverage=False,
                **settings,
            )
            self._pid = os.getpid()
        return self._cluster


def _connected(pool: ConnectionPool) -> AbstractConnection:
    connection = cast("AbstractConnection", pool.make_connection())
    connection.connect()
    return connection


def _is_stale(connection: AbstractConnection) -> bool:
    """Whether the server has closed an idle connection, or says something that nobody asked for."""
    try:
        return bool(connection.can_read())
    except (redis.RedisError, OSError):
        return True


def _pool(options: Options, protocol: int) -> ConnectionPool:
    settings = _settings(options, protocol)
    if options.service is not None:
        sentinels = Sentinel(
            options.addresses,
            sentinel_kwargs={
                "socket_connect_timeout": options.connect_timeout,
                "socket_timeout": options.connect_timeout,
                "username": options.sentinel_username,
                "password": options.sentinel_password,
                "retry": Retry(NoBackoff(), 0),
            },
            ssl=options.tls,
            **settings,
        )
        pool: ConnectionPool = sentinels.master_for(options.service).connection_pool
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
