"""The proxy that breaks the network between a client and a server."""

import socket
from collections.abc import Iterator

import pytest
from tests import services
from tests.services import Proxy, Way

SECONDS = 10


@pytest.fixture
def proxy(redis_server: services.Redis) -> Iterator[Proxy]:
    redis_server.cli("FLUSHALL")
    with Proxy(redis_server) as running:
        yield running


class Client:
    """A connection through the proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self.socket = socket.create_connection(("127.0.0.1", proxy.port), timeout=SECONDS)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, command: str) -> None:
        self.socket.sendall(f"{command}\r\n".encode())

    def read(self) -> str:
        return self.socket.recv(4096).decode().strip()

    def ask(self, command: str) -> str:
        self.send(command)
        return self.read()

    def hears_nothing(self) -> bool:
        self.socket.settimeout(0.3)
        try:
            self.socket.recv(1)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(SECONDS)
        return False


def test_forwards(proxy: Proxy, redis_server: services.Redis) -> None:
    big = "x" * 3_000_000
    redis_server.cli("SETRANGE", "big", len(big) - 1, "x")
    with Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        client.send("GET big")
        received = 0
        while received < len(big):
            received += len(client.socket.recv(1 << 20))
    assert proxy.url == f"redis://127.0.0.1:{proxy.port}/0"


def test_refuses_new_connections_only(proxy: Proxy) -> None:
    with Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            Client(proxy)
        assert client.ask("PING") == "+PONG"
        proxy.heal()
        with Client(proxy) as another:
            assert another.ask("PING") == "+PONG"


def test_resets_in_the_middle_of_a_command(proxy: Proxy, redis_server: services.Redis) -> None:
    with Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        proxy.reset_after(len("SET key val"))
        with pytest.raises(ConnectionResetError):
            client.ask("SET key value")
    assert redis_server.cli("EXISTS", "key") == "0"
    with Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            client.read()


def test_resets_before_the_answer(proxy: Proxy, redis_server: services.Redis) -> None:
    with Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        proxy.reset_after(0, Way.ANSWERS)
        with pytest.raises(ConnectionResetError):
            client.ask("SET key value")
    assert redis_server.cli("GET", "key") == "value"


def test_a_black_hole_answers_nothing_and_forwards_nothing(
    proxy: Proxy, redis_server: services.Redis
) -> None:
    with Client(proxy) as old:
        assert old.ask("PING") == "+PONG"
        proxy.black_hole()
        with Client(proxy) as new:
            for client in (old, new):
                client.send("INCR count")
                assert client.hears_nothing()
            proxy.heal()
            for client in (old, new):
                with pytest.raises(ConnectionResetError):
                    client.read()
    assert redis_server.cli("EXISTS", "count") == "0"


def test_stranded_connections_are_silent_for_good(proxy: Proxy) -> None:
    with Client(proxy) as old:
        assert old.ask("PING") == "+PONG"
        proxy.strand()
        old.send("PING")
        assert old.hears_nothing()
        with Client(proxy) as new:
            assert new.ask("PING") == "+PONG"
        proxy.heal()
        assert old.hears_nothing()


def test_stalled_requests_arrive_when_it_heals(proxy: Proxy, redis_server: services.Redis) -> None:
    with Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        proxy.stall(Way.REQUESTS)
        client.send("INCR count")
        assert client.hears_nothing()
        assert redis_server.cli("EXISTS", "count") == "0"
        proxy.heal()
        assert client.read() == ":1"


def test_stalled_answers_arrive_when_it_heals(proxy: Proxy, redis_server: services.Redis) -> None:
    with Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        proxy.stall(Way.ANSWERS)
        client.send("INCR count")
        services.wait_until(lambda: redis_server.cli("EXISTS", "count") == "1", "INCR works")
        assert client.hears_nothing()
        proxy.heal()
        assert client.read() == ":1"


def test_a_dead_server_resets_its_clients() -> None:
    with services.Redis() as redis, Proxy(redis) as proxy, Client(proxy) as client:
        assert client.ask("PING") == "+PONG"
        redis.kill()
        assert client.read() == ""
        with pytest.raises(ConnectionResetError), Client(proxy) as another:
            another.ask("PING")
