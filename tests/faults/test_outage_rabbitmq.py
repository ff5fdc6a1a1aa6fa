"""Outages of RabbitMQ, and of the state store beside it.

Figures: ``pytest -s``, or ``PROMISES_FIGURES=file``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests import services
from tests.waiting import wait_for

from taskmq import JobState

from .outages import LEASE, Crew, Ground, Scene, scene

Measured = Callable[..., None]
OPTIONS = ("--lease", str(LEASE))
MEMORY = "vm_memory_monitor:set_vm_memory_high_watermark({})"
DISK = "rabbit_disk_monitor:set_disk_free_limit({})"
CLOSE_ALL = (
    '[rabbit_networking:close_connection(Each, <<"maintenance">>)'
    " || Each <- rabbit_networking:connections()]"
)
DELETE_ALL = (
    '[rabbit_amqqueue:delete(Each, false, false, <<"tests">>)'
    ' || Each <- rabbit_amqqueue:list(<<"/">>)]'
)


def rabbitmq_ground(stack: ExitStack) -> Ground:
    """The broker alone: its state store, a file, lives on."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    server = stack.enter_context(services.RabbitMQ())
    proxy = stack.enter_context(services.Proxy(server))
    return Ground(server, proxy, f"{proxy.url}?state=sqlite:///{folder}/jobs.db")


@pytest.fixture(scope="module")
def hurt(
    require_server: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """One broker for all of these tests, and the same workers."""
    require_server(services.RabbitMQ.program)
    with scene(tmp_path_factory.mktemp("rabbitmq"), rabbitmq_ground, OPTIONS) as made:
        yield made


def evaluate(scene: Scene, expression: str) -> str:
    server = scene.ground.server
    assert isinstance(server, services.RabbitMQ)
    return server.evaluate(expression)


@pytest.mark.parametrize(
    ("command", "trouble", "usual"),
    [(MEMORY, "0.0001", "0.4"), (DISK, "1000000000000000", "50000000")],
    ids=["memory", "disk"],
)
def test_alarm(hurt: Scene, measured: Measured, command: str, trouble: str, usual: str) -> None:
    """The broker takes no messages, and says so; what is there already is delivered."""
    with hurt.outage("alarm", measured) as producer:
        try:
            with producer.failing(2):
                evaluate(hurt, command.format(trouble))
        finally:
            evaluate(hurt, command.format(usual))
        assert all("alarm is on" in str(error) for error, _ in producer.errors[1:])


def test_connections_are_closed_by_an_operator(hurt: Scene, measured: Measured) -> None:
    with hurt.outage("closed", measured) as producer:
        for _ in range(3):
            acknowledged = len(producer.acknowledged)
            evaluate(hurt, CLOSE_ALL)
            wait_for(lambda before=acknowledged: len(producer.acknowledged) > before + 8, "jobs")  # type: ignore[misc]  # bound in this round


def test_queues_are_deleted_by_hand(hurt: Scene, measured: Measured) -> None:
    """With the messages in them. They are declared again; producers need not notice."""
    with hurt.outage("deleted", measured) as producer:
        for _ in range(3):
            acknowledged = len(producer.acknowledged)
            evaluate(hurt, DELETE_ALL)
            wait_for(lambda before=acknowledged: len(producer.acknowledged) > before + 8, "jobs")  # type: ignore[misc]  # bound in this round


@pytest.mark.timeout(300)
def test_the_broker_is_killed_twice(hurt: Scene, measured: Measured) -> None:
    server = hurt.ground.server
    with hurt.outage("killed", measured) as producer:
        for _ in range(2):
            with producer.failing():
                server.kill()
            server.restart()
            acknowledged = len(producer.acknowledged)
            wait_for(lambda before=acknowledged: len(producer.acknowledged) > before, "a job")  # type: ignore[misc]  # bound in this round


def test_heartbeats_notice_a_connection_that_is_half_open(hurt: Scene, measured: Measured) -> None:
    """New connections work; those of the workers and of the producer are never heard of again.
    What the producer had stored then is acknowledged, for workers find it in the state store."""
    proxy = hurt.ground.proxy
    with hurt.outage("half-open", measured) as producer:
        before = proxy.accepted
        proxy.strand()
        wait_for(lambda: proxy.accepted > before + len(hurt.crew.processes), "new connections")
    assert not producer.errors


def test_refused_and_black_holed(hurt: Scene, measured: Measured) -> None:
    proxy = hurt.ground.proxy
    with hurt.outage("unreachable", measured) as producer:
        with producer.failing(2):
            proxy.refuse()
            proxy.reset()
        proxy.heal()
        acknowledged = len(producer.acknowledged)
        wait_for(lambda: len(producer.acknowledged) > acknowledged, "a job")
        with producer.failing():
            proxy.black_hole()
        proxy.heal()


def test_a_task_longer_than_the_consumer_timeout_runs_once(hurt: Scene, measured: Measured) -> None:
    """And is settled: its message was acknowledged when the job was claimed."""
    for setting in ("consumer_timeout", "channel_tick_interval"):
        evaluate(hurt, f"application:set_env(rabbit, {setting}, 1000)")
    with hurt.outage("long", measured) as producer:
        jobs = {pool: producer.long[pool].delay("long") for pool in ("threads", "processes")}
        for pool in jobs:
            hurt.crew.wait_for_run(pool, "long-started")
        time.sleep(3.0)
        hurt.crew.go("long")
        for job in jobs.values():
            assert job.wait(60.0) is JobState.SUCCEEDED
            assert (job.info["deliveries"], job.info["reclaims"]) == (1, 0)
    ran = [pool for pool, name, _ in hurt.crew.runs() if name == "long-started"]
    assert sorted(ran) == ["processes", "threads"]


# -- the state store beside it ------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_the_state_store_is_killed_while_the_broker_lives_and_the_reverse(
    tmp_path: Path, require_server: Callable[[str], Path], measured: Measured
) -> None:
    require_server(services.RabbitMQ.program)
    require_server(services.Postgres.program)
    with ExitStack() as stack:
        broker = stack.enter_context(services.RabbitMQ())
        state = stack.enter_context(services.Postgres(fsync=True))
        proxy = stack.enter_context(services.Proxy(state))
        ground = Ground(state, proxy, f"{broker.url}?state={proxy.url}")
        crew = Crew(tmp_path, ground.url, OPTIONS)
        stack.callback(crew.close)
        crew.start()
        servers: tuple[Any, ...] = (state, broker)
        for server in servers:
            with Scene(ground, crew).outage(server.program, measured) as producer:
                with producer.failing():
                    server.kill()
                server.restart()
