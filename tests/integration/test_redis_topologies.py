"""The same store behind sentinels and in a cluster, and what a failover costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests import services
from tests.waiting import PATIENCE, wait_for

from taskmq.errors import TransportError, TransportUnavailable
from taskmq.patience import within
from taskmq.transport import Ack, Settled
from taskmq.transports.redis import RedisTransport

from .redis_tools import job, open_store, wanted

Start = Callable[..., Any]


def _settles(store: RedisTransport, delivery: Any) -> bool:
    try:
        (outcome,) = store.settle([Ack(delivery)])
    except TransportError:
        return False
    return outcome in (Settled.DONE, Settled.REPEATED)


def _wakes(store: RedisTransport) -> bool:
    listener = store.listen(["w"])
    listener.clear()
    store.enqueue([job("w")])
    woken = listener.wait(PATIENCE)
    listener.close()
    return woken


def test_sentinels_name_the_server_also_after_a_failover(start_service: Start) -> None:
    group = start_service(services.SentinelSet)
    store = open_store(f"{group.url}?namespace=shop&timeout=2")
    store.enqueue([job() for _ in range(3)])
    (held,) = store.exchange((), wanted()).deliveries
    assert _wakes(store)
    group.master.cli("WAIT", 1, 10_000)  # what a replica does not have yet, a failover loses
    group.lose_master()
    wait_for(lambda: _settles(store, held), "the new master takes the settlement")
    assert len(store.exchange((), wanted(10)).deliveries) == 2
    assert _wakes(store)
    store.close()


def test_sentinels_that_do_not_answer_take_no_longer_than_the_caller_allows(
    start_service: Start,
) -> None:
    group = start_service(services.SentinelSet)
    store = open_store(f"{group.url}?timeout=60&connect_timeout=60")
    store.enqueue([job()])
    for each in group.members:
        each.pause()
    for _ in range(2):  # over the old connection, and over a new one
        began = time.monotonic()
        with within(0.5), pytest.raises(TransportUnavailable):
            store.enqueue([job()])
        assert time.monotonic() - began < 10
    for each in group.members:
        each.resume()
    store.close()


def test_a_namespace_lives_in_one_slot_of_a_cluster(start_service: Start) -> None:
    cluster = start_service(services.RedisCluster)
    stores = [open_store(f"{cluster.url}&namespace={name}") for name in ("one", "two", "six")]
    for store in stores:
        store.enqueue([job(), job("other", priority=1)])
        held = store.exchange((), wanted(5, queues={"q": 1, "other": 1})).deliveries
        assert [each.queue for each in held] == ["other", "q"]
        assert store.settle([Ack(each) for each in held]) == [Settled.DONE] * 2
        assert _wakes(store)
        store.pause("q", by="ann")
        assert [pause.queue for pause in store.paused()] == ["q"]
        store.close()


def test_a_slot_moves_under_a_job_in_flight(start_service: Start) -> None:
    cluster = start_service(services.RedisCluster)
    store = open_store(f"{cluster.url}&namespace=shop")
    store.enqueue([job() for _ in range(3)])
    (held,) = store.exchange((), wanted()).deliveries
    slot = cluster.slot("{shop}:jobs")
    owner = cluster.owner_of_slot(slot)
    target = next(node for node in cluster.masters if node is not owner)
    cluster.begin_move(slot, target)
    for _ in range(3):  # some keys are here, some there: all or nothing
        with pytest.raises(TransportUnavailable):
            store.settle([Ack(held)])
        with pytest.raises(TransportUnavailable):
            store.enqueue([job()])
        cluster.move_keys(slot, target, limit=2)
    cluster.move_keys(slot, target)
    cluster.end_move(slot, target)
    wait_for(lambda: _settles(store, held), "the new owner takes the settlement")
    assert len(store.exchange((), wanted(10)).deliveries) == 2
    assert _wakes(store)
    store.close()
