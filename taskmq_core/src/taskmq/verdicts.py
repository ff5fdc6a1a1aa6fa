"""What becomes of a job once its task has ended: from a result or an error to a settlement. The
hooks that decide nothing (`on_success`, `on_failure`, `on_retry`, `on_lost`) are called here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .call import Call, Extension, Replacement
from .codec import Payload
from .demands import refuse_growth, refuse_jobs
from .envelope import Envelope, Sealed
from .errors import (
    ControlSignal,
    EncodeError,
    JobCancelled,
    PayloadUnavailable,
    RejectJob,
    ReleaseJob,
    RetryJob,
    TaskmqError,
    WorkerLost,
)
from .failures import describe, forget_frames
from .retry import DEFAULT_RETRY, Retry, policy_of_job
from .states import JobState
from .transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    Nack,
    RetryLater,
    Revoke,
    Settlement,
)

if TYPE_CHECKING:
    from .app import App
    from .context import TaskContext
    from .tasks import Task

__all__ = ["PUT_OFF", "Verdicts", "call_hook", "state_after"]

logger = logging.getLogger("taskmq.executor")

NULL = Payload("json", b"null")

PUT_OFF = 5.0
"""Seconds until a job is offered again that could not be started for want of a server."""


class Verdicts:
    """Decides for the jobs of one app. Safe to use from several threads."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._clock = app.clock
        self._codecs = app.codecs

    def on_result(
        self,
        result: Any,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        context: TaskContext,
    ) -> Settlement:
        """Of a task that returned: a result, what it adds to its workflow, or what replaces it."""
        try:
            if type(result) is Replacement:
                jobs = self._seal(result.calls)
                return Delegate(delivery, jobs, result.to)
            spawn: Sequence[Sealed] = ()
            if type(result) is Extension:
                spawn, result = self._seal(result.calls), result.result
            payload = None
            if envelope.store_result or envelope.feeds:
                payload = self._payload(envelope, result)
        except PayloadUnavailable as error:  # what it adds cannot be stored now, but later
            logger.warning("job %s is put off: %s", delivery.job_id, error)
            return Defer(delivery, PUT_OFF)
        except EncodeError as error:  # running again would not help
            call_hook(task, "on_failure", context, error)
            return DeadLetter(delivery, "unencodable_result", describe(error))
        if task.hooks:
            call_hook(task, "on_success", context, result)
        return Ack(delivery, payload, spawn)

    def on_raise(
        self,
        error: BaseException,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        context: TaskContext,
    ) -> Settlement:
        """Of a task that raised. What the frames of ``error`` held is let go."""
        try:
            if isinstance(error, ControlSignal):
                return self._on_signal(error, delivery, envelope, task, context)
            return self._on_error(error, delivery, envelope, task, context)
        finally:
            forget_frames(error)

    def _on_signal(
        self,
        signal: ControlSignal,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        context: TaskContext,
    ) -> Settlement:
        if isinstance(signal, RetryJob):
            return self._on_retry(signal, delivery, envelope, task, context)
        if isinstance(signal, JobCancelled):
            return Revoke(delivery)
        if isinstance(signal, ReleaseJob):
            return Defer(delivery, signal.delay)
        reason = signal.reason if isinstance(signal, RejectJob) and signal.reason else "rejected"
        cause = getattr(signal, "error", None) or signal
        call_hook(task, "on_failure", context, cause)
        return DeadLetter(delivery, reason, describe(cause))

    def _on_retry(
        self,
        signal: RetryJob,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        context: TaskContext,
    ) -> Settlement:
        policy = _retry_of(task, envelope) or DEFAULT_RETRY
        delay = policy.delay_after(delivery.attempt, None)
        if signal.unlimited:
            delay = signal.delay or 0.0
        elif delay is not None and signal.delay is not None:
            delay = signal.delay
        cause = signal.error or signal
        if delay is None or (envelope.ack == "on_completion" and not signal.unlimited):
            call_hook(task, "on_failure", context, cause)
            return DeadLetter(delivery, "max_attempts", describe(cause))
        call_hook(task, "on_retry", context, signal.error)
        return RetryLater(delivery, delay, describe(cause), signal.envelope)

    def _on_error(
        self,
        error: BaseException,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        context: TaskContext,
    ) -> Settlement:
        policy = _retry_of(task, envelope)
        failure = describe(error)
        delay = policy.delay_after(delivery.attempt, error) if policy else None
        if delay is None or envelope.ack == "on_completion":
            call_hook(task, "on_failure", context, error)
            reason = "max_attempts" if policy and policy.covers(error) else "error"
            return DeadLetter(delivery, reason, failure)
        call_hook(task, "on_retry", context, error)
        return RetryLater(delivery, delay, failure)

    def on_loss(
        self,
        error: WorkerLost,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        context: TaskContext,
    ) -> tuple[Settlement, JobState]:
        """The store counts; what it will make of it is foreseen here, for the hook."""
        call_hook(task, "on_lost", context, error)
        settlement = Nack(delivery, detail=str(error))
        if envelope.ack != "on_receipt" and delivery.reclaims + 1 < envelope.max_deliveries:
            return settlement, JobState.QUEUED
        call_hook(task, "on_failure", context, error)
        return settlement, JobState.FAILED

    def _seal(self, calls: Sequence[Call[Any]]) -> list[Sealed]:
        """What a task adds to its workflow. Raises `EncodeError` for what cannot be stored, and
        `PayloadUnavailable`. A full queue refuses none of it: the room that a worker would wait
        for is made by workers."""
        now, app = self._clock.now(), self._app
        try:
            has = app.capabilities
            if has is not None:
                refuse_growth(app.store_name, has)
            sealed = [app.seal(call, now) for call in calls]
            if has is not None:
                refuse_jobs(sealed, app.store_name, has)
            return [Sealed(each.envelope, each.data) for each in sealed]
        except PayloadUnavailable:
            raise
        except TaskmqError as error:
            raise EncodeError(str(error)) from error

    def _payload(self, envelope: Envelope, result: Any) -> Payload:
        if result is None:
            return NULL
        return self._codecs.encode(result, envelope.codec)


def call_hook(task: Task[..., Any], hook: str, context: TaskContext, value: Any) -> None:
    if hook not in task.hooks:
        return
    try:
        getattr(task, hook)(context, value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a control signal or SystemExit has no meaning any more at this point
        logger.exception("%s of task %s failed (job %s)", hook, task.name, context.id)


def state_after(settlement: Settlement) -> JobState:
    if isinstance(settlement, Ack):
        return JobState.SUCCEEDED
    if isinstance(settlement, Delegate):
        return JobState.WAITING
    if isinstance(settlement, RetryLater):
        return JobState.RETRYING
    if isinstance(settlement, DeadLetter):
        return JobState.FAILED
    if isinstance(settlement, Revoke):
        return JobState.REVOKED
    return JobState.QUEUED


def _retry_of(task: Task[..., Any], envelope: Envelope) -> Retry | None:
    """What holds for one job."""
    return policy_of_job(task.policy.retry, envelope.max_attempts)
