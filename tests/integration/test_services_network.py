"""Networks of several hosts: they are parted, they are joined, they leave nothing behind."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests import services
from tests.services import Network, NoNetworks

TOP = Path(__file__).parents[2]
OWNER = """
import time
from tests import services
network = services.Network("a").start()
print(network.address, *network.command("a"), flush=True)
time.sleep(300)
"""
REFUSED = """
from tests import services
try:
    services.Network("a").start()
except services.NoNetworks as reason:
    print(reason)
"""
SECONDS = "20"
AT_ONCE = "1"


@pytest.fixture
def network(require_server: Callable[[str], Path]) -> Iterator[Network]:
    require_server(services.Redis.program)
    try:
        with Network("a", "b") as made:
            yield made
    except NoNetworks as reason:
        pytest.skip(f"missing server: several hosts ({reason})")
    except services.MissingProgram as missing:
        require_server(missing.program)
        raise


def ping(network: Network, host: str, server: services.Redis, patience: str = SECONDS) -> str:
    """What a client on a host hears; empty if nothing before it loses patience (seconds)."""
    address = ["-h", network.address, "-p", str(server.port)]
    command = [*network.command(host), "timeout", patience, "redis-cli", *address, "PING"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def devices() -> str:
    return subprocess.run(["ip", "-o", "address"], capture_output=True, text=True).stdout


def test_a_host_is_cut_off_and_comes_back(network: Network) -> None:
    bind = f"127.0.0.1 {network.address}"
    with services.Redis({"bind": bind, "protected-mode": "no"}) as server:
        assert ping(network, "a", server) == "PONG"
        network.cut("a")
        assert ping(network, "a", server, AT_ONCE) == ""
        assert ping(network, "b", server) == "PONG"
        network.heal("a")
        assert ping(network, "a", server) == "PONG"


def test_a_connection_survives_a_partition(network: Network) -> None:
    """Nobody resets it: what was sent arrives afterwards."""
    bind = f"127.0.0.1 {network.address}"
    with services.Redis({"bind": bind, "protected-mode": "no"}) as server:
        address = ["-h", network.address, "-p", str(server.port)]
        client = subprocess.Popen(
            [*network.command("a"), "redis-cli", *address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with client:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write("PING\n")
            client.stdin.flush()
            assert client.stdout.readline().strip() == "PONG"
            network.cut("a")
            client.stdin.write("INCR number\n")
            client.stdin.flush()
            assert ping(network, "b", server) == "PONG"
            assert server.cli("GET", "number") == ""
            network.heal("a")
            assert client.stdout.readline().strip() == "1"
            client.stdin.close()


def test_hosts_reach_each_other(network: Network) -> None:
    options = ["--port", "7000", "--save", "", "--protected-mode", "no"]
    with subprocess.Popen(
        [*network.command("b"), "redis-server", *options], cwd="/", stdout=subprocess.DEVNULL
    ) as server:
        address = ["-h", network.address_of("b"), "-p", "7000"]
        command = [*network.command("a"), "redis-cli", *address, "PING"]
        services.wait_until(
            lambda: subprocess.run(command, capture_output=True).stdout == b"PONG\n",
            "a server on another host",
        )
        server.kill()


def test_a_network_goes_when_it_is_closed(network: Network) -> None:
    assert network.address in devices()
    network.close()
    assert network.address not in devices()
    network.close()


def test_a_network_goes_with_an_owner_that_is_killed(network: Network) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=TOP, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        address, *_, namespace, _ = owner.stdout.readline().decode().split()
        assert f" {address}/" in devices()
        owner.kill()
    keeper = Path(namespace.partition("=")[2]).parents[1]
    services.wait_until(lambda: f" {address}/" not in devices(), "the network goes")
    services.wait_until(partial(is_gone, keeper), "what keeps the host goes")


def is_gone(process: Path) -> bool:
    """Whether it has ended, even where nobody collects orphans."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_only_root_makes_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoNetworks, match="need root"):
        Network("a")


@pytest.mark.parametrize(("right", "step"), [("sys_admin", "unshare"), ("net_admin", "link add")])
def test_a_kernel_that_refuses_is_told_in_one_line(network: Network, right: str, step: str) -> None:
    without = ["setpriv", f"--bounding-set=-{right}", f"--inh-caps=-{right}"]
    command = [*without, sys.executable, "-c", REFUSED]
    said = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=60)
    assert (said.stderr, said.stdout.count("\n")) == ("", 1)
    assert step in said.stdout
    assert "not permitted" in said.stdout
