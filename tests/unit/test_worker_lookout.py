"""The lookout: once after each watch, by whoever brings the news."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest
from tests.waiting import PATIENCE

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.testing.faults import FaultPlan, FaultyTransport
from taskmq.transport import Transport
from taskmq.transports.memory import MemoryTransport
from taskmq.worker.lookout import Lookout


def job(queue: str) -> Sealed:
    return seal(Envelope(v=1, id=new_id(), task="demo.task", queue=queue), limit=10_000)


class Watch:
    """A lookout that watches queue ``a``, and what it tells."""

    def __init__(self, store: Transport) -> None:
        self.store = store
        self.told: SimpleQueue[str] = SimpleQueue()
        self.lookout = Lookout(store, ["a"], lambda: self.told.put(threading.current_thread().name))
        self.lookout.start()

    def watch(self) -> None:
        self.lookout.prepare()
        self.lookout.watch()

    def hears(self) -> str:
        """The thread that told."""
        return self.told.get(timeout=PATIENCE)


@pytest.fixture
def calling() -> Iterator[Watch]:
    """Where the listener calls back."""
    watch = Watch(MemoryTransport(SystemClock()))
    yield watch
    watch.lookout.stop()


@pytest.fixture
def waiting() -> Iterator[Watch]:
    """Where it has to be waited for."""
    watch = Watch(FaultyTransport(MemoryTransport(SystemClock()), FaultPlan()))
    yield watch
    watch.lookout.stop()


def test_whoever_brings_the_news_tells_it(calling: Watch) -> None:
    calling.watch()
    calling.store.enqueue([job("a")])
    assert calling.told.get_nowait() == threading.current_thread().name


def test_a_thread_waits_for_a_listener_that_does_not_call_back(waiting: Watch) -> None:
    waiting.watch()
    waiting.store.enqueue([job("a")])
    assert waiting.hears() == "taskmq-lookout"


@pytest.mark.parametrize("kind", ["calling", "waiting"])
def test_it_tells_once_after_each_watch(kind: str, request: pytest.FixtureRequest) -> None:
    watch: Watch = request.getfixturevalue(kind)
    for _ in range(3):
        watch.watch()
        watch.watch()
        watch.store.enqueue([job("a")])
        watch.hears()
        watch.store.enqueue([job("a"), job("a")])
        assert watch.told.empty()


@pytest.mark.parametrize("kind", ["calling", "waiting"])
def test_what_came_between_look_and_watch_is_told(
    kind: str, request: pytest.FixtureRequest
) -> None:
    watch: Watch = request.getfixturevalue(kind)
    watch.lookout.prepare()
    watch.store.enqueue([job("a")])
    watch.lookout.watch()
    watch.hears()


@pytest.mark.parametrize("kind", ["calling", "waiting"])
def test_other_queues_are_listened_to_without_a_gap(
    kind: str, request: pytest.FixtureRequest
) -> None:
    watch: Watch = request.getfixturevalue(kind)
    watch.watch()
    watch.lookout.consume(["b"])
    watch.hears()  # look: nobody has listened to them yet
    for _ in range(2):  # the first time perhaps because somebody does now
        watch.watch()
        watch.store.enqueue([job("b")])
        watch.hears()
    watch.watch()
    watch.store.enqueue([job("a")])
    assert watch.told.empty()
