"""What happens, as typed values, and where they go.

An `EventSink` receives batches in the order in which they happened in this process. Sinks are
called on the worker's own thread: a slow sink slows the worker, a failing one is logged and
never hurts a job. Without a sink no event is built.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import IO, Protocol

import msgspec

__all__ = [
    "CollectingSink",
    "Emitter",
    "Event",
    "EventSink",
    "JobDeferred",
    "JobDelegated",
    "JobDropped",
    "JobFailed",
    "JobReleased",
    "JobRetrying",
    "JobStarted",
    "JobSubmitted",
    "JobSucceeded",
    "JsonLinesSink",
    "QueueDepth",
    "TransportFailed",
    "WorkerHeartbeat",
    "WorkerStarted",
    "WorkerStopped",
]

logger = logging.getLogger("taskmq.events")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events. ``at`` is epoch seconds; the JSON form has ``event``, its name."""

    at: float


class JobEvent(Event, frozen=True, kw_only=True):
    job_id: str
    task: str
    queue: str
    trace: dict[str, str] = {}


class JobSubmitted(JobEvent, frozen=True, kw_only=True, tag="task.submitted"):
    key: str | None = None
    created: bool = True


class JobStarted(JobEvent, frozen=True, kw_only=True, tag="task.started"):
    worker: str
    attempt: int


class JobSucceeded(JobEvent, frozen=True, kw_only=True, tag="task.succeeded"):
    worker: str
    attempt: int
    runtime: float


class JobFailed(JobEvent, frozen=True, kw_only=True, tag="task.failed"):
    """An attempt failed. ``will_retry`` false: the job is in the dead letters."""

    worker: str
    attempt: int
    runtime: float
    error_type: str
    error: str
    will_retry: bool
    traceback: str = ""


class JobRetrying(JobEvent, frozen=True, kw_only=True, tag="task.retrying"):
    worker: str
    attempt: int
    next_visible_at: float


class JobDelegated(JobEvent, frozen=True, kw_only=True, tag="task.delegated"):
    """It has stored other jobs; the result of ``to`` is to be its own."""

    worker: str
    attempt: int
    to: str


class JobDeferred(JobEvent, frozen=True, kw_only=True, tag="task.deferred"):
    """Given back for later; ``reason`` says why (it is parked if no worker could run it)."""

    worker: str
    reason: str
    parked: bool


class JobReleased(JobEvent, frozen=True, kw_only=True, tag="task.released"):
    """Given back, to run elsewhere: unstarted for something more urgent or because the worker
    stops, or cut short where its process ends."""

    worker: str
    reason: str


class JobDropped(JobEvent, frozen=True, kw_only=True, tag="task.dropped"):
    """Left its queue without running: expired, revoked, worker_lost, …"""

    reason: str


class QueueDepth(Event, frozen=True, kw_only=True, tag="queue.depth"):
    queue: str
    ready: int
    delayed: int
    running: int
    dead: int


class WorkerStarted(Event, frozen=True, kw_only=True, tag="worker.started"):
    worker: str
    queues: tuple[str, ...]
    pool: str
    concurrency: int


class WorkerHeartbeat(Event, frozen=True, kw_only=True, tag="worker.heartbeat"):
    worker: str
    queues: tuple[str, ...]
    running: int
    concurrency: int


class WorkerStopped(Event, frozen=True, kw_only=True, tag="worker.stopped"):
    worker: str
    processed: int
    released: int


class TransportFailed(Event, frozen=True, kw_only=True, tag="transport.error"):
    operation: str
    error: str
    retry_in: float


class EventSink(Protocol):
    """Receives events; see the module's text for what it may rely on."""

    def handle(self, events: Sequence[Event]) -> None: ...


class CollectingSink:
    """Keeps every event in ``events``. For tests."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def handle(self, events: Sequence[Event]) -> None:
        self.events.extend(events)


class JsonLinesSink:
    """Writes one JSON object a line to a text stream, flushed with every batch."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._encode = msgspec.json.Encoder().encode

    def handle(self, events: Sequence[Event]) -> None:
        self._stream.write("".join(f"{self._encode(event).decode()}\n" for event in events))
        self._stream.flush()


class Emitter:
    """Hands events to the sinks. ``active`` is false without sinks: then build no event."""

    def __init__(self) -> None:
        self._sinks: list[EventSink] = []
        self.active = False

    def add(self, sink: EventSink) -> None:
        self._sinks.append(sink)
        self.active = True

    def remove(self, sink: EventSink) -> None:
        self._sinks.remove(sink)
        self.active = bool(self._sinks)

    def redirect(self, sink: EventSink | None) -> None:
        """Drop every sink; ``sink``, if there is one, gets everything from now on. For a child
        process, whose events belong to the sinks of its parent."""
        self._sinks = [] if sink is None else [sink]
        self.active = bool(self._sinks)

    def emit(self, *events: Event) -> None:
        """Give ``events`` to every sink, in order; a sink's exception is logged, never raised."""
        for sink in self._sinks:
            try:
                sink.handle(events)
            except Exception:  # one bad sink must not cost the others
                logger.exception("event sink %r failed", sink)
