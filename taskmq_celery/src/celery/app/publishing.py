"""From the call of a task to jobs in the store.

One call is one round trip, whatever comes after the task: its links and the rest of its chain are
stored with it, as one workflow (`taskmq_celery.graph`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kombu.utils.uuid import uuid

from celery import signals
from celery.exceptions import ImproperlyConfigured
from celery.utils.dispatch import Signal
from celery.utils.functional import maybe_list
from celery.utils.saferepr import saferepr
from taskmq_celery.graph import Node, nodes_of, submit
from taskmq_celery.message import Message

from .configured import properly_configured

if TYPE_CHECKING:
    from .base import Celery

__all__ = ("publish",)

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


def publish(app: Celery, name: str, args: Any, kwargs: Any, options: dict[str, Any]) -> Message:
    """Store the job of one task, with everything that is to run after it.

    Raises what `taskmq_celery.graph.submit` raises; nothing was stored then.
    """
    links = maybe_list(options.pop("link", None)) or []
    chain = (maybe_list(options.pop("chain", None)) or [])[::-1]
    head = _message(app, name, args, kwargs, options, links=links, chain=chain)
    nodes = [Node(head)]
    if links or chain:

        def build(signature: Any, parent: Message) -> Message:
            return _message_behind(app, signature, parent)

        nodes = nodes_of(head, links, chain, build)
    with properly_configured():
        submit(app, nodes)
    if signals.after_task_publish.receivers:
        for node in nodes:
            _announce(signals.after_task_publish, node.message, headers=node.message.headers)
    return head


def _message_behind(app: Celery, signature: Any, parent: Message) -> Message:
    """The message of a task that runs after another one."""
    options = dict(signature["options"])
    task = app._tasks.get(signature["task"])
    if task is not None:
        options = {**task._get_exec_options(), **options}
    options.update(
        root_id=parent.headers["root_id"], parent_id=parent.headers["id"], task_type=task
    )
    return _message(app, signature["task"], signature["args"], signature["kwargs"], options)


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
    meant = amqp.header_options | MEANT_FOR_US
    properties.update({key: value for key, value in options.items() if key not in meant})
    if exchange or routing_key != queue:
        properties.update(exchange=exchange, routing_key=routing_key)
    priority = options.get("priority")
    countdown = options.get("countdown")
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
        store_result=False if headers["ignore_result"] else None,
        errbacks=errbacks,
    )
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
            retry_policy=dict(conf.task_publish_retry_policy),
        )
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
    """The declared queue behind an exchange or routing key; a key may be a queue's name."""
    wanted = getattr(exchange, "name", exchange)
    for queue in queues.values():
        if wanted in (None, "", queue.exchange.name) and key in (None, queue.routing_key):
            return queue
    return queues[key] if key and not wanted else None


def _serializer(conf: Any, given: str | None) -> str:
    serializer = given or conf.task_serializer
    if serializer != "json" and serializer not in (conf.accept_content or ()):
        raise ImproperlyConfigured(
            f"serializer {serializer!r} is not accepted here: add it to the setting "
            "accept_content, or use 'json'"
        )
    return str(serializer)


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
