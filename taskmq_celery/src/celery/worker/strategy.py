"""What happens when a job arrives: the ``received`` line, the signal, or the complaint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kombu.asynchronous.timer import to_timestamp
from kombu.utils.imports import symbol_by_name

from celery import signals
from celery.app import trace
from celery.exceptions import InvalidTaskError
from celery.utils.log import get_logger
from celery.utils.saferepr import saferepr
from celery.utils.time import timezone
from taskmq_celery.message import stamp_values
from taskmq_celery.running import as_given

from . import state
from .request import Request, create_request_cls
from .state import task_scheduled

__all__ = ("default",)

logger = get_logger(__name__)
consumer_logger = get_logger("celery.worker.consumer.consumer")

UNKNOWN_TASK = """Received unregistered task of type %r.
It stays in its queue for a worker that knows it: job %s.

Did you remember to import the module containing this task?
Or maybe you are using relative imports?"""


HEADERS = (
    "lang",
    "task",
    "id",
    "root_id",
    "parent_id",
    "group",
    "meth",
    "shadow",
    "eta",
    "expires",
)
REPRESENTATIONS = ("argsrepr", "kwargsrepr", "origin")


def hybrid_to_proto2(message: Any, body: dict[str, Any]) -> tuple[Any, dict[str, Any], bool, bool]:
    """A message of protocol 1 as one of protocol 2.

    That is its body, its headers, that the body is decoded, and whether its instants are in UTC.
    Raises `InvalidTaskError` for keyword arguments that are none.
    """
    headers = {
        **{name: body.get(name) for name in HEADERS},
        "retries": body.get("retries", 0),
        "timelimit": body.get("timelimit", (None, None)),
        **{name: body.get(name) for name in REPRESENTATIONS},
        **(message.headers or {}),
    }
    return _call_of(body), headers, True, body.get("utc", True)


def proto1_to_proto2(message: Any, body: dict[str, Any]) -> tuple[Any, dict[str, Any], bool, bool]:
    """The same, with all that the body says among the headers; those of the message are one of
    them. ``body`` is changed: it is what becomes of the headers."""
    args, kwargs, embed = _call_of(body)
    body.update(argsrepr=saferepr(args), kwargsrepr=saferepr(kwargs), headers=message.headers)
    if body.get("taskset"):
        body["group"] = body["taskset"]
    return (args, kwargs, embed), body, True, body.get("utc", True)


def _call_of(body: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    args, kwargs = body.get("args", ()), body.get("kwargs", {})
    if not isinstance(kwargs, Mapping):
        raise InvalidTaskError("Task keyword arguments must be a mapping")
    embed = {name: body.get(name) for name in ("callbacks", "errbacks", "chord")}
    return args, kwargs, {**embed, "chain": None}


def is_heard() -> bool:
    """Whether anybody would notice that a job arrived: jobs are unpacked only then."""
    return bool(signals.task_received.receivers) or logger.isEnabledFor(logging.INFO)


def announce(consumer: Any, jobs: Sequence[Any]) -> None:
    """Log and signal jobs that have just arrived (each a `taskmq_celery.worker.Received`)."""
    events = consumer.controller.events
    for job in jobs:
        task = consumer.app.tasks.get(job.name)
        if task is None:
            _announce_unknown(consumer, job)
            continue
        if signals.task_received.receivers or consumer.on_task_message:
            request = _request(consumer, job, task)
            signals.task_received.send(sender=consumer, request=request)
            for told in list(consumer.on_task_message):
                told(request)
        if events.tells_of(task):
            events.tell("task-received", **_event_fields(job))
        if logger.isEnabledFor(logging.INFO):
            fields = {"id": job.id, "name": job.name, "eta": job.eta, **_texts(job)}
            logger.info(trace.LOG_RECEIVED, fields, extra={"data": fields})


def remembers_revoked() -> bool:
    """Whether this worker was told of tasks that are not to run, here or yet to come."""
    return bool(state.revoked_stamps) or len(state.revoked) > 0


def is_revoked(consumer: Any, job: Any) -> bool:
    """Whether a job that has arrived is one of those; then it is told of."""
    if not (job.id in state.revoked or _has_revoked_stamp(job)):
        return False
    state.revoked.add(job.id)
    logger.info("Discarding revoked task: %s[%s]", job.name, job.id)
    request = _request(consumer, job, consumer.app.tasks.get(job.name))
    told = {"request": request, "terminated": False, "signum": None, "expired": False}
    signals.task_revoked.send(sender=consumer.app.tasks.get(job.name), **told)
    return True


def _has_revoked_stamp(job: Any) -> bool:
    if not state.revoked_stamps:
        return False
    stamps = job.stamps
    return any(
        not revoked.isdisjoint(stamps.get(name, ()))
        for name, revoked in ((k, stamp_values(v)) for k, v in state.revoked_stamps.items())
    )


def _texts(job: Any) -> dict[str, str]:
    """The arguments as text: what the caller wants to be shown, or what they are."""
    request = job.request
    arguments: tuple[Any, Any] = ((), {})
    shown = request.get("argsrepr"), request.get("kwargsrepr")
    if not all(shown):
        try:
            arguments = job.arguments
        except Exception:  # they cannot be read: whoever runs the job will say so
            return {"args": "?", "kwargs": "?"}
    return {
        "args": shown[0] or saferepr(as_given(request, arguments[0])),
        "kwargs": shown[1] or saferepr(arguments[1]),
    }


def _event_fields(job: Any) -> dict[str, Any]:
    request = job.request
    names = ("root_id", "parent_id", "retries", "eta", "expires")
    known = {name: request.get(name) for name in names}
    return {"uuid": job.id, "name": job.name, **_texts(job), **known}


def _request(consumer: Any, job: Any, task: Any) -> Any:
    return request_of(consumer.app, consumer.hostname, job, task)


def request_of(app: Any, hostname: str, job: Any, task: Any) -> Any:
    """The job as the request of a task, which is ``None`` if nobody knows it."""
    kind = Request if task is None else _request_class(task)
    task = app.Task() if task is None else task
    return kind(Message(job), app=app, hostname=hostname, task=task)


def _request_class(task: Any) -> Any:
    """``task.Request``: a class, or the name of one."""
    wanted = getattr(task, "Request", Request)
    if isinstance(wanted, str):
        return symbol_by_name(wanted)
    return wanted


def _announce_unknown(consumer: Any, job: Any) -> None:
    """It is offered again and again until somebody knows it, and told of once."""
    if not job.first_time:
        return
    told = {"message": Message(job), "exc": KeyError(job.name), "name": job.name, "id": job.id}
    signals.task_unknown.send(sender=consumer, **told)
    consumer_logger.error(UNKNOWN_TASK, job.name, job.id)


class Message:
    """An engine's job in the shape of kombu's messages. Decoded when looked at."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.headers: dict[str, Any] = job.request
        self.body = b""

    def start(self) -> None:
        """Have it run: it is, where nobody holds it."""

    @property
    def payload(self) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        args, kwargs = self.job.arguments
        embed = {
            name: self.headers.get(name) for name in ("callbacks", "errbacks", "chain", "chord")
        }
        return args, kwargs, embed

    @property
    def properties(self) -> dict[str, Any]:
        return dict(self.headers.get("properties") or {})

    @property
    def delivery_info(self) -> dict[str, Any]:
        return dict(self.headers.get("delivery_info") or {})


def default(
    task: Any,
    app: Any,
    consumer: Any,
    info: Callable[..., Any] = logger.info,
    error: Callable[..., Any] = logger.error,
    task_reserved: Callable[[Any], Any] = state.task_reserved,
    to_system_tz: Callable[[Any], Any] = timezone.to_system,
    bytes: type = bytes,
    proto1_to_proto2: Callable[..., Any] = proto1_to_proto2,
) -> Callable[..., None]:
    """What happens to every message of a task: it is told of, and run by the worker.

    For classes whose ``Strategy`` does more than that, and then this. What it gives takes a
    message, its ``body``, ``ack``, ``reject`` and ``callbacks``. A message that is none of this
    worker's jobs, which the program took from the broker itself, runs in the pool of the consumer
    (``consumer.on_task_request``), once it is due and its rate allows it, unless it is revoked.
    """
    kind = create_request_cls(
        _request_class(task), task, consumer.pool, consumer.hostname, consumer.event_dispatcher, app
    )

    def task_message_handler(
        message: Any,
        body: Any,
        ack: Callable[..., Any],
        reject: Callable[..., Any],
        callbacks: Iterable[Callable[[Any], Any]],
        to_timestamp: Callable[[Any], float] = to_timestamp,
    ) -> None:
        if isinstance(message, Message):  # one of the worker's own, which a strategy was given
            held: Any = message
            announce(consumer, [held.job])
            held.start()
            return
        if body is None and "args" not in message.payload:
            content, headers, decoded = message.body, message.headers, False
            utc = app.uses_utc_timezone()
        else:
            whole = message.payload if body is None else body
            change = hybrid_to_proto2 if "args" in message.payload else proto1_to_proto2
            content, headers, decoded, utc = change(message, whole)
        request = kind(
            message,
            on_ack=ack,
            on_reject=reject,
            body=bytes(content) if isinstance(content, memoryview) else content,
            headers=headers,
            decoded=decoded,
            utc=utc,
            connection_errors=consumer.connection_errors,
        )
        if request.revoked():
            return
        signals.task_received.send(sender=consumer, request=request)
        if logger.isEnabledFor(logging.INFO):
            told = {"name": request.name, "id": request.id, "eta": request.eta}
            shown = {name: headers.get(f"{name}repr") or "" for name in ("args", "kwargs")}
            info(trace.LOG_RECEIVED, {**told, **shown}, extra={"data": {**told, **shown}})
        request.send_event("task-received", **_sent(request, headers))
        bucket = None if consumer.disable_rate_limits else consumer.task_buckets[task.name]
        if request.eta is not None:
            try:
                when = to_timestamp(to_system_tz(request.eta))
            except (OverflowError, ValueError) as exc:
                error("ETA %r of %s is no time: %r", request.eta, request, exc)
                request._tell_backend(exc)
                request.reject(requeue=False)
                return
            begin, what = (
                (consumer.apply_eta_task, (request,))
                if bucket is None
                else (consumer._limit_post_eta, (request, bucket, 1))
            )
            request._eta_timer_entry = consumer.timer.call_at(when, begin, what, priority=6)
            task_scheduled(request)
        elif bucket is not None:
            consumer._limit_task(request, bucket, 1)
        else:
            task_reserved(request)
            for each in callbacks or ():
                each(request)
            consumer.on_task_request(request)

    return task_message_handler


def _sent(request: Any, headers: dict[str, Any]) -> dict[str, Any]:
    """What an event tells of a request that has arrived."""
    said = {name: headers.get(name) for name in ("root_id", "parent_id")}
    instants = {name: getattr(request, name) for name in ("eta", "expires")}
    return {
        "name": request.name,
        "args": headers.get("argsrepr"),
        "kwargs": headers.get("kwargsrepr"),
        "retries": headers.get("retries", 0),
        **said,
        **{name: value and value.isoformat() for name, value in instants.items()},
    }
