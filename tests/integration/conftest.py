"""Workers that run in threads of the test process."""

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.waiting import PATIENCE

from taskmq import App
from taskmq.worker import Worker, WorkerHook, WorkerReport


class Announcer(WorkerHook):
    """Says when the worker is about to reserve."""

    def __init__(self) -> None:
        self.ready = threading.Event()

    def on_ready(self, worker: Worker) -> None:
        self.ready.set()


class RunningWorker:
    """A worker in a thread. ``result()`` waits for its end."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._outcome: list[WorkerReport | BaseException] = []
        self._seen = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome.append(self.worker.run())
        except BaseException as error:
            self._outcome.append(error)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        """Stop hard, if it still runs; an error that no test has seen yet is raised."""
        self.worker.stop_now()
        if not self._seen:
            self.result()
        self._thread.join(PATIENCE)

    def result(self, timeout: float = PATIENCE) -> WorkerReport:
        """The report; raises what `run` raised."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the worker did not stop"
        self._seen = True
        (outcome,) = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


RunWorker = Callable[..., RunningWorker]


@pytest.fixture
def run_worker() -> Iterator[RunWorker]:
    """Starts a worker for an app and waits until it reserves; stopped hard when the test ends."""
    started: list[RunningWorker] = []

    def run(app: App, **options: object) -> RunningWorker:
        hook = Announcer()
        worker = Worker(app, hook=hook, **options)  # type: ignore[arg-type]  # as the test says
        running = RunningWorker(worker)
        started.append(running)
        assert hook.ready.wait(PATIENCE)
        return running

    yield run
    for running in started:
        running.end()
