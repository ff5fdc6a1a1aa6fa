"""Stores across fork(): each side has connections, locks and signals of its own."""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.errors import TransportUnavailable
from taskmq.ids import new_id
from taskmq.transport import Reservation
from taskmq.transports.sqlite import SqliteTransport, database, from_url

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def job() -> Sealed:
    return seal(Envelope(v=1, id=new_id(), task="demo.task", queue="q"), 1 << 20)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteTransport]:
    transport = from_url(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock())
    yield transport
    transport.close()


def in_child(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked process; its id."""
    with warnings.catch_warnings():
        # Python 3.12 warns of forks beside threads: that is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    status = 1
    signal.alarm(int(PATIENCE))  # its parent's time limit does not reach it
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def ready(store: SqliteTransport) -> int:
    return sum(stats.ready for stats in store.stats())


def test_parent_and_child_share_the_store(store: SqliteTransport) -> None:
    store.enqueue([job()])

    def work() -> None:
        assert ready(store) in (1, 2)
        store.enqueue([job()])
        store.close()

    child = in_child(work)
    store.enqueue([job()])
    assert ended_well(child)
    assert ready(store) == 3


def test_child_respects_the_lock_of_its_parent(tmp_path: Path) -> None:
    store = from_url(f"sqlite:///{tmp_path}/jobs.db?busy_timeout=0.2", clock=SystemClock())
    begun, end = os.pipe(), os.pipe()
    store.enqueue([job()])

    def work() -> None:
        os.read(begun[0], 1)
        with pytest.raises(TransportUnavailable, match="locked"):
            store.enqueue([job()])
        os.write(end[1], b"x")

    def hold(connection: object) -> None:
        os.write(begun[1], b"x")
        os.read(end[0], 1)

    child = in_child(work)
    store._database.write(hold)
    assert ended_well(child)
    store.close()
    for descriptor in (*begun, *end):
        os.close(descriptor)


def test_fork_beside_busy_threads_loses_nothing(store: SqliteTransport) -> None:
    stop, stored = threading.Event(), []

    def produce() -> None:
        while not stop.is_set():
            stored.append(store.enqueue([job()])[0].job_id)

    threads = [threading.Thread(target=produce) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = [in_child(lambda: store.enqueue([job()])) for _ in range(5)]
    assert all(ended_well(child) for child in children)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert ready(store) == len(stored) + 5
    assert None not in store.get(stored)


def test_child_that_ends_does_not_disturb_its_parent(store: SqliteTransport) -> None:
    held = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=1)
    store.enqueue([job()])
    for _ in range(3):
        assert ended_well(in_child(store.close))
    assert len(store.reserve(held)) == 1


def test_listener_in_a_child_hears_of_its_parent_and_has_its_own_wake(
    store: SqliteTransport,
) -> None:
    listener = store.listen(["q"])
    listening = os.pipe()

    def work() -> None:
        listener.clear()
        os.write(listening[1], b"x")
        assert listener.wait(PATIENCE)
        listener.clear()
        listener.wake()
        listener.close()

    child = in_child(work)
    os.read(listening[0], 1)
    listener.clear()
    store.enqueue([job()])
    assert ended_well(child)
    listener.clear()
    assert not listener.wait(0.0)
    listener.close()
    for descriptor in listening:
        os.close(descriptor)


def test_connection_of_a_parent_that_was_forked_in_c_is_left_alone(
    store: SqliteTransport,
) -> None:
    store.enqueue([job()])
    before = store._database._writer._connection
    abandoned = len(database._abandoned)
    store._database.after_fork_in_child()  # without before_fork, as such programs call it
    assert before in database._abandoned
    assert ready(store) == 1
    assert store._database._writer._connection is not before
    for connection in database._abandoned[abandoned:]:
        connection.close()  # this is no child after all
    del database._abandoned[abandoned:]
