"""Workflows by RabbitMQ: the state store decides what is ready, in the step that settles; then come
the messages, and what has none is found all the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
from kombu.connection import Connection
from tests.waiting import PATIENCE

from taskmq.clock import Clock, SystemClock
from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.plugins import open_transport
from taskmq.records import Failure
from taskmq.testing import FakeClock
from taskmq.transport import (
    MOST_READIED,
    Ack,
    DeadLetter,
    Delegate,
    Delivery,
    Reservation,
    Settlement,
    Transport,
)
from taskmq.transports.amqp.transport import AmqpTransport

FAILURE = Failure(type="builtins.ValueError")
Open = Callable[..., AmqpTransport]
Messages = Callable[[str], int]


@pytest.fixture
def open_amqp(rabbitmq_url: str, tmp_path: Path) -> Iterator[Open]:
    """Opens a handle on the test's broker and store. It waits long for messages, so that it is no
    matter of speed which jobs come by message."""
    handles: list[Transport] = []

    def open_(clock: Clock | None = None, patience: float = 5.0) -> AmqpTransport:
        url = f"{rabbitmq_url}?patience={patience}&state=sqlite:///{tmp_path}/jobs.db"
        handles.append(open_transport(url, clock=clock or SystemClock()))
        return cast("AmqpTransport", handles[-1])

    yield open_
    for handle in handles:
        handle.close()


@pytest.fixture
def messages(rabbitmq_url: str) -> Iterator[Messages]:
    """How many messages wait in a queue of the broker."""
    with Connection(rabbitmq_url) as connection:
        channel = connection.channel()

        def count(queue: str) -> int:
            declared = channel.queue_declare(queue=f"taskmq.{queue}", passive=True)
            return int(declared.message_count)

        yield count


def job(
    *after: Sealed, queue: str = "q", priority: int = 0, run_if: str = "succeeded", at: float = 0.0
) -> Sealed:
    envelope = Envelope(
        v=1,
        id=new_id(),
        task="demo",
        queue=queue,
        priority=priority,
        after=tuple(Dependency(each.envelope.id) for each in after),
        run_if=run_if,  # type: ignore[arg-type]  # one of them
        enqueued_at=at or time.time(),
    )
    return seal(envelope, limit=1 << 20)


def wanted(limit: int, *queues: str) -> Reservation:
    return Reservation(
        queues=dict.fromkeys(queues or ("q",), 1), worker="w", lease=60.0, limit=limit
    )


def take(transport: AmqpTransport, count: int, queue: str = "q") -> list[Delivery]:
    """Reserve until there are so many."""
    deadline = time.monotonic() + PATIENCE
    listener = transport.listen([queue])
    taken: list[Delivery] = []
    while len(taken) < count:
        assert time.monotonic() < deadline, f"only {len(taken)} of {count} jobs came"
        listener.clear()
        got = transport.reserve(wanted(count - len(taken), queue))
        taken += got
        if not got:
            listener.wait(1.0)
    listener.close()
    return taken


def settle(worker: AmqpTransport, *settlements: Settlement) -> None:
    """By a worker that has no room."""
    worker.exchange(settlements, None)


def ids(jobs: Sequence[Sealed]) -> list[str]:
    return [each.envelope.id for each in jobs]


def test_what_a_settlement_makes_ready_comes_by_message(
    open_amqp: Open, messages: Messages
) -> None:
    one, other = open_amqp(), open_amqp()
    first, second = job(), job()
    join = job(first, second, queue="joins")
    one.enqueue([first, second, join])
    held = take(one, 2)
    settle(one, Ack(held[0]))
    assert [record.pending for record in one.get(ids([join])) if record] == [1]
    settle(one, Ack(held[1]))
    (taken,) = take(other, 1, "joins")
    assert taken.job_id == join.envelope.id
    assert (other.deliveries.by_message, other.deliveries.directly) == (1, 0)
    assert messages("joins") == 0


def test_a_worker_with_room_goes_on_without_a_message(open_amqp: Open, messages: Messages) -> None:
    """While nothing else waits here: a chain of jobs costs no messages."""
    worker = open_amqp()
    chain = [job()]
    for _ in range(9):
        chain.append(job(chain[-1]))
    worker.enqueue(chain)
    held = take(worker, 1)
    for step in chain[1:]:
        answer = worker.exchange([Ack(held[0])], wanted(1))
        held = list(answer.deliveries)
        assert [each.job_id for each in held] == [step.envelope.id]
    assert worker.deliveries.by_message == 1
    assert messages("q") == 0


def test_what_it_has_no_room_for_goes_to_others(open_amqp: Open) -> None:
    one, other = open_amqp(), open_amqp()
    root = job()
    one.enqueue([root, *[job(root) for _ in range(10)]])
    held = take(one, 1)
    answer = one.exchange([Ack(held[0])], wanted(3))
    assert len(answer.deliveries) == 3
    take(other, 7)
    assert other.deliveries.by_message == 7


def test_a_ready_job_takes_its_place_among_the_messages(open_amqp: Open) -> None:
    """It does not wait until the broker has nothing else."""
    worker = open_amqp()
    root = job(priority=9)
    urgent = job(root, priority=9)
    backlog = [job(priority=-5) for _ in range(20)]
    worker.enqueue([*backlog, root, urgent])
    (delivery,) = take(worker, 1)
    assert delivery.job_id == root.envelope.id
    settle(worker, Ack(delivery))
    # One of the backlog may have been sent before.
    assert urgent.envelope.id in {take(worker, 1)[0].job_id for _ in range(2)}


def test_jobs_that_are_added_come_by_message(open_amqp: Open) -> None:
    one, other = open_amqp(), open_amqp()
    one.enqueue([job(), job()])
    growing, delegating = take(one, 2)
    spawned, work = job(queue="new"), job(queue="new")
    settle(one, Ack(growing, spawn=[spawned]), Delegate(delegating, [work], to=work.envelope.id))
    assert {each.job_id for each in take(other, 2, "new")} == set(ids([spawned, work]))
    assert other.deliveries.by_message == 2


def test_what_sees_to_the_end_comes_by_message(open_amqp: Open) -> None:
    one, other = open_amqp(), open_amqp()
    failing = job()
    handler = job(failing, run_if="failed", queue="ends")
    finally_ = job(failing, run_if="finished", queue="ends")
    one.enqueue([failing, handler, finally_])
    settle(one, DeadLetter(take(one, 1)[0], "error", FAILURE))
    assert {each.job_id for each in take(other, 2, "ends")} == set(ids([handler, finally_]))
    assert other.deliveries.by_message == 2


def test_a_fan_out_beyond_what_is_told_comes_as_a_whole(
    open_amqp: Open, messages: Messages
) -> None:
    one, other = open_amqp(), open_amqp(patience=0.1)
    root = job()
    leaves = [job(root, queue="leaves") for _ in range(MOST_READIED + 50)]
    one.enqueue([root, *leaves])
    settle(one, Ack(take(one, 1)[0]))
    assert messages("leaves") == MOST_READIED
    taken = take(other, len(leaves), "leaves")
    assert sorted(each.job_id for each in taken) == sorted(ids(leaves))
    assert other.deliveries.directly >= 50


def test_a_job_without_a_message_does_not_wait_for_the_end_of_a_backlog(open_amqp: Open) -> None:
    """Whoever was to send it was killed. Of ten exchanges, and once a second at most, one asks the
    store all the same."""
    clock = FakeClock()
    worker = open_amqp(clock)
    worker.enqueue([job(at=clock.now()) for _ in range(30)])
    for _ in range(8):
        take(worker, 1)
    clock.advance(1.0)
    untold = job(priority=1, at=clock.now())
    worker.state.enqueue([untold])
    for _ in range(2):
        assert take(worker, 1)[0].job_id != untold.envelope.id
    assert worker.deliveries.by_message == 10
    assert take(worker, 1)[0].job_id == untold.envelope.id
    for _ in range(12):
        take(worker, 1)
    assert (worker.deliveries.by_message, worker.deliveries.directly) == (22, 1)
