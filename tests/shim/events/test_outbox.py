"""The thread that sends events: batches, beats, and a broker that goes away."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.waiting import PATIENCE

from celery.worker import outbox as module
from celery.worker.outbox import Outbox, Told


class Broker:
    """Takes batches, unless it is away."""

    def __init__(self) -> None:
        self.batches: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        self.away = threading.Event()
        self.refused = threading.Event()
        self.forgotten = threading.Event()

    def send(self, batch: Sequence[Told]) -> None:
        if self.away.is_set():
            self.refused.set()
            raise ConnectionError("nobody\nis there")
        self.batches.put([fields["n"] for _, fields in batch])

    def got(self, count: int) -> list[int]:
        """What has come, when it is so much."""
        numbers: list[int] = []
        while len(numbers) < count:
            numbers += self.batches.get(timeout=PATIENCE)
        return numbers


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def box(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outbox]:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    made = Outbox(broker.send, broker.forgotten.set, name="outbox-test")
    yield made
    made.close(PATIENCE)
    assert not made._thread.is_alive()


def put(box: Outbox, numbers: Sequence[int]) -> None:
    for number in numbers:
        box.put(("task-progress", {"n": number}))


def test_in_order_and_together(box: Outbox, broker: Broker) -> None:
    put(box, range(1000))
    assert broker.got(1000) == [*range(1000)]
    assert broker.batches.empty()


def test_what_is_there_at_the_end_is_sent(broker: Broker) -> None:
    box = Outbox(broker.send, broker.forgotten.set, name="outbox-test")
    put(box, range(3))
    box.close(PATIENCE)
    assert broker.got(3) == [0, 1, 2]
    assert broker.forgotten.is_set()


def test_a_broker_that_is_away_is_waited_for(
    box: Outbox, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.away.set()
    with caplog.at_level(logging.WARNING, module.__name__):
        put(box, range(3))
        assert broker.refused.wait(PATIENCE)
        put(box, range(3, 5))
        broker.away.clear()
        assert broker.got(5) == [0, 1, 2, 3, 4]
    assert broker.forgotten.is_set()  # the connection is opened anew
    assert "Events: nobody is there; they are kept, trying again in" in caplog.text


def test_what_is_too_much_is_lost_and_counted(
    box: Outbox, broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    broker.away.set()
    put(box, [0])
    assert broker.refused.wait(PATIENCE)
    put(box, range(1, 14))
    with caplog.at_level(logging.WARNING, module.__name__):
        broker.away.clear()
        assert broker.got(11) == [*range(11)]
        put(box, [99])
        assert broker.got(1) == [99]
    assert "Events: 3 were lost while the broker was away" in caplog.text


def test_a_broker_that_stays_away_holds_up_no_end(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    box = Outbox(broker.send, broker.forgotten.set, name="outbox-test")
    broker.away.set()
    put(box, range(3))
    assert broker.refused.wait(PATIENCE)
    with caplog.at_level(logging.WARNING, module.__name__):
        box.close(PATIENCE)
    assert not box._thread.is_alive()
    assert "Events: the last 3 are lost" in caplog.text


def test_beats_go_on_until_they_are_cancelled(
    box: Outbox, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    beats: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def failing() -> None:
        raise ValueError("once more")

    beat = box.call_repeatedly(0.001, beats.put, ("tick",))
    assert [beats.get(timeout=PATIENCE) for _ in range(3)] == ["tick"] * 3
    box.cancel(beat)
    with caplog.at_level(logging.ERROR, module.__name__):
        bad = box.call_repeatedly(0.001, failing)
        good = box.call_repeatedly(0.001, beats.put, ("tock",))
        while beats.get(timeout=PATIENCE) != "tock":
            pass
        box.cancel(good)
        box.cancel(bad)
    put(box, [1])
    assert broker.got(1) == [1]
    assert "failed" in caplog.text
