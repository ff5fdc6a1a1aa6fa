"""Rates that a worker keeps by itself."""

import pytest

from taskmq import App, Config, ConfigError, QueueConfig, Rate
from taskmq.testing import FakeClock
from taskmq.transport import Delivery, Reservation
from taskmq.worker.throttle import LONGEST, MOST_EXTRA, Throttle

ONE = Rate(1, per=2.0, burst=1)


class Bench:
    """A throttle over a memory store."""

    def __init__(self, **queues: QueueConfig) -> None:
        self.clock = FakeClock()
        self.app = App(Config(transport="memory://", queues=queues), clock=self.clock)
        self.limited = self.app.task(name="limited", rate_limit=ONE, rate_scope="worker")(int)
        self.free = self.app.task(name="free")(int)
        self.fleet = self.app.task(name="fleet", rate_limit=Rate(1000))(int)
        self.throttle = Throttle(self.app.tasks, queues, self.clock)

    def reserve(self, limit: int = 100) -> list[Delivery]:
        queues = dict.fromkeys(("default", "slow"), 1)
        wanted = Reservation(queues=queues, worker="w", lease=600.0, limit=limit)
        return list(self.app.transport.reserve(wanted))


def test_jobs_are_put_off_one_behind_the_other() -> None:
    bench = Bench()
    bench.limited.submit_many([()] * 4)
    bench.free.delay()
    deliveries = bench.reserve()
    passed, put_off = bench.throttle.sort(deliveries)
    assert passed == [deliveries[0], deliveries[4]]
    assert put_off == [(deliveries[1], 2.0), (deliveries[2], 4.0), (deliveries[3], 6.0)]


def test_what_comes_back_in_time_passes() -> None:
    bench = Bench()
    bench.limited.submit_many([()] * 3)
    first, second, third = bench.reserve()
    assert bench.throttle.sort([first, second, third])[0] == [first]
    bench.clock.advance(2)
    assert bench.throttle.sort([second]) == ([second], [])
    bench.clock.advance(1)
    assert bench.throttle.sort([third])[0] == []
    bench.clock.advance(1)
    assert bench.throttle.sort([third]) == ([third], [])


def test_another_rate_from_now_on() -> None:
    bench = Bench()
    bench.free.submit_many([()] * 3)
    deliveries = bench.reserve()
    assert bench.throttle.keep("free", ONE)
    assert not bench.throttle.keep("free", ONE)
    assert bench.throttle.sort(deliveries)[0] == deliveries[:1]
    assert bench.throttle.keep("free", None)
    assert not bench.throttle.keep("free", None)
    assert bench.throttle.sort(deliveries[1:]) == (deliveries[1:], [])


def test_what_has_not_started_costs_nothing() -> None:
    bench = Bench()
    bench.limited.submit_many([()] * 2)
    first, second = bench.reserve()
    assert bench.throttle.sort([first])[0] == [first]
    bench.throttle.refund([first])
    assert bench.throttle.sort([second])[0] == [second]


def test_nothing_is_put_off_for_longer_than_a_minute() -> None:
    bench = Bench()
    bench.limited.submit_many([()] * 100)
    _, put_off = bench.throttle.sort(bench.reserve())
    assert max(seconds for _, seconds in put_off) == LONGEST
    assert bench.throttle.extra == 2 * 99
    bench.throttle.sort([])
    assert bench.throttle.extra == 0
    assert MOST_EXTRA >= 128


def test_a_queue_has_a_rate_of_its_own() -> None:
    bench = Bench(slow=QueueConfig(rate_limit=ONE, rate_scope="worker"))
    bench.free.submit_many([()] * 2, queue="slow")
    bench.limited.submit_many([()] * 2, queue="slow")
    bench.free.delay()
    slow = [delivery for delivery in bench.reserve() if delivery.queue == "slow"]
    passed, put_off = bench.throttle.sort(slow)
    assert passed == slow[:1]
    assert put_off == [(slow[1], 2.0), (slow[2], 4.0), (slow[3], 6.0)]


def test_the_store_knows_nothing_of_it() -> None:
    bench = Bench(slow=QueueConfig(rate_limit=ONE, rate_scope="worker"))
    bench.limited.submit_many([()] * 5, queue="slow")
    assert len(bench.reserve()) == 5
    assert bench.throttle
    assert not Throttle([bench.free, bench.fleet], {}, bench.clock)


def test_keys_are_kept_by_the_fleet_alone() -> None:
    app = App(Config(transport="memory://"))
    with pytest.raises(ConfigError, match="only the fleet keeps rates of keys"):
        app.task(name="x", rate_limit="1/s", rate_scope="worker", rate_key="k")(int)
    with pytest.raises(ConfigError, match="rate_scope"):
        app.task(name="x", rate_limit="1/s", rate_scope="host")(int)
    limited = app.task(name="x", rate_limit="1/s", rate_scope="worker")(int)
    with pytest.raises(ConfigError, match="no rate_limit of the fleet"):
        app.submit(limited.call().options(rate_key="k"))
