"""Fixtures that give tests running servers (tests/services).

    def test_survives_a_restart(start_service):    # a server of the test's own, to trouble at will
        redis = start_service(services.Redis, {"appendonly": "yes"})
        proxy = start_service(services.Proxy, redis)

    def test_enqueues(redis_url): ...              # empty; the server is shared and stays healthy
    def test_commits(postgres_url): ...            # a fresh database
    def test_publishes(rabbitmq_url): ...          # a fresh virtual host

A redis-server starts in milliseconds, so that each process of pytest-xdist has its own. PostgreSQL
and RabbitMQ take seconds and memory: the first test of a run that needs one starts it, for all
processes of the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
from tests import services

S = TypeVar("S", bound=services.Service)
Anything = TypeVar("Anything", bound=contextlib.AbstractContextManager[object])
P = ParamSpec("P")
Require = Callable[[str], Path]


class Run:
    """The servers that all processes of one test run share, started when first asked for."""

    def __init__(self, name: str, owner: int) -> None:
        self._name = name
        self._owner = owner

    def server(self, kind: type[S]) -> S:
        """The run's one server of a kind, for whoever asks; it goes when the run ends."""
        path = services.TEMPORARY / f"taskmq-{kind.__name__.lower()}-{self._name}"
        path.mkdir(exist_ok=True)
        note = path / "place.json"
        with locked(path):
            if not note.exists():
                home = services.Home(owner=self._owner, path=path)
                home.disown()
                server = kind(home=home)
                server.start()
                server.disown()
                place = {"folder": str(server.folder), "ports": dict(server.place.ports)}
                note.write_text(json.dumps(place))
        found = json.loads(note.read_text())
        return kind(place=services.Place(Path(found["folder"]), found["ports"]))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def fresh_name() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def run_servers(pytestconfig: pytest.Config) -> Run:
    worker: dict[str, str] = getattr(pytestconfig, "workerinput", {})
    # The process that was started first outlives those of pytest-xdist, its children.
    owner = os.getppid() if worker else os.getpid()
    return Run(worker.get("testrunuid") or uuid.uuid4().hex, owner)


class StartService:
    """Starts servers that one test has for itself."""

    def __init__(self, stack: contextlib.ExitStack, require: Require) -> None:
        self._stack = stack
        self._require = require

    def __call__(self, kind: Callable[P, Anything], *args: P.args, **kwargs: P.kwargs) -> Anything:
        """Start a server of a kind, with the arguments of its class; the test's end closes it."""
        try:
            server = kind(*args, **kwargs)
        except services.MissingProgram as missing:
            self._require(missing.program)
            raise
        self._stack.enter_context(server)
        return server


@pytest.fixture
def start_service(require_server: Require) -> Iterator[StartService]:
    with contextlib.ExitStack() as stack:
        yield StartService(stack, require_server)


@pytest.fixture(scope="session")
def redis_server(require_server: Require) -> Iterator[services.Redis]:
    """The redis-server of this process, for tests that do it no harm."""
    require_server(services.Redis.program)
    with services.Redis(unix_socket=True) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: services.Redis) -> str:
    """An empty redis-server."""
    redis_server.cli("FLUSHALL")
    return redis_server.url


@pytest.fixture(scope="session")
def postgres_server(require_server: Require, run_servers: Run) -> services.Postgres:
    """The run's PostgreSQL, for tests that do it no harm."""
    require_server(services.Postgres.program)
    return run_servers.server(services.Postgres)


@pytest.fixture
def postgres_url(postgres_server: services.Postgres) -> Iterator[str]:
    """An empty database of the test's own."""
    name = fresh_name()
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def rabbitmq_server(require_server: Require, run_servers: Run) -> services.RabbitMQ:
    """The run's RabbitMQ, for tests that do it no harm."""
    require_server(services.RabbitMQ.program)
    return run_servers.server(services.RabbitMQ)


@pytest.fixture
def rabbitmq_url(rabbitmq_server: services.RabbitMQ) -> Iterator[str]:
    """An empty virtual host of the test's own."""
    name = fresh_name()
    yield rabbitmq_server.create_vhost(name)
    rabbitmq_server.delete_vhost(name)
