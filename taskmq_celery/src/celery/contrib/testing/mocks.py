"""Messages that no broker has seen, for tests of what receives them."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

from kombu import serialization
from kombu.utils.uuid import uuid

from celery.canvas import Signature

__all__ = ("ContextMock", "TaskMessage", "TaskMessage1", "task_message_from_sig")


def TaskMessage(  # noqa: N802  # Celery's name
    name: str,
    id: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    callbacks: Sequence[Signature] | None = None,
    errbacks: Sequence[Signature] | None = None,
    chain: Sequence[Signature] | None = None,
    shadow: str | None = None,
    utc: bool | None = None,
    **options: Any,
) -> Any:
    """A message of protocol 2: a `Mock` with the attributes of kombu's messages."""
    task_id = id or uuid()
    embed = {"callbacks": callbacks, "errbacks": errbacks, "chain": chain}
    message = _message(task_id, (args, kwargs or {}, embed))
    message.headers = {
        "id": task_id,
        "task": name,
        "shadow": shadow,
        **options,
    }
    return message


def TaskMessage1(  # noqa: N802  # Celery's name
    name: str,
    id: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    callbacks: Sequence[Signature] | None = None,
    errbacks: Sequence[Signature] | None = None,
    chain: Sequence[Signature] | None = None,
    **options: Any,
) -> Any:
    """A message of protocol 1, which has everything in its body."""
    task_id = id or uuid()
    body = {
        "task": name,
        "id": task_id,
        "args": args,
        "kwargs": kwargs or {},
        "callbacks": callbacks,
        "errbacks": errbacks,
        **options,
    }
    message = _message(task_id, body)
    message.headers = {}
    return message


def _message(task_id: str, content: Any) -> Any:
    content_type, encoding, body = serialization.dumps(content, serializer="json")
    message = Mock(name=f"TaskMessage-{task_id}")
    message.properties = {"correlation_id": task_id}
    message.content_type, message.content_encoding, message.body = content_type, encoding, body
    message.delivery_info = {"exchange": "", "routing_key": "", "redelivered": False}
    message.payload = message.decode.return_value = content
    return message


def task_message_from_sig(
    app: Any,
    sig: Signature,
    utc: bool = True,
    TaskMessage: Callable[..., Any] = TaskMessage,  # noqa: N803  # Celery's parameter
) -> Any:
    """The message that calling a signature would send."""
    sig.freeze()
    options = sig.options
    eta, expires = options.get("eta"), options.get("expires")
    if options.get("countdown"):
        eta = app.now() + timedelta(seconds=options["countdown"])
    if isinstance(expires, numbers.Real):
        expires = app.now() + timedelta(seconds=float(expires))
    return TaskMessage(
        sig.task,
        id=sig.id,
        args=sig.args,
        kwargs=sig.kwargs,
        callbacks=_dicts(options.get("link")),
        errbacks=_dicts(options.get("link_error")),
        eta=_iso(eta),
        expires=_iso(expires),
        utc=utc,
        **{
            name: value
            for name, value in options.items()
            if name not in ("countdown", "eta", "expires", "link", "link_error", "task_id")
        },
    )


def _dicts(signatures: Any) -> list[dict[str, Any]] | None:
    if not signatures:
        return None
    many = signatures if isinstance(signatures, (list, tuple)) else [signatures]
    return [dict(each) for each in many]


def _iso(when: Any) -> Any:
    return when.isoformat() if isinstance(when, datetime) else when


def ContextMock(*args: Any, **kwargs: Any) -> Any:  # noqa: N802  # Celery's name
    """A `Mock` that ``with`` opens as itself."""
    mock = Mock(*args, **kwargs)
    mock.__enter__ = Mock(return_value=mock)
    mock.__exit__ = Mock(return_value=None)
    return mock
