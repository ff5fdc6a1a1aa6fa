"""Task messages through kombu, as Celery publishes them.

Programs send tasks with `Celery.send_task`, which stores a job and needs none of this. What is
here is for those who publish to a broker's own queues: ``app.amqp.send_task_message``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kombu.entity import Queue

from celery import signals

from .republishing import _callback_publish_retry, policy_with, publish_again

if TYPE_CHECKING:
    from .amqp import AMQP, task_message

__all__ = ("send_task_message",)


def send_task_message(
    amqp: AMQP,
    producer: Any,
    name: str,
    message: task_message,
    exchange: Any = None,
    routing_key: str | None = None,
    queue: Any = None,
    event_dispatcher: Any = None,
    retry: bool | None = None,
    retry_policy: Mapping[str, Any] | None = None,
    serializer: str | None = None,
    delivery_mode: Any = None,
    compression: str | None = None,
    declare: Any = None,
    headers: Mapping[str, Any] | None = None,
    exchange_type: str | None = None,
    **kwargs: Any,
) -> Any:
    """Publish a message with a producer of kombu's, and tell the signals; gives what it gives.

    Without ``queue``, exchange or routing key it goes to the default queue. A direct exchange is
    left out: the message goes to its queue by name.
    """
    conf = amqp.app.conf
    sent_headers, properties, body, sent_event = message
    if headers:
        sent_headers = {**sent_headers, **headers}
    if kwargs:
        properties = {**properties, **kwargs}
    place = _place(amqp, queue, exchange, routing_key, exchange_type)
    queue, name_of_exchange, key = place
    if declare is None and queue is not None and not _is_broadcast(queue):
        declare = [queue]
    policy = policy_with(conf, retry_policy)
    told = {
        "sender": name,
        "body": body,
        "exchange": name_of_exchange,
        "routing_key": key,
    }
    if signals.before_task_publish.receivers:
        signals.before_task_publish.send(
            declare=declare,
            headers=sent_headers,
            properties=properties,
            retry_policy=policy,
            **told,
        )
    retry = conf.task_publish_retry if retry is None else retry
    sent = {
        "exchange": name_of_exchange,
        "routing_key": key,
        "serializer": serializer or conf.task_serializer,
        "compression": compression or conf.task_compression,
        "delivery_mode": _delivery_mode(queue, delivery_mode, conf.task_default_delivery_mode),
        "declare": declare,
        "headers": sent_headers,
        **properties,
    }
    if retry and _callback_publish_retry.get():
        published = publish_again(amqp, producer, policy, body, sent)
    else:
        published = producer.publish(body, retry=retry, retry_policy=policy, **sent)
    if signals.after_task_publish.receivers:
        signals.after_task_publish.send(headers=sent_headers, **told)
    if signals.task_sent.receivers:
        _tell_task_sent(name, sent_headers, body)
    if sent_event:
        dispatcher = event_dispatcher or amqp._event_dispatcher
        event = {**sent_event, "queue": getattr(queue, "name", queue), "routing_key": key}
        event["exchange"] = getattr(exchange or getattr(queue, "exchange", None), "name", exchange)
        dispatcher.publish("task-sent", event, producer, retry=retry, retry_policy=policy)
    return published


def _place(
    amqp: AMQP, queue: Any, exchange: Any, routing_key: str | None, exchange_type: str | None
) -> tuple[Any, Any, str | None]:
    """Queue, exchange and routing key."""
    if queue is None and exchange is None:
        queue = amqp.default_queue
    if isinstance(queue, str):
        queue = amqp.queues[queue]
    if queue is None:
        return None, exchange, routing_key or amqp.app.conf.task_default_routing_key
    kind = exchange_type or getattr(queue.exchange, "type", None) or "direct"
    if kind == "direct":
        return queue, "", queue.name
    given = exchange or getattr(queue.exchange, "name", "") or queue.name
    return queue, given, routing_key or queue.routing_key


def _is_broadcast(queue: Any) -> bool:
    return not isinstance(queue, Queue)


def _delivery_mode(queue: Any, given: Any, default: Any) -> Any:
    if given is not None:
        return given
    of_exchange = getattr(getattr(queue, "exchange", None), "delivery_mode", None)
    return of_exchange or default


def _tell_task_sent(name: str, headers: Mapping[str, Any], body: Any) -> None:
    """The signal that came before ``after_task_publish``."""
    if isinstance(body, tuple):
        about = {"task_id": headers["id"], "args": body[0], "kwargs": body[1]}
        about.update(eta=headers["eta"], taskset=headers["group"])
    else:
        about = {"task_id": body["id"], "args": body["args"], "kwargs": body["kwargs"]}
        about.update(eta=body["eta"], taskset=body["taskset"])
    signals.task_sent.send(sender=name, task=name, **about)
