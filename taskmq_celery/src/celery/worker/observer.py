"""What the engine's worker tells, passed on to where Celery's users expect it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from threading import Thread
from typing import TYPE_CHECKING

from celery.concurrency import prefork
from celery.platforms import EX_OK
from taskmq_celery.received import Received
from taskmq_celery.taken import TakenJob

from . import state, strategy

if TYPE_CHECKING:
    from .worker import WorkController

__all__ = ("Observer",)


class Observer:
    """Of one worker; see `taskmq_celery.worker.WorkerObserver`."""

    def __init__(self, controller: WorkController) -> None:
        self._controller = controller

    def on_ready(self) -> None:
        self._controller.begin()

    @property
    def wants_received(self) -> bool:
        controller = self._controller
        asked = controller.consumer is not None and bool(controller.consumer.on_task_message)
        return asked or strategy.is_heard() or controller.events.tells_of_tasks

    def on_child_start(self) -> None:
        self._controller.events.start_child()
        prefork.process_initializer(self._controller.app, self._controller.hostname)

    def on_child_stop(self) -> None:
        prefork.end_child(EX_OK)
        self._controller.events.stop_child()

    def on_dropped(self, task_id: str, task: str, reason: str) -> None:
        events = self._controller.events
        if events.tells_of(self._controller.app.tasks.get(task)):
            events.dropped(task_id, reason)

    def on_received(self, jobs: Sequence[Received]) -> None:
        theirs = self._controller.strategies.names
        if theirs:
            jobs = [job for job in jobs if job.name not in theirs]
        strategy.announce(self._controller.consumer, jobs)

    @property
    def takes(self) -> Collection[str]:
        return self._controller.strategies.names

    def on_taken(self, jobs: Sequence[TakenJob]) -> None:
        self._controller.strategies.handle(jobs)

    def on_leaving(self, taken: int) -> None:
        if taken:
            Thread(target=self._controller.end_strategies, name="strategies", daemon=True).start()

    def on_ended(self, names: Sequence[str], succeeded: Sequence[str]) -> None:
        state.total_count.update(names)
        state.all_total_count[0] += len(names)
        for each in succeeded:
            state.successful_requests.add(each)

    @property
    def refuses_some(self) -> bool:
        return strategy.remembers_revoked()

    def refuses(self, job: Received) -> bool:
        return strategy.is_revoked(self._controller.consumer, job)

    def on_stopped(self) -> None:
        """`WorkController.start` goes on by itself."""
