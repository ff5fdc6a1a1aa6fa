"""From the call of a task, or of a canvas, to jobs in the store.

One call is one round trip, whatever comes after the task: all of a canvas is stored together, as
one workflow (`taskmq_celery.graph`). Tasks that wait for nothing go through their own
``apply_async``, which programs override and libraries patch; what it publishes is collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kombu.utils.imports import symbol_by_name
from kombu.utils.uuid import uuid

from celery import signals
from celery.exceptions import ImproperlyConfigured
from celery.utils.dispatch import Signal
from celery.utils.functional import maybe_list
from celery.utils.nodenames import worker_direct
from celery.utils.saferepr import saferepr
from taskmq_celery.engine import engine_for
from taskmq_celery.graph import Graph, More, Place, make_room
from taskmq_celery.message import CHORD, REPRS, Message
from taskmq_celery.storing import Policy, like, submit, submit_call

from .configured import properly_configured
from .drafts import can_have_draft, draft_of, keep_draft
from .patched_producer import is_patched, publish_patched
from .republishing import policy_with
from .sent_events import tell_sent

if TYPE_CHECKING:
    from .base import Celery

__all__ = ("Sent", "arguments_of", "graph_of", "publish", "publish_canvas")

MEANT_FOR_US = frozenset(
    {
        *("add_to_parent", "chain", "compression", "connection", "declare", "delivery_mode"),
        *("exchange", "headers", "immediate", "link", "link_error", "mandatory", "priority"),
        *("producer", "publisher", "queue", "retry", "retry_policy", "routing_key", "serializer"),
        *("task_id", "throw", "visitor"),
    }
)
"""Options of a call with a meaning of their own. Those that make a header are the parameters of
``AMQP.as_task_v2``. Any other option becomes a property of the message."""


_collecting: ContextVar[Graph | None] = ContextVar("collecting", default=None)
"""Where to put what is published in this thread, while a canvas is made into a graph."""


class Sent(NamedTuple):
    """What the caller of a task gets to know."""

    id: str
    ignored: bool
    """Whether nobody wants the result."""


def publish(app: Celery, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> Sent:
    """Store the job of one task, with everything that is to run after it.

    Raises what `taskmq_celery.storing.submit` raises; nothing was stored then.
    """
    if _collecting.get() is None and not _is_watched():
        sent = _publish_like_others(app, name, args, kwargs, options)
        if sent is not None:
            return sent
    message = _publish_alone(app, name, args, kwargs, options)
    return Sent(message.headers["id"], message.ignore_result)


def _is_watched() -> bool:
    """Whether anybody wants to see messages, or to add something to them."""
    return bool(
        signals.before_task_publish.receivers
        or signals.after_task_publish.receivers
        or is_patched()
    )


def _publish_like_others(
    app: Celery, name: str, args: Any, kwargs: Any, options: Mapping[str, Any]
) -> Sent | None:
    """Store a task by the draft of its calls; ``None`` if it can have none."""
    own = dict(options)
    task_id, task, _ = own.pop("task_id"), own.pop("task_type"), own.pop("producer")
    if type(task_id) is not str:
        return None
    with properly_configured():
        engine = engine_for(app)
        args, kwargs = arguments_of(args, kwargs)
        draft = draft_of(engine, app, name, task, args, own)
        if draft is None:
            if not can_have_draft(app, own):
                return None
            message = _message(app, name, args, kwargs, {**own, "task_type": task})
            draft = keep_draft(engine, app, task, own, message)
        call = like(draft.model, task_id, args, kwargs)
        submit_call(engine, call, partial(_policy_with, app, own))
    return Sent(task_id, draft.ignored)


def _publish_alone(
    app: Celery, name: str, args: Any, kwargs: Any, options: dict[str, Any]
) -> Message:
    links = maybe_list(options.pop("link", None)) or []
    chain = (maybe_list(options.pop("chain", None)) or [])[::-1]
    producer, policy = options.get("producer"), _policy_of(app, options)
    graph = _collecting.get()
    collected = graph is not None
    if graph is None:
        graph = _new_graph(app, starts=_start_of(app))
    head = _message(app, name, args, kwargs, options, links=links, chain=chain)

    def store(message: Message) -> None:
        nonlocal head
        head = graph.head(message, links, chain)
        if not collected:
            _store(app, graph, policy, producer=producer)

    if is_patched():
        publish_patched(app, head, head.headers, store)
    else:
        store(head)
    return head


def publish_canvas(
    app: Celery,
    canvas: Any,
    args: Any,
    kwargs: Any,
    options: dict[str, Any],
    used: Iterable[str] = (),
) -> dict[str, str]:
    """Store the jobs of a canvas, all or none; gives new ids of tasks that took another one.
    ``used`` are ids that may have been used before: the tasks run again.

    Raises what `taskmq_celery.storing.submit` raises; nothing was stored then.
    """
    with properly_configured():
        taken = make_room(app, used)
    graph = graph_of(app, canvas, args, kwargs, options, taken=taken, in_slices=True)
    _store(app, graph, _policy_of(app, options), producer=options.get("producer"))
    return graph.renamed


def graph_of(
    app: Celery,
    canvas: Any,
    args: Any = None,
    kwargs: Any = None,
    options: dict[str, Any] | None = None,
    *,
    place: Place = Place(),  # noqa: B008  # immutable
    taken: frozenset[str] = frozenset(),
    in_slices: bool = False,
) -> Graph:
    """The jobs of a canvas. ``taken`` are ids of jobs that exist, which tasks of the canvas have
    all the same. ``in_slices``: of a generator that takes its time, what there is is
    stored from time to time."""
    options = dict(options or {})
    more = More(
        args=tuple(args or ()),
        kwargs=dict(kwargs or {}),
        links=tuple(maybe_list(options.pop("link", None)) or ()),
        errbacks=tuple(maybe_list(options.pop("link_error", None)) or ()),
        options=options,
    )
    graph = _new_graph(app, starts=_start_of(app), taken=taken)
    if in_slices:
        graph.on_slow = partial(_store, app, graph, _policy_of(app, options), unfinished=True)
    graph.end = graph.grow(canvas, None, place, more)
    return graph


def _new_graph(
    app: Celery, starts: Callable[..., str], taken: frozenset[str] = frozenset()
) -> Graph:
    def build(signature: Any, place: Place) -> Message:
        return _message_behind(app, signature, place)

    return Graph(
        build,
        starts,
        errbacks_on_header=bool(app.conf.task_allow_error_cb_on_chord_header),
        taken=taken,
    )


def _start_of(app: Celery) -> Callable[..., str]:
    def start(graph: Graph, signature: Any, place: Place) -> str:
        """Call the task as its user would: what it publishes goes into the graph."""
        task = symbol_by_name("celery.canvas:maybe_signature")(dict(signature), app=app)
        token = _collecting.set(graph)
        try:
            result = task.apply_async(add_to_parent=False, **place.options())
        finally:
            _collecting.reset(token)
        return str(result.id)

    return start


def _store(
    app: Celery,
    graph: Graph,
    policy: Policy,
    *,
    unfinished: bool = False,
    producer: Any = None,
) -> None:
    messages = graph.messages
    with properly_configured():
        submit(app, graph, unfinished=unfinished, policy=policy)
    if signals.after_task_publish.receivers:
        for message in messages:
            _announce(signals.after_task_publish, message, headers=message.headers)
    if app.conf.task_send_sent_event and messages:
        tell_sent(app, messages, producer)


def _policy_of(app: Celery, options: Mapping[str, Any]) -> Policy:
    """How often, and after how long, a call with these options is stored again. It is asked for
    only where the store cannot be reached."""
    said = {name: options.get(name) for name in ("retry", "retry_policy")}
    return partial(_policy_with, app, said)


def _policy_with(app: Celery, options: Mapping[str, Any]) -> dict[str, Any] | None:
    conf, retry = app.conf, options.get("retry")
    if not (conf.task_publish_retry if retry is None else retry):
        return None
    return policy_with(conf, options.get("retry_policy"))


def arguments_of(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments of a task as they are sent. Raises ``TypeError`` if they are no list and dict."""
    args, kwargs = args or (), kwargs or {}
    if not isinstance(args, (list, tuple)):
        raise TypeError("task args must be a list or tuple")
    if not isinstance(kwargs, Mapping):
        raise TypeError("task keyword arguments must be a mapping")
    return args, kwargs


def _message_behind(app: Celery, signature: Any, place: Place) -> Message:
    """The message of a task that runs after another one."""
    options = {**signature["options"], **place.options()}
    task = app._tasks.get(signature["task"])
    if task is not None:
        options = {**task._get_exec_options(), **options}
    options["task_type"] = task
    links = maybe_list(options.pop("link", None)) or []
    args = signature["args"]
    if signature.get("immutable"):
        args = list(args)  # that is what Celery finds in the message of the task before
    return _message(app, signature["task"], args, signature["kwargs"], options, links=links)


@cache
def _meant(header_options: frozenset[str]) -> frozenset[str]:
    """The options that become no property of a message."""
    return header_options | MEANT_FOR_US


def _message(
    app: Celery,
    name: str,
    args: Any,
    kwargs: Any,
    options: dict[str, Any],
    *,
    links: list[Any] | None = None,
    chain: list[Any] | None = None,
) -> Message:
    conf, amqp = app.conf, app.amqp
    task = options.pop("task_type", None)
    router = options.pop("router", None) or amqp.router
    route_name = options.pop("route_name", None) or name
    options = router.route(options, route_name, args, kwargs, task)
    queue, exchange, routing_key = _destination(amqp, options)
    errbacks = maybe_list(options.get("link_error")) or []
    headers, properties, body, _ = amqp.as_task_v2(
        options.get("task_id") or uuid(),
        name,
        args,
        kwargs,
        callbacks=links or None,
        errbacks=errbacks or None,
        chain=chain[::-1] if chain else None,
        **{
            "argsrepr": "",  # made below, if anybody looks
            "kwargsrepr": "",
            **{key: value for key, value in options.items() if key not in ("task_id", "chain")},
        },
    )
    headers.update(options.get("headers") or {})
    meant = _meant(amqp.header_options)
    if options.get("stamped_headers"):
        meant = meant.union(options["stamped_headers"])
    properties.update({key: value for key, value in options.items() if key not in meant})
    if exchange or routing_key != queue:
        properties.update(exchange=exchange, routing_key=routing_key)
    priority = options.get("priority")
    countdown = options.get("countdown")
    chord = options.get("chord")
    message = Message(
        task=name,
        id=headers["id"],
        args=body[0],
        kwargs=body[1],
        headers=headers,
        properties=properties,
        queue=queue,
        serializer=_serializer(conf, options.get("serializer")),
        priority=conf.task_default_priority if priority is None else priority,
        eta=amqp.moment(options.get("eta")) if countdown is None else countdown,
        expires=amqp.moment(options.get("expires")),
        ack=_ack_policy(conf, task),
        store_result=False
        if _is_unwanted(headers["ignore_result"], app._tasks.get(name))
        else None,
        errbacks=errbacks,
    )
    shown = {name: headers[name] for name in ("argsrepr", "kwargsrepr") if headers[name]}
    if signals.before_task_publish.receivers:
        headers["argsrepr"] = headers["argsrepr"] or saferepr(body[0])
        headers["kwargsrepr"] = headers["kwargsrepr"] or saferepr(body[1])
        _announce(
            signals.before_task_publish,
            message,
            body=body,
            headers=headers,
            properties=properties,
            declare=[amqp.queues[queue]],
            retry_policy=policy_with(conf, options.get("retry_policy")),
        )
    if shown:
        message = message.with_header(REPRS, shown)
    if chord is not None:
        return message.with_header(CHORD, [chord["task"], chord["options"].get("task_id")])
    return message


def _destination(amqp: Any, options: dict[str, Any]) -> tuple[str, str, str]:
    """The queue's name; and exchange and routing key, as signals and requests show them."""
    queue, exchange, key = (options.get(name) for name in ("queue", "exchange", "routing_key"))
    if queue is None and (exchange or key):
        queue = _bound_to(amqp.queues, exchange, key)
    if queue is None:
        queue = amqp.default_queue
    elif isinstance(queue, str):
        return queue, "", key or queue
    if queue.exchange is None or queue.exchange.type == "direct":
        return queue.name, "", key or queue.name
    return queue.name, queue.exchange.name, key or queue.routing_key or queue.name


def _bound_to(queues: Any, exchange: Any, key: str | None) -> Any:
    """The declared queue behind an exchange or routing key, or that of one worker alone
    (``worker_direct``); a key may be a queue's name."""
    wanted = getattr(exchange, "name", exchange)
    for queue in queues.values():
        if wanted in (None, "", queue.exchange.name) and key in (None, queue.routing_key):
            return queue
    if key and wanted:
        direct = worker_direct(key)
        return direct if wanted == direct.exchange.name else None
    return queues[key] if key else None


def _serializer(conf: Any, given: str | None) -> str:
    serializer = given or conf.task_serializer
    if serializer != "json" and serializer not in (conf.accept_content or ()):
        raise ImproperlyConfigured(
            f"serializer {serializer!r} is not accepted here: add it to the setting "
            "accept_content, or use 'json'"
        )
    return str(serializer)


def _is_unwanted(ignored: bool | None, task: Any) -> bool:
    """Whether nobody wants the result: as the caller says, or else as the task does, if it is known
    here."""
    if ignored is None and task is not None:
        return bool(task.ignore_result)
    return bool(ignored)


def _ack_policy(conf: Any, task: Any) -> Any:
    """At least once, unless somebody wrote ``acks_late=False``: then as Celery has it, early."""
    if task is not None:
        late = task.acks_late
    else:
        late = conf.task_acks_late if conf.value_set_for("task_acks_late") else None
    if late is None:
        return None
    return "on_success" if late else "on_receipt"


def _announce(signal: Signal, message: Message, **fields: Any) -> None:
    fields.setdefault("body", (message.args, message.kwargs, {}))
    signal.send(
        sender=message.task,
        exchange=message.properties.get("exchange", ""),
        routing_key=message.properties.get("routing_key", message.queue),
        **fields,
    )
