"""What becomes of task messages that a program takes from the broker by itself.

>>> handle = consumer.create_task_handler()
>>> kombu.Consumer(channel, queues=[queue], on_message=handle)

The worker's own tasks come through the engine, and not this way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kombu.utils.encoding import safe_repr
from vine import promise as new_promise

from celery import signals
from celery.app.task import Context
from celery.exceptions import InvalidTaskError, NotRegistered
from celery.utils.log import get_logger
from celery.utils.text import truncate
from celery.worker.state import task_reserved

__all__ = ("MessageHandling", "dump_body")

logger = get_logger("celery.worker.consumer.consumer")

SHOWN = 1024
"""How many characters of a body are shown."""


def dump_body(m: Any, body: Any) -> str:
    """The body of a message for the log: the beginning of it, and how long it is."""
    raw = m.body if body is None else body
    return f"{truncate(safe_repr(raw), SHOWN)} ({len(m.body)}b)"


class MessageHandling:
    """The part of a consumer that tells tasks from other messages, and takes them."""

    app: Any
    controller: Any
    on_task_message: set[Any]
    strategies: dict[str, Any]
    call_soon: Callable[..., Any]
    connection_errors: Any
    on_task_request: Callable[..., Any]
    timer: Any

    def update_strategies(self) -> None:
        """Ask every task how its messages are taken (`Task.start_strategy`)."""
        own = self.controller.strategies.update()
        for name, task in self.app.tasks.items():
            self.strategies[name] = own.get(name) or task.start_strategy(self.app, self)

    def create_task_handler(
        self, promise: Callable[..., Any] = new_promise
    ) -> Callable[[Any], Any]:
        """What takes a message (kombu's): the task that it names runs, once it is due and its rate
        allows it. A message that names none is told of, and rejected.

        ``promise`` makes of a function and its arguments what acknowledges the message.
        """

        def on_task_received(message: Any) -> Any:
            payload = None
            name = (message.headers or {}).get("task")
            if name is None:  # protocol 1, if it is a task at all
                try:
                    payload = message.decode()
                except Exception as error:
                    return self.on_decode_error(message, error)
                try:
                    name = payload["task"]
                except (KeyError, TypeError):
                    return self.on_unknown_message(payload, message)
            try:
                strategy = self.strategies[name]
            except KeyError as error:
                return self.on_unknown_task(payload, message, error)
            try:
                return strategy(
                    message,
                    payload,
                    promise(self.call_soon, (message.ack_log_error,)),
                    promise(self.call_soon, (message.reject_log_error,)),
                    self.on_task_message,
                )
            except (InvalidTaskError, KeyError, TypeError, ValueError) as error:
                return self.on_invalid_task(payload, message, error)

        return on_task_received

    def apply_eta_task(self, task: Any) -> None:
        """A request that was held back, for its ``eta`` or its rate, is to run."""
        task_reserved(task)
        self.on_task_request(task)

    def _limit_task(self, request: Any, bucket: Any, tokens: float) -> None:
        """Have a request run as soon as its rate allows it, those before it first."""
        if not bucket.contents and bucket.can_consume(tokens):
            self.apply_eta_task(request)
            return
        bucket.add((request, tokens))
        if len(bucket.contents) == 1:
            self._look_later(bucket, tokens)

    _limit_post_eta = _limit_task

    def _look_later(self, bucket: Any, tokens: float) -> None:
        self.timer.call_after(bucket.expected_time(tokens), self._let_go, (bucket,), priority=6)

    def _let_go(self, bucket: Any) -> None:
        """Have run what the rate allows by now."""
        while bucket.contents:
            request, tokens = bucket.contents[0]
            if not bucket.can_consume(tokens):
                self._look_later(bucket, tokens)
                return
            bucket.pop()
            self.apply_eta_task(request)

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """A body that cannot be read: nobody could, so it is acknowledged."""
        logger.critical(
            "Cannot decode a message body: %r [type:%r encoding:%r headers:%s] body: %s",
            exc,
            message.content_type,
            message.content_encoding,
            message.headers,
            dump_body(message, message.body),
            exc_info=exc,
            extra={"redirected": True},
        )
        message.ack()

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """A message that is no task: it is rejected, with ``task_rejected``."""
        logger.warning("Rejected a message that is no task: %s", dump_body(message, body))
        message.reject_log_error(logger, self.connection_errors)
        signals.task_rejected.send(sender=self, message=message, exc=None)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task that nobody here knows: it is rejected, and fails with `NotRegistered` for whoever
        waits for its result."""
        name, given = str(exc.args[0]), message.headers or {}
        source = given if "id" in given else body or {}
        logger.error("Rejected a task that is not registered: %s[%s]", name, source.get("id"))
        message.reject_log_error(logger, self.connection_errors)
        request = Context(
            source, called_directly=False, chord=source.get("chord"), task=name, id=source.get("id")
        )
        failure = NotRegistered(name)
        self.app.backend.mark_as_failure(source.get("id"), failure, request=request)
        told = {"message": message, "exc": exc, "name": name, "id": source.get("id")}
        signals.task_unknown.send(sender=self, **told)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task that cannot be what it says that it is: it is rejected, with ``task_rejected``."""
        logger.error("Rejected an invalid task: %r: %s", exc, dump_body(message, body))
        message.reject_log_error(logger, self.connection_errors)
        signals.task_rejected.send(sender=self, message=message, exc=exc)
