"""The handle of a job: its state, its value, and ways to wait for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .aside import in_thread
from .codec import SKIPPED
from .control import whoami
from .conversion import convert
from .envelope import Envelope, load
from .errors import (
    JobExpired,
    JobRevoked,
    JobSkipped,
    MessageError,
    RemoteError,
    ResultError,
    ResultTimeout,
    UnknownJob,
)
from .ids import timestamp_of
from .records import JobRecord
from .states import TERMINAL, JobState
from .transport import Listener

if TYPE_CHECKING:
    from .app import App
    from .tasks import Task

__all__ = ["Result"]

R = TypeVar("R")
NEW = 0.003
"""Seconds."""
LONGEST_CHAIN = 1000
"""Skipped jobs, one because of the other, that are looked at for the first reason."""


class Result(Generic[R]):
    """A job that was submitted. Cheap to make; every read asks the store.

    ``created`` is false if an idempotency key led to a job that existed already.
    """

    __slots__ = ("_task", "app", "created", "id")

    def __init__(
        self, app: App, job_id: str, task: Task[..., R] | None = None, created: bool = True
    ) -> None:
        self.app = app
        self.id = job_id
        self.created = created
        self._task = task

    @property
    def record(self) -> JobRecord | None:
        """All the store knows of the job; ``None`` for an unknown id."""
        return self.app.transport.get([self.id])[0]

    @property
    def state(self) -> JobState:
        """One read, without waiting. ``UNKNOWN`` for an id the store does not know."""
        record = self.record
        return record.state if record else JobState.UNKNOWN

    @property
    def info(self) -> dict[str, Any]:
        """attempt, deliveries, worker, runtime (seconds) and the like; empty if unknown."""
        record = self.record
        if record is None:
            return {}
        started, finished = record.started_at, record.finished_at
        return {
            "state": record.state,
            "task": record.task,
            "queue": record.queue,
            "attempt": record.attempt,
            "deliveries": record.deliveries,
            "reclaims": record.reclaims,
            "worker": record.worker,
            "enqueued_at": record.enqueued_at,
            "started_at": started,
            "finished_at": finished,
            "runtime": None if started is None or finished is None else finished - started,
            "parked_reason": record.parked_reason,
            "dead_reason": record.dead_reason,
            "revoked_by": record.revoked_by,
            "revoked_at": record.revoked_at,
        }

    def wait(self, timeout: float | None = None) -> JobState:
        """Block until the job is finished, whatever the outcome.

        Raises `ResultTimeout` after ``timeout`` seconds and `UnknownJob` for an id the store
        does not know.
        """
        return self._finished(timeout).state

    def get(self, timeout: float | None = None) -> R:
        """Block for the return value.

        Raises `RemoteError` (failed), `JobExpired`, `JobRevoked`, `JobSkipped`, `UnknownJob`,
        `ResultTimeout` after ``timeout`` seconds, and `ResultError` if the job succeeded but its
        value was not kept (``store_result=False``).
        """
        return self._value(self._finished(timeout))

    async def aget(self, timeout: float | None = None) -> R:
        """`get` for asyncio callers, through a thread."""
        return self._value(await self._afinished(timeout))

    async def await_finished(self, timeout: float | None = None) -> JobState:
        """`wait` for asyncio callers, through a thread."""
        return (await self._afinished(timeout)).state

    def revoke(self, *, terminate: bool = False, by: str | None = None) -> bool:
        """Take the job out: it will not start, and is asked to stop if it runs. False if it is
        finished or unknown. ``by`` says to people who wanted it; ``user@host`` unless given.

        With ``terminate`` its process is killed if it runs in one that can be: in a child of the
        processes pool. Elsewhere the task is asked, as without.
        """
        author = whoami() if by is None else by
        return self.app.transport.revoke([self.id], terminate=terminate, by=author)[0]

    def forget(self) -> bool:
        """Delete the finished job and its value from the store; false if there was none."""
        return self.app.transport.forget([self.id]) == 1

    def _finished(self, timeout: float | None) -> JobRecord:
        return _Wait(self, timeout).run()

    async def _afinished(self, timeout: float | None) -> JobRecord:
        import asyncio  # as in `aside`

        wait = _Wait(self, timeout)
        try:
            return await in_thread(wait.run)
        except asyncio.CancelledError:
            wait.abandon()  # or its thread would hold up the end of the program
            raise

    def _value(self, record: JobRecord) -> R:
        if record.state is JobState.SKIPPED:
            raise _skipped(self.app, record)
        if record.state is not JobState.SUCCEEDED:
            raise _error_of(record)
        if record.result is None:
            raise ResultError(f"job {self.id} succeeded; its value was not kept (store_result)")
        if record.result.codec == SKIPPED:
            raise JobSkipped(
                f"job {self.id} was skipped: another job with its dedup key has done the work "
                f"({record.result.data.decode()})"
            )
        value = self.app.codecs.decode(record.result)
        task = self._task or self.app.tasks.find(record.task)
        hint = task.result_type if task else None
        return cast("R", value if hint is None else convert(value, hint))

    def __repr__(self) -> str:
        return f"<result {self.id}>"


class _Wait:
    """Waits for the end of one job; another thread may abandon it."""

    def __init__(self, result: Result[Any], timeout: float | None) -> None:
        self._result = result
        self._timeout = timeout
        self._listener: Listener | None = None
        self._abandoned = False

    def abandon(self) -> None:
        """Let `run` return soon, with whatever there is."""
        self._abandoned = True
        if self._listener is not None:
            self._listener.wake()

    def run(self) -> JobRecord:
        """The finished job. Raises `ResultTimeout` and `UnknownJob`."""
        if not self._is_new():
            record = self._look()
            if record.state in TERMINAL:
                return record
        if not self._result.app.run_eagerly(self._result.id):
            return self._listen()
        record = self._look()
        if record.state not in TERMINAL and record.state is not JobState.RUNNING:
            why = f" ({record.parked_reason})" if record.parked_reason else ""
            raise ResultTimeout(f"job {record.id} is {record.state}{why}, and nothing runs it")
        return record if record.state in TERMINAL else self._listen()

    def _is_new(self) -> bool:
        """Whether it was submitted so shortly ago that a look before one listens is in vain."""
        try:
            age = self._result.app.clock.now() - timestamp_of(self._result.id)
        except ValueError:  # an id of the caller's
            return False
        return age < NEW

    def _listen(self) -> JobRecord:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        self._listener = listener = self._result.app.transport.listen(jobs=[self._result.id])
        try:
            while True:
                listener.clear()
                record = self._look()
                if record.state in TERMINAL or self._abandoned:
                    return record
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    waited = f"after {self._timeout:g} s"
                    raise ResultTimeout(f"job {record.id} is {record.state} {waited}")
                listener.wait(left)
                ended: JobRecord | None = getattr(listener, "ended", None)
                if ended is not None:  # a store may tell with the news what a look would find
                    return ended
        finally:
            listener.close()

    def _look(self) -> JobRecord:
        record = self._result.record
        if record is None:
            raise UnknownJob(
                f"the store knows no job {self._result.id} (never stored, or past its TTL)"
            )
        return record


def _error_of(record: JobRecord) -> ResultError:
    if record.state is JobState.EXPIRED:
        return JobExpired(f"job {record.id} expired before it started")
    if record.state is JobState.REVOKED:
        return JobRevoked(f"job {record.id} was revoked")
    failure, reason = record.failure, record.dead_reason or ""
    if failure is None:
        return RemoteError(reason or "failed", f"job {record.id}", reason=reason)
    return RemoteError(failure.type, failure.message, failure.traceback, reason)


def _skipped(app: App, record: JobRecord) -> JobSkipped:
    """Which job is the reason, and why that did not succeed, as far as the store still knows."""
    culprit = _culprit(app, record)
    if culprit is None and _run_if(record) == "failed":
        return JobSkipped(f"job {record.id} was skipped: it runs if another one fails; none did")
    if culprit is None:
        return JobSkipped(f"job {record.id} was skipped: a job it depends on did not succeed")
    known = _error_of(culprit)
    why = f"{known.type}: {known.message}" if isinstance(known, RemoteError) else ""
    what = f"job {culprit.id} ({culprit.task}) {_ENDED[culprit.state]}"
    error = JobSkipped(
        f"job {record.id} was skipped, because {what}" + (f": {why}" if why else ""),
        culprit=culprit.id,
    )
    error.__cause__ = known
    return error


_ENDED = {
    JobState.FAILED: "failed",
    JobState.EXPIRED: "expired before it started",
    JobState.REVOKED: "was revoked",
}


def _culprit(app: App, record: JobRecord) -> JobRecord | None:
    """The job that is the reason, at the end of a chain of skipped ones."""
    for _ in range(LONGEST_CHAIN):
        if record.state in _ENDED:
            return record
        skipped = None
        for needed in app.transport.get(_needs(record)):
            if needed is not None and needed.state in _ENDED:
                return needed
            if needed is not None and needed.state is JobState.SKIPPED:
                skipped = needed
        if skipped is None:
            return None
        record = skipped
    return None


def _needs(record: JobRecord) -> list[str]:
    if record.delegated_to is not None:
        return [record.delegated_to]
    envelope = _envelope(record)
    return list(dict.fromkeys(each.job for each in envelope.after)) if envelope else []


def _run_if(record: JobRecord) -> str:
    envelope = _envelope(record)
    return envelope.run_if if envelope else ""


def _envelope(record: JobRecord) -> Envelope | None:
    try:
        return load(record.envelope)
    except MessageError:
        return None
