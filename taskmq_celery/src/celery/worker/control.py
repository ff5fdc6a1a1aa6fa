"""Commands that a worker obeys from afar. Programs register their own.

>>> @control_command(args=[("n", int)], signature="[N=1]")
... def grow_by(state, n=1):
...     state.consumer.controller.resize(n)
...     return ok(f"{n} more")

Each is called in the thread that listens (`celery.worker.pidbox`), with ``state.app``,
``state.hostname`` and ``state.consumer``, whose ``controller`` is the worker. What it returns, or
raises, is the answer.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple, TypeVar

from celery.exceptions import WorkerShutdown
from celery.platforms import EX_OK
from celery.platforms import signals as os_signals
from celery.utils import debug
from celery.utils.functional import maybe_list
from celery.utils.log import get_logger
from celery.utils.saferepr import saferepr
from celery.utils.serialization import jsonify, strtobool
from taskmq_celery import results
from taskmq_celery.rates import rate_for
from taskmq_celery.revoking import revoke_stamped, revoked_ids

from . import state as worker_state
from .request import Request
from .strategy import request_of

__all__ = ("Panel",)

logger = get_logger(__name__)

DEFAULT_TIMEOUT = 1.0
TIMER_PRIORITY = 6
"""What Celery's workers say of every task that waits for its time."""
DEFAULT_TASK_INFO_ITEMS: Sequence[str] = ("exchange", "routing_key", "rate_limit")

NO_EVENTS = "events are unavailable: the broker of this worker carries none"

F = TypeVar("F", bound=Callable[..., Any])


class controller_info_t(NamedTuple):  # noqa: N801  # Celery's name
    """What is known of a command."""

    alias: str | None
    type: str
    visible: bool
    default_timeout: float
    help: str | None
    signature: str | None
    args: Sequence[tuple[str, Any]] | None
    variadic: str | None


def ok(value: Any) -> dict[str, Any]:
    """The answer of a command that worked."""
    return {"ok": value}


def nok(value: Any) -> dict[str, Any]:
    """The answer of a command that did not."""
    return {"error": value}


class Panel(dict[str, Any]):
    """Commands by name."""

    data: dict[str, Callable[..., Any]] = {}  # noqa: RUF012  # of the class: every worker has them
    meta: dict[str, controller_info_t] = {}  # noqa: RUF012

    @classmethod
    def register(cls, *args: Any, **kwargs: Any) -> Any:
        """Add a command: as decorator, with or without arguments."""
        if args:
            return cls._register(**kwargs)(*args)
        return cls._register(**kwargs)

    @classmethod
    def _register(
        cls,
        name: str | None = None,
        alias: str | None = None,
        type: str = "control",
        visible: bool = True,
        default_timeout: float = DEFAULT_TIMEOUT,
        help: str | None = None,
        signature: str | None = None,
        args: Sequence[tuple[str, Any]] | None = None,
        variadic: str | None = None,
    ) -> Callable[[F], F]:
        def add(function: F) -> F:
            control_name = name or function.__name__
            text = help or (function.__doc__ or "").strip().split("\n")[0]
            cls.data[control_name] = function
            cls.meta[control_name] = controller_info_t(
                alias, type, visible, default_timeout, text, signature, args, variadic
            )
            if alias:
                cls.data[alias] = function
            return function

        return add


def control_command(**kwargs: Any) -> Callable[[F], F]:
    """Register a command that changes something in a worker."""
    return Panel._register(type="control", **kwargs)


def inspect_command(**kwargs: Any) -> Callable[[F], F]:
    """Register a command that tells something of a worker."""
    return Panel._register(type="inspect", **kwargs)


# -- questions about tasks -----------------------------------------------------------------------


@inspect_command(alias="dump_active")
def active(state: Any, safe: bool = False, **_: Any) -> list[dict[str, Any]]:
    """The tasks that run."""
    own = [each.info(safe=safe) for each in list(worker_state.active_requests)]
    return own + [_active_info(state, each, safe) for each in _inspection(state).active()]


@inspect_command(alias="dump_reserved")
def reserved(state: Any, safe: bool = False, **_: Any) -> list[dict[str, Any]]:
    """The tasks that the worker holds and has not started."""
    waiting = set(worker_state.reserved_requests) - set(worker_state.active_requests)
    own = [each.info(safe=safe) for each in waiting]
    return own + [_info(state, job, safe) for job in _inspection(state).reserved()]


@inspect_command(alias="dump_schedule")
def scheduled(state: Any, safe: bool = False, **_: Any) -> list[dict[str, Any]]:
    """The tasks in the queues of the worker that wait for their time."""
    timed = [(each.eta, each.info(safe=safe)) for each in _in_timer(state.consumer)]
    timed += [(job.eta, _info(state, job, safe)) for job in _inspection(state).scheduled()]
    return [{"eta": _iso(eta), "priority": TIMER_PRIORITY, "request": told} for eta, told in timed]


def _in_timer(consumer: Any) -> list[Any]:
    """Requests that wait for their time in a timer: a program's own have put them there."""
    timer = consumer.timer
    if timer is None:
        return []
    arguments = [each.entry.args for each in timer.queue]
    return [args[0] for args in arguments if args and isinstance(args[0], Request)]


@inspect_command(variadic="ids", signature="[id1 [id2 [... [idN]]]]")
def query_task(state: Any, ids: Any, **_: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """What the worker knows of these tasks."""
    wanted = list(maybe_list(ids) or ())
    inspection = _inspection(state)
    own = [
        *(("scheduled", each) for each in list(worker_state.scheduled_requests)),
        *(("reserved", each) for each in list(worker_state.reserved_requests)),
        *(("active", each) for each in list(worker_state.active_requests)),
    ]
    found = {job.id: ("scheduled", _info(state, job)) for job in inspection.scheduled_among(wanted)}
    found.update({job.id: ("reserved", _info(state, job)) for job in inspection.reserved()})
    found.update(
        {each.job.id: ("active", _active_info(state, each)) for each in inspection.active()}
    )
    found.update({each.id: (where, each.info()) for where, each in own})
    return {task_id: found[task_id] for task_id in wanted if task_id in found}


@inspect_command(alias="dump_revoked")
def revoked(state: Any, **_: Any) -> list[str]:
    """Ids of tasks that were taken out."""
    return list(dict.fromkeys([*worker_state.revoked, *revoked_ids(state.app)]))


@inspect_command(
    alias="dump_tasks", variadic="taskinfoitems", signature="[attr1 [attr2 [... [attrN]]]]"
)
def registered(
    state: Any, taskinfoitems: Iterable[str] | None = None, builtins: bool = False, **_: Any
) -> list[str]:
    """Names of the tasks that the worker knows, with these attributes of each."""
    tasks = state.app.tasks
    wanted = taskinfoitems or DEFAULT_TASK_INFO_ITEMS
    shown = [item for item in wanted if not item.startswith("_")]  # what is private stays so

    def described(name: str) -> str:
        values = {item: getattr(tasks[name], item, None) for item in shown}
        text = " ".join(f"{item}={value}" for item, value in values.items() if value is not None)
        return f"{name} [{text}]" if text else name

    return [described(name) for name in sorted(tasks) if builtins or not name.startswith("celery.")]


class _Nothing:
    """What is to be seen in a worker that does not run, or is no engine's: nothing."""

    def active(self) -> list[Any]:
        return []

    reserved = scheduled = active

    def scheduled_among(self, ids: Sequence[str]) -> list[Any]:
        return []


def _inspection(state: Any) -> Any:
    controller = state.consumer.controller
    return controller.inspection if getattr(controller, "runs", False) else _Nothing()


def _info(state: Any, job: Any, safe: bool | None = False) -> dict[str, Any]:
    return _request(state, job).info(safe=bool(safe))  # type: ignore[no-any-return]  # users' class


def _active_info(state: Any, running: Any, safe: bool | None = False) -> dict[str, Any]:
    request = _request(state, running.job)
    request.time_start, request.worker_pid = running.started_at, running.pid
    # As far as Celery's users mean it: the engine settles a job when it has ended.
    request.acknowledged = not getattr(request.task, "acks_late", False)
    return request.info(safe=bool(safe))  # type: ignore[no-any-return]  # of users' classes


def _request(state: Any, job: Any) -> Any:
    return request_of(state.app, state.consumer.hostname, job, state.app.tasks.get(job.name))


def _iso(at: Any) -> str | None:
    """Epoch seconds, or an instant, as ISO 8601; seconds in UTC."""
    if at is None:
        return None
    if isinstance(at, datetime.datetime):
        return at.isoformat()
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat()


# -- questions about the worker ------------------------------------------------------------------


@inspect_command(default_timeout=0.2)
def ping(state: Any, **_: Any) -> dict[str, Any]:
    """Say that it is there."""
    return ok("pong")


@inspect_command()
def report(state: Any, **_: Any) -> dict[str, Any]:
    """Versions and settings, as text."""
    return ok(state.app.bugreport())


@inspect_command(
    alias="dump_conf",
    signature="[include_defaults=False]",
    args=[("with_defaults", strtobool)],
)
def conf(state: Any, with_defaults: bool = False, **_: Any) -> dict[str, Any]:
    """The settings; passwords and keys are masked."""
    settings = state.app.conf
    always = {"include": settings.include, "deprecated_settings": None}
    table = {**always, **settings.table(with_defaults=with_defaults)}
    return jsonify(table, unknown_type_filter=saferepr)  # type: ignore[no-any-return]  # a dict


@inspect_command()
def stats(state: Any, **_: Any) -> dict[str, Any]:
    """The process, its pool and its broker, in figures."""
    told: dict[str, Any] = state.consumer.controller.stats()
    return told


@inspect_command()
def clock(state: Any, **_: Any) -> dict[str, Any]:
    """The logical clock."""
    return {"clock": state.app.clock.value}


@inspect_command()
def active_queues(state: Any, **_: Any) -> list[dict[str, Any]]:
    """The queues that the worker takes jobs from."""
    if hasattr(state.consumer, "task_consumer"):  # one that a program made
        consumer = state.consumer.task_consumer
        queues = consumer.queues if consumer else []
    else:
        queues = state.consumer.controller.consumed.values()
    return [dict(queue.as_dict(recurse=True)) for queue in queues]


@inspect_command(visible=False)
def hello(state: Any, from_node: str, revoked: Any = None, **_: Any) -> dict[str, Any] | None:
    """Take over what another worker knows to be revoked, and tell what this one does."""
    if from_node == state.hostname:
        return None
    worker_state.merge_revoked(revoked)
    worker_state.revoked.purge()
    return {"revoked": list(worker_state.revoked), "clock": state.app.clock.forward()}


@inspect_command()
def memsample(state: Any, **_: Any) -> Any:
    """Take note of the memory in use; ``None`` without psutil."""
    return debug.sample_mem()


@inspect_command(args=[("samples", int)], signature="[n_samples=10]")
def memdump(state: Any, samples: int = 10, **_: Any) -> str:
    """What `memsample` has noted."""
    out = StringIO()
    debug.memdump(samples, file=out)
    return out.getvalue()


@inspect_command(
    default_timeout=60.0,
    signature="[object_type=Request] [num=200 [max_depth=10]]",
    args=[("type", str), ("num", int), ("max_depth", int)],
)
def objgraph(state: Any, **_: Any) -> dict[str, Any]:
    """A picture of objects in memory."""
    return nok("this worker draws no pictures of its objects")


# -- orders about tasks --------------------------------------------------------------------------


@control_command(variadic="task_id", signature="[id1 [id2 [... [idN]]]]")
def revoke(
    state: Any, task_id: Any, terminate: bool = False, signal: Any = None, **_: Any
) -> dict[str, Any]:
    """Take tasks out; ``terminate``: even if they run already."""
    ids = set(maybe_list(task_id) or ())
    if terminate and signal:
        os_signals.signum(signal)  # raises for one that is none
    for each in ids:
        worker_state.revoked.add(each)
    results.revoke(state.app, list(ids), terminate=terminate)
    results.tell_of_unknown(state.app, list(ids))
    if terminate:
        return ok(f"terminate: {_ended(state, ids, signal)}")
    return ok(f"tasks {ids} flagged as revoked")


def _ended(state: Any, ids: set[Any], signal: Any) -> str:
    """End the requests that a program runs by itself; which of all these run here, as text."""
    own = [worker_state.requests[each] for each in ids if each in worker_state.requests]
    for request in own:
        request.terminate(state.consumer.pool, signal=signal)
    known = {each.id for each in own}
    known |= ids & {each.job.id for each in _inspection(state).active()}
    return ", ".join(sorted(known)) or "tasks unknown"


@control_command(variadic="headers", signature="[key1=value1 [key2=value2 [... [keyN=valueN]]]]")
def revoke_by_stamped_headers(
    state: Any, headers: Any, terminate: bool = False, signal: Any = None, **_: Any
) -> dict[str, Any]:
    """Take out the unfinished tasks with one of these stamps."""
    if not isinstance(headers, Mapping):  # from a command line
        headers = dict(each.split("=", 1) for each in maybe_list(headers) or ())
    for name, values in headers.items():
        known = maybe_list(worker_state.revoked_stamps.get(name)) or []
        added = [one for one in maybe_list(values) or [values] if one not in known]
        worker_state.revoked_stamps[name] = [*known, *added]
    for each in revoke_stamped(state.app, headers, terminate=terminate):
        worker_state.revoked.add(each)
    told = "revoked" if terminate else "flagged as revoked, but not terminated"
    return ok(f"headers {headers} {told}")


@control_command(
    variadic="task_id", args=[("signal", str)], signature="<signal> [id1 [id2 [... [idN]]]]"
)
def terminate(state: Any, signal: str, task_id: Any, **_: Any) -> dict[str, Any]:
    """Take tasks out, even if they run already."""
    return revoke(state, task_id, terminate=True, signal=signal)


@control_command(
    args=[("task_name", str), ("rate_limit", str)],
    signature="<task_name> <rate_limit (e.g., 5/s | 5/m | 5/h)>",
)
def rate_limit(state: Any, task_name: str, rate_limit: Any, **_: Any) -> dict[str, Any]:
    """Let a task start so often at most, in this worker, from now on."""
    try:
        rate_for(rate_limit)
    except ValueError as error:
        return nok(f"Invalid rate limit string: {error!r}")
    if task_name not in state.app.tasks:
        return nok("unknown task")
    state.app.tasks[task_name].rate_limit = rate_limit
    state.consumer.reset_rate_limits()
    if not rate_limit:
        return ok("rate limit disabled successfully")
    return ok("new rate limit set successfully")


@control_command(
    args=[("task_name", str), ("soft", float), ("hard", float)],
    signature="<task_name> <soft_secs> [hard_secs]",
)
def time_limit(
    state: Any, task_name: str, hard: float | None = None, soft: float | None = None, **_: Any
) -> dict[str, Any]:
    """Let a task take so many seconds at most, where its call has no limits of its own."""
    if task_name not in state.app.tasks:
        return nok("unknown task")
    task = state.app.tasks[task_name]
    task.time_limit, task.soft_time_limit = hard, soft
    state.consumer.controller.limit_times()
    return ok("time limits set successfully")


@control_command()
def election(state: Any, id: str, topic: str, action: Any = None, **_: Any) -> dict[str, Any]:
    """Let one worker be chosen to do something."""
    gossip = getattr(state.consumer, "gossip", None)
    if gossip is None or not gossip.enabled:
        return nok("this worker chooses nobody: no step of its program requires Gossip")
    gossip.election(id, topic, action)
    return ok("the workers choose one")


# -- orders about the worker ---------------------------------------------------------------------


@control_command()
def enable_events(state: Any, **_: Any) -> dict[str, Any]:
    """Tell of tasks from now on."""
    dispatcher = state.consumer.event_dispatcher
    if dispatcher is None:
        return nok(NO_EVENTS)
    if not dispatcher.groups or "task" in dispatcher.groups:
        return ok("task events already enabled")
    dispatcher.groups.add("task")
    logger.info("Events of group {task} enabled by remote.")
    return ok("task events enabled")


@control_command()
def disable_events(state: Any, **_: Any) -> dict[str, Any]:
    """Tell of tasks no more."""
    dispatcher = state.consumer.event_dispatcher
    if dispatcher is None:
        return nok(NO_EVENTS)
    if "task" not in dispatcher.groups:
        return ok("task events already disabled")
    dispatcher.groups.discard("task")
    logger.info("Events of group {task} disabled by remote.")
    return ok("task events disabled")


@control_command()
def heartbeat(state: Any, **_: Any) -> None:
    """Say at once that the worker lives: by an event, not by an answer."""
    logger.debug("Heartbeat requested by remote.")
    dispatcher = state.consumer.event_dispatcher
    if dispatcher is not None:
        dispatcher.send("worker-heartbeat", freq=5, **worker_state.SOFTWARE_INFO)


@control_command(args=[("n", int)], signature="[N=1]")
def pool_grow(state: Any, n: int = 1, **_: Any) -> dict[str, Any]:
    """Run so many tasks more at once."""
    return _resized(state, lambda: state.consumer.pool.grow(n), "pool will grow")


@control_command(args=[("n", int)], signature="[N=1]")
def pool_shrink(state: Any, n: int = 1, **_: Any) -> dict[str, Any]:
    """Run so many tasks less at once."""
    return _resized(state, lambda: state.consumer.pool.shrink(n), "pool will shrink")


def _resized(state: Any, resize: Callable[[], Any], answer: str) -> dict[str, Any]:
    if state.consumer.controller.autoscaler:
        return nok("the pool follows the load: set its bounds with `autoscale`")
    try:
        resize()
    except ValueError as error:
        return nok(str(error))
    return ok(answer)


@control_command()
def pool_restart(state: Any, **_: Any) -> dict[str, Any]:
    """Make the processes of the pool anew."""
    return nok("a worker cannot restart its pool: send it SIGHUP instead")


@control_command(args=[("max", int), ("min", int)], signature="[max [min]]")
def autoscale(state: Any, max: int | None = None, min: int | None = None) -> dict[str, Any]:
    """Let the pool have between ``min`` and ``max`` processes."""
    autoscaler = state.consumer.controller.autoscaler
    if not autoscaler:
        return nok("this worker does not follow the load: start it with --autoscale")
    most, least = autoscaler.update(
        None if max is None else int(max), None if min is None else int(min)
    )
    return ok(f"autoscale now max={most} min={least}")


@control_command()
def shutdown(state: Any, msg: str = "Got shutdown from remote", **_: Any) -> None:
    """Finish what runs, and stop."""
    logger.warning(msg)
    raise WorkerShutdown(EX_OK)


@control_command(
    args=[
        ("queue", str),
        ("exchange", str),
        ("exchange_type", str),
        ("routing_key", str),
    ],
    signature="<queue> [exchange [type [routing_key]]]",
)
def add_consumer(
    state: Any,
    queue: str,
    exchange: str | None = None,
    exchange_type: str | None = None,
    routing_key: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Take jobs from another queue too."""
    state.consumer.add_task_queue(queue, exchange, exchange_type, routing_key, **options)
    return ok(f"add consumer {queue}")


@control_command(args=[("queue", str)], signature="<queue>")
def cancel_consumer(state: Any, queue: str, **_: Any) -> dict[str, Any]:
    """Take no more jobs from a queue."""
    state.consumer.cancel_task_queue(queue)
    return ok(f"no longer consuming from {queue}")
