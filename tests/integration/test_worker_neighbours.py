"""Neighbours: whose process is gone is reclaimed from, whoever cannot be seen is left alone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from taskmq import App, Config
from taskmq.errors import TransportUnavailable
from taskmq.records import ProcessMark, WorkerRecord
from taskmq.transport import Reservation
from taskmq.worker import neighbours as module
from taskmq.worker.heartbeat import Heartbeat, describe_worker
from taskmq.worker.neighbours import Neighbours

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Bench:
    """A worker ``me`` that looks around, and a job that another one holds."""

    def __init__(self, folder: Path) -> None:
        self.app = App(Config(transport=f"sqlite:///{folder}/jobs.db"))
        self.store = self.app.transport
        self.app.task(name="noop")(lambda: None).delay()
        self.me = describe_worker(self.app, Config(), name="me", queues=("default",), slots=1)
        self.heartbeat = Heartbeat(self.app, self.me, lambda: (0, 0))
        self.noticed: list[None] = []
        self.neighbours = Neighbours(self.store, self.heartbeat, lambda: self.noticed.append(None))

    def neighbour(self, name: str = "other", /, **fields: object) -> WorkerRecord:
        """Registered, and holder of the job."""
        made = msgspec.structs.replace(self.me, id=name, pid=dead_process(), **fields)
        self.store.register(made)
        self.store.reserve(Reservation(queues={"default": 1}, worker=name, lease=60.0, limit=1))
        return made

    def reclaimed(self) -> bool:
        return self.store.stats()[0].ready == 1


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_what_a_dead_neighbour_held_is_taken_back(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.neighbour()
    bench.neighbours.look()
    assert bench.reclaimed()
    assert bench.noticed == [None]
    assert "worker other" in caplog.text
    assert "took back 1 jobs" in caplog.text
    assert bench.store.workers() == []


def test_a_neighbour_that_dies_between_two_reads_is_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.neighbour()
    with monkeypatch.context() as patch:
        patch.setattr(module, "has_ended", lambda pid, mark: False)
        bench.neighbours.look()
        assert not bench.reclaimed()
    bench.neighbours.look()
    assert bench.reclaimed()


def test_a_living_neighbour_is_left_alone(bench: Bench) -> None:
    record = bench.neighbour()
    bench.store.register(msgspec.structs.replace(record, pid=bench.me.pid))
    bench.neighbours.look()
    assert not bench.reclaimed()


def another(record: WorkerRecord, **fields: str) -> ProcessMark:
    assert record.process is not None
    return msgspec.structs.replace(record.process, **fields)


ELSEWHERE: dict[str, Callable[[WorkerRecord], dict[str, object]]] = {
    "other machine": lambda mine: {"host": "other-machine"},
    "before the boot": lambda mine: {"process": another(mine, boot="another")},
    "other container": lambda mine: {"process": another(mine, namespaces="pid:[1] time:[1]")},
    "unknown": lambda mine: {"process": None},
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_who_cannot_be_seen_from_here_is_left_alone(bench: Bench, where: str) -> None:
    bench.neighbour("other", **ELSEWHERE[where](bench.me))
    bench.neighbours.look()
    assert not bench.reclaimed()


def test_a_successor_of_the_same_name_takes_over_before_it_registers(bench: Bench) -> None:
    bench.neighbour("me", started_at=1.0)
    bench.neighbours.arrive()
    assert bench.reclaimed()
    bench.heartbeat.register()
    assert bench.store.workers()[0].process == bench.me.process


def test_two_that_share_a_name_are_anonymous_and_warned(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.neighbours.arrive()
    bench.heartbeat.register()
    later = bench.app.clock.now()
    # This process, so it is alive.
    namesake = msgspec.structs.replace(bench.me, started_at=1.0, heartbeat_at=later)
    bench.store.register(namesake)
    bench.neighbours._read()
    bench.heartbeat.beat()
    (entry,) = bench.store.workers()
    assert entry.process is None
    assert "another worker is called me as well" in caplog.text
    bench.neighbours._read()  # its own anonymous entry does not frighten it
    bench.neighbours._shared_until = 0.0
    bench.neighbours._read()
    bench.heartbeat.beat()
    assert bench.store.workers()[0].process == bench.me.process


def test_a_store_that_does_not_answer_is_asked_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.neighbour()
    with monkeypatch.context() as patch:
        patch.setattr(bench.store._database, "read", _unavailable)  # type: ignore[attr-defined]  # SQLite's
        bench.neighbours.look()
    bench.neighbours.look()
    assert bench.reclaimed()


def _unavailable(*anything: object) -> None:
    raise TransportUnavailable("gone")
