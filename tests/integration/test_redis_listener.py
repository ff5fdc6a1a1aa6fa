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

from taskmq.documents import DocumentChange
from taskmq.errors import TransportUnavailable
from taskmq.ids import new_id
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


def open_behind_a_proxy(
    start_service: Start, server: services.Redis, monkeypatch: pytest.MonkeyPatch
) -> tuple[services.Proxy, RedisTransport]:
    """A store that soon asks whether its server still lives."""
    monkeypatch.setattr(listening, "QUIET", 0.3)
    monkeypatch.setattr(listening, "SILENCE", 0.3)
    proxy = start_service(services.Proxy, server)
    return proxy, open_store(f"{proxy.url}?timeout=1&connect_timeout=1")


def test_a_server_that_went_silent_is_noticed(
    start_service: Start, server: services.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, store = open_behind_a_proxy(start_service, server, monkeypatch)
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


def test_who_looks_at_the_registry_hears_that_the_connection_lives(
    store: RedisTransport,
) -> None:
    """So that the server need not be asked, which wakes nobody that waits."""
    listener = store.listen(["q"])
    listener.clear()
    thread, answers = _waits(listener)
    before = store._hub._heard
    assert store.workers() == []
    wait_for(lambda: store._hub._heard > before, "a word from the server")
    assert thread.is_alive()
    listener.wake()
    thread.join(PATIENCE)
    assert answers == [True]
    listener.close()


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
        lambda: server.cli("PUBSUB", "CHANNELS", "*:[qj]*").split() == ["{taskmq}:queue:q"],
        "only the open one is subscribed",
    )
    listener.close()


def _waits(listener: Any) -> tuple[threading.Thread, list[bool]]:
    """A thread that waits for a listener, reading by itself what the server says."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(listener.wait(PATIENCE)))
    thread.start()
    wait_for(lambda: listener._hub._attender is listener, "it reads")
    return thread, answers


@pytest.fixture
def other(server: services.Redis) -> Iterator[RedisTransport]:
    """Another process, as far as the server knows."""
    other = open_store(server.url)
    yield other
    other.close()


@pytest.mark.parametrize("ended_by", ["a job", "a wake", "another listener", "the connection"])
def test_a_thread_that_reads_for_itself_is_woken(
    ended_by: str, server: services.Redis, store: RedisTransport, other: RedisTransport
) -> None:
    listener: Any = store.listen(["q"])
    for _ in range(3):
        listener.clear()
        thread, answers = _waits(listener)
        if ended_by == "a job":
            other.enqueue([job()])
        elif ended_by == "a wake":
            listener.wake()
        elif ended_by == "another listener":
            second = store.listen(["r"])  # from now on both are told by the hub's own thread
            assert not listener.attends
            other.enqueue([job(), job("r")])
            assert second.wait(PATIENCE)
            second.close()
        else:
            server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        thread.join(PATIENCE)
        assert answers == [True]
        wait_for(lambda: listener.attends, "it can read again")
    listener.close()


def test_a_thread_that_reads_for_itself_keeps_to_its_time(store: RedisTransport) -> None:
    listener = store.listen(["q"])
    listener.clear()
    assert not listener.wait(0.01)
    assert not listener.wait(0.0)
    listener.close()


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_patient_listener_is_told_by_whoever_reads(
    is_busy: bool, store: RedisTransport, other: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the worker's thread, and while that is busy, by the hub's own."""
    monkeypatch.setattr(listening, "LENT", 0.05)
    patient, eager = store.listen(kinds=["schedule"]), store.listen(["q"])
    patient.clear()
    eager.clear()
    thread, answers = _waits(eager)
    if is_busy:
        eager.wake()
        thread.join(PATIENCE)
        assert store._hub._lent
    change = DocumentChange(kind="schedule", name="s", data=b"{}", revision=new_id(), expected=None)
    other.write([change])
    assert patient.wait(PATIENCE)
    eager.wake()
    thread.join(PATIENCE)
    assert answers == [True]
    patient.close()
    eager.close()


def test_a_silent_server_is_noticed_while_a_thread_reads_for_itself(
    start_service: Start, server: services.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, store = open_behind_a_proxy(start_service, server, monkeypatch)
    listener = store.listen(["q"])
    listener.clear()
    thread, answers = _waits(listener)
    assert not listener.wait(1.0), "a server that answers is not silent"
    proxy.black_hole()
    thread.join(PATIENCE)
    assert answers == [True]
    proxy.heal()
    listener.close()
    store.close()


def test_call_backs_come_though_a_thread_has_read_for_itself(
    store: RedisTransport, other: RedisTransport
) -> None:
    listener = store.listen(["q"])
    listener.clear()
    assert not listener.wait(0.01)
    called = threading.Event()
    listener.call_back(called.set)
    other.enqueue([job()])
    assert called.wait(PATIENCE)
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
