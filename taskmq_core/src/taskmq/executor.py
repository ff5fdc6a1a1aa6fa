"""One delivery to one settlement: decode, check, run, decide. No loop, no store, no thread.

Every way in which a delivery can end is a value returned from here, so that pools, the eager mode
and tests share one path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from .aside import in_thread
from .context import CoroutineContext, TaskContext, active_context
from .dedup import Dedup, skipped
from .envelope import Envelope, load
from .errors import (
    DecodeError,
    Interrupted,
    JobCancelled,
    MalformedEnvelope,
    PayloadLost,
    PayloadUnavailable,
    StoreFull,
    TransportError,
    TransportUnavailable,
    UnknownTask,
    UnsupportedVersion,
    WorkerLost,
)
from .events import (
    Event,
    JobDeferred,
    JobDelegated,
    JobDropped,
    JobFailed,
    JobRetrying,
    JobStarted,
    JobSucceeded,
)
from .failures import describe
from .inputs import inject
from .references import OFFLOADED
from .states import JobState
from .transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    Expire,
    Nack,
    RetryLater,
    Revoke,
    Settlement,
)
from .verdicts import PUT_OFF, Verdicts, call_hook, state_after

if TYPE_CHECKING:
    from .app import App
    from .tasks import Task

__all__ = ["Attempt", "Executor", "Leash", "Outcome", "never_ran", "park_delay"]

T = TypeVar("T")
C = TypeVar("C", bound=TaskContext)

logger = logging.getLogger("taskmq.executor")

UNRUNNABLE: dict[str, Exception] = {
    "unsupported_version": UnsupportedVersion("no worker here reads envelopes of its version"),
    "unknown_task": UnknownTask("no worker here has that task"),
    "undecodable_arguments": DecodeError("no worker here could decode its arguments"),
    "arguments_do_not_fit": TypeError("its arguments fit the task of no worker here"),
}
"""Why a job is parked, and what is said if that does not change."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a delivery ended. ``runtime`` is the seconds spent in the task; 0 if it never ran."""

    settlement: Settlement
    runtime: float = 0.0


class Attempt(msgspec.Struct):
    """A delivery that can be run: its task is known here and its arguments fit."""

    delivery: Delivery
    envelope: Envelope
    task: Task[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]


class Leash(Protocol):
    """How a coroutine is interrupted from outside, and why that was."""

    def hold(self, context: CoroutineContext) -> None:
        """The body begins: interrupt it when ``context`` says so, or its time is over."""

    def let_go(self) -> None:
        """The body has ended."""

    def explain(self, error: BaseException) -> BaseException:
        """What ``error`` stands for, which came out of the body."""


class Executor:
    """Runs deliveries of one app on behalf of one worker. Safe to use from several threads.

    `execute` is `admit` and then `run`. Where an event loop runs already, the task of an attempt
    that is ``async def`` is awaited there, with `run_async`; by `run`, in an event loop of its
    own, which ends with it. Nothing else differs.

    ``extend`` renews one lease on request of a task. ``running`` maps job ids to the contexts of
    what runs now, so that the worker can tell a task that it was cancelled. ``interrupt`` wraps
    the body of a task that has a ``timeout`` (seconds), to raise an exception in it after that.
    """

    def __init__(
        self,
        app: App,
        *,
        worker: str = "",
        extend: Callable[[Delivery], bool] | None = None,
        interrupt: Callable[[float], AbstractContextManager[None]] | None = None,
        dedup: Dedup | None = None,
    ) -> None:
        self.running: dict[str, TaskContext] = {}
        self._app = app
        self._worker = worker
        self._extend = extend
        self._interrupt = interrupt
        self._clock = app.clock
        self._find = app.tasks.find
        self._codecs = app.codecs
        self._verdicts = Verdicts(app)
        self._arguments_of = app.arguments_of
        self._emitter = app.emitter
        self._offload = app.offload
        self._dedup = dedup or Dedup(app, lease=app.config.lease)
        self._park_ttl = app.config.park_ttl

    def execute(self, delivery: Delivery) -> Outcome:
        """Run one delivery to its end. Never raises on account of a task or a message; only a
        ``KeyboardInterrupt`` passes."""
        return self._admit(delivery, self._run)

    def admit(self, delivery: Delivery) -> Attempt | Outcome:
        """What is to be run, or what becomes of a delivery that cannot be."""
        return self._admit(delivery, Attempt)

    def run(self, attempt: Attempt) -> Outcome:
        """Run the task in this thread. Raises as `execute` does."""
        return self._run(
            attempt.delivery, attempt.envelope, attempt.task, attempt.args, attempt.kwargs
        )

    def _admit(self, delivery: Delivery, then: Callable[..., T]) -> T | Outcome:
        """``then`` with what an `Attempt` consists of: none is made on the way that most jobs go,
        where each object would be felt."""
        try:
            envelope = load(delivery.envelope)
        except MalformedEnvelope as error:
            self._drop(delivery, "malformed")
            return Outcome(DeadLetter(delivery, "malformed", describe(error)))
        except UnsupportedVersion:
            return self._park(delivery, "unsupported_version")
        if envelope.expires_at is not None and self._clock.now() >= envelope.expires_at:
            self._drop(delivery, "expired", envelope)
            return Outcome(Expire(delivery))
        task = self._find(envelope.task)
        if task is None:
            return self._park(delivery, "unknown_task", envelope)
        try:
            if envelope.codec == OFFLOADED:
                envelope = self._app.fetch(envelope)
            args: Sequence[Any]
            args, kwargs = self._arguments_of(envelope)
            if envelope.after:
                args, kwargs = inject(delivery, envelope, self._codecs.decode, args, kwargs)
            if task.converter is not None:
                args, kwargs = task.converter(args, kwargs)
            if task.hooks:
                task.check(args, kwargs)
        except PayloadLost as error:
            self._drop(delivery, error.reason, envelope)
            return Outcome(DeadLetter(delivery, error.reason, describe(error)))
        except PayloadUnavailable as error:
            return self._put_off(delivery, envelope, error)
        except DecodeError:
            return self._park(delivery, "undecodable_arguments", envelope)
        except TypeError:
            return self._park(delivery, "arguments_do_not_fit", envelope)
        return then(delivery, envelope, task, args, kwargs)

    def conclude(
        self, delivery: Delivery, cause: Interrupted | JobCancelled, runtime: float
    ) -> Outcome:
        """The outcome of a run that was ended from outside, by the end of its process: what the
        task's hooks would have been told there, they are told here."""
        try:
            envelope = load(delivery.envelope)
        except (MalformedEnvelope, UnsupportedVersion):
            return Outcome(Nack(delivery, detail=str(cause)), runtime)
        task = self._find(envelope.task)
        if task is None:
            return Outcome(Nack(delivery, detail=str(cause)), runtime)
        context = TaskContext(self._app, delivery, envelope, worker=self._worker, clock=self._clock)
        state: JobState | None = None
        if isinstance(cause, WorkerLost):
            settlement, state = self._verdicts.on_loss(cause, delivery, envelope, task, context)
        else:
            settlement = self._verdicts.on_raise(cause, delivery, envelope, task, context)
        call_hook(task, "after_return", context, state or state_after(settlement))
        if self._emitter.active:
            self._report(settlement, delivery, envelope, runtime, reason="revoked")
            if state is not None:  # lost: no verdict on the task
                self._emit(
                    JobFailed,
                    delivery,
                    envelope,
                    attempt=delivery.attempt,
                    runtime=runtime,
                    error_type=f"{type(cause).__module__}.{type(cause).__qualname__}",
                    error=str(cause),
                    will_retry=state is JobState.QUEUED,
                )
        return Outcome(settlement, runtime)

    # -- the task ----------------------------------------------------------------------------

    def _run(
        self,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Outcome:
        if envelope.dedup is not None:
            refused = self._claim(delivery, envelope)
            if refused is not None:
                return refused
        context = self._begin(TaskContext, delivery, envelope)
        token = active_context.set(context)
        started = self._clock.monotonic()
        try:
            if task.hooks:
                _before(task, context)
            if envelope.timeout is None or self._interrupt is None:
                result = task.body(*args, **kwargs)
            else:
                with self._interrupt(envelope.timeout):
                    result = task.body(*args, **kwargs)
            if task.is_async:
                result = _complete(result)
            settlement = self._verdicts.on_result(result, delivery, envelope, task, context)
            if self._offload is not None:
                settlement = self._sent(settlement, envelope)
        except KeyboardInterrupt:
            raise  # of whoever sits at the terminal, not of the task
        except BaseException as error:
            if _did_not_fit(error, task, args, kwargs):
                if envelope.dedup is not None:
                    self._dedup.give_up(delivery, envelope)
                return self._park(delivery, "arguments_do_not_fit", envelope)
            settlement = self._verdicts.on_raise(error, delivery, envelope, task, context)
        finally:
            runtime = self._clock.monotonic() - started
            active_context.reset(token)
            self.running.pop(delivery.job_id, None)
        if envelope.dedup is not None:
            self._dedup.close(settlement, envelope, lost=context.lease_lost)
        if task.hooks or self._emitter.active:
            self._tell(settlement, delivery, envelope, task, context, runtime)
        return Outcome(settlement, runtime)

    def _claim(self, delivery: Delivery, envelope: Envelope) -> Outcome | None:
        """What becomes of a job that does not pass the gate of its dedup key."""
        try:
            if self._dedup.claim(delivery, envelope):
                return None
        except (StoreFull, TransportUnavailable) as error:
            return self._put_off(delivery, envelope, error)
        except TransportError as error:
            self._drop(delivery, "dedup_unavailable", envelope)
            return Outcome(DeadLetter(delivery, "dedup_unavailable", describe(error)))
        logger.info("job %s skipped: dedup key %r is taken", delivery.job_id, envelope.dedup)
        self._drop(delivery, "duplicate", envelope)
        return Outcome(Ack(delivery, skipped(envelope)))

    def _begin(self, kind: type[C], delivery: Delivery, envelope: Envelope) -> C:
        """Make an attempt known: its context, to events and to whoever may cancel it."""
        context = kind(
            self._app,
            delivery,
            envelope,
            worker=self._worker,
            clock=self._clock,
            extend=self._extend,
        )
        if self._emitter.active:
            self._emit(JobStarted, delivery, envelope, attempt=delivery.attempt)
        self.running[delivery.job_id] = context
        return context

    async def run_async(self, attempt: Attempt, leash: Leash) -> Outcome:
        """`run`, with the task awaited and ``leash`` to interrupt it. With context variables of its
        own: what the context is for `current_task` is never taken back there."""
        delivery, envelope, task = attempt.delivery, attempt.envelope, attempt.task
        if envelope.dedup is not None:
            refused = await in_thread(self._claim, delivery, envelope)
            if refused is not None:
                return refused
        context = self._begin(CoroutineContext, delivery, envelope)
        active_context.set(context)
        started = self._clock.monotonic()
        try:
            if task.hooks:
                _before(task, context)
            leash.hold(context)
            try:
                result = await task.body(*attempt.args, **attempt.kwargs)
            finally:
                leash.let_go()
            settlement = self._verdicts.on_result(result, delivery, envelope, task, context)
            if self._offload is not None:
                settlement = await in_thread(self._sent, settlement, envelope)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if _did_not_fit(error, task, attempt.args, attempt.kwargs):
                if envelope.dedup is not None:
                    await in_thread(self._dedup.give_up, delivery, envelope)
                return self._park(delivery, "arguments_do_not_fit", envelope)
            settlement = self._verdicts.on_raise(
                leash.explain(error), delivery, envelope, task, context
            )
        finally:
            runtime = self._clock.monotonic() - started
            self.running.pop(delivery.job_id, None)
        if envelope.dedup is not None:
            lost = context.lease_lost
            await in_thread(self._dedup.close, settlement, envelope, lost=lost)
        if task.hooks or self._emitter.active:
            self._tell(settlement, delivery, envelope, task, context, runtime)
        return Outcome(settlement, runtime)

    # -- after the task ----------------------------------------------------------------------

    def _tell(
        self,
        settlement: Settlement,
        delivery: Delivery,
        envelope: Envelope,
        task: Task[..., Any],
        context: TaskContext,
        runtime: float,
    ) -> None:
        """The last hook, and the events."""
        if task.hooks:
            call_hook(task, "after_return", context, state_after(settlement))
        if self._emitter.active:
            reason = "lease_lost" if context.lease_lost else "revoked"
            self._report(settlement, delivery, envelope, runtime, reason=reason)

    def _sent(self, settlement: Settlement, envelope: Envelope) -> Settlement:
        """With a large result put into the payload store, if there is one."""
        if self._offload is None or not isinstance(settlement, Ack) or settlement.result is None:
            return settlement
        job_id = settlement.delivery.job_id
        stored = self._offload.send_result(job_id, settlement.result, envelope.workflow)
        return msgspec.structs.replace(settlement, result=stored)

    def _put_off(self, delivery: Delivery, envelope: Envelope, error: TransportError) -> Outcome:
        """Until what is needed before the task can start answers again; that costs nothing."""
        logger.warning("job %s is put off: %s", delivery.job_id, error)
        if self._emitter.active:
            self._emit(JobDeferred, delivery, envelope, reason="unavailable", parked=False)
        return Outcome(Defer(delivery, PUT_OFF))

    def _park(self, delivery: Delivery, reason: str, envelope: Envelope | None = None) -> Outcome:
        """Until a worker comes that can run it, or its time in the park is over. The offer at that
        very moment is the last: so a worker can tell of the end that maintenance would make."""
        now = self._clock.now()
        left = self._park_ttl - (0.0 if delivery.parked_at is None else now - delivery.parked_at)
        if delivery.parked_at is not None and left <= 0:
            self._drop(delivery, reason, envelope)
            return Outcome(DeadLetter(delivery, reason, describe(UNRUNNABLE[reason])))
        delay = min(park_delay(delivery.parked_at, now), max(0.0, left))
        if envelope and self._emitter.active:
            self._emit(JobDeferred, delivery, envelope, reason=reason, parked=True)
        return Outcome(Defer(delivery, delay, reason, self._park_ttl))

    def _drop(self, delivery: Delivery, reason: str, envelope: Envelope | None = None) -> None:
        if self._emitter.active:
            dropped = JobDropped(
                at=self._clock.now(),
                job_id=delivery.job_id,
                task=envelope.task if envelope else "",
                queue=delivery.queue,
                reason=reason,
                trace=envelope.trace if envelope else {},
            )
            self._emitter.emit(dropped)

    # -- events ------------------------------------------------------------------------------

    def _report(
        self,
        settlement: Settlement,
        delivery: Delivery,
        envelope: Envelope,
        runtime: float,
        *,
        reason: str,
    ) -> None:
        """``reason``: why it stopped, if it stopped because it was asked to."""
        attempt = delivery.attempt
        if isinstance(settlement, Ack):
            self._emit(JobSucceeded, delivery, envelope, attempt=attempt, runtime=runtime)
        elif isinstance(settlement, Delegate):
            self._emit(JobDelegated, delivery, envelope, attempt=attempt, to=settlement.to)
        elif isinstance(settlement, (RetryLater, DeadLetter)):
            self._emit(
                JobFailed,
                delivery,
                envelope,
                attempt=attempt,
                runtime=runtime,
                error_type=settlement.failure.type,
                error=settlement.failure.message,
                will_retry=isinstance(settlement, RetryLater),
                traceback=settlement.failure.traceback,
            )
            if isinstance(settlement, RetryLater):
                visible = self._clock.now() + settlement.delay
                self._emit(
                    JobRetrying, delivery, envelope, attempt=attempt, next_visible_at=visible
                )
        elif isinstance(settlement, Defer):
            self._emit(JobDeferred, delivery, envelope, reason="deferred", parked=False)
        elif isinstance(settlement, Revoke):
            self._drop(delivery, reason, envelope)

    def _emit(
        self, kind: Callable[..., Event], delivery: Delivery, envelope: Envelope, **fields: Any
    ) -> None:
        self._emitter.emit(
            kind(
                at=self._clock.now(),
                job_id=delivery.job_id,
                task=envelope.task,
                queue=delivery.queue,
                trace=envelope.trace,
                worker=self._worker,
                **fields,
            )
        )


def never_ran(letter: DeadLetter) -> bool:
    """Whether no attempt has led to this dead letter. Its reason alone does not say so: a job may
    reject itself with any."""
    unrunnable = UNRUNNABLE.get(letter.reason)
    if unrunnable is not None:
        return letter.failure == describe(unrunnable)
    if letter.reason != "malformed":
        return False
    try:
        load(letter.delivery.envelope)
    except MalformedEnvelope:
        return True
    except UnsupportedVersion:
        pass
    return False


def park_delay(parked_at: float | None, now: float) -> float:
    """Seconds until a parked job is offered again: a tenth of its time in the park, 1 to 30."""
    return 1.0 if parked_at is None else min(30.0, max(1.0, (now - parked_at) / 10))


def _did_not_fit(
    error: BaseException, task: Task[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> bool:
    """Whether the call itself failed, not the body: checked only when a TypeError came without
    any frame of the body, so that a call that fits costs nothing."""
    if not isinstance(error, TypeError) or error.__traceback__ is None:
        return False
    if error.__traceback__.tb_next is not None:
        return False
    try:
        task.check(args, kwargs)
    except TypeError:
        return True
    return False


def _complete(coroutine: Coroutine[Any, Any, Any]) -> Any:
    import asyncio  # as in `aside`

    try:
        return asyncio.run(coroutine)
    finally:
        coroutine.close()  # never started where a loop runs already, as in an eager app's test


def _before(task: Task[..., Any], context: TaskContext) -> None:
    if "before_start" in task.hooks:
        task.before_start(context)
