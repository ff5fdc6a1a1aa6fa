"""Jobs that a program sees to by itself (``Task.Strategy``): it says what becomes of each."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from taskmq import App
from taskmq.codec import Payload
from taskmq.errors import EncodeError
from taskmq.failures import describe
from taskmq.transport import Ack, DeadLetter, Nack, Release, Settlement
from taskmq.worker import Worker

from . import notes
from .received import Received

__all__ = ["TakenJob", "TakenJobs"]

EXCEPTIONS = "celery.exceptions"
NOTED = "celery.state"
"""The kind of the notes that a program writes by ``backend.mark_as_done`` and the like, where the
results of tasks are in the engine's store."""


class TakenJob:
    """One of them. What is said first of it counts. From any thread."""

    def __init__(self, jobs: TakenJobs, received: Received) -> None:
        self.received = received
        self._jobs = jobs

    def done(self) -> None:
        """It is over, with the result that the program has stored for it, if it has."""
        if self._jobs.drop(self):
            self._jobs.settle([self._jobs.end_of(self)])

    def refuse(self) -> None:
        """It is not to run: it stays as a dead letter."""
        if self._jobs.drop(self):
            reject = import_module(EXCEPTIONS).Reject("rejected", requeue=False)
            failure = describe(reject)
            self._jobs.settle([DeadLetter(self.received.delivery, "rejected", failure)])

    def give_back(self) -> None:
        """Some worker is to have it again: this one, perhaps."""
        if self._jobs.drop(self):
            self._jobs.settle([Release(self.received.delivery)])

    def lose(self, detail: str) -> None:
        """What was made of it came to nothing. It comes again, as often as a lost job may."""
        if self._jobs.drop(self):
            self._jobs.settle([Nack(self.received.delivery, detail=detail)])

    def start(self) -> None:
        """Run it as any other job."""
        if self._jobs.drop(self):
            self._jobs.worker.start([self.received.delivery])


class TakenJobs:
    """All of one worker that nothing was said of yet."""

    def __init__(self, celery_app: Any, engine: App) -> None:
        self.worker: Worker
        self._celery_app = celery_app
        self._engine = engine
        self._held: dict[int, TakenJob] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def take(self, received: Iterable[Received]) -> list[TakenJob]:
        """Hold these."""
        taken = [TakenJob(self, each) for each in received]
        with self._lock:
            self._held.update((id(each), each) for each in taken)
        return taken

    def drop(self, job: TakenJob) -> bool:
        """Hold it no more; whether it was held."""
        with self._lock:
            return self._held.pop(id(job), None) is not None

    def give_all_back(self) -> None:
        """Those that nobody has said anything of: nobody will."""
        with self._lock:
            held, self._held = list(self._held.values()), {}
        self.settle([Release(each.received.delivery) for each in held])

    def settle(self, settlements: list[Settlement]) -> None:
        self.worker.settle(settlements)

    def end_of(self, job: TakenJob) -> Settlement:
        """A job succeeds unless the program has noted that it failed."""
        received = job.received
        meta = self._noted(received.id)
        if meta.get("status") == "FAILURE" and isinstance(meta["result"], BaseException):
            return DeadLetter(received.delivery, "error", describe(meta["result"]))
        payload: Payload | None = None
        if meta.get("status") == "SUCCESS" and received.keeps_result:
            try:
                payload = self._engine.codecs.encode(meta["result"], received.codec)
            except EncodeError as error:
                return DeadLetter(received.delivery, "unencodable_result", describe(error))
        return Ack(received.delivery, payload)

    def _noted(self, task_id: str) -> dict[str, Any]:
        backend = self._celery_app.backend
        if getattr(backend, "written_by_worker", True):
            return {}  # it is there that programs write, and read
        noted = notes.read(self._celery_app, NOTED, task_id)
        return {} if noted is None else dict(backend.decode_result(noted))
