"""What a running task can know and do about its own delivery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec.structs import replace

from .call import Call, Expandable, Extension, Replacement
from .clock import Clock
from .envelope import Dependency, Envelope
from .errors import JobCancelled, RetryJob, TaskmqError
from .ids import new_id, offspring_id
from .inputs import inject
from .retry import DEFAULT_RETRY, policy_of_job
from .transport import Delivery

if TYPE_CHECKING:
    from .app import App
    from .result import Result
    from .tasks import Task

__all__ = [
    "CoroutineContext",
    "TaskContext",
    "TaskLog",
    "active_context",
    "current_app",
    "current_task",
]

D = TypeVar("D")
active_context: ContextVar[TaskContext | None] = ContextVar("taskmq_context", default=None)
"""The context of the task that runs in this thread or coroutine; set by the executor."""


@overload
def current_task() -> TaskContext: ...


@overload
def current_task(default: D, /) -> TaskContext | D: ...


def current_task(*default: Any) -> Any:
    """The context of the running task. Outside of one: ``default``, or `TaskmqError` without it.

    >>> print(current_task(None))
    None
    """
    context = active_context.get()
    if context is None:
        if default:
            return default[0]
        raise TaskmqError("no task is running here: current_task() works inside a task only")
    return context


def current_app() -> App:
    """The app whose task is running. Raises `TaskmqError` outside of one."""
    return current_task().app


class TaskContext:
    """One delivery, as its task sees it. Made by the executor; tests may make one themselves.

    ``attempt`` counts from 1 and is raised by retries; ``deliveries`` counts hand-outs;
    ``deadline`` is the epoch second by which the task should have finished (``None`` without a
    timeout): sync code in a thread is not interrupted, it looks at `remaining` itself.

    ``cancelled`` turns true when the job was revoked, or when its lease was lost: then
    ``lease_lost`` is true as well, the job belongs to another worker, and whatever becomes of it
    here is refused by the store.
    """

    __slots__ = (
        "_extend",
        "app",
        "cancelled",
        "clock",
        "deadline",
        "delivery",
        "envelope",
        "lease_lost",
        "started_at",
        "worker",
    )

    def __init__(
        self,
        app: App,
        delivery: Delivery,
        envelope: Envelope,
        *,
        worker: str = "",
        clock: Clock,
        extend: Callable[[Delivery], bool] | None = None,
    ) -> None:
        self.app = app
        self.delivery = delivery
        self.envelope = envelope
        self.worker = worker
        self.clock = clock
        self.cancelled = False
        self.lease_lost = False
        self.started_at = clock.now()
        self.deadline = None if envelope.timeout is None else self.started_at + envelope.timeout
        self._extend = extend

    @property
    def id(self) -> str:
        return self.delivery.job_id

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.envelope.task

    @property
    def queue(self) -> str:
        return self.delivery.queue

    @property
    def attempt(self) -> int:
        return self.delivery.attempt

    @property
    def deliveries(self) -> int:
        return self.delivery.deliveries

    @property
    def reclaims(self) -> int:
        """How often a worker was lost with this job before."""
        return self.delivery.reclaims

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments as they came: for hooks, which are not given them.
        Decoded at each use, and not converted to what the task's annotations say. Raises
        `DecodeError`, `PayloadUnavailable`."""
        args, kwargs = self.app.arguments_of(self.envelope)
        if not self.envelope.after:
            return args, kwargs
        return inject(self.delivery, self.envelope, self.app.codecs.decode, args, kwargs)

    @property
    def headers(self) -> Mapping[str, Any]:
        return self.envelope.headers

    @property
    def trace(self) -> Mapping[str, str]:
        return self.envelope.trace

    @property
    def log(self) -> TaskLog:
        """A logger whose records carry job_id, task, attempt, queue and worker."""
        return TaskLog(self)

    def remaining(self) -> float | None:
        """Seconds until the deadline, negative once it has passed; ``None`` without one."""
        return None if self.deadline is None else self.deadline - self.clock.now()

    @property
    def is_last_attempt(self) -> bool:
        """Whether `retry` would ask in vain: the attempts that the policy allows are used up, or
        the job is acknowledged whatever becomes of it. The moment to clean up or tell somebody."""
        policy = policy_of_job(self.app.tasks[self.task].policy.retry, self.envelope.max_attempts)
        ceiling = (policy or DEFAULT_RETRY).max_attempts
        return self.attempt >= ceiling or self.envelope.ack == "on_completion"

    def retry(
        self,
        reason: str = "",
        *,
        delay: float | None = None,
        error: BaseException | None = None,
    ) -> RetryJob:
        """The exception to raise to run again: ``raise ctx.retry("rate limited")``.

        The task's policy computes the delay unless it is given (seconds), and its ceiling holds
        either way; a task without a policy gets the default `Retry`. ``error`` is what went wrong:
        history, hooks and, once the ceiling is reached, the dead letter and whoever waits for the
        result are told of it in place of the request.
        """
        return RetryJob(reason, delay=delay, error=error)

    def publish(self, task: Task[..., Any], *args: Any, **kwargs: Any) -> Result[Any]:
        """Submit another task, carrying this one's trace along."""
        return task.call(*args, **kwargs).options(trace=dict(self.trace)).submit()

    def replace(self, work: Expandable | Call[Any]) -> Replacement:
        """To be returned: ``return ctx.replace(workflow)``, or a single call. The workflow's jobs
        are stored in the step that settles this one; its result becomes this job's, and whoever
        waits for this job waits for that. If it fails, this job is SKIPPED."""
        workflow = self.envelope.workflow or self.id
        if isinstance(work, Call):
            alone = replace(work, feeds=True, workflow=workflow, id=work.with_.id or new_id())
            calls, to = [alone], str(alone.id)
        else:
            expanded, to = work.expand(workflow)
            calls = list(expanded)
        # Their ids say which node of the workflow they were added by.
        ids = {
            str(call.id): offspring_id(self.id, str(call.id))
            for call in calls
            if call.with_.id is None
        }
        return Replacement(
            tuple(self._following(_renamed(call, ids)) for call in calls), ids.get(to, to)
        )

    def extend(self, *calls: Call[Any], result: Any = None) -> Extension:
        """To be returned: ``return ctx.extend(visit.call(url), …, result=page)``. The calls become
        members of what this job is a member of: whoever waits for it waits for them, too, and a
        list that is collected of such jobs has their results at its end."""
        ids = sorted(new_id(self.clock.now()) for _ in calls)
        members = [
            replace(
                call,
                feeds=True,
                workflow=self.envelope.workflow,
                id=call.with_.id or offspring_id(self.id, job_id),
            )
            for call, job_id in zip(calls, ids, strict=True)
        ]
        return Extension(tuple(self._following(call) for call in members), result)

    def _following(self, call: Call[Any]) -> Call[Any]:
        """With this job's trace, unless it has one of its own."""
        if call.with_.trace is not None or not self.trace:
            return call
        return call.options(trace=dict(self.trace))

    def heartbeat(self) -> bool:
        """Renew the lease now; false if it is lost. The worker renews by itself: call this only
        around code that holds the interpreter for longer than the lease."""
        return True if self._extend is None else self._extend(self.delivery)

    def check_cancelled(self) -> None:
        """Cancellation point: raises `JobCancelled` once the job was revoked or the lease lost."""
        if self.lease_lost:
            raise JobCancelled(f"the lease of job {self.id} was lost: it runs elsewhere")
        if self.cancelled:
            raise JobCancelled(f"job {self.id} was cancelled")


def _renamed(call: Call[Any], ids: Mapping[str, str]) -> Call[Any]:
    """With the new ids, where it and what it waits for have such."""
    after = tuple(Dependency(ids.get(d.job, d.job), d.into, d.collect) for d in call.after)
    return replace(call, id=ids.get(str(call.id), call.id), after=after)


class CoroutineContext(TaskContext):
    """That of a coroutine, which can be interrupted: ``on_cancel`` is called, in the thread that
    sets it, when ``cancelled`` turns true."""

    __slots__ = ("_cancelled", "on_cancel")

    _cancelled: bool
    on_cancel: Callable[[], None] | None
    """Not there before somebody wants to be called, which is rare among short jobs."""

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        turns = value and not self._cancelled
        self._cancelled = value
        if turns:
            call = getattr(self, "on_cancel", None)  # read once: it goes away when the task ends
            if call is not None:
                call()


class TaskLog:
    """Structured logging for a task: ``ctx.log.info("sending", to=to)``.

    Records go to the logger ``taskmq.task.<task name>``; the fields are in ``record.taskmq``.
    """

    def __init__(self, context: TaskContext) -> None:
        self._logger = logging.getLogger(f"taskmq.task.{context.task}")
        self._fields = {
            "job_id": context.id,
            "task": context.task,
            "attempt": context.attempt,
            "queue": context.queue,
            "worker": context.worker,
        }

    def debug(self, message: str, /, **fields: Any) -> None:
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self._log(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        self._log(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self._log(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: Any) -> None:
        """`error` with the traceback of the exception being handled."""
        self._log(logging.ERROR, message, fields, exc_info=True)

    def _log(
        self, level: int, message: str, fields: dict[str, Any], *, exc_info: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(
                level,
                message,
                extra={"taskmq": {**self._fields, **fields}},
                exc_info=exc_info,
                stacklevel=3,
            )
