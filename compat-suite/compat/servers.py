"""The services of a run, private and on free ports, and how a suite is told where they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from tests import services

from .environments import SHIM
from .problems import Problem

Stack = contextlib.ExitStack
# Gives the URL, from the side it is for and a folder for files.
Endpoint = Callable[["Servers", str, Path], str]


class Servers:
    """Starts each kind of server when it is first asked for."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._running: dict[type[services.Service], services.Service] = {}

    def _server(self, kind: type[services.Service]) -> services.Service:
        if kind not in self._running:
            try:
                self._running[kind] = self._stack.enter_context(kind())
            except services.MissingProgram as missing:
                raise Problem(f"{missing}: `make servers` installs it") from None
        return self._running[kind]

    @property
    def redis(self) -> services.Service:
        return self._server(services.Redis)

    @property
    def rabbitmq(self) -> services.Service:
        return self._server(services.RabbitMQ)

    @property
    def postgresql(self) -> services.Service:
        return self._server(services.Postgres)


def sqlalchemy(url: str, prefix: str, side: str) -> str:
    """Celery reaches a database as a broker through SQLAlchemy; the shim natively."""
    return url if side == SHIM else f"{prefix}+{url}"


BROKERS: dict[str, Endpoint] = {
    "redis": lambda servers, side, folder: servers.redis.url,
    "rabbitmq": lambda servers, side, folder: f"{servers.rabbitmq.url}",
    "sqlite": lambda servers, side, folder: sqlalchemy(f"sqlite:///{folder}/jobs.db", "sqla", side),
    "postgresql": lambda servers, side, folder: sqlalchemy(servers.postgresql.url, "sqla", side),
}
BACKENDS: dict[str, Endpoint] = {
    "redis": lambda servers, side, folder: servers.redis.url,
    "rpc": lambda servers, side, folder: "rpc://",
    "sqlite": lambda servers, side, folder: f"db+sqlite:///{folder}/results.db",
    "postgresql": lambda servers, side, folder: f"db+{servers.postgresql.url}",
}


def split_pair(pair: str) -> tuple[str, str]:
    """A broker and a backend from ``broker+backend``. Raises `Problem` for unknown ones."""
    broker, _, backend = pair.partition("+")
    check(broker, BROKERS, "broker")
    check(backend, BACKENDS, "backend")
    return broker, backend


def check(name: str, known: Iterable[str], what: str) -> None:
    if name not in known:
        raise Problem(f"no {what} is called {name}: {', '.join(known)}")


def variables_for(servers: Servers, pair: str, side: str, folder: Path) -> dict[str, str]:
    """The environment variables by which Celery's integration tests are told of a pair."""
    broker, backend = split_pair(pair)
    # Its tasks note in Redis what they have done, whatever the broker is.
    notes = servers.redis
    return {
        "TEST_BROKER": BROKERS[broker](servers, side, folder),
        "TEST_BACKEND": BACKENDS[backend](servers, side, folder),
        "REDIS_HOST": "127.0.0.1",
        "REDIS_PORT": str(notes.port),
    }
