"""What a job costs, counted: a guard that no busy machine can trip.

Seconds depend on the machine, and on who else uses it. How often the store is called, how many
statements or commands that is, and how many Python functions are called on the way, does not: the
clock stands still, and one thread does all the work. The ceilings are a tenth above what was
counted when they were set, on Python 3.11; those of a run leave room for more calls, since a worker
looks now and then, by the wall clock, at what is paused and who else is there. Who makes something
cheaper lowers them; who has to raise one says why.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests import services

from celery import Celery
from taskmq import App, Config
from taskmq.plugins import open_transport
from taskmq.testing import FakeClock
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transports.postgres import PostgresTransport
from taskmq.worker import Worker
from taskmq.workflow import Workflow

from .shim_costs import functions_of, measured_apart

JOBS = 1_000
R = TypeVar("R")
Count = Callable[[], int]


class Counting(TransportWrapper):
    """Counts the calls of a transport."""

    calls = 0

    def around(self, operation: str, call: Callable[[], R]) -> R:
        self.calls += 1
        return call()


@dataclass(frozen=True)
class Store:
    """An empty one: its URL, and how many statements or commands it has been sent so far."""

    url: str
    transport: Counting
    statements: Count


@pytest.fixture
def memory() -> Store:
    transport = Counting(open_transport("memory://", clock=FakeClock()))
    return Store("memory://", transport, lambda: transport.calls)


@pytest.fixture
def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Counts what SQLite runs; a statement for several rows once for each."""
    ran: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(ran.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    url = f"sqlite:///{tmp_path}/jobs.db"
    return Store(url, Counting(open_transport(url, clock=FakeClock())), lambda: len(ran))


@pytest.fixture
def redis(redis_url: str, redis_server: services.Redis) -> Store:
    """Counts what redis-server runs, inside scripts as well."""

    def commands() -> int:
        return sum(calls_of(redis_server).values())

    return Store(redis_url, Counting(open_transport(redis_url, clock=FakeClock())), commands)


def calls_of(server: services.Redis) -> dict[str, int]:
    """How often each command ran."""
    calls = re.findall(r"cmdstat_(\S+):calls=(\d+)", server.cli("INFO", "commandstats"))
    return {name: int(count) for name, count in calls if name != "info"}


@pytest.fixture
def postgres(postgres_url: str) -> Store:
    inner = open_transport(postgres_url, clock=FakeClock())
    assert isinstance(inner, PostgresTransport)
    return Store(postgres_url, Counting(inner), lambda: inner.database.round_trips)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    found: Store = request.getfixturevalue(request.param)
    found.transport.stats()  # the schema is there
    yield found
    found.transport.close()


def app_on(store: Store) -> App:
    config = Config(transport=store.url, pool="solo")
    app = App(config, transport=store.transport, clock=FakeClock())

    @app.task(name="noop")
    def noop(number: int) -> int:
        return number

    @app.task(name="join")
    def join(numbers: list[int]) -> int:
        return len(numbers)

    return app


@dataclass(frozen=True)
class Cost:
    """For each job."""

    functions: float
    """Of Python, that were called."""
    calls: float
    """Of the transport."""
    statements: float

    def __str__(self) -> str:
        return f"Cost({self.functions:.2f}, {self.calls:.4f}, {self.statements:.4f})"

    def is_within(self, ceiling: Cost) -> bool:
        return (
            self.functions <= ceiling.functions
            and self.calls <= ceiling.calls
            and self.statements <= ceiling.statements
        )


def cost_of(work: Callable[[], object], store: Store) -> Cost:
    """What a job costs where ``work`` does something to all of them, in this thread."""
    calls, statements = store.transport.calls, store.statements()
    functions = functions_of(work)
    calls, statements = store.transport.calls - calls, store.statements() - statements
    return Cost(functions / JOBS, calls / JOBS, statements / JOBS)


def measured(store: Store) -> dict[str, Cost]:
    """Each job once one by one, once in a batch, once as a node of a fan-out."""
    app = app_on(store)
    noop, join = app.tasks["noop"], app.tasks["join"]

    def submit_workflow() -> None:
        flow = Workflow("fan-out")
        flow.add(join, flow.map(noop, range(JOBS)))
        flow.submit()

    def drain() -> None:
        Worker(app).run_until_idle(60)

    noop.submit(0)  # what only a first call has to do
    drain()
    costs = {
        "submit": cost_of(lambda: [noop.submit(number) for number in range(JOBS)], store),
        "run": cost_of(drain, store),
        "submit_many": cost_of(
            lambda: noop.submit_many([(number,) for number in range(JOBS)]), store
        ),
    }
    drain()
    costs["submit_workflow"] = cost_of(submit_workflow, store)
    costs["run_workflow"] = cost_of(drain, store)
    return costs


CEILINGS = {
    "memory": {
        "submit": Cost(61, 1, 1),
        "run": Cost(87, 0.03, 0.03),
        "submit_many": Cost(14.4, 0.001, 0.001),
        "submit_workflow": Cost(37, 0.002, 0.002),
        "run_workflow": Cost(92, 0.03, 0.03),
    },
    "sqlite": {
        "submit": Cost(39, 1, 1.1),
        "run": Cost(29, 0.025, 0.3),
        "submit_many": Cost(1.2, 0.001, 0.01),
        "submit_workflow": Cost(32, 0.002, 1.1),
        "run_workflow": Cost(33, 0.025, 3.6),
    },
    "redis": {
        "submit": Cost(55, 1, 9.5),
        "run": Cost(31, 0.025, 1.3),
        "submit_many": Cost(1.4, 0.001, 0.02),
        "submit_workflow": Cost(28, 0.002, 0.03),
        "run_workflow": Cost(34, 0.025, 2.5),
    },
    "postgres": {
        "submit": Cost(52, 1, 1),
        "run": Cost(30, 0.025, 0.025),
        "submit_many": Cost(1.4, 0.001, 0.001),
        "submit_workflow": Cost(25, 0.002, 0.002),
        "run_workflow": Cost(33, 0.025, 0.025),
    },
}


@pytest.mark.parametrize("store", CEILINGS, indirect=True)
def test_no_job_costs_more_than_it_did(store: Store, request: pytest.FixtureRequest) -> None:
    ceilings = CEILINGS[request.node.callspec.params["store"]]
    costs = measured(store)
    too_much = {
        what: f"{cost} is over {ceilings[what]}"
        for what, cost in costs.items()
        if not cost.is_within(ceilings[what])
    }
    assert not too_much, "\n".join(f"{what}: {text}" for what, text in too_much.items())


def test_a_task_of_celerys_programs_costs_no_more_than_it_did(redis_url: str) -> None:
    """Functions of Python for each ``delay``, of the shim, the engine and the driver; then for each
    run."""
    sent, ran = measured_apart(redis_url, JOBS)
    assert (sent <= 119, ran <= 96) == (True, True), (sent, ran)


def test_a_task_of_celerys_programs_is_sent_in_one_round_trip(
    redis_url: str, redis_server: services.Redis
) -> None:
    with Celery("costs", broker=redis_url, set_as_current=False) as app:
        task = app.task(lambda number: number, name="noop")
        task.delay(0)  # what only a first call has to do
        redis_server.cli("CONFIG", "RESETSTAT")
        for number in range(JOBS):
            task.delay(number)
        asked = calls_of(redis_server)
    assert asked["evalsha"] == JOBS  # one round trip: all else runs within it
    assert sum(asked.values()) <= 11 * JOBS
