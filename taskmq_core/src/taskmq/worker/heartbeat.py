"""What a worker tells the registry, and those who watch events, about itself."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence

import msgspec

from taskmq.app import App
from taskmq.config import Config
from taskmq.errors import TransportError
from taskmq.events import QueueDepth, WorkerHeartbeat
from taskmq.records import WorkerRecord

from .vitals import mark_of_this_process

__all__ = ["Heartbeat", "describe_worker"]

logger = logging.getLogger("taskmq.worker")


class Heartbeat:
    """One worker's entry in the registry. ``load`` gives (running, processed)."""

    def __init__(self, app: App, record: WorkerRecord, load: Callable[[], tuple[int, int]]) -> None:
        self.record = record
        """The entry as it was when the worker began, or was last resized."""
        self.registered = False
        self.anonymous = False
        """Leave out what others could tell the death of this process by."""
        self._app = app
        self._load = load

    def register(self) -> None:
        """Enter the worker, and offer it the parked jobs of its tasks. Raises `TransportError`."""
        transport = self._app.transport
        transport.register(self._current())
        self.registered = True
        unparked = transport.unpark(self.record.tasks)
        if unparked:
            logger.info("%d parked jobs can run now", unparked)

    def resize(self, slots: int) -> None:
        """The worker has so many slots from now on."""
        self.record = msgspec.structs.replace(self.record, concurrency=slots)

    def consume(self, queues: Sequence[str]) -> None:
        """The worker takes jobs from these queues from now on."""
        self.record = msgspec.structs.replace(self.record, queues=tuple(queues))

    def beat(self) -> None:
        """Renew the entry; a store that does not answer is tried again at the next beat."""
        record = self._current()
        try:
            self._app.transport.register(record)
            if self._app.emitter.active:
                self._emit(record)
        except TransportError as error:
            logger.debug("no heartbeat: %s", error)

    def deregister(self) -> None:
        """Take the entry out, if the store answers; it goes stale otherwise."""
        try:
            self._app.transport.deregister(self.record.id)
        except TransportError as error:
            logger.warning("cannot deregister, the entry will go stale: %s", error)

    def _current(self) -> WorkerRecord:
        running, processed = self._load()
        return msgspec.structs.replace(
            self.record,
            process=None if self.anonymous else self.record.process,
            heartbeat_at=self._app.clock.now(),
            running=running,
            processed=processed,
        )

    def _emit(self, record: WorkerRecord) -> None:
        heartbeat = WorkerHeartbeat(
            at=record.heartbeat_at,
            worker=record.id,
            queues=record.queues,
            running=record.running,
            concurrency=record.concurrency,
        )
        depths = (
            QueueDepth(
                at=record.heartbeat_at,
                queue=stats.queue,
                ready=stats.ready,
                delayed=stats.delayed,
                running=stats.running,
                dead=stats.dead,
            )
            for stats in self._app.transport.stats(record.queues)
        )
        self._app.emitter.emit(heartbeat, *depths)


def describe_worker(
    app: App, config: Config, *, name: str, queues: tuple[str, ...], slots: int
) -> WorkerRecord:
    """The registry entry of a worker that starts now."""
    now = app.clock.now()
    return WorkerRecord(
        id=name,
        queues=queues,
        pool=config.pool,
        concurrency=slots,
        started_at=now,
        heartbeat_at=now,
        heartbeat_interval=config.heartbeat_interval,
        host=socket.gethostname(),
        pid=os.getpid(),
        process=mark_of_this_process(),
        tasks=tuple(app.tasks.names()),
    )
