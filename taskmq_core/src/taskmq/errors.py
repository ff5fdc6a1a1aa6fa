"""Every exception of the engine.

    TaskmqError
    ├── ConfigError                 a setting, URL or task definition is wrong
    ├── UnknownTask                 no task of that name is registered here
    ├── UnknownSchedule             the store has no schedule of that name
    ├── UnknownWorkflow             the store has no workflow of that id
    ├── TaskNotBound                a task was called that belongs to no app yet
    ├── MessageError                a job cannot be put into, or read from, its wire form
    │   ├── MessageTooLarge         over ``Config.max_message_bytes``
    │   ├── EncodeError             a value has no wire form
    │   ├── DecodeError             bytes that no codec can read
    │   │   └── PayloadLost         offloaded bytes that are missing or damaged
    │   ├── MalformedEnvelope       bytes that are not an envelope at all
    │   └── UnsupportedVersion      an envelope of a later protocol
    ├── TransportError              the store said no
    │   ├── TransportUnavailable    cannot be reached, or is locked; may be tried again
    │   │   └── PayloadUnavailable  the payload store cannot be reached
    │   ├── StoreFull               no space left; nothing was written
    │   ├── StoreCorrupt            the store's own file or schema is damaged
    │   ├── SchemaMismatch          the store was written by another version
    │   ├── QueueFull               the queue's declared capacity is reached
    │   ├── LeaseLost               the delivery is no longer ours
    │   ├── UnknownDependency       a job waits for one that is not stored
    │   └── IdempotencyConflict     same key, different payload
    ├── Interrupted                 why an attempt ended before its task did
    │   ├── SoftTimeLimit           raised in the task when its ``timeout`` is over, to clean up
    │   ├── HardTimeLimit           its process was killed when ``hard_timeout`` was over
    │   └── WorkerLost              its process died by itself
    └── ResultError                 why a handle has no value to give
        ├── RemoteError             the task failed; carries the remote traceback
        ├── JobExpired              its ``expires`` passed before it started
        ├── JobRevoked              it was revoked
        ├── JobSkipped              something that it depended on did not succeed
        ├── UnknownJob              the store knows no such id (never did, or no longer)
        └── ResultTimeout           not finished in time (also a ``TimeoutError``)

    ControlSignal (a BaseException)     raised by task code to steer its own delivery
    ├── RetryJob                    run again, as the retry policy says
    ├── ReleaseJob                  give back unstarted; costs no attempt
    ├── RejectJob                   to the dead letters, now
    └── JobCancelled                raised by ``ctx.check_cancelled()``

Control signals derive from ``BaseException`` so that a task's ``except Exception`` cannot swallow
them; the executor catches every one (``docs/adr/0001-control-signals.md``).
"""

from __future__ import annotations

import math
from typing import Any

__all__ = [
    "ConfigError",
    "ControlSignal",
    "DecodeError",
    "EncodeError",
    "HardTimeLimit",
    "IdempotencyConflict",
    "Interrupted",
    "JobCancelled",
    "JobExpired",
    "JobRevoked",
    "JobSkipped",
    "LeaseLost",
    "MalformedEnvelope",
    "MessageError",
    "MessageTooLarge",
    "PayloadLost",
    "PayloadUnavailable",
    "QueueFull",
    "RejectJob",
    "ReleaseJob",
    "RemoteError",
    "ResultError",
    "ResultTimeout",
    "RetryJob",
    "SchemaMismatch",
    "SoftTimeLimit",
    "StoreCorrupt",
    "StoreFull",
    "TaskNotBound",
    "TaskmqError",
    "TransportError",
    "TransportUnavailable",
    "UnknownDependency",
    "UnknownJob",
    "UnknownSchedule",
    "UnknownTask",
    "UnknownWorkflow",
    "UnsupportedVersion",
    "WorkerLost",
]


class TaskmqError(Exception):
    """Base of everything that the engine raises on purpose."""


class ConfigError(TaskmqError):
    """A setting, URL, queue name or task definition is wrong; says which and what to write."""


class UnknownTask(TaskmqError):
    """No task of that name is registered in this app."""


class UnknownSchedule(TaskmqError):
    """The store has no schedule of that name."""


class UnknownWorkflow(TaskmqError):
    """The store has no workflow of that id."""


class TaskNotBound(TaskmqError):
    """A task made by the app-less ``@task`` was called before an app included its module."""


class MessageError(TaskmqError):
    """A job cannot be put into, or read from, its wire form."""


class MessageTooLarge(MessageError):
    """The encoded envelope is over ``Config.max_message_bytes``; nothing was stored."""


class EncodeError(MessageError):
    """A value has no wire form in the codec in use; nothing was stored."""


class DecodeError(MessageError):
    """Bytes that the named codec cannot read, or a codec that is not registered here."""


class PayloadLost(DecodeError):
    """Arguments or a result were put into a payload store, and what is there now is not that.

    ``reason`` is ``payload_missing`` or ``payload_damaged``.
    """

    def __init__(self, message: str = "", *, reason: str = "payload_damaged") -> None:
        super().__init__(message)
        self.reason = reason


class MalformedEnvelope(MessageError):
    """Bytes that are not an envelope of any version."""


class UnsupportedVersion(MessageError):
    """An envelope of a later protocol version than this one reads; never guessed at."""


class TransportError(TaskmqError):
    """The store refused or failed an operation, which then changed nothing."""


class TransportUnavailable(TransportError):
    """The store cannot be reached or is locked by another; the call may be repeated."""


class PayloadUnavailable(TransportUnavailable):
    """The payload store cannot be reached, read or written; the call may be repeated."""


class StoreFull(TransportError):
    """The store has no space left; nothing was written."""


class StoreCorrupt(TransportError):
    """The store's file is damaged or is no store; the message says how to save what is readable."""


class SchemaMismatch(TransportError):
    """The store was written by a version of taskmq that this one cannot work with."""


class QueueFull(TransportError):
    """The queue's declared capacity is reached; nothing was stored.

    ``queue`` is its name, ``depth`` how many jobs wait in it, ``capacity`` how many may.
    """

    def __init__(
        self, message: str = "", *, queue: str = "", depth: int = 0, capacity: int = 0
    ) -> None:
        super().__init__(message)
        self.queue = queue
        self.depth = depth
        self.capacity = capacity


class LeaseLost(TransportError):
    """The delivery's lease is no longer current; the settlement was refused and changed nothing."""


class UnknownDependency(TransportError):
    """A job waits for one that is neither in its batch nor in the store; nothing was stored.

    The other was never stored, or it is finished and was deleted (``result_ttl``, forget, bury).
    """


class IdempotencyConflict(TransportError):
    """The idempotency key is in use by a job with another task or other arguments.

    Nothing of the batch was stored. ``key`` is the key, ``job_id`` the job that owns it.
    """

    def __init__(self, message: str, *, key: str, job_id: str) -> None:
        super().__init__(message)
        self.key = key
        self.job_id = job_id


class Interrupted(TaskmqError):
    """An attempt was ended from outside its task."""


class SoftTimeLimit(Interrupted):
    """Raised inside a task of the processes pool when its ``timeout`` is over.

    An ordinary exception: a task may catch it to clean up and return or raise as it likes, before
    ``hard_timeout`` ends it. Not caught, it fails the attempt like any other.
    """


class HardTimeLimit(Interrupted):
    """``hard_timeout`` was over: the process that ran the task was killed. Fails the attempt; the
    retry policy applies. Never raised inside the task; its hooks get it, in the worker's process.
    ``seconds`` is the limit.
    """

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message, seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return str(self.args[0])


class WorkerLost(Interrupted):
    """The process that ran the task died. Costs a reclaim, not an attempt: the job runs again
    until ``max_deliveries``, then the failure hook gets this, in the worker's process."""


class ResultError(TaskmqError):
    """A handle has no value to give; the subclass says why."""


class RemoteError(ResultError):
    """The job failed on its worker.

    ``type`` is the remote exception's qualified name, ``message`` its text, ``traceback`` the
    remote traceback as text (empty where there was none, as for a lost worker), ``reason`` the
    dead letter's reason.
    """

    def __init__(self, type_: str, message: str, traceback: str = "", reason: str = "") -> None:
        super().__init__(type_, message, traceback, reason)
        self.type = type_
        self.message = message
        self.traceback = traceback
        self.reason = reason

    def __str__(self) -> str:
        text = f"{self.type}: {self.message}" if self.message else self.type
        return f"{text}\n\n{self.traceback.rstrip()}" if self.traceback else text


class JobExpired(ResultError):
    """The job's ``expires`` passed before it started; it never ran."""


class JobRevoked(ResultError):
    """The job was revoked."""


class JobSkipped(ResultError):
    """The job never ran: a job that it depended on did not succeed, or another one with its
    ``dedup`` key has done the work. ``culprit`` is the id of the job that failed, expired or was
    revoked, as far as that is known; its error is the ``__cause__``."""

    def __init__(self, message: str = "", *, culprit: str | None = None) -> None:
        super().__init__(message)
        self.culprit = culprit


class UnknownJob(ResultError):
    """The store knows no job of that id: it never existed there, or its retention has ended."""


class ResultTimeout(ResultError, TimeoutError):
    """The job was not finished within the time given; it is still where it was."""


class ControlSignal(BaseException):
    """Raised by task code to steer its own delivery; always caught by the executor."""


class RetryJob(ControlSignal):
    """Run this job again.

    ``delay`` is in seconds; ``None`` lets the task's retry policy compute it. ``error`` is what
    went wrong, for the history. ``envelope`` (a `taskmq.envelope.Sealed`) replaces the stored
    one. A job whose policy is exhausted goes to the dead letters instead, unless ``unlimited`` is
    set by a caller that counts attempts itself.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        delay: float | None = None,
        error: BaseException | None = None,
        envelope: Any = None,
        unlimited: bool = False,
    ) -> None:
        super().__init__(reason)
        if delay is not None:
            _seconds(delay)
        self.reason = reason
        self.delay = delay
        self.error = error
        self.envelope = envelope
        self.unlimited = unlimited


class ReleaseJob(ControlSignal):
    """Give the job back as if it had not been started; visible again after ``delay`` seconds."""

    def __init__(self, reason: str = "", *, delay: float = 0.0) -> None:
        super().__init__(reason)
        _seconds(delay)
        self.reason = reason
        self.delay = delay


class RejectJob(ControlSignal):
    """Send the job to the dead letters now, without further attempts."""

    def __init__(self, reason: str = "", *, error: BaseException | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


class JobCancelled(ControlSignal):
    """Raised by ``TaskContext.check_cancelled()`` once the job was revoked or its lease lost."""


def _seconds(delay: object) -> None:
    """Refuse a wrong delay where it is written, not when the store is told of it."""
    if isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise TypeError(f"delay must be a number of seconds, got {delay!r}")
    if not math.isfinite(delay):
        raise ValueError(f"delay must be finite, got {delay!r}")
