"""``Task.Strategy``: tasks whose messages the program wants to have, instead of having them run.

A strategy is called once with the task, the app and the consumer, and gives a function for the
messages. Those of such a task keep their lease, and take no slot, until they are acknowledged or
rejected; then the engine settles the job. What a strategy still has when the worker ends goes back
into its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from vine import promise

from celery.app.task import Task
from celery.concurrency.base import put_off
from celery.exceptions import InvalidTaskError
from celery.utils.log import get_logger

from .strategy import Message

__all__ = ("HeldMessage", "Strategies")

logger = get_logger("celery.worker.consumer.consumer")

INVALID_TASK = "Received invalid task message: %s. It was rejected: %s[%s]"

JSON = "application/json"


class HeldMessage(Message):
    """A job that nobody runs: whoever has it says what becomes of it, as of one of kombu's
    messages."""

    channel = None
    content_type, content_encoding = JSON, "utf-8"

    def __init__(self, taken: Any, task: Any) -> None:
        super().__init__(taken.received)
        self.delivery_tag: str = taken.received.id
        self.acknowledged = False
        self._taken = taken
        self._early = task.acks_late is None

    def ack(self, multiple: bool = False) -> None:
        """The job is over. Where nobody said when tasks are to be acknowledged, one that is when
        a pool accepts a call is so only when the call is over: it is not to get lost in between."""
        if not (self._early and put_off(self._done, self._lost)):
            self._done()

    def _done(self) -> None:
        self.acknowledged = True
        self._taken.done()

    def _lost(self, detail: str) -> None:
        self.acknowledged = True
        self._taken.lose(detail)

    def reject(self, requeue: bool = False) -> None:
        """It is not to run; ``requeue``: not here and now."""
        self.acknowledged = True
        if requeue:
            self._taken.give_back()
        else:
            self._taken.refuse()

    def requeue(self) -> None:
        """Some worker is to have it again."""
        self.reject(requeue=True)

    def start(self) -> None:
        """Have the worker run it."""
        self.acknowledged = True
        self._taken.start()

    def ack_log_error(self, logger: Any, errors: Any, multiple: bool = False) -> None:
        """`ack`: it asks no connection, so none can fail."""
        self.ack(multiple)

    def reject_log_error(self, logger: Any, errors: Any, requeue: bool = False) -> None:
        """`reject`, likewise."""
        self.reject(requeue)


class Strategies:
    """Those of the tasks of one consumer that have one of their own."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._handlers: dict[str, Callable[..., Any]] = {}

    def update(self) -> Mapping[str, Callable[..., Any]]:
        """Call the strategy of every task; gives what they gave. Raises what it raises."""
        consumer = self._consumer
        self._handlers = {
            task.name: task.start_strategy(consumer.app, consumer)
            for task in list(consumer.app.tasks.values())
            if _has_its_own(task)
        }
        return self._handlers

    @property
    def wanted(self) -> bool:
        """Whether any task has one."""
        return any(map(_has_its_own, list(self._consumer.app.tasks.values())))

    @property
    def names(self) -> Collection[str]:
        """Names of the tasks whose messages `handle` takes."""
        return self._handlers.keys()

    def handle(self, jobs: Sequence[Any]) -> None:
        """Give each its function. One that raises has its job come again, as often as one that
        is lost."""
        consumer = self._consumer
        for each in jobs:
            received = each.received
            message = HeldMessage(each, consumer.app.tasks[received.name])
            ack, reject = promise(message.ack_log_error), promise(message.reject_log_error)
            try:
                self._handlers[received.name](message, None, ack, reject, consumer.on_task_message)
            except InvalidTaskError as error:
                logger.error(INVALID_TASK, error, received.name, received.id)
                each.refuse()
            except Exception as error:
                logger.exception("The strategy of %s failed: %s", received.name, received.id)
                each.lose(f"its strategy failed: {error!r}")


def _has_its_own(task: Any) -> bool:
    strategy = getattr(task, "Strategy", None)
    return strategy not in (None, Task.Strategy, Task.Strategy.replace(":", "."))
