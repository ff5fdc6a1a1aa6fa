"""What a message asks to be done after its task: ``link``, the rest of a chain, ``link_error``.

Signatures that were applied through the engine have none of this: there a chain is one graph, and
its next task is started by the settlement of the one before. What is left are messages of other
makers, and tasks that are called eagerly.
"""

from __future__ import annotations

from typing import Any

from kombu.utils.uuid import uuid

from celery import canvas, states
from celery.app.context import Context
from celery.backends.arity import takes_new_style
from celery.result import result_from_tuple
from celery.utils.log import get_logger

__all__ = ("call_errbacks", "call_errbacks_of", "follow_up")

logger = get_logger(__name__)


def follow_up(app: Any, request: Any, retval: Any, task_id: str) -> None:
    """Send the callbacks of a task that succeeded, and the next task of its chain. What the
    engine will start instead is noted down as the task's children."""
    for child in request.get("_follows") or ():
        request.children.append(result_from_tuple(child, app))
    if not (request.callbacks or request.chain):
        return
    options = {"parent_id": task_id, "root_id": request.root_id or task_id, "priority": None}
    if app.conf.task_inherit_parent_priority:
        options["priority"] = (request.delivery_info or {}).get("priority")
    # By name at the time of use, here and below: libraries replace it there.
    called = [canvas.maybe_signature(each, app=app) for each in request.callbacks or ()]
    for callback in _together(called, app):
        callback.apply_async((retval,), **options)
    if request.chain:
        *rest, following = request.chain  # the next one is the last of the list
        following = canvas.maybe_signature(following, app=app)
        following.apply_async((retval,), chain=rest, **options)


def _together(callbacks: list[Any], app: Any) -> list[Any]:
    """The same with one group for the single tasks, if there are several: they are stored in one
    step. Groups are called as they are."""
    single = [each for each in callbacks if not isinstance(each, canvas.group)]
    if len(single) < 2:
        return callbacks
    groups = [each for each in callbacks if isinstance(each, canvas.group)]
    return [*groups, canvas.group(single, app=app)]


def call_errbacks_of(app: Any, request: dict[str, Any], exc: BaseException) -> None:
    """`call_errbacks` for a task that never ran, from what its message had. Its record in the
    result backend says that it failed, and has the callbacks among its children."""
    context = Context(request)
    sent = call_errbacks(app, context, exc, "")
    if sent:
        context.children.append(app.GroupResult(uuid(), sent))
    backend = app.backend
    if getattr(backend, "written_by_worker", False) and not context.ignore_result:
        try:
            backend.store_result(context.id, exc, states.FAILURE, request=context)
        except Exception:
            logger.exception("The result backend was not told of the end of task %s", context.id)


def call_errbacks(app: Any, request: Any, exc: BaseException, traceback: str) -> list[Any]:
    """Call the error callbacks of a task that failed.

    One that is a task of this program and takes request, exception and traceback is run here and
    now; any other is sent, with the id of the failed task. The results of those that were sent.
    """
    sent = []
    for each in request.errbacks or ():
        errback = canvas.maybe_signature(each, app=app)
        task = app.tasks.get(errback.task)
        if task is not None and takes_new_style(task.run, errback.args, errback.kwargs, errback):
            try:
                errback(request, exc, traceback)
            except Exception:
                logger.exception("Error callback %s of task %s failed", errback.task, request.id)
        else:
            options = {"parent_id": request.id, "root_id": request.root_id or request.id}
            sent.append(errback.apply_async((request.id,), **options))
    return sent
