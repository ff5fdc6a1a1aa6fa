"""The event ``task-sent``, which clients send if the setting ``task_send_sent_event`` is on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from celery.utils.log import get_logger
from celery.utils.saferepr import saferepr
from taskmq_celery.brokers import carries_control

if TYPE_CHECKING:
    from taskmq_celery.message import Message

    from .base import Celery

__all__ = ("tell_sent",)

logger = get_logger(__name__)


def tell_sent(app: Celery, messages: Sequence[Message], producer: Any = None) -> None:
    """Tell of tasks that have just been stored: of several in one message.

    The tasks will run whatever becomes of the event: that it could not be sent is logged, and it
    is kept, to be sent when one can be again. ``producer`` is the caller's, if there is one.
    """
    if not carries_control(app.conf.broker_write_url):
        return
    dispatcher = app.amqp._event_dispatcher
    policy = {"retry": app.conf.task_publish_retry}
    policy["retry_policy"] = app.conf.task_publish_retry_policy
    try:
        with app.producer_or_acquire(producer) as sender:
            before = dispatcher.kept
            if len(messages) == 1:
                dispatcher.publish("task-sent", _fields(messages[0]), sender, **policy)
            else:
                told = [("task-sent", _fields(message)) for message in messages]
                dispatcher.publish_together(told, sender, **policy)
            if dispatcher.kept > before:
                logger.warning("The event that %d tasks were sent is kept for later", len(messages))
            elif before:
                dispatcher.send_kept(sender)
    except Exception as error:
        logger.warning("No event says that %d tasks were sent: %s", len(messages), error)


def _fields(message: Message) -> dict[str, Any]:
    headers = message.headers
    return {
        "uuid": message.id,
        "root_id": headers.get("root_id"),
        "parent_id": headers.get("parent_id"),
        "name": message.task,
        "args": headers.get("argsrepr") or saferepr(message.args),
        "kwargs": headers.get("kwargsrepr") or saferepr(message.kwargs),
        "retries": headers.get("retries", 0),
        "eta": headers.get("eta"),
        "expires": headers.get("expires"),
        "queue": message.queue,
        "exchange": message.properties.get("exchange", ""),
        "routing_key": message.properties.get("routing_key", message.queue),
    }
