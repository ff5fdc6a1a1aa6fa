"""What the Redis transport says when its server cannot, may not or will not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests import services
from tests.waiting import wait_for

from taskmq.errors import (
    SchemaMismatch,
    StoreCorrupt,
    StoreFull,
    TransportError,
    TransportUnavailable,
)
from taskmq.transport import Ack
from taskmq.transports.redis import RedisTransport

from .redis_tools import job, open_store, wanted

Start = Callable[..., Any]
LIMITED = "user app on >pw resetchannels ~{shop}:* &{shop}:* -@all "
NEEDED = "+@read +@write +@connection +@pubsub +@scripting +time"


@pytest.fixture
def stores() -> Iterator[Callable[[str], RedisTransport]]:
    opened: list[RedisTransport] = []

    def make(url: str) -> RedisTransport:
        opened.append(open_store(url))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def as_app(server: services.Redis) -> str:
    return server.url.replace("://", "://app:pw@") + "?namespace=shop"


def test_full_memory_refuses_jobs_but_lets_them_be_done(start_service: Start, stores: Any) -> None:
    server = start_service(services.Redis, {"maxmemory": "8mb", "maxmemory-policy": "noeviction"})
    store = stores(server.url)

    def fill() -> None:
        for _ in range(1000):
            store.enqueue([job(kwargs=b'{"x":"%s"}' % (b"x" * 50_000)) for _ in range(10)])

    with pytest.raises(StoreFull, match="maxmemory"):
        fill()
    stored = store.stats()[0].ready
    assert stored % 10 == 0  # all of a batch or none
    held = store.exchange((), wanted(20)).deliveries
    assert len(held) == 20
    assert len(store.settle([Ack(each) for each in held])) == 20
    assert store.stats()[0].ready == stored - 20


def test_a_limited_user_can_do_everything(start_service: Start, stores: Any) -> None:
    server = start_service(
        services.Redis, users=["user default on nopass ~* &* +@all", LIMITED + NEEDED]
    )
    store = stores(as_app(server))
    listener = store.listen(["q"])
    listener.clear()
    store.enqueue([job(), job(key="k")])
    assert listener.wait(60.0)
    held = store.exchange((), wanted(2)).deliveries
    store.settle([Ack(each) for each in held])
    assert len(store.get([each.job_id for each in held])) == 2
    store.maintain()
    assert store.stats(["q"])[0].ready == 0
    listener.close()
    elsewhere = stores(as_app(server).replace("shop", "other"))
    with pytest.raises(TransportError, match=r"~\{other\}:\*"):
        elsewhere.enqueue([job()])


def test_without_scripts_it_says_what_to_permit(start_service: Start, stores: Any) -> None:
    users = ["user default on nopass ~* &* +@all", f"{LIMITED}{NEEDED} -@scripting"]
    server = start_service(services.Redis, users=users)
    with pytest.raises(TransportError, match=r"\+@scripting") as caught:
        stores(as_app(server)).enqueue([job()])
    assert not isinstance(caught.value, TransportUnavailable)
    assert "pw" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_renamed_scripts_are_named(start_service: Start, stores: Any) -> None:
    server = start_service(services.Redis, {"rename-command": 'EVALSHA ""\nrename-command EVAL ""'})
    with pytest.raises(TransportError, match="rename-command"):
        stores(server.url).enqueue([job()])


def test_a_wrong_password_is_said_without_it(start_service: Start, stores: Any) -> None:
    server = start_service(services.Redis, password="right")  # noqa: S106  # of a server that lives for this test
    with pytest.raises(TransportError, match="refused the login") as caught:
        stores(server.url.replace("right", "hunter2")).enqueue([job()])
    assert "hunter2" not in str(caught.value)


def test_a_replica_is_not_written_to(start_service: Start, stores: Any) -> None:
    server = start_service(services.Redis)
    store = stores(server.url)
    store.enqueue([job()])
    server.cli("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(TransportUnavailable):
        store.enqueue([job()])
    server.cli("REPLICAOF", "NO", "ONE")
    assert len(store.exchange((), wanted(10)).deliveries) == 1


def test_a_restart_costs_at_most_one_call(start_service: Start, stores: Any) -> None:
    server = start_service(services.Redis, {"appendonly": "yes", "appendfsync": "always"})
    store = stores(server.url)
    store.enqueue([job()])
    server.kill()
    with pytest.raises(TransportUnavailable):
        store.enqueue([job()])
    server.restart()
    assert len(store.exchange((), wanted(10)).deliveries) == 1


def test_silence_is_bounded(start_service: Start, stores: Any) -> None:
    server = start_service(services.Redis)
    proxy = start_service(services.Proxy, server)
    store = stores(f"{proxy.url}?timeout=0.5&connect_timeout=0.5")
    store.enqueue([job()])
    proxy.black_hole()
    for _ in range(2):  # an old connection, a new one
        began = time.monotonic()
        with pytest.raises(TransportUnavailable):
            store.enqueue([job()])
        assert time.monotonic() - began < 30
    proxy.heal()
    store.enqueue([job()])


def test_a_repeated_enqueue_after_a_reset_is_harmless(start_service: Start, stores: Any) -> None:
    server = start_service(services.Redis)
    proxy = start_service(services.Proxy, server)
    store = stores(proxy.url)
    store.enqueue([job(), job()])  # the server knows the script for several from now on
    batch = [job() for _ in range(50)]
    proxy.reset_after(0, services.Way.ANSWERS)
    with pytest.raises(TransportUnavailable):
        store.enqueue(batch)
    proxy.heal()
    wait_for(lambda: store.stats(["q"])[0].ready == 52, "the batch was stored")
    assert not any(answer.created for answer in store.enqueue(batch))


def test_a_later_keyspace_is_refused(redis_server: services.Redis, redis_url: str) -> None:
    redis_server.cli("HSET", "{taskmq}:meta", "version", "99")
    with pytest.raises(SchemaMismatch, match="99"):
        open_store(redis_url).enqueue([job()])


def test_keys_of_others_are_said(redis_server: services.Redis, redis_url: str) -> None:
    redis_server.cli("SET", "{taskmq}:order", "theirs")
    store = open_store(redis_url)
    with pytest.raises(StoreCorrupt, match="namespace of its own"):
        store.enqueue([job()])
    store.close()


def test_an_evicting_server_is_warned_of(
    start_service: Start, stores: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_service(services.Redis, {"maxmemory": "50mb", "maxmemory-policy": "allkeys-lru"})
    stores(server.url).enqueue([job()])
    assert "noeviction" in caplog.text
