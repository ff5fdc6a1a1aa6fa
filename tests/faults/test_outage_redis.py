"""Outages of Redis that other stores do not have, alone, under sentinels and as a cluster. Those
that others have too are in test_outage_common.py.

Figures: ``pytest -s``, or ``PROMISES_FIGURES=file``.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests import services
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config
from taskmq.errors import StoreFull, TransportError, TransportUnavailable
from taskmq.records import JobFilter
from taskmq.transports.redis import RedisTransport

from .outages import PUBLISH_TIMEOUT, RESUME, SLACK, Crew, Ground, Scene, redis_ground, scene

Start = Callable[..., Any]
Measured = Callable[..., None]
DURABLE = {"appendonly": "yes", "appendfsync": "always"}
SHORT = 1.0
"""Seconds of publish_timeout where it is sat out."""


# -- producers -----------------------------------------------------------------------------------


@pytest.fixture
def opened() -> Iterator[Callable[..., App]]:
    """Makes apps with a task ``echo``, which are closed in the end."""
    with ExitStack() as stack:

        def make(url: str, publish_timeout: float = PUBLISH_TIMEOUT) -> App:
            app = App(Config(transport=url, publish_timeout=publish_timeout))
            app.task(name="echo")(lambda value: value)
            return stack.enter_context(app)

        yield make


def submit(app: App, *values: object) -> list[str]:
    return [job.id for job in app.tasks["echo"].submit_many([(value,) for value in values])]


def stored(app: App) -> list[str]:
    return [job.id for job in app.transport.find(JobFilter(limit=10_000))]


def refused(app: App, kind: type[TransportError], bound: float = PUBLISH_TIMEOUT) -> float:
    """Seconds until a submit raised that."""
    began = time.monotonic()
    with pytest.raises(kind):
        submit(app, "refused")
    seconds = time.monotonic() - began
    assert seconds <= bound + SLACK
    return seconds


def test_a_read_only_replica(start_service: Start, opened: Any, measured: Measured) -> None:
    server = start_service(services.Redis)
    app = opened(server.url)
    ids = submit(app, 1, 2)
    server.cli("REPLICAOF", "127.0.0.1", "1")
    measured(until_error=refused(app, TransportUnavailable))
    server.cli("REPLICAOF", "NO", "ONE")
    ids += submit(app, 3)
    assert stored(app) == ids


def test_a_server_that_loads_its_data(
    start_service: Start, opened: Any, measured: Measured
) -> None:
    options = {"key-load-delay": 2000, "loading-process-events-interval-bytes": 1024}
    server = start_service(services.Redis, {"enable-debug-command": "yes"})
    app = opened(server.url)
    ids = submit(app, 1, 2)
    server.cli("DEBUG", "POPULATE", 2000, "other", 100)
    server.cli("SAVE")
    server.stop()
    for name, value in options.items():  # from here on it takes two milliseconds for a key
        server.configuration.write_text(f"{server.configuration.read_text()}{name} {value}\n")
    starting = threading.Thread(target=server.start)
    starting.start()
    wait_for(lambda: "LOADING" in _said(server), "a server that loads")
    seconds = refused(app, TransportUnavailable)
    starting.join(PATIENCE)
    measured(until_error=seconds)
    assert stored(app) == ids


def _said(server: services.Redis) -> str:
    try:
        return server.exchange(b"GET x\r\n", server.port).decode()
    except OSError:
        return ""


def test_a_server_without_memory(start_service: Start, opened: Any, measured: Measured) -> None:
    server = start_service(services.Redis, {"maxmemory-policy": "noeviction"})
    app = opened(server.url)
    ids = submit(app, 1, 2)
    server.cli("CONFIG", "SET", "maxmemory", "1mb")
    measured(until_error=refused(app, StoreFull))
    server.cli("CONFIG", "SET", "maxmemory", "0")
    ids += submit(app, 3)
    assert stored(app) == ids


def test_hundreds_of_attempts_in_vain(start_service: Start, opened: Any) -> None:
    proxy = start_service(services.Proxy, start_service(services.Redis))
    app = opened(proxy.url)
    ids = submit(app, 1)
    proxy.refuse()
    proxy.reset()
    for _ in range(300):
        with pytest.raises(TransportUnavailable):
            submit(app, 2)
    proxy.heal()
    ids += submit(app, 3)
    assert stored(app) == ids


def test_an_address_that_swallows_packets(opened: Any, measured: Measured) -> None:
    """The kernel drops what is sent to a socket whose queue of connections is full."""
    with socket.socket() as listening, ExitStack() as stack:
        listening.bind((services.service.HOST, 0))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        host, port = listening.getsockname()
        app = opened(f"redis://{host}:{port}/0", SHORT)
        measured(until_error=refused(app, TransportUnavailable, SHORT))


def test_a_server_that_does_not_answer(
    start_service: Start, opened: Any, measured: Measured
) -> None:
    """With the default bounds: an old connection, and a new one."""
    server = start_service(services.Redis)
    app = opened(server.url)
    ids = submit(app, 1)
    server.pause()
    old, new = (refused(app, TransportUnavailable) for _ in range(2))
    server.resume()
    measured(until_error_on_an_old_connection=old, until_error_on_a_new_one=new)
    ids += submit(app, 2)
    assert set(ids) <= set(stored(app))


@pytest.mark.parametrize("kind", [services.SentinelSet, services.RedisCluster])
def test_nobody_answers(
    start_service: Start, opened: Any, measured: Measured, kind: type[services.Group]
) -> None:
    """Sentinels and servers, or all nodes of a cluster."""
    group = start_service(kind)
    app = opened(group.url, SHORT)
    ids = submit(app, 1)
    for each in group.members:
        each.pause()
    old, new = (refused(app, TransportUnavailable, SHORT) for _ in range(2))
    for each in group.members:
        each.resume()
    measured(until_error_on_an_old_connection=old, until_error_on_a_new_one=new)
    if kind is services.RedisCluster:  # sentinels that were held up trust nothing for 30 s (TILT)
        wait_for(lambda: _is_known(app, ids), "the cluster is back")


def _is_known(app: App, ids: list[str]) -> bool:
    try:
        return set(ids) <= set(stored(app))
    except TransportError:
        return False


@pytest.mark.parametrize("way", services.Way, ids=lambda way: way.name.lower())
def test_the_same_jobs_again_after_a_reset(
    start_service: Start, opened: Any, way: services.Way
) -> None:
    """Whether the server had them or not, nobody has to know: it keeps one of each."""
    proxy = start_service(services.Proxy, start_service(services.Redis))
    app = opened(proxy.url)
    submit(app, 0, 0)  # the server knows the script for several from now on
    batch = [app.seal(app.tasks["echo"].call(number), 0.0) for number in range(50)]
    proxy.reset_after(10 if way is services.Way.REQUESTS else 0, way)
    with pytest.raises(TransportUnavailable):
        app.transport.enqueue(batch)
    proxy.heal()
    created = {each.created for each in app.transport.enqueue(batch)}
    assert created == {way is services.Way.REQUESTS}
    assert stored(app)[2:] == [each.envelope.id for each in batch]


# -- workers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hurt(
    require_server: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """One store for the next tests, and the same workers."""
    require_server(services.Redis.program)
    with scene(tmp_path_factory.mktemp("redis"), redis_ground) as made:
        yield made


def cli(hurt: Scene, *command: str | int) -> str:
    """Past the proxy."""
    server = hurt.ground.server
    assert isinstance(server, services.Redis)
    return server.cli(*command)


def test_client_kill(hurt: Scene, measured: Measured) -> None:
    """Connections that command and those that listen, with a job in flight. A producer may never
    notice: an idle connection that has ended is not used."""
    with hurt.outage("client-kill", measured) as producer, hurt.crew.in_flight(producer, "kill"):
        for _ in range(3):
            acknowledged = len(producer.acknowledged)
            assert int(cli(hurt, "CLIENT", "KILL", "TYPE", "pubsub")) >= len(hurt.crew.processes)
            assert int(cli(hurt, "CLIENT", "KILL", "TYPE", "normal")) >= len(hurt.crew.processes)
            wait_for(lambda: len(producer.acknowledged) > acknowledged + 8, "jobs")  # noqa: B023  # waited for here


def test_killed_under_a_job_in_flight(hurt: Scene, measured: Measured) -> None:
    crew = hurt.crew
    with hurt.outage("killed", measured) as producer, crew.in_flight(producer, "running"):
        with producer.failing():
            hurt.ground.server.kill()
        crew.go("running")  # its outcome waits for the store
        producer.wait_for_errors()
        hurt.ground.server.restart()


def test_read_only_for_a_while(hurt: Scene, measured: Measured) -> None:
    with hurt.outage("read-only", measured) as producer:
        with producer.failing(5):
            cli(hurt, "REPLICAOF", "127.0.0.1", 1)
        cli(hurt, "REPLICAOF", "NO", "ONE")


# -- failover --------------------------------------------------------------------------------------


def test_sentinel_failover_under_a_job_in_flight(
    tmp_path: Path, require_server: Callable[[str], Path], measured: Measured
) -> None:
    """What the replica has when the master dies is kept, and all that is acknowledged later. What
    it has not is what asynchronous replication can lose, so that nothing is submitted just then."""
    require_server(services.Redis.program)
    with ExitStack() as stack:
        group = stack.enter_context(services.SentinelSet(DURABLE, down_after=1.0))
        proxy = stack.enter_context(services.Proxy(group.servers[0]))  # in nobody's way
        ground = Ground(group.master, proxy, group.url)
        crew = Crew(tmp_path, group.url)
        stack.callback(crew.close)
        crew.start()
        outage = Scene(ground, crew).outage("failover", measured)
        with outage as producer, crew.in_flight(producer, "failover"):
            producer.pause()
            master, replica = group.master, group.replica
            wait_for(lambda: _has_all(replica, master), "a replica that has everything")
            master.kill()
            producer.go_on()
            producer.wait_for_errors()
            crew.go("failover")  # it ends while there is no master
            group.wait_for_master(replica)


def _has_all(replica: services.Redis, master: services.Redis) -> bool:
    written = _replication(master)["master_repl_offset"]
    return int(_replication(replica)["slave_repl_offset"]) >= int(written)


def _replication(server: services.Redis) -> dict[str, str]:
    lines = server.cli("INFO", "replication").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def test_slot_migration_under_a_job_in_flight(
    tmp_path: Path, require_server: Callable[[str], Path], measured: Measured
) -> None:
    """While some keys are here and some there, calls are refused as a whole; then they go on."""
    require_server(services.Redis.program)
    with ExitStack() as stack:
        cluster = stack.enter_context(services.RedisCluster(DURABLE, replicas=0))
        proxy = stack.enter_context(services.Proxy(cluster.nodes[0]))  # in nobody's way
        crew = Crew(tmp_path, cluster.url)
        stack.callback(crew.close)
        crew.start()
        ground = Ground(cluster.nodes[0], proxy, cluster.url)
        slot = cluster.slot("{taskmq}:jobs")
        owner = cluster.owner_of_slot(slot)
        target = next(node for node in cluster.masters if node is not owner)
        outage = Scene(ground, crew).outage("migration", measured)
        with outage as producer, crew.in_flight(producer, "migration"):
            cluster.begin_move(slot, target)
            with producer.failing():
                cluster.move_keys(slot, target, limit=3)
            crew.go("migration")  # its outcome has to wait
            producer.wait_for_errors()
            cluster.move_keys(slot, target)
            cluster.end_move(slot, target)
        assert cluster.owner_of_slot(slot) is target


def test_the_master_of_the_slot_dies(
    tmp_path: Path, start_service: Start, opened: Any, measured: Measured
) -> None:
    """The cluster promotes its replica; an app follows."""
    cluster = start_service(services.RedisCluster, DURABLE)
    app = opened(cluster.url)
    assert isinstance(app.transport, RedisTransport)
    ids = submit(app, 1, 2)
    owner = cluster.owner("{taskmq}:jobs")
    follower = next(node for node in cluster.replicas if _follows(node, owner))
    wait_for(lambda: _has_all(follower, owner), "a replica that has everything")
    owner.kill()
    until_error = refused(app, TransportUnavailable)
    wait_for(lambda: follower.cli("ROLE").startswith("master"), "a new master")
    wait_for(follower.is_ok, "a cluster that is whole")
    promoted_at = time.monotonic()
    wait_for(lambda: _is_known(app, ids), "the app finds it")
    resumed = time.monotonic() - promoted_at
    measured(until_error=until_error, resumed=resumed)
    assert resumed <= RESUME + SLACK
    ids += submit(app, 3)
    assert stored(app) == ids


def _follows(node: services.Redis, master: services.Redis) -> bool:
    return _replication(node).get("master_port") == str(master.port)
