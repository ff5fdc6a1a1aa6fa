"""A worker with one job at a time goes a short way through Redis: what it leaves, and what it says,
is what the long way leaves and says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis
from tests import services
from tests.waiting import PATIENCE

from taskmq.codec import Payload
from taskmq.limits import Limit
from taskmq.records import Failure
from taskmq.testing.clock import FakeClock
from taskmq.transport import Ack, Delivery, Exchange, Nack, RetryLater, Settled, Settlement
from taskmq.transports.redis import RedisTransport, exchange, from_url, transport

from .redis_tools import job, open_store, wanted

RESULT = Payload("json", b"1")
FAILURE = Failure(type="builtins.ValueError", message="broken")
TWO = {"queues": {"q": 1, "other": 2}}
SHORT = ("zrange", "hmget", "hget", "hset", "hdel", "zadd", "zrem", "del", "publish")
"""The commands that the short way consists of."""
MOST_COMMANDS = 25
"""Of both exchanges of a lone job together, within their scripts. Count anew before raising it:
each is felt where a job comes alone."""

Do = Callable[["Side"], list[Exchange]]


class Side:
    """A namespace, and a worker that uses it."""

    def __init__(self, url: str, clock: FakeClock, jobs: list[Any]) -> None:
        self.clock = clock
        self.store = from_url(url, clock=clock)
        self._jobs = iter(jobs)

    def put(self) -> None:
        self.store.enqueue([next(self._jobs)])

    def look(self, **fields: object) -> Exchange:
        return self.store.exchange((), wanted(**fields))  # type: ignore[arg-type]  # of wanted()

    def end(self, settlement: Settlement, **fields: object) -> Exchange:
        return self.store.exchange([settlement], wanted(**fields))  # type: ignore[arg-type]

    def lease(self) -> Delivery:
        (delivery,) = self.look().deliveries
        return delivery


def nothing_waits(side: Side) -> list[Exchange]:
    return [side.look(), side.look(**TWO)]


def one_waits(side: Side) -> list[Exchange]:
    side.put()
    return [side.look(), side.look()]


def one_waits_in_one_of_two_queues(side: Side) -> list[Exchange]:
    side.put()
    return [side.look(**TWO), side.look(**TWO)]


def one_waits_in_each_of_two_queues(side: Side) -> list[Exchange]:
    side.put()
    side.put()
    return [side.look(**TWO), side.look(**TWO)]


def two_wait(side: Side) -> list[Exchange]:
    side.put()
    side.put()
    return [side.look(), side.look()]


def one_is_done(side: Side) -> list[Exchange]:
    side.put()
    return [side.end(Ack(side.lease(), RESULT)), side.look()]


def one_is_done_and_one_waits(side: Side) -> list[Exchange]:
    side.put()
    delivery = side.lease()
    side.put()
    return [side.end(Ack(delivery, RESULT), **TWO), side.look(**TWO)]


def one_of_two_is_done(side: Side) -> list[Exchange]:
    side.put()
    first = side.lease()
    side.clock.advance(1)
    side.put()
    second = side.lease()
    return [side.end(Ack(second)), side.end(Ack(first))]


def one_is_done_twice(side: Side) -> list[Exchange]:
    side.put()
    delivery = side.lease()
    return [side.end(Ack(delivery)), side.end(Ack(delivery))]


def one_is_given_back(side: Side) -> list[Exchange]:
    side.put()
    return [side.end(Nack(side.lease())), side.look()]


def one_is_tried_again(side: Side) -> list[Exchange]:
    side.put()
    answers = [side.end(RetryLater(side.lease(), 5.0, FAILURE))]
    side.clock.advance(6)
    answers.append(side.look())
    return [*answers, side.end(Ack(answers[-1].deliveries[0], RESULT))]


def a_lease_has_ended(side: Side) -> list[Exchange]:
    side.put()
    delivery = side.lease()
    side.clock.advance(61)
    return [side.end(Ack(delivery)), side.look()]


def a_lease_was_lost(side: Side) -> list[Exchange]:
    side.put()
    delivery = side.lease()
    side.clock.advance(61)
    return [side.look(worker="other"), side.end(Ack(delivery))]


def the_queue_is_paused(side: Side) -> list[Exchange]:
    side.put()
    side.store.pause("q", by="ann")
    return [side.look(), side.look(**TWO)]


SITUATIONS: dict[Do, list[dict[str, Any]]] = {
    nothing_waits: [],
    one_waits: [{}],
    one_waits_in_one_of_two_queues: [{"queue": "other", "priority": 3}],
    one_waits_in_each_of_two_queues: [{"queue": "other"}, {}],
    two_wait: [{"priority": -2}, {"priority": 5}],
    one_is_done: [{}],
    one_is_done_and_one_waits: [{}, {"queue": "other"}],
    one_of_two_is_done: [{}, {}],
    one_is_done_twice: [{}],
    one_is_given_back: [{}],
    one_is_tried_again: [{}],
    a_lease_has_ended: [{}],
    a_lease_was_lost: [{}],
    the_queue_is_paused: [{}],
}
MORE: list[tuple[Do, dict[str, Any]]] = [
    (one_is_done, {"store_result": False}),
    (one_is_done, {"result_ttl": 0.0}),
    (one_is_done, {"key": "k"}),
    (one_is_done, {"workflow": "w"}),
    (one_is_done, {"expires_at": FakeClock().now() + 5}),
    (one_is_done, {"limits": (Limit("concurrency", "k", 1),)}),
    (one_is_done, {"priority": 7, "max_deliveries": 1}),
    (one_waits, {"eta": FakeClock().now() + 0.5}),
]
"""Jobs of which more is to be known."""
CASES = [*SITUATIONS.items(), *((do, [fields]) for do, fields in MORE)]


@pytest.mark.parametrize(
    ("do", "fields"), CASES, ids=[f"{do.__name__} {fields or ''}" for do, fields in CASES]
)
def test_the_short_way_leaves_and_says_the_same(
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    do: Do,
    fields: list[dict[str, Any]],
) -> None:
    jobs, client, found = [job(**each) for each in fields], Redis.from_url(redis_url), []
    for name, is_lone in (("short", exchange.is_lone), ("long", lambda *_: False)):
        monkeypatch.setattr(transport, "is_lone", is_lone)
        side = Side(f"{redis_url}?namespace={name}", FakeClock(), jobs)
        answers = do(side)
        found.append(([_plainly(each) for each in answers], _content(client, name)))
        side.store.close()
    client.close()
    assert found[0] == found[1]


def _plainly(answer: Exchange) -> dict[str, Any]:
    names = ("settled", "deliveries", "dropped", "readied", "next_due_at", "waiting_priority")
    return {
        name: list(value) if isinstance(value := getattr(answer, name), tuple) else value
        for name in names
    }


def _content(client: Any, namespace: str) -> dict[bytes, Any]:
    readers: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"set": client.smembers,
    }
    keys = client.keys(f"{{{namespace}}}:*")
    return {key.partition(b":")[2]: readers[client.type(key)](key) for key in keys}


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisTransport]:
    store = open_store(redis_url)
    yield store
    store.close()


def test_a_lone_job_goes_the_short_way(store: RedisTransport, redis_server: services.Redis) -> None:
    store.enqueue([job()])
    redis_server.cli("CONFIG", "RESETSTAT")
    (held,) = store.exchange((), wanted(8)).deliveries
    answer = store.exchange([Ack(held, RESULT)], wanted(8))
    assert list(answer.settled) == [Settled.DONE]
    told = redis_server.cli("INFO", "commandstats")
    calls = dict(re.findall(r"^cmdstat_(\w+):calls=(\d+)", told, re.MULTILINE))
    used = {name: int(count) for name, count in calls.items() if name in SHORT}
    assert set(calls) - {"evalsha", "eval", "time", "info", "config"} == set(SHORT)
    assert sum(used.values()) <= MOST_COMMANDS


def test_what_was_asked_before_is_said_anew_when_it_differs(store: RedisTransport) -> None:
    """A worker that looks again and again sends what it has encoded once."""
    store.enqueue([job(), job(queue="other"), job(), job()])
    queues = {"q": 1}
    first = store.exchange((), wanted(1, queues=queues)).deliveries
    del queues["q"]
    queues["other"] = 1
    second = store.exchange((), wanted(1, queues=queues)).deliveries
    third = store.exchange((), wanted(1, queues=queues, quotas={"other": 0})).deliveries
    fourth = store.exchange((), wanted(2)).deliveries
    assert [len(each) for each in (first, second, third, fourth)] == [1, 1, 0, 2]
    assert second[0].queue == "other"


def test_the_end_of_a_lone_job_is_told(store: RedisTransport) -> None:
    sealed = job()
    store.enqueue([sealed])
    (held,) = store.exchange((), wanted()).deliveries
    listener = store.listen(jobs=[sealed.envelope.id])
    listener.clear()
    store.exchange([Ack(held, RESULT)], wanted())
    assert listener.wait(PATIENCE)
    listener.close()


@pytest.mark.parametrize(
    ("result", "fields", "is_told"),
    [
        (RESULT, {}, True),
        (RESULT, {"store_result": False}, True),
        (None, {}, True),
        (Payload("raw", bytes(range(256)) * 15), {}, True),
        (Payload("raw", bytes(5_000)), {}, False),
        (RESULT, {"priority": 3, "queue": "q", "result_ttl": 5.0}, True),
        (RESULT, {"key": "k"}, False),
    ],
)
def test_who_waits_for_a_lone_job_is_told_what_a_look_would_find(
    result: Payload | None, fields: dict[str, Any], is_told: bool, store: RedisTransport
) -> None:
    sealed = job(**fields)
    store.enqueue([sealed])
    (held,) = store.exchange((), wanted()).deliveries
    listener: Any = store.listen(jobs=[sealed.envelope.id])
    listener.clear()
    store.exchange([Ack(held, result)], wanted())
    assert listener.wait(PATIENCE)
    assert listener.ended == (store.get([held.job_id])[0] if is_told else None)
    listener.close()


@pytest.mark.parametrize("word", [b"?", b"\0\0\0\1\xc1", b"\0\0\0\1\x80", b"\0\0\0\1\x80x"])
def test_what_somebody_else_says_of_a_job_is_no_more_than_a_wake(
    word: bytes, store: RedisTransport, redis_url: str
) -> None:
    listener: Any = store.listen(jobs=["a"])
    with Redis.from_url(redis_url) as client:
        for _ in range(2):  # whoever reads goes on
            listener.clear()
            client.publish("{taskmq}:job:a", word)
            assert listener.wait(PATIENCE)
            assert listener.ended is None
    listener.close()


def test_others_hear_when_a_lone_lease_ends_first(redis_url: str, store: RedisTransport) -> None:
    """Whoever waits for a lease that ends later has to look earlier now."""
    other = open_store(redis_url)
    store.enqueue([job()])
    store.exchange((), wanted(lease=600.0))
    store.enqueue([job(), job()])
    theirs = other.listen(["q"])
    for lease, is_told in ((60.0, True), (60.0, False)):
        theirs.clear()
        store.exchange((), wanted(lease=lease))
        assert theirs.wait(PATIENCE if is_told else 0.1) is is_told
    theirs.close()
    other.close()
