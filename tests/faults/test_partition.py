"""Workers on several hosts, and a partition between one of them and the store: packets are lost,
nobody is told.

Figures: ``pytest -s``, or ``PROMISES_FIGURES=file``.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests import services
from tests.waiting import wait_for

from taskmq import JobState
from taskmq.records import JobFilter

from .conftest import Fleet, Process

pytestmark = pytest.mark.timeout(300)  # the slowest server takes its time on a busy machine

LEASE = 6.0
GRACE = 2.0
"""Seconds that another worker may take to notice that a lease has ended."""
RESUME = 10.0
"""Seconds in which a worker has to work again, once it reaches the store."""
SLACK = 15.0
"""Seconds that a busy machine may add to either."""
LONG = 300.0
Start = Callable[[ExitStack, services.Network], str]


def redis(stack: ExitStack, network: services.Network) -> str:
    bind = f"127.0.0.1 {network.address}"
    server = stack.enter_context(services.Redis({"bind": bind, "protected-mode": "no"}))
    return f"redis://{network.address}:{server.port}/0"


def postgres(stack: ExitStack, network: services.Network) -> str:
    listen = f"127.0.0.1,{network.address}"
    server = stack.enter_context(services.Postgres({"listen_addresses": listen}))
    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {network.subnet} trust\n")
    server.query("SELECT pg_reload_conf()")
    return f"postgresql://postgres@{network.address}:{server.port}/postgres"


def rabbitmq(stack: ExitStack, network: services.Network) -> str:
    """With the jobs in Redis: worker and broker are parted, and worker and state store."""
    server = services.RabbitMQ({"loopback_users": "none"})
    server.options["listeners.tcp.2"] = f"{network.address}:{server.port}"
    stack.enter_context(server)
    state = redis(stack, network)
    return f"amqp://guest:guest@{network.address}:{server.port}/%2F?state={state}"


STORES: dict[str, tuple[tuple[str, ...], Start]] = {
    "redis": (("redis-server",), redis),
    "postgres": (("postgres",), postgres),
    "rabbitmq": (("rabbitmq-server", "redis-server"), rabbitmq),
}
"""By name: the programs that have to be installed, and what gives the URL of a store that listens
on a network."""


class Hosts:
    """Two hosts with a worker each, ``a`` and ``b``. Both serve the queue ``default``; each has one
    of its own name besides."""

    def __init__(self, fleet: Fleet, network: services.Network) -> None:
        self.fleet = fleet
        self.network = network
        self.workers: dict[str, Process] = {}

    def start(self, host: str, lease: float) -> None:
        """A worker there that is ready."""
        options = ("-Q", f"default,{host}", "-c", "4", "-n", host, "--lease", str(lease))
        wrapper = self.network.command(host)
        environ = {"TASKMQ_HEARTBEAT_INTERVAL": "1"}
        self.workers[host] = self.fleet.start(*options, wrapper=wrapper, **environ)

    def go(self, name: str, host: str) -> None:
        """Let a job end as it runs on that host."""
        self.fleet.touch(f"{name}.{self.workers[host].pid}.go")

    def wait_for_start(self, name: str, host: str) -> float:
        """Until a job runs on that host; the instant."""
        pid = self.workers[host].pid
        wait_for(lambda: pid in self.fleet.pids(name, "started"), f"{name} on {host}")
        return time.monotonic()

    def unheard(self, host: str) -> int:
        """Bytes that the host has sent and nobody has received."""
        command = [*self.network.command(host), "ss", "--tcp", "--numeric", "--no-header"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sum(int(line.split()[2]) for line in lines.splitlines())

    def add_on(self, host: str) -> float:
        """Have a job done on that host, and nowhere else; how many seconds that took."""
        began = time.monotonic()
        job = self.fleet.task("add").call(1, 2).options(queue=host).submit()
        assert job.get(RESUME + SLACK) == 3
        return time.monotonic() - began

    def check_nothing_is_left(self) -> None:
        """Every job has ended, and each worker is well."""
        records = self.fleet.app.transport.find(JobFilter(limit=10_000))
        assert {record.state for record in records} == {JobState.SUCCEEDED}
        for worker in self.workers.values():
            assert worker.popen.poll() is None, worker.err


@pytest.fixture(scope="module", params=STORES)
def place(
    request: pytest.FixtureRequest, require_server: Callable[[str], Path]
) -> Iterator[tuple[services.Network, str]]:
    """A network, and the URL of a store on it."""
    programs, start = STORES[request.param]
    with ExitStack() as stack:
        try:
            network = stack.enter_context(services.Network("a", "b"))
        except services.NoNetworks as reason:
            pytest.skip(f"missing server: several hosts ({reason})")
        except services.MissingProgram as missing:
            require_server(missing.program)
            raise
        for program in programs:
            require_server(program)
        yield network, start(stack, network)


@pytest.fixture
def hosts(
    place: tuple[services.Network, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hosts]:
    network, url = place
    made = Hosts(Fleet(tmp_path, url, monkeypatch), network)
    yield made
    made.fleet.close()
    network.heal("a")


def test_a_worker_that_is_parted_is_superseded_and_comes_back(
    hosts: Hosts, measured: Callable[..., None]
) -> None:
    """The other host has its jobs when its lease ends. What it says of them when it is back is
    refused: of one that runs on the other host, and of one that has ended there."""
    fleet, network = hosts.fleet, hosts.network
    hosts.start("a", LEASE)
    running, ended = fleet.submit("hold", "running", LONG), fleet.submit("hold", "ended", LONG)
    for name in ("running", "ended"):
        hosts.wait_for_start(name, "a")
    hosts.start("b", LEASE)
    network.cut("a")
    cut_at = time.monotonic()
    superseded = max(hosts.wait_for_start(name, "b") for name in ("running", "ended")) - cut_at
    assert superseded <= LEASE + GRACE + SLACK
    meanwhile = [fleet.submit("add", number, 1) for number in range(20)]
    assert [job.get(LONG) for job in meanwhile] == list(range(1, 21))
    hosts.go("ended", "b")
    assert ended.get(LONG) == hosts.workers["b"].pid
    for name in ("running", "ended"):
        hosts.go(name, "a")
    fleet.wait_until("running", "ended")
    fleet.wait_until("ended", "ended", 2)
    network.heal("a")
    resumed = hosts.add_on("a")
    assert resumed <= RESUME + SLACK
    for job in (running, ended):
        hosts.workers["a"].wait_for_log(f"job {job.id}: Ack refused, its lease was lost")
    assert running.state is JobState.RUNNING, "it was settled by a worker that had lost it"
    hosts.go("running", "b")
    for job in (running, ended):
        assert job.get(LONG) == hosts.workers["b"].pid
        assert (job.info["deliveries"], job.info["reclaims"]) == (2, 1)
    for name in ("running", "ended"):
        assert len(fleet.pids(name, "started")) == 2
    hosts.add_on("b")
    hosts.check_nothing_is_left()
    measured(lease=LEASE, superseded=round(superseded, 3), resumed=round(resumed, 3))


def test_nobody_notices_a_partition_that_heals_before_the_lease_ends(
    hosts: Hosts, measured: Callable[..., None]
) -> None:
    """A job ends during the partition, another one after it: each runs once."""
    fleet, network = hosts.fleet, hosts.network
    hosts.start("a", LONG)
    during, after = fleet.submit("hold", "during", LONG), fleet.submit("hold", "after", LONG)
    for name in ("during", "after"):
        hosts.wait_for_start(name, "a")
    hosts.start("b", LONG)
    network.cut("a")
    hosts.go("during", "a")
    fleet.wait_until("during", "ended")
    assert fleet.submit("add", 1, 1).get(LONG) == 2  # by the other host
    wait_for(lambda: hosts.unheard("a") > 0, "a settlement on its way")
    assert during.state is JobState.RUNNING, "there is no partition"
    network.heal("a")
    healed_at = time.monotonic()
    hosts.go("after", "a")
    for job in (during, after):
        assert job.get(RESUME + SLACK) == hosts.workers["a"].pid
        assert job.info["deliveries"] == 1
    resumed = time.monotonic() - healed_at
    for name in ("during", "after"):
        assert fleet.pids(name, "started") == [hosts.workers["a"].pid]
        assert not fleet.pids(name, "lost")
    hosts.add_on("a")
    hosts.check_nothing_is_left()
    measured(resumed=round(resumed, 3))
