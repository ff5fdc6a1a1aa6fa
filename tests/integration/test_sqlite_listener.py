"""Waking up on SQLite: by notification, without it, and when the log is made anew."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.transport import Reservation
from taskmq.transports.sqlite import SqliteTransport, from_url
from taskmq.transports.sqlite.listener import Hub, SqliteListener
from taskmq.transports.sqlite.watch import open_source

CHILD = Path(__file__).with_name("sqlite_child.py")
WANTED = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=10)


def job() -> Sealed:
    return seal(Envelope(v=1, id=new_id(), task="demo.task", queue="q"), 1 << 20)


class Store:
    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.transport = from_url(self.url, clock=SystemClock())
        self.others: list[SqliteTransport] = []

    def open(self) -> SqliteTransport:
        self.others.append(from_url(self.url, clock=SystemClock()))
        return self.others[-1]

    def listen(self, how: str) -> SqliteListener:
        if how == "unnotified":
            self.transport._hub = Hub(self.transport._database, lambda path: None)
        return self.transport._hub.listen()

    def close(self) -> None:
        for transport in (self.transport, *self.others):
            transport.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "jobs.db")
    yield store
    store.close()


@pytest.fixture(params=["notified", "unnotified"])
def listener(store: Store, request: pytest.FixtureRequest) -> Iterator[SqliteListener]:
    listener = store.listen(request.param)
    yield listener
    listener.close()


def test_another_process_wakes_within_milliseconds(store: Store, listener: SqliteListener) -> None:
    command = [sys.executable, str(CHILD), "add", store.url]
    waits = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin
        assert child.stdout
        child.stdout.readline()
        for _ in range(10):
            listener.clear()
            assert not store.transport.reserve(WANTED)
            told = time.monotonic()
            child.stdin.write("\n")
            child.stdin.flush()
            assert listener.wait(PATIENCE)
            waits.append(time.monotonic() - told)
            child.stdout.readline()
            assert store.transport.reserve(WANTED)
        child.stdin.close()
    assert sorted(waits)[5] < 0.1


def test_commit_between_look_and_wait_is_not_missed(store: Store, listener: SqliteListener) -> None:
    producer = store.open()
    for _ in range(50):
        listener.clear()
        assert not store.transport.reserve(WANTED)
        producer.enqueue([job()])
        assert listener.wait(PATIENCE)
        assert store.transport.reserve(WANTED)


def test_wait_stays_ended_until_it_is_cleared(store: Store, listener: SqliteListener) -> None:
    listener.clear()
    store.transport.enqueue([job()])
    assert listener.wait(PATIENCE)
    assert listener.wait(0.0)
    listener.clear()
    assert not listener.wait(0.0)


def test_wake_from_a_signal_handler_ends_a_wait(listener: SqliteListener) -> None:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: listener.wake())
    try:
        listener.clear()
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        assert listener.wait(PATIENCE)
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_all_who_wait_hear_of_a_commit(store: Store) -> None:
    listeners = [store.transport._hub.listen() for _ in range(8)]
    woken = []
    threads = [
        threading.Thread(target=lambda one=one: woken.append(one.wait(PATIENCE)))
        for one in listeners
    ]
    for thread in threads:
        thread.start()
    store.open().enqueue([job()])
    for thread in threads:
        thread.join(PATIENCE)
    assert woken == [True] * 8
    for listener in listeners:
        listener.close()


@pytest.mark.skipif(sys.platform != "linux", reason="counts what inotify tells")
def test_process_at_rest_is_silent(store: Store) -> None:
    listener = store.transport._hub.listen()
    started, cpu = time.monotonic(), time.process_time()
    assert not listener.wait(3.0)
    used = (time.process_time() - cpu) / (time.monotonic() - started)
    source = open_source(store.transport._database.log_path)
    assert source is not None
    assert not listener.wait(1.5)
    assert not source.drain()
    source.close()
    listener.close()
    assert used < 0.01


def test_log_that_is_made_anew_is_watched_again(store: Store) -> None:
    listener = store.transport._hub.listen()
    store.transport._database.before_fork()  # closes the connections: the log goes
    store.transport._database.after_fork_in_parent()
    assert listener.wait(PATIENCE)
    listener.clear()
    assert not listener.wait(1.2)
    started = time.monotonic()
    producer = store.open()
    producer.enqueue([job()])
    assert listener.wait(PATIENCE)
    assert time.monotonic() - started < 0.9, "it was the safety net that caught it"
    listener.close()


def test_safety_net_catches_what_nothing_notified(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = store.transport._hub.listen()
    source = store.transport._hub._source
    assert source is not None
    elsewhere = store.transport._database.path.with_name("elsewhere")
    elsewhere.touch()
    deaf = open_source(elsewhere)
    assert deaf is not None
    monkeypatch.setattr(deaf, "is_current", lambda: True)
    store.transport._hub._source = deaf
    source.close()
    timer = threading.Timer(0.3, store.open().enqueue, ([job()],))
    timer.start()
    assert listener.wait(PATIENCE)
    timer.join()
    listener.close()


def test_descriptors_are_given_back(store: Store) -> None:
    def descriptors() -> int:
        gc.collect()
        return len(list(Path("/dev/fd").iterdir()))

    store.transport._hub.listen().close()
    before = descriptors()
    for _ in range(20):
        listeners = [store.transport._hub.listen() for _ in range(5)]
        for listener in listeners:
            listener.close()
            listener.close()
    assert descriptors() == before


def test_closing_a_listener_ends_its_wait_and_a_late_wake_harms_nobody(
    store: Store, tmp_path: Path
) -> None:
    listener = store.transport._hub.listen()
    timer = threading.Timer(0.05, listener.close)
    timer.start()
    assert listener.wait(PATIENCE)
    timer.join()
    files = [(tmp_path / f"file-{number}").open("w") for number in range(5)]
    listener.wake()
    assert listener.wait(0.0)
    for file in files:
        file.close()
        assert Path(file.name).read_bytes() == b""


def test_closing_the_transport_ends_a_wait(store: Store) -> None:
    listener = store.transport._hub.listen()
    timer = threading.Timer(0.05, store.transport.close)
    timer.start()
    assert listener.wait(PATIENCE)
    timer.join()
    listener.close()
