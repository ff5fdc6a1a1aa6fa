"""Jobs come by message, one each; and where messages and store disagree, the store is right."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar, cast

import pytest
from kombu.connection import Connection
from tests.waiting import PATIENCE, wait_for

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.errors import SchemaMismatch
from taskmq.ids import new_id
from taskmq.plugins import open_transport
from taskmq.records import Failure
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transport import (
    Ack,
    DeadLetter,
    Delivery,
    Release,
    Reservation,
    RetryLater,
    Transport,
)
from taskmq.transports.amqp.broker import Broker
from taskmq.transports.amqp.notice import Notice
from taskmq.transports.amqp.options import parse
from taskmq.transports.amqp.publisher import Publisher
from taskmq.transports.amqp.transport import AmqpTransport

R = TypeVar("R")
Open = Callable[..., AmqpTransport]


@pytest.fixture
def open_amqp(rabbitmq_url: str, tmp_path: Path) -> Iterator[Open]:
    """Opens a handle on the test's broker and store; options as in the URL. It waits long for
    messages, so that it is no matter of speed which jobs come by message."""
    handles: list[Transport] = []

    def open_(**options: object) -> AmqpTransport:
        options = {"patience": 5, **options}
        query = "".join(f"&{name}={value}" for name, value in options.items())
        url = f"{rabbitmq_url}?state=sqlite:///{tmp_path}/jobs.db{query}"
        handles.append(open_transport(url))
        return cast("AmqpTransport", handles[-1])

    yield open_
    for handle in handles:
        handle.close()


@pytest.fixture
def messages(rabbitmq_url: str) -> Iterator[Callable[[str], int]]:
    """How many messages wait in a queue of the broker; -1: no such queue."""
    with Connection(rabbitmq_url) as connection:

        def count(queue: str) -> int:
            channel = connection.channel()
            try:
                declared = channel.queue_declare(queue=queue, passive=True)
                channel.close()
            except connection.channel_errors:
                return -1
            return int(declared.message_count)

        yield count


def job(queue: str = "q", *, priority: int = 0, eta: float | None = None) -> Sealed:
    envelope = Envelope(
        v=1,
        id=new_id(),
        task="demo",
        queue=queue,
        priority=priority,
        eta=eta,
        enqueued_at=time.time(),
    )
    return seal(envelope, limit=1 << 20)


def wanted(limit: int = 10, queue: str = "q", lease: float = 60.0) -> Reservation:
    return Reservation(queues={queue: 1}, worker="w", lease=lease, limit=limit)


def take(transport: Transport, count: int) -> list[Delivery]:
    """Reserve until there are so many."""
    deadline = time.monotonic() + PATIENCE
    listener = transport.listen(["q"])
    taken: list[Delivery] = []
    while len(taken) < count:
        assert time.monotonic() < deadline, f"only {len(taken)} of {count} jobs came"
        listener.clear()
        got = transport.reserve(wanted(count - len(taken)))
        taken += got
        if not got:
            listener.wait(1.0)
    listener.close()
    return taken


def drop_messages(worker: AmqpTransport) -> None:
    """Be an idle worker until no message comes any more, and close."""
    listener = worker.listen(["q"])
    while True:
        listener.clear()
        assert not worker.reserve(wanted())
        if not listener.wait(0.5):
            break
    listener.close()
    worker.close()


def are_delayed(messages: Callable[[str], int]) -> bool:
    """Whether a message waits for about 3 seconds."""
    return any(messages(f"taskmq.delay.{step}") == 1 for step in ("2", "2.5", "3"))


def test_jobs_come_by_message_and_leave_none(
    open_amqp: Open, messages: Callable[[str], int]
) -> None:
    producer, worker = open_amqp(), open_amqp()
    ids = [answer.job_id for answer in producer.enqueue([job() for _ in range(50)])]
    assert messages("taskmq.q") == 50
    taken = take(worker, 50)
    assert sorted(each.job_id for each in taken) == sorted(ids)
    assert (worker.deliveries.by_message, worker.deliveries.directly) == (50, 0)
    worker.settle([Ack(each) for each in taken])
    worker.close()
    assert messages("taskmq.q") == 0
    assert messages("taskmq") == -1  # nothing else was made of that name


def test_a_message_wakes_whoever_waits(open_amqp: Open) -> None:
    producer, worker = open_amqp(), open_amqp()
    listener = worker.listen(["q"])
    for _ in range(5):
        listener.clear()
        assert not worker.reserve(wanted())
        producer.enqueue([job()])
        assert listener.wait(PATIENCE)
        worker.settle([Ack(each) for each in take(worker, 1)])
    assert worker.deliveries.by_message == 5
    listener.close()


def test_messages_lost_by_the_broker_cost_no_job(
    open_amqp: Open, rabbitmq_url: str, messages: Callable[[str], int]
) -> None:
    producer, worker = open_amqp(), open_amqp(patience=0.1)
    producer.enqueue([job() for _ in range(20)])
    with Connection(rabbitmq_url) as connection:
        assert connection.channel().queue_purge("taskmq.q") == 20
    taken = take(worker, 20)
    assert worker.deliveries.directly == 20
    assert set(map(repr, worker.settle([Ack(each) for each in taken]))) == {
        "<Settled.DONE: 'done'>"
    }


def test_a_deleted_queue_is_made_again(open_amqp: Open, rabbitmq_url: str) -> None:
    producer, worker = open_amqp(), open_amqp(patience=0.5)
    producer.enqueue([job()])
    with Connection(rabbitmq_url) as connection:
        connection.channel().queue_delete("taskmq.q")
    producer.enqueue([job()])
    assert len(take(worker, 2)) == 2
    assert worker.deliveries.by_message == 1


def test_repeated_messages_run_a_job_once(open_amqp: Open, messages: Callable[[str], int]) -> None:
    producer, one, other = open_amqp(), open_amqp(), open_amqp()
    batch = [job() for _ in range(5)]
    for _ in range(4):  # as after a call whose answer was lost
        producer.enqueue(batch)
    assert messages("taskmq.q") == 20
    taken = take(one, 5)
    assert sorted(each.job_id for each in taken) == sorted(each.envelope.id for each in batch)
    one.settle([Ack(each) for each in taken])
    one.close()
    drop_messages(other)
    assert messages("taskmq.q") == 0


def test_what_is_stored_without_a_message_runs(open_amqp: Open) -> None:
    """The producer died between store and broker."""
    producer, worker = open_amqp(), open_amqp(patience=0.1)
    listener = worker.listen(["q"])
    listener.clear()
    assert not worker.reserve(wanted())
    producer.state.enqueue([job(), job()])
    assert listener.wait(PATIENCE)
    assert len(worker.reserve(wanted())) == 2
    assert worker.deliveries.directly == 2
    listener.close()


def test_an_idle_workers_messages_go_to_the_others(
    open_amqp: Open, messages: Callable[[str], int]
) -> None:
    """What a worker has been sent and does not take is the broker's again."""
    producer, busy = open_amqp(), open_amqp()
    producer.enqueue([job() for _ in range(30)])
    assert len(take(busy, 5)) == 5
    wait_for(lambda: messages("taskmq.q") == 25, "the return of the messages")
    other = open_amqp()
    assert len(take(other, 25)) == 25
    assert other.deliveries.by_message == 25


def test_urgent_messages_come_first(open_amqp: Open) -> None:
    producer, worker = open_amqp(), open_amqp()
    for priority in (-9, 0, 9, -4, 5):
        producer.enqueue([job(priority=priority)])
    priorities = [take(worker, 1)[0].priority for _ in range(5)]
    assert priorities == [9, 5, 0, -4, -9]


def test_delayed_jobs_wait_at_the_broker(open_amqp: Open, messages: Callable[[str], int]) -> None:
    producer, worker = open_amqp(), open_amqp()
    due = time.time() + 3.4
    producer.enqueue([job(eta=due)])
    assert are_delayed(messages)
    assert messages("taskmq.q") == 0
    take(worker, 1)
    assert time.time() >= due
    assert worker.deliveries.by_message == 1


def test_a_retry_comes_by_message(open_amqp: Open, messages: Callable[[str], int]) -> None:
    producer, worker = open_amqp(), open_amqp()
    producer.enqueue([job()])
    (delivery,) = take(worker, 1)
    worker.settle([RetryLater(delivery, 3.4, Failure(type="builtins.ValueError"))])
    wait_for(lambda: are_delayed(messages), "the message of the retry")
    (again,) = take(worker, 1)
    assert (again.job_id, again.attempt) == (delivery.job_id, 2)
    assert worker.deliveries.by_message == 2


def test_answers_that_nobody_waits_for_are_read_nevertheless(rabbitmq_url: str) -> None:
    publisher = Publisher(Broker(parse(f"{rabbitmq_url}?state=memory://")))
    with closing(publisher):
        for number in range(1000):
            assert publisher.offer([Notice(str(number), "q")], None)
            assert publisher.unconfirmed <= 300


def test_a_released_job_comes_by_message(open_amqp: Open) -> None:
    producer, worker, other = open_amqp(), open_amqp(), open_amqp()
    producer.enqueue([job()])
    (delivery,) = take(worker, 1)
    worker.settle([Release(delivery)])
    (again,) = take(other, 1)
    assert again.job_id == delivery.job_id


def test_replayed_jobs_come_by_message(open_amqp: Open) -> None:
    producer, worker = open_amqp(), open_amqp()
    producer.enqueue([job()])
    (delivery,) = take(worker, 1)
    worker.settle([DeadLetter(delivery, "error", Failure(type="builtins.ValueError"))])
    assert worker.replay([delivery.job_id], {}) == [True]
    take(worker, 1)
    assert worker.deliveries.by_message == 2


def test_somebody_elses_message_is_rejected(
    open_amqp: Open, rabbitmq_url: str, messages: Callable[[str], int]
) -> None:
    producer, worker = open_amqp(), open_amqp()
    producer.enqueue([job()])
    with Connection(rabbitmq_url) as connection:
        for body in ("no json", '{"job": 1}', '{"job": "a", "queue": "other"}'):
            connection.Producer().publish(body, exchange="", routing_key="taskmq.q")
    producer.enqueue([job()])
    assert len(take(worker, 2)) == 2
    drop_messages(worker)
    assert messages("taskmq.q") == 0


def test_a_queue_with_other_properties_is_one_clear_error(
    open_amqp: Open, rabbitmq_url: str
) -> None:
    with Connection(rabbitmq_url) as connection:
        connection.channel().queue_declare("taskmq.q", durable=True, auto_delete=False)
    transport = open_amqp()
    with pytest.raises(SchemaMismatch, match=r"other properties .*taskmq\.q"):
        transport.enqueue([job()])
    assert transport.stats() == []

    def is_refused() -> bool:
        try:
            return bool(transport.reserve(wanted()))
        except SchemaMismatch:
            return True

    wait_for(is_refused, "the error of a worker")


@pytest.mark.parametrize("options", [{"queue_type": "quorum"}, {"max_priority": 0}])
def test_other_kinds_of_queues(open_amqp: Open, options: dict[str, object]) -> None:
    producer, worker = open_amqp(**options), open_amqp(**options)
    producer.enqueue([job() for _ in range(20)])
    taken = take(worker, 20)
    worker.settle([Ack(each) for each in taken])
    assert worker.deliveries.by_message == 20


def test_a_purge_takes_the_messages_along(open_amqp: Open, messages: Callable[[str], int]) -> None:
    transport = open_amqp()
    transport.enqueue([job() for _ in range(3)])
    assert transport.purge("q") == 3
    assert messages("taskmq.q") == 0


def test_a_child_process_makes_its_own_connections(open_amqp: Open) -> None:
    transport = open_amqp()
    transport.enqueue([job(), job()])
    (mine,) = take(transport, 1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            transport.enqueue([job()])
            taken = take(transport, 2)
            transport.settle([Ack(each) for each in taken])
            transport.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    transport.settle([Ack(mine)])
    transport.enqueue([job()])
    take(transport, 1)
    assert transport.stats(["q"])[0].running == 1


class Counting(TransportWrapper):
    """A state store that counts what it is asked."""

    calls = 0

    def around(self, operation: str, call: Callable[[], R]) -> R:
        self.calls += 1
        return call()


def test_an_exchange_of_any_size_is_one_step_of_the_store(
    rabbitmq_url: str, tmp_path: Path, open_amqp: Open
) -> None:
    """Where the messages have come already: 128 jobs are settled and 128 reserved in one call."""
    producer = open_amqp()
    url = f"{rabbitmq_url}?patience=5&state=sqlite:///{tmp_path}/jobs.db"
    clock = SystemClock()
    counting = Counting(open_transport(f"sqlite:///{tmp_path}/jobs.db", clock=clock))
    with closing(AmqpTransport(parse(url), counting, clock)) as worker:
        producer.enqueue([job() for _ in range(128)])
        taken = take(worker, 128)
        assert not worker.reserve(wanted(128))  # and waits for more
        producer.enqueue([job() for _ in range(128)])
        wait_for(lambda: worker.has_arrived(["q"]) == 128, "all messages")
        counting.calls = 0
        answer = worker.exchange([Ack(each) for each in taken], wanted(128))
        assert (len(answer.settled), len(answer.deliveries)) == (128, 128)
        assert counting.calls == 1
        assert worker.deliveries.directly == 0
