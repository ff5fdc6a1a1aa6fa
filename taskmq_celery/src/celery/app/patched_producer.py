"""Publishing for libraries that have replaced a method of kombu's producers.

Jobs go to the store without kombu. Tracing libraries replace ``kombu.Producer.publish`` to see
what a program publishes, and to add headers to it: as soon as one has, each task goes through a
producer whose channel ends in the store. Whatever is replaced runs, around what stores the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kombu import messaging

from taskmq_celery.message import Message

if TYPE_CHECKING:
    from .base import Celery

__all__ = ("is_patched", "publish_patched")

METHODS = ("publish", "_publish")


def is_patched() -> bool:
    """Whether anybody has replaced a method of ``kombu.Producer`` that publishes."""
    methods = vars(messaging.Producer)
    for name in METHODS:
        # By where its code is: a wrapper may bear the name and the module of what it wraps.
        found = methods.get(name)
        if type(found) is not FunctionType or found.__code__.co_filename != _FILE:
            return True
    return False


_FILE = messaging.Producer.__init__.__code__.co_filename


def publish_patched(
    app: Celery, message: Message, headers: Mapping[str, Any], store: Callable[[Message], None]
) -> None:
    """Publish with a producer of kombu's. ``headers`` are those that the signals show; ``store``
    is called with the message, and with the headers that the replaced methods have added.

    It is not called if one of them does not publish.
    """
    known = dict(headers)

    def arrive(sent: Mapping[str, Any]) -> None:
        added = {name: value for name, value in sent.items() if known.get(name) != value}
        for name, value in added.items():
            nonlocal message
            message = message.with_header(name, value)
        store(message)

    producer = messaging.Producer(_Channel(app, arrive), auto_declare=False)
    # The engine has its own ways to try again: a producer's would connect to the broker.
    producer.publish(
        (message.args, message.kwargs, {}),
        exchange=message.properties.get("exchange", ""),
        routing_key=message.properties.get("routing_key", message.queue),
        serializer=message.serializer,
        headers=dict(headers),
        retry=False,
        **{name: value for name, value in message.properties.items() if name not in _PLACE},
    )


_PLACE = frozenset({"exchange", "routing_key", "expiration", "declare", "delivery_mode"})


class _Channel:
    """What a producer sees of a channel. Its connection is one of the app's, not opened."""

    def __init__(self, app: Celery, arrive: Callable[[Mapping[str, Any]], None]) -> None:
        self._app = app
        self._arrive = arrive
        self.is_open = True

    @property
    def connection(self) -> _Channel:
        return self

    @property
    def client(self) -> Any:
        return self._app.connection_for_write()

    def prepare_message(
        self,
        body: Any,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> Any:
        """Of a message, nothing but the headers can be changed on this way."""
        return dict(headers or {})

    def basic_publish(self, message: Mapping[str, Any], **kwargs: Any) -> None:
        self._arrive(message)
