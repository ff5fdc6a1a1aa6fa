"""What the envelopes of a batch have in common: stored once, and for as long as it is needed."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from taskmq.codec import Payload
from taskmq.envelope import Envelope, Sealed, load, seal
from taskmq.errors import MalformedEnvelope
from taskmq.ids import new_id
from taskmq.records import Failure
from taskmq.testing import FakeClock
from taskmq.transport import Ack, DeadLetter, Delivery, Reservation, RetryLater
from taskmq.transports.sqlite import SqliteTransport, from_url, patterns

COUNT = 2 * patterns.FEWEST
FAILURE = Failure(type="ValueError", message="no")
DAY = 86_400.0


def batch(count: int = COUNT, **fields: object) -> list[Sealed]:
    return [
        seal(
            msgspec.structs.replace(
                Envelope(v=1, id=new_id(), task="demo.task", queue="q", headers={"x": "x" * 300}),
                args=msgspec.Raw(b"[%d]" % number),
                **fields,
            ),
            1 << 20,
        )
        for number in range(count)
    ]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[SqliteTransport]:
    transport = from_url(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    yield transport
    transport.close()


def stored(store: SqliteTransport) -> int:
    """How many patterns there are."""
    return int(asked(store, "SELECT count(*) FROM patterns"))


def asked(store: SqliteTransport, question: str) -> float:
    (answer,) = store._database.read(lambda connection: connection.execute(question).fetchone())
    return float(answer)


def held(store: SqliteTransport, limit: int = COUNT) -> list[Delivery]:
    wanted = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=limit)
    return list(store.reserve(wanted))


def test_a_batch_has_one_pattern_and_rows_of_what_is_their_own(store: SqliteTransport) -> None:
    first, second = batch(), batch()
    store.enqueue([*first, *batch(1, priority=1)])
    store.enqueue([*second, *second])
    assert stored(store) == 2
    assert asked(store, "SELECT max(length(envelope)) FROM jobs WHERE priority = 0") == 4
    assert [delivery.envelope for delivery in held(store, 3 * COUNT)][1:] == [
        sealed.data for sealed in [*first, *second]
    ]


def test_few_jobs_and_large_ones_have_none(store: SqliteTransport) -> None:
    few = batch(patterns.FEWEST - 1)
    large = batch(headers={"x": "x" * 2_000})
    store.enqueue(few)
    store.enqueue(large)
    assert stored(store) == 0
    found = [delivery.envelope for delivery in held(store, 2 * COUNT)]
    assert found == [sealed.data for sealed in [*few, *large]]


def test_jobs_that_are_known_are_left_as_they_are(store: SqliteTransport) -> None:
    first, second = batch(), batch()
    store.enqueue(first)
    store.enqueue([*first, *second, *batch(priority=2)])
    store.enqueue(first)
    assert stored(store) == 3
    ids = [sealed.envelope.id for sealed in [*first, *second]]
    records = store.get(ids)
    assert [record and record.envelope for record in records] == [
        sealed.data for sealed in [*first, *second]
    ]


def test_a_pattern_goes_with_the_last_of_its_jobs(store: SqliteTransport, clock: FakeClock) -> None:
    jobs = batch()
    store.enqueue(jobs)
    *most, last = held(store)
    store.settle([Ack(delivery, Payload("json", b"1")) for delivery in most])
    store.settle([DeadLetter(last, "broken", FAILURE)])
    clock.advance(2 * DAY)
    store.maintain()
    assert (stored(store), asked(store, "SELECT count(*) FROM jobs")) == (1, 1)
    assert store.replay([last.job_id], {}) == [True]
    (again,) = held(store)
    assert again.envelope == jobs[-1].data
    store.settle([Ack(again)])
    clock.advance(2 * DAY)
    store.maintain()
    assert (stored(store), asked(store, "SELECT count(*) FROM jobs")) == (0, 0)


def test_places_that_are_given_again_are_no_others_pattern(store: SqliteTransport) -> None:
    """The newest places are free once their jobs are deleted."""
    first, second = batch(), batch(task="demo.other")
    store.enqueue(first[:1])
    store.enqueue(first[1:])
    store.settle([Ack(delivery) for delivery in held(store)])
    store.forget([sealed.envelope.id for sealed in first[2:]])
    store.enqueue(second)
    assert stored(store) == 2
    store.forget([first[1].envelope.id])
    assert stored(store) == 1
    assert [each.envelope for each in held(store)] == [sealed.data for sealed in second]
    store.purge("q")
    assert stored(store) == 1


def test_a_purge_and_jobs_that_leave_nothing_take_their_patterns_along(
    store: SqliteTransport,
) -> None:
    store.enqueue(batch())
    store.purge("q")
    assert stored(store) == 0
    store.enqueue(batch(result_ttl=0.0))
    assert stored(store) == 1
    store.settle([Ack(delivery) for delivery in held(store)])
    assert stored(store) == 0


def test_an_envelope_that_is_replaced_needs_no_pattern(store: SqliteTransport) -> None:
    jobs, others = batch(), batch(priority=0, workflow="w")
    store.enqueue(jobs)
    for delivery, other in zip(held(store), others, strict=True):
        assert stored(store) == 1
        envelope = msgspec.structs.replace(other.envelope, id=delivery.job_id)
        store.settle([RetryLater(delivery, 0.0, FAILURE, seal(envelope, 1 << 20))])
    assert stored(store) == 0
    found = [msgspec.json.decode(each.envelope)["workflow"] for each in held(store)]
    assert found == ["w"] * COUNT


def test_a_pattern_that_is_lost_stops_no_worker(store: SqliteTransport) -> None:
    jobs = batch()
    store.enqueue(jobs)
    store._database.write(lambda connection: connection.execute("DELETE FROM patterns"))
    for delivery in held(store):
        with pytest.raises(MalformedEnvelope):
            load(delivery.envelope)
    (record,) = store.get([jobs[0].envelope.id])
    assert record is not None
    assert record.envelope == b""
