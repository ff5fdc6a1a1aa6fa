"""What a worker tells while it works, for those who listen: of itself, and of its tasks.

Tasks are told of only while that is wanted: by the option ``-E``, or since somebody gave the order
``enable_events``. Child processes tell of the tasks that they run, over connections of their own.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSet, Sequence
from typing import Any

from kombu.messaging import Producer

from celery.events import EventDispatcher
from celery.events.event import Event, group_from
from celery.states import FAILURE, REJECTED, RETRY
from celery.utils.time import utcoffset
from taskmq_celery.brokers import carries_control

from .heartbeat import Heart
from .outbox import Outbox, Told

__all__ = ("Groups", "WorkerDispatcher", "WorkerEvents")

PATIENCE = 2.0
"""Longest time in seconds that the end of a process waits for its last events."""


class Groups(MutableSet[str]):
    """The groups of events that are wanted. Child processes see what is changed here."""

    NAMES = ("worker", "task")

    def __init__(self, names: Iterable[str]) -> None:
        self._wanted = mmap.mmap(-1, len(self.NAMES))  # shared with whatever is forked
        for name in names:
            self.add(name)

    def add(self, value: str) -> None:
        self._wanted[self.NAMES.index(value)] = 1

    def discard(self, value: str) -> None:
        if value in self.NAMES:
            self._wanted[self.NAMES.index(value)] = 0

    def __contains__(self, value: object) -> bool:
        return value in self.NAMES and bool(self._wanted[self.NAMES.index(str(value))])

    @property
    def has_task(self) -> bool:
        """``"task" in groups``, for every task that runs: it must cost next to nothing."""
        return self._wanted[1] != 0

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.NAMES if name in self)

    def __len__(self) -> int:
        return sum(self._wanted[:])


class WorkerDispatcher(EventDispatcher):
    """Sends from a thread of its own, in batches, in whatever process it is used.

    `send` never waits and never fails. A broker that is away is waited for; what cannot be kept
    meanwhile is counted and logged.
    """

    def __init__(self, app: Any, hostname: str, groups: Iterable[str]) -> None:
        super().__init__(
            app.connection_for_write(),
            hostname,
            enabled=False,
            buffer_while_offline=False,  # the outbox keeps what could not be sent
            app=app,
        )
        self.groups = Groups(groups)
        self._box: Outbox | None = None
        self._lock = threading.Lock()
        self._left_behind: list[Any] = []

    def enable(self) -> None:
        self.enabled = True
        for callback in self.on_enabled:
            callback()

    def close(self) -> None:
        """Send the last events of this process."""
        if self._box is not None and self.pid == os.getpid():
            self._box.close(PATIENCE)
            self._box = None

    def after_fork(self) -> None:
        """In a child: other threads of the parent may have held a lock at that moment."""
        self._lock, self.mutex = threading.Lock(), threading.RLock()
        self.clock.mutex = threading.Lock()

    def send(
        self,
        type: str,
        blind: bool = False,
        utcoffset: Callable[[], float] = utcoffset,
        retry: bool = False,
        retry_policy: Mapping[str, Any] | None = None,
        Event: Callable[..., dict[str, Any]] = Event,  # noqa: N803  # Celery's parameter
        **fields: Any,
    ) -> None:
        """Have an event sent, if its group is wanted."""
        if self.enabled and self._is_wanted(type):
            self.tell(type, fields)

    def tell(self, type: str, fields: dict[str, Any]) -> None:
        """Have an event sent, wanted or not."""
        fields.setdefault("timestamp", time.time())
        self.outbox.put((type, fields))

    def flush(self, errors: bool = True, groups: bool = True) -> None:
        """Nothing to do: nothing is kept for long."""

    @property
    def outbox(self) -> Outbox:
        """That of this process."""
        with self._lock:
            if self._box is None or self.pid != os.getpid():
                # What a parent has, its connection above all, must not be closed from here.
                self._left_behind = [self._box, self.connection, self.producer]
                self.pid, self.producer = os.getpid(), None
                self._box = Outbox(self._send_batch, self._forget, name="celery-events")
            return self._box

    def _forget(self) -> None:
        """Open a connection anew for the next batch."""
        if self.producer is not None:
            self.producer = None
            with contextlib.suppress(Exception):  # it may be what has failed
                self.connection.release()

    def _send_batch(self, batch: Sequence[Told]) -> None:
        if self.producer is None:
            # Nobody is there in time to answer the broker's heartbeats.
            self.connection = self.app.connection_for_write(heartbeat=0)
            self.producer = Producer(
                self.connection,
                exchange=self.exchange,
                serializer=self.serializer,
                auto_declare=False,
            )
        tasks = [told for told in batch if group_from(told[0]) == "task"]
        if tasks:
            self.publish_together(tasks, self.producer)
        for type, fields in batch:
            if group_from(type) != "task":
                self.publish(type, fields, self.producer)


class WorkerEvents:
    """The events of one worker. Its tasks find it by the worker's name, in ``app._eventers``."""

    def __init__(self, controller: Any) -> None:
        self._controller = controller
        app = controller.app
        self.dispatcher: WorkerDispatcher | None = None
        if not carries_control(app.conf.broker_write_url):
            return
        wanted = ("worker", "task") if controller.task_events else ("worker",)
        self.dispatcher = WorkerDispatcher(app, controller.hostname, wanted)

    # -- the worker --------------------------------------------------------------------------

    def prepare(self) -> None:
        """Before there are child processes: they tell of their tasks from the first one on."""
        if self.dispatcher is not None:
            self.dispatcher.enabled = True
            self._controller.app._eventers[self._controller.hostname] = self

    def heart(self, interval: float | None) -> Heart:
        """What says that the worker is there, every so many seconds. There is a dispatcher."""
        return _WorkerHeart(self._controller, self.dispatcher, interval)

    def stop(self) -> None:
        """Send the last events, and no more."""
        if self.dispatcher is not None:
            self.dispatcher.enabled = False
            self._controller.app._eventers.pop(self._controller.hostname, None)
            self.dispatcher.close()

    def start_child(self) -> None:
        """In a child process, before its first task."""
        if self.dispatcher is not None:
            self.dispatcher.after_fork()

    def stop_child(self) -> None:
        """In a child process, after its last task."""
        if self.dispatcher is not None:
            self.dispatcher.close()

    # -- tasks -------------------------------------------------------------------------------

    @property
    def tells_of_tasks(self) -> bool:
        """Whether anybody wants to hear of tasks."""
        dispatcher = self.dispatcher
        return dispatcher is not None and dispatcher.groups.has_task and dispatcher.enabled

    def tells_of(self, task: Any) -> bool:
        """Whether anybody wants to hear of this one."""
        return self.tells_of_tasks and bool(getattr(task, "send_events", True))

    def tell(self, type: str, **fields: Any) -> None:
        """Have an event sent: `tells_of` has been asked."""
        if self.dispatcher is not None:
            self.dispatcher.tell(type, fields)

    def ended(self, uuid: str, answer: Any) -> None:
        """Tell how a run ended: ``answer`` is what the tracer gave."""
        outcome, returned = answer.info, answer.retval
        if outcome is None:
            if answer.runtime is None:  # something around the body failed
                self.failed(uuid, getattr(returned, "exception", returned), returned)
            else:
                done = {"result": answer.retstr, "runtime": answer.runtime}
                self.tell("task-succeeded", uuid=uuid, **done)
        elif outcome.state == RETRY:
            told = {"exception": _text(outcome.retval.exc), "traceback": returned.traceback}
            self.tell("task-retried", uuid=uuid, **told)
        elif outcome.state == FAILURE:
            self.failed(uuid, outcome.retval, returned)
        elif outcome.state == REJECTED:
            self.failed(uuid, outcome.retval, returned)
            self.tell("task-rejected", uuid=uuid, requeue=bool(outcome.retval.requeue))

    def failed(self, uuid: str, exception: Any, einfo: Any = None) -> None:
        """Tell of a failure; ``einfo`` has the traceback as text, if there is one."""
        traceback = getattr(einfo, "traceback", None)
        self.tell("task-failed", uuid=uuid, exception=_text(exception), traceback=traceback)

    def revoked(self, uuid: str, *, terminated: bool = False, expired: bool = False) -> None:
        """Tell of a task that was taken out, ended by force, or too late."""
        signum = SIGTERM if terminated else None
        self.tell("task-revoked", uuid=uuid, terminated=terminated, signum=signum, expired=expired)

    def dropped(self, uuid: str, reason: str) -> None:
        """Tell of a task that ended without a run that could tell."""
        if reason in ("expired", "revoked"):
            self.revoked(uuid, expired=reason == "expired")
        else:
            self.tell("task-failed", uuid=uuid, exception=reason, traceback=None)


SIGTERM = 15
"""What Celery ends a task with, unless told otherwise."""


class _WorkerHeart(Heart):
    """Knows how much the engine does."""

    def __init__(self, controller: Any, dispatcher: Any, interval: float | None) -> None:
        super().__init__(dispatcher.outbox, dispatcher, interval)
        self._controller = controller

    def counts(self) -> tuple[int, int]:
        load: tuple[int, int] = self._controller.inspection.load()
        return load


def _text(exception: Any) -> str:
    try:
        return repr(exception)
    except Exception as error:
        return f"<no text: repr() raised {type(error).__name__}>"
