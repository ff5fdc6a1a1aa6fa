"""Calls of a task that differ in their id and arguments alone.

Most calls of a program are such: without options, or with the same ones again. What is stored for
them is worked out once, as a draft, and each is a copy of it with its own id and arguments. There
is one for each task, of the last such call, until something changes that it was made from.

A call has no draft where more depends on the single one: something runs after it, a route is a
function, or an option is anything but a plain value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from taskmq_celery.engine import CeleryEngine
from taskmq_celery.message import are_listed
from taskmq_celery.storing import model_for

from .routes import MapRoute, Router

if TYPE_CHECKING:
    from taskmq_celery.message import Message

    from .base import Celery

__all__ = ("Draft", "can_have_draft", "draft_of", "keep_draft")

PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types of options that say the same again if they are equal."""
MOST = 1000
"""So many are kept: a program may make up names of tasks without end."""

SETTINGS = (
    *("accept_content", "task_acks_late", "task_default_priority", "task_default_queue"),
    *("task_send_sent_event", "task_serializer"),
)
"""What a message is made from. Where these cannot change unseen, the engine is made anew with each
change, and has no drafts then."""


class Draft(NamedTuple):
    """What calls of one task have in common."""

    model: Any
    """For `taskmq_celery.storing.like`."""
    ignored: bool
    """Whether nobody wants the results."""
    options: Mapping[str, Any]
    listed: bool
    """Whether the arguments are given as a list."""
    queue: str
    sources: tuple[Any, ...]


def draft_of(
    engine: CeleryEngine, app: Celery, name: str, task: Any, args: Any, options: Mapping[str, Any]
) -> Draft | None:
    """The draft for a call with these options, if there is one and it still holds. ``task`` is the
    one that was called, ``None`` for a call by name."""
    found: Draft | None = engine.drafts.get(name)
    if found is None or found.options != options or found.listed != are_listed(args):
        return None
    return found if found.sources == _sources(app, name, task, found.queue) else None


def can_have_draft(app: Celery, options: Mapping[str, Any]) -> bool:
    """Whether all calls with these options are alike."""
    if not PLAIN.issuperset(map(type, options.values())) or options["eta"] is not None:
        return False
    if isinstance(options["expires"], str):
        return False  # an instant, perhaps in the zone of the app
    router = app.amqp.router
    if type(router) is not Router or any(type(route) is not MapRoute for route in router.routes):
        return False
    return app.amqp.makes_usual_messages and not app.conf.task_send_sent_event


def keep_draft(
    engine: CeleryEngine, app: Celery, task: Any, options: Mapping[str, Any], message: Message
) -> Draft:
    """Make the draft of calls like the one that this message is of, and keep it."""
    made = Draft(
        model_for(app, engine, message),
        message.ignore_result,
        options,
        are_listed(message.args),
        message.queue,
        _sources(app, message.task, task, message.queue),
    )
    if len(engine.drafts) >= MOST:
        engine.drafts.clear()
    engine.drafts[message.task] = made
    return made


def _sources(app: Celery, name: str, task: Any, queue: str) -> tuple[Any, ...]:
    """What a message is made from beside the options of its call."""
    amqp, conf, known = app.amqp, app.conf, app._tasks.get(name)
    return (
        task,
        known,
        getattr(task, "acks_late", None),
        getattr(known, "ignore_result", None),
        amqp.router,
        amqp.as_task_v2,
        amqp.queues.get(queue),
        tuple(conf[name] for name in SETTINGS) if conf.is_live else None,
    )
