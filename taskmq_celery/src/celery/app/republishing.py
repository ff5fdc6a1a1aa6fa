"""Messages that a worker publishes with a producer of kombu's, for a task that has ended.

There is nobody to see an error then, and the task is not run again for it: what was to follow
would be lost. So a message that the broker refuses is sent again, a limited number of times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError
from kombu.utils.functional import retry_over_time

if TYPE_CHECKING:
    from .amqp import AMQP

__all__ = ("policy_with", "publish_again", "retry_publish")

logger = logging.getLogger(__name__)

MOST = 3
"""How often a message is sent again where its policy says: for ever. A worker has more to do."""

_callback_publish_retry: ContextVar[bool] = ContextVar("callback_publish_retry", default=False)
"""Whether messages that are published here are to be sent again, one by one."""


def policy_with(conf: Any, changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """``task_publish_retry_policy``, with the ``retry_policy`` of a call in front of it."""
    return {**(conf.task_publish_retry_policy or {}), **(changes or {})}


def retry_publish(amqp: AMQP, publish: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``publish``; each message that it sends with ``app.amqp.send_task_message`` is sent
    again while the broker refuses it. Gives what ``publish`` gives."""
    if amqp.app.conf.task_always_eager:
        return publish(*args, **kwargs)
    token = _callback_publish_retry.set(True)
    try:
        return publish(*args, **kwargs)
    finally:
        _callback_publish_retry.reset(token)


def publish_again(
    amqp: AMQP, producer: Any, policy: Mapping[str, Any], body: Any, message: Mapping[str, Any]
) -> Any:
    """Publish one message, again after errors of the connection, as ``policy`` says.

    Raises the last of these errors; any other at once.
    """
    connection = producer.connection
    lost = tuple(connection.recoverable_connection_errors)
    endless = policy.get("max_retries") is None
    most = _most(amqp, policy)
    warned = False

    def refused(error: Exception, waits: Iterator[float], count: int) -> float:
        nonlocal warned
        if endless and not warned:
            warned = True
            logger.warning(
                "Unbounded max_retries for worker callback: the message is sent again %d times, "
                "after %r",
                most,
                error,
            )
        if lost and isinstance(error, lost):
            producer.revive(connection)
        return next(waits)

    def publish() -> Any:
        return producer.publish(body, retry=False, retry_policy=policy, **message)

    if most <= 0:
        return publish()
    waits = {name: policy[name] for name in WAITS if policy.get(name) is not None}
    return retry_over_time(
        publish,
        (OperationalError, *lost, *(policy.get("retry_errors") or ())),
        max_retries=most,
        errback=refused,
        **waits,
    )


WAITS = ("interval_start", "interval_step", "interval_max")


def _most(amqp: AMQP, policy: Mapping[str, Any]) -> int:
    most = policy.get("max_retries")
    if most is None:
        most = (amqp.app.conf.task_publish_retry_policy or {}).get("max_retries")
    return MOST if most is None else int(most)
