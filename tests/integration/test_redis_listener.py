"""Wake-ups from Redis: none is lost when a connection is, and rest costs next to nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import pytest
from tests import services
from tests.waiting import PATIENCE, wait_for

from taskmq.errors import TransportUnavailable
from taskmq.transport import Release
from taskmq.transports.redis import RedisTransport
from taskmq.transports.redis import listener as listening

from .redis_tools import commands, job, open_store, wanted

Start = Callable[..., Any]


@pytest.fixture
def server(start_service: Start) -> services.Redis:
    server: services.Redis = start_service(services.Redis)
    return server


@pytest.fixture
def store(server: services.Redis) -> Iterator[RedisTransport]:
    store = open_store(server.url)
    yield store
    store.close()


def subscribers(server: services.Redis) -> int:
    return int(server.cli("PUBSUB", "NUMSUB", "{taskmq}:queue:q").split()[-1])


def test_a_killed_connection_wakes_and_hears_again(
    server: services.Redis, store: RedisTransport
) -> None:
    listener = store.listen(["q"])
    for _ in range(3):
        listener.clear()
        server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        assert listener.wait(PATIENCE)  # what was said meanwhile is found by looking
        wait_for(lambda: subscribers(server) == 1, "it has subscribed again")
    wait_for(lambda: _hears(store, listener), "an enqueue wakes")
    listener.close()


def _hears(store: RedisTransport, listener: Any) -> bool:
    listener.clear()
    store.enqueue([job()])
    return bool(listener.wait(5.0))


def test_no_job_is_slept_through_while_connections_die(
    server: services.Redis, store: RedisTransport
) -> None:
    listener, other = store.listen(["q"]), open_store(server.url)
    stop = threading.Event()

    def trouble() -> None:
        while not stop.wait(0.02):
            server.cli("CLIENT", "KILL", "TYPE", "pubsub")

    thread = threading.Thread(target=trouble)
    thread.start()
    for number in range(100):
        other.enqueue([job()])
        while True:
            listener.clear()
            if store.exchange((), wanted()).deliveries:
                break
            assert listener.wait(PATIENCE), f"job {number} was slept through"
    stop.set()
    thread.join()
    listener.close()
    other.close()


def test_a_server_that_went_silent_is_noticed(
    start_service: Start, server: services.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "QUIET", 0.3)
    monkeypatch.setattr(listening, "SILENCE", 0.3)
    proxy = start_service(services.Proxy, server)
    store = open_store(f"{proxy.url}?timeout=1&connect_timeout=1")
    listener = store.listen(["q"])
    proxy.black_hole()  # neither side hears that the other is gone
    listener.clear()
    assert listener.wait(PATIENCE)
    proxy.heal()
    other = open_store(server.url)
    wait_for(lambda: _hears(other, listener), "it hears again")
    other.close()
    listener.close()
    store.close()


def test_listening_without_a_server_says_so(server: services.Redis) -> None:
    server.kill()
    store = open_store(server.url)
    with pytest.raises(TransportUnavailable):
        store.listen(["q"])
    store.close()


def test_rest_costs_no_commands(server: services.Redis, store: RedisTransport) -> None:
    listener = store.listen(["q"])
    listener.clear()
    before = commands(server)
    assert not listener.wait(2.0)
    assert commands(server) == before
    listener.close()


def test_own_reservation_wakes_others_only(server: services.Redis, store: RedisTransport) -> None:
    other = open_store(server.url)
    store.enqueue([job()])
    mine, theirs = store.listen(["q"]), other.listen(["q"])
    mine.clear()
    theirs.clear()
    (delivery,) = store.reserve(wanted())
    assert theirs.wait(PATIENCE)
    assert not mine.wait(0.05)
    store.settle([Release(delivery)])
    assert mine.wait(PATIENCE)
    neighbour = store.listen(["q"])
    neighbour.clear()
    store.reserve(wanted())
    assert neighbour.wait(PATIENCE), "of two in one process one does not know"
    other.close()


def test_listeners_that_are_closed_leave_no_subscription(
    server: services.Redis, store: RedisTransport
) -> None:
    for _ in range(20):
        store.listen(jobs=["a", "b"]).close()
    listener = store.listen(["q"])
    wait_for(
        lambda: server.cli("PUBSUB", "CHANNELS", "*").split() == ["{taskmq}:queue:q"],
        "only the open one is subscribed",
    )
    listener.close()


def _in_child(store: RedisTransport, answers: Any) -> None:
    listener = store.listen(["q"])
    listener.clear()
    store.enqueue([job()])
    answers.put((os.getpid(), listener.wait(PATIENCE)))
    store.close()


def test_a_forked_child_has_connections_of_its_own(
    server: services.Redis, store: RedisTransport
) -> None:
    listener = store.listen(["q"])
    store.enqueue([job()])
    context = get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_child, args=(store, answers))
    child.start()
    pid, woken = answers.get(timeout=PATIENCE)
    child.join(PATIENCE)
    assert pid != os.getpid()
    assert woken
    assert len(store.exchange((), wanted(10)).deliveries) == 2
    assert _hears(store, listener)
    listener.close()
