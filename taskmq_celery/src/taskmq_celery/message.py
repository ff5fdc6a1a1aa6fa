"""Celery's task messages (protocol 2) as jobs of the engine, and back.

The headers of a message go into ``Envelope.headers``, less what the envelope says already (id,
task, eta, expires) and less what is at its default: a plain call stores three short headers.
`request_dict` puts everything back, for ``task.request``.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
from kombu.utils.json import dumps, loads

import taskmq
from taskmq import Dependency, TaskContext
from taskmq.call import Options
from taskmq.envelope import AckPolicy, Envelope, Sealed, embed

from .codec import codec_name
from .running import FOLLOWS, GIVEN_AS_LIST, GROWTH, PENDING_RETRY, TRAIL

__all__ = [
    "Message",
    "are_listed",
    "call_of",
    "renamed",
    "request_dict",
    "requeued_envelope",
    "retry_envelope",
    "stamp_values",
    "stamps_of",
    "waits_longer",
    "with_id",
]

UTC = datetime.timezone.utc
BEST, WORST = 9, -9

DEFAULTS: Mapping[str, Any] = {
    "lang": "py",
    "shadow": None,
    "group": None,
    "group_index": None,
    "timelimit": [None, None],
    "root_id": None,
    "parent_id": None,
    "origin": None,
    "ignore_result": False,
    "replaced_task_nesting": 0,
    "stamped_headers": None,
    "stamps": {},
}
"""Headers of protocol 2 that are left out of an envelope where they have this value."""

KEY = "taskmq_key"
"""A message property of ours: the idempotency key of the job."""
NOT_KEPT = frozenset({"correlation_id", "priority", "expiration", KEY})
"""Message properties that a task's request does not have."""

IN_ENVELOPE = frozenset({"id", "task", "eta", "expires", "argsrepr", "kwargsrepr"})
"""Headers that are made from the envelope, or from the arguments, when somebody asks."""

PROPERTIES, ERRBACKS, RELATIVE, RETRIES, ID, CHILDREN, JOINS, ABOVE, CHORD, REPRS, REQUEUED = (
    "properties",
    "taskmq_errbacks",
    "taskmq_relative",
    "retries",
    "id",
    "taskmq_children",
    "taskmq_joins",
    "taskmq_above",
    "taskmq_chord",
    "taskmq_reprs",
    "taskmq_requeued",
)
"""Headers of ours: message properties, ``link_error``, delays that count from the end of the job
before, the number of retries to begin with, an id that is not the job's own, the results of what
its end starts, whether it waits for a group, the job that this group waits for, name and id of what
waits for its group, what the caller wants to be shown instead of the arguments (``argsrepr``,
``kwargsrepr``), and how often the task has given itself back (``Reject(requeue=True)``)."""
LISTED = "taskmq_listed"
"""The header of ours that says that the arguments were given as a list."""
NOBODY = "taskmq_celery.nobody"
"""No job has this id. A task that raises `Ignore` leaves its result to that one."""
JOINED, SPREAD, WITHIN = 1, 2, 3
"""What a task that waits for a group is: one for all, one of several, or one for all of a group
that is itself one of several."""
OF_OURS = frozenset(
    {PROPERTIES, ERRBACKS, RELATIVE, CHILDREN, JOINS, ABOVE, CHORD, REPRS, LISTED, REQUEUED}
)


class Member(NamedTuple):
    """A canvas, as JSON text, and where it stands."""

    signature: str
    place: Any


class Growth:
    """What one run of a task adds to its workflow."""

    def __init__(self) -> None:
        self.trail: list[Any] = []
        """Results of what its body has called, and of what its success starts."""
        self.members: list[Member] = []
        """What becomes part of the group that the task is in."""
        self.is_over = False

    def add(self, member: Member) -> None:
        """Make a canvas part of the group. ``RuntimeError`` once the task has returned."""
        if self.is_over:
            raise RuntimeError("the task that was to add this to its chord has ended")
        self.members.append(member)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One task message. ``eta`` and ``expires`` are seconds from now or aware datetimes."""

    task: str
    id: str
    args: Any
    kwargs: Mapping[str, Any]
    headers: dict[str, Any]
    properties: dict[str, Any]
    queue: str
    serializer: str = "json"
    priority: int | None = None
    eta: Any = None
    expires: Any = None
    ack: AckPolicy | None = None
    store_result: bool | None = None
    errbacks: list[Any] = field(default_factory=list)

    @property
    def ignore_result(self) -> bool:
        """Whether nobody wants to know what it returns."""
        return bool(self.headers.get("ignore_result"))

    def with_header(self, name: str, value: Any) -> Message:
        """A copy with one more header, which the publisher's signals do not see."""
        return replace(self, headers={**self.headers, name: value})

    def as_request(self) -> dict[str, Any]:
        """What error callbacks are told of the task, if it never runs."""
        headers = {k: v for k, v in self.headers.items() if k not in OF_OURS}
        return {
            **headers,
            "args": list(self.args),
            "kwargs": dict(self.kwargs),
            "errbacks": loads(dumps(self.errbacks)),
            "properties": self.properties,
            "delivery_info": {"exchange": "", "routing_key": self.queue},
        }


def call_of(
    task: taskmq.Task[..., Any],
    message: Message,
    *,
    after: tuple[Dependency, ...] = (),
    feeds: bool = False,
    workflow: str | None = None,
    result_ttl: float | None = None,
) -> taskmq.Call[Any]:
    """The job for a message.

    ``after`` are the jobs that it waits for, ``feeds`` says that others wait for its result,
    ``result_ttl`` is how long a success is remembered, in seconds (as configured if not given).
    """
    headers = _packed(message)
    eta, expires = message.eta, message.expires
    if after:
        # Celery sends the message when the job before is done, and counts from then.
        relative = {
            name: value
            for name, value in (("countdown", eta), ("expires", expires))
            if isinstance(value, (int, float))
        }
        if relative:
            headers[RELATIVE] = {**relative, "after": after[0].job}
        eta = None if "countdown" in relative else eta
        expires = None if "expires" in relative else expires
    hard, soft = limits(message.headers.get("timelimit"))
    return taskmq.Call(
        task,
        tuple(message.args),
        message.kwargs,
        Options(
            id=message.id,
            key=message.properties.get(KEY),
            queue=message.queue,
            eta=eta,
            expires=expires,
            timeout=soft,
            hard_timeout=hard,
            priority=_priority(message.priority),
            headers=headers,
            ack=message.ack,
            store_result=message.store_result,
            result_ttl=result_ttl,
            codec=codec_name(message.serializer),
        ),
        after=after,
        feeds=feeds,
        workflow=workflow,
    )


def _packed(message: Message) -> dict[str, Any]:
    headers = {
        name: value
        for name, value in message.headers.items()
        if name not in IN_ENVELOPE and not (name in DEFAULTS and value == DEFAULTS[name])
    }
    if headers.get("root_id") == message.id:
        del headers["root_id"]
    if not headers.get(RETRIES):
        headers.pop(RETRIES, None)
    if message.headers.get(ID, message.id) != message.id:
        headers[ID] = message.headers[ID]
    extra = {
        name: value
        for name, value in message.properties.items()
        if value is not None and name not in NOT_KEPT
    }
    if extra:
        headers[PROPERTIES] = extra
    if message.errbacks:
        headers[ERRBACKS] = dumps(message.errbacks)
    if are_listed(message.args):
        headers[LISTED] = True
    return headers


def are_listed(args: Any) -> bool:
    """Whether arguments were given as a list, and it makes a difference."""
    return isinstance(args, list) and bool(args)


def limits(pair: Any) -> tuple[float | None, float | None]:
    """(hard, soft) in seconds. 0 is none, as is a soft one that the hard one comes before."""
    hard, soft = (float(limit) if limit else None for limit in pair or (None, None))
    return hard, None if hard and soft and soft >= hard else soft


def _priority(priority: Any) -> int | None:
    """Celery's 0 to 9, higher first; brokers that count further are cut off at the best."""
    return None if priority is None else min(BEST, max(WORST, int(priority)))


# -- and back ------------------------------------------------------------------------------------


def request_dict(
    ctx: TaskContext, args: Any = None, kwargs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What ``Context(...)`` makes ``task.request`` from, for one delivery.

    What comes after the job (links, the rest of a chain) is not in it: the engine's settlement
    starts that. ``args`` and ``kwargs`` are put in if given; the tracer has them anyway.
    """
    envelope, delivery = ctx.envelope, ctx.delivery
    stored = dict(envelope.headers)
    properties = stored.pop(PROPERTIES, {})
    errbacks = stored.pop(ERRBACKS, None)
    children = stored.pop(CHILDREN, None)
    for ours in (RELATIVE, JOINS, ABOVE):
        stored.pop(ours, None)
    chord = stored.pop(CHORD, None)
    shown = stored.pop(REPRS, {})
    listed = stored.pop(LISTED, False)
    requeued = stored.pop(REQUEUED, 0)
    task_id = stored.get(ID, envelope.id)
    timelimit = stored.get("timelimit") or (None, None)
    growth = Growth()
    request: dict[str, Any] = {
        **DEFAULTS,
        **stored,
        **shown,
        "id": task_id,
        "task": envelope.task,
        "eta": _iso(envelope.eta),
        "expires": _iso(envelope.expires_at),
        "retries": stored.get(RETRIES, 0) + delivery.attempt - 1 - requeued,
        "root_id": stored.get("root_id", task_id),
        "args": args,
        "kwargs": kwargs,
        GIVEN_AS_LIST: listed and delivery.attempt == 1,  # a retry gives a tuple
        "properties": {**properties, "correlation_id": task_id, "priority": delivery.priority},
        "correlation_id": task_id,
        "reply_to": properties.get("reply_to"),
        "delivery_info": {
            "exchange": properties.get("exchange", ""),
            "routing_key": properties.get("routing_key", delivery.queue),
            "priority": delivery.priority,
            "redelivered": delivery.reclaims > 0 or requeued > 0,
        },
        "hostname": ctx.worker,
        "timelimit": list(timelimit),
        "stamps": dict(stored.get("stamps") or {}),
        "time_limit": timelimit[0],
        "soft_time_limit": timelimit[1],
        "callbacks": None,
        "errbacks": loads(errbacks) if errbacks else None,
        "chain": None,
        "chord": None if chord is None else _reference(*chord),
        "called_directly": False,
        "is_eager": False,
        PENDING_RETRY: [],
        GROWTH: growth,
        TRAIL: growth.trail,
        FOLLOWS: children,
    }
    return request


def _reference(task: str, task_id: str | None) -> dict[str, Any]:
    """The body of a chord, as the tasks of its header know it."""
    return {
        "task": task,
        "args": [],
        "kwargs": {},
        "options": {"task_id": task_id},
        "subtask_type": None,
        "immutable": False,
    }


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.datetime.fromtimestamp(at, UTC).isoformat()


def stamp_values(given: Any) -> set[Any]:
    """The values of a stamp, given as one or as several."""
    return set(given) if isinstance(given, (list, tuple, set, frozenset)) else {given}


def stamps_of(headers: Mapping[str, Any]) -> dict[str, set[Any]]:
    """The stamps of a task by name, from the headers of its envelope."""
    stamps: Any = headers.get("stamps") or {}
    return {name: stamp_values(stamps.get(name)) for name in headers.get("stamped_headers") or ()}


# -- running again -------------------------------------------------------------------------------


def retry_envelope(ctx: TaskContext, celery_task: Any, retry: Any) -> Sealed | None:
    """The envelope of the next attempt, from the signature of a ``Retry``.

    ``None`` if nothing but the time changes, which is the usual case: the stored one stays.
    Raises `taskmq.errors.EncodeError` and `taskmq.MessageTooLarge`.
    """
    changes = getattr(retry.sig, "retry_changes", None)
    if not changes:
        return None
    app, envelope = celery_task.app, ctx.envelope
    engine = ctx.app
    fields: dict[str, Any] = {}
    headers = dict(envelope.headers)
    if "args" in changes or "kwargs" in changes:
        arguments = (tuple(retry.sig["args"]), retry.sig["kwargs"])
        fields.update(_encoded(engine, arguments, envelope.codec))
        # The given arguments are all of them: what dependencies handed over is among them.
        fields["after"] = tuple(Dependency(one.job) for one in envelope.after)
    if changes.get("queue"):
        fields["queue"] = str(getattr(changes["queue"], "name", changes["queue"]))
    if changes.get("priority") is not None:
        fields["priority"] = _priority(changes["priority"])
    if "expires" in changes:
        fields["expires_at"] = app.amqp.instant(changes["expires"], ctx.clock.now())
    headers.update(changes.get("headers") or {})
    for name in ("shadow", "timelimit"):
        if name in changes:
            headers[name] = changes[name]
    return _changed(engine, envelope, headers=headers, **fields)


def requeued_envelope(ctx: TaskContext) -> Sealed:
    """The envelope of a task that gives itself back: the next run is no retry of Celery's."""
    headers = ctx.envelope.headers
    return _changed(
        ctx.app, ctx.envelope, headers={**headers, REQUEUED: headers.get(REQUEUED, 0) + 1}
    )


def _changed(engine: taskmq.App, envelope: Envelope, **fields: Any) -> Sealed:
    known = {name: getattr(envelope, name) for name in envelope.__struct_fields__}
    return engine.seal_envelope(type(envelope)(**{**known, **fields}))


def _encoded(engine: taskmq.App, arguments: tuple[Any, Any], codec: str) -> dict[str, Any]:
    """The fields of an envelope that hold arguments."""
    codec, encoded = engine.codecs.encode_many(arguments, codec)
    is_json = engine.codecs.is_json(codec)
    args, kwargs = (embed(data, is_json=is_json) for data in encoded)
    return {"args": args, "kwargs": kwargs, "codec": codec}


# -- delays that count from the end of the job before --------------------------------------------


def waits_longer(ctx: TaskContext) -> float | None:
    """Seconds for which a job of a chain has still to wait, for a ``countdown`` of its own.

    ``None`` if its ``expires`` has passed. 0 for every job without such a delay, at no cost.
    """
    relative = ctx.envelope.headers.get(RELATIVE)
    if relative is None or ctx.attempt > 1:
        return 0.0
    (record,) = ctx.app.transport.get([relative["after"]])
    started = record.finished_at if record is not None else None
    if started is None:  # gone already: nothing is left to count from
        return 0.0
    now = ctx.clock.now()
    if "expires" in relative and now >= started + relative["expires"]:
        return None
    return max(0.0, float(started + relative.get("countdown", 0.0) - now))


def renamed(call: taskmq.Call[Any], job_id: str) -> taskmq.Call[Any]:
    """The same call as another job: it keeps its id as a header."""
    options, own = call.with_, call.id or call.with_.id
    options = replace(options, id=job_id, headers={ID: own, **(options.headers or {})})
    return msgspec.structs.replace(call, id=job_id, with_=options)


def with_id(message: Message, job_id: str) -> Message:
    """The same message as another job: it keeps its id as a header."""
    return replace(message, id=job_id, headers={**message.headers, ID: message.id})
