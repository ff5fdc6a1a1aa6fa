"""One engine job as one run of a Celery task: what the engine calls, and what it is told.

The engine's task for a Celery task is `run_job`. It lets Celery's tracer do everything that
Celery promises around the body, and says what came of it in the engine's terms:

| Celery | engine |
|---|---|
| success | the return value, with the results of the tasks that it called |
| `Ignore` | the job delegates to `NOBODY`: there is no result, and nothing behind it runs |
| ``Task.replace`` | the job delegates |
| ``Task.add_to_chord`` | the job succeeds, and is extended |
| `Retry` | `RetryJob`, with the envelope of the next attempt |
| `Reject(requeue=True)` | `RetryJob`, with an envelope that says so |
| `Reject` | `RejectJob` |
| failure, or an error in what surrounds the body | the original exception |
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from kombu.exceptions import EncodeError

from taskmq import TaskContext, errors
from taskmq.call import Call, Extension, Options, Replacement
from taskmq.errors import RejectJob, RetryJob
from taskmq.ids import new_id
from taskmq.states import JobState

from .codec import Kept, codec_name
from .message import NOBODY, Growth, Member, request_dict, requeued_envelope, retry_envelope
from .received import Received
from .running import CHECK_RESULT, DONE_BEFORE, GROWTH, PENDING_RETRY

__all__ = ["MEMBER_TASK", "call_unreached", "run_job", "run_member"]

PLAIN = frozenset({str, int, bool, type(None)})
"""Types whose values every codec can encode. Not float: not every codec takes NaN."""

PICKLE = codec_name("pickle")

MEMBER_TASK = "taskmq_celery.member"

TRACE, CALLBACKS, REPLACING = (
    "celery.app.trace",
    "celery.app.callbacks",
    "celery.app.replacing",
)
EXCEPTIONS, ENDS = "celery.exceptions", "celery.worker.ends"
REQUEST = "celery.worker.request:Request"
"""What ``Task.Request`` is unless a program has a class of its own."""

RESULTS = "taskmq_celery.results"
"""Where tracers are made. By name, at the time of use: libraries replace the function there, and
this package stands below ``celery``."""


def run_job(celery_task: Any, ctx: TaskContext, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """Run ``celery_task`` for one delivery; gives its value or raises what the engine acts upon."""
    trace = celery_task.__trace__ or _tracer(celery_task, ctx.worker)
    request = request_dict(ctx)
    request[CHECK_RESULT] = _result_check(ctx)
    done: list[Any] = []
    if request["delivery_info"]["redelivered"]:
        request[DONE_BEFORE] = done
    if request["ignore_result"] is None:  # called by name, and nobody said
        request["ignore_result"] = bool(celery_task.ignore_result)
    eventer = celery_task.app._eventers.get(ctx.worker)
    told = eventer is not None and eventer.tells_of(celery_task)
    own = None
    if celery_task.Request != REQUEST:
        job = Received(ctx.app, ctx.delivery, ctx.envelope, ctx.worker)
        own = import_module(ENDS).own_request(celery_task, job, ctx.worker)
    if told:
        eventer.tell("task-started", uuid=request["id"])
    try:
        answer = trace(request["id"], list(args), kwargs, request)
    except import_module(EXCEPTIONS).Reject as reject:  # by a hook, or a duplicate
        raise _rejection(ctx, reject) from reject
    if told:
        eventer.ended(request["id"], answer)
    if own is not None:
        import_module(ENDS).tell_end(own, answer)
    request[GROWTH].is_over = True
    outcome = answer.info
    if outcome is None:
        if answer.runtime is None:  # something around the body failed
            raise _exception_in(answer.retval)
        if request[PENDING_RETRY]:  # retry(throw=False): it returned, and wants to run again
            raise _retry(ctx, celery_task, request[PENDING_RETRY][-1])
        return _extended(ctx, request[GROWTH], done[0] if done else answer.retval)
    if outcome.state == "RETRY":
        raise _retry(ctx, celery_task, outcome.retval)
    if outcome.state == "REJECTED":
        raise _rejection(ctx, outcome.retval)
    if outcome.state == "IGNORED":
        graph = getattr(outcome.retval, "graph", None)
        if graph is None:
            return Replacement((), NOBODY)
        return _replacement(ctx, celery_task, graph)
    raise outcome.retval


def _replacement(ctx: TaskContext, celery_task: Any, graph: Any) -> Replacement:
    """The engine stores the jobs in the step that settles this one."""
    calls = graph.calls(celery_task.app, ctx.app, ctx.envelope.workflow or ctx.id)
    return Replacement(tuple(calls), graph.end.job)


def _extended(ctx: TaskContext, growth: Growth, value: Any) -> Any:
    """The value of a task, with what it has called."""
    value = _storable(value, ctx.envelope.codec)
    children = [result.as_tuple() for result in growth.trail]
    kept = Kept(value, children) if children else value
    if not growth.members:
        return kept
    return Extension(tuple(_member_call(ctx, member) for member in growth.members), kept)


def _member_call(ctx: TaskContext, member: Member) -> Call[Any]:
    """One job for a canvas, whatever is in it: it delegates to the canvas. For the engine, all
    jobs that extend another one are members of its group."""
    options = Options(id=new_id(), queue=ctx.queue, codec=codec_name("json"))
    return Call(
        ctx.app.tasks[MEMBER_TASK],
        (member.signature, member.place.options()),
        with_=options,
        workflow=ctx.envelope.workflow or ctx.id,
        feeds=True,
    )


def run_member(app: Any, ctx: TaskContext, signature: str, place: dict[str, Any]) -> Replacement:
    """Delegate to a canvas that was added to a group."""
    graph = import_module(REPLACING).member_graph(app, signature, place)
    calls = graph.calls(app, ctx.app, ctx.envelope.workflow or ctx.id)
    return Replacement(tuple(calls), graph.end.job)


def call_unreached(
    app: Any,
    ctx: TaskContext,
    request: dict[str, Any],
    before: list[str],
    joins: int,
    told: Mapping[str, Sequence[int]],
) -> None:
    """Call the error callbacks of a task that could not run: a group before it has failed.

    Nothing happens if the group never was, because something before it (``before``) failed: that
    has called them. Nor if nothing has failed: a task was ignored. Of chords in the group, ``told``
    says by the job of the body which callbacks it has as well: if those did not run either, that is
    all that has happened, and they are called there. Of a body that was replaced, it counts
    what became of that.
    """
    losses = ctx.delivery.losses or {}
    if any(job in losses for job in before):
        return
    error = import_module(RESULTS).error_behind(app, list(losses), joins)
    if error is not None:
        called = [
            set(told[job]) if job in told and _never_ran(ctx, job) else set[int]() for job in losses
        ]
        if done := set.intersection(*called) if called else None:
            left = [each for n, each in enumerate(request["errbacks"]) if n not in done]
            request = {**request, "errbacks": left}
        import_module(CALLBACKS).call_errbacks_of(app, request, error)


def _never_ran(ctx: TaskContext, job: str) -> bool:
    """Whether a job was skipped, or that to which it has delegated."""
    (found,) = ctx.app.transport.get([job])
    while found is not None and found.delegated_to is not None:
        (found,) = ctx.app.transport.get([found.delegated_to])
    return found is not None and found.state is JobState.SKIPPED


def _result_check(ctx: TaskContext) -> Callable[[Any], None] | None:
    """What fails a task whose value cannot be stored, before anybody is told that it succeeded.

    Raises `kombu.exceptions.EncodeError`, as Celery does.
    """
    envelope, codecs = ctx.envelope, ctx.app.codecs
    if not (envelope.store_result or envelope.feeds):
        return None

    def check(value: Any) -> None:
        if type(value) in PLAIN:
            return
        try:
            codecs.encode(_storable(value, envelope.codec), envelope.codec)
        except errors.EncodeError as error:
            raise EncodeError(str(error.__cause__ or error)) from error

    return check


def _storable(value: Any, codec: str) -> Any:
    """A value as it is stored: of results, which only pickle can store, the ids."""
    if type(value) in PLAIN or codec == PICKLE:
        return value
    as_tuple = getattr(value, "as_tuple", None)
    return value if as_tuple is None else as_tuple()


def _tracer(celery_task: Any, worker: str) -> Any:
    build = import_module(TRACE).build_tracer
    celery_task.__trace__ = build(
        celery_task.name, celery_task, hostname=worker, app=celery_task.app
    )
    return celery_task.__trace__


def _exception_in(einfo: Any) -> BaseException:
    error = getattr(einfo, "exception", einfo)
    if isinstance(error, ExceptionWithTraceback):
        error = error.exc
    return error if isinstance(error, BaseException) else RuntimeError(str(error))


def _retry(ctx: TaskContext, celery_task: Any, retry: Any) -> RetryJob:
    """Celery counts retries itself and has decided already: the engine's own ceiling is off."""
    return RetryJob(
        str(retry),
        delay=_seconds_until(retry.when, ctx.clock.now()),
        error=retry.exc,
        envelope=retry_envelope(ctx, celery_task, retry),
        unlimited=True,
    )


def _seconds_until(when: float | datetime.datetime | None, now: float) -> float:
    if isinstance(when, datetime.datetime):
        return max(0.0, when.timestamp() - now)  # a naive one is in local time, as in Celery
    return max(0.0, float(when or 0))


def _rejection(ctx: TaskContext, reject: Any) -> RejectJob | RetryJob:
    if reject.requeue:  # for as long as the task wants: the engine counts each run, Celery none
        envelope = requeued_envelope(ctx)
        return RetryJob("requeued", delay=0.0, error=reject, envelope=envelope, unlimited=True)
    return RejectJob("rejected", error=reject)
