"""What a message asks to be done after its task: ``link``, the rest of a chain, ``link_error``.

Signatures that were applied through the engine have none of this: there a chain is one graph, and
its next task is started by the settlement of the one before. What is left are messages of other
makers, and tasks that are called eagerly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from celery.canvas import maybe_signature
from celery.utils.log import get_logger

__all__ = ("call_errbacks", "follow_up")

logger = get_logger(__name__)


def follow_up(app: Any, request: Any, retval: Any) -> None:
    """Send the callbacks of a task that succeeded, and the next task of its chain."""
    if not (request.callbacks or request.chain):
        return
    options = {"parent_id": request.id, "root_id": request.root_id or request.id}
    for callback in request.callbacks or ():
        maybe_signature(callback, app=app).apply_async((retval,), **options)
    if request.chain:
        *rest, following = request.chain  # the next one is the last of the list
        maybe_signature(following, app=app).apply_async((retval,), chain=rest, **options)


def call_errbacks(app: Any, request: Any, exc: BaseException, traceback: str) -> None:
    """Call the error callbacks of a task that failed.

    One that is a task of this program and takes more than one argument is run here and now, with
    request, exception and traceback; any other is sent, with the id of the failed task.
    """
    for each in request.errbacks or ():
        errback = maybe_signature(each, app=app)
        task = app.tasks.get(errback.task)
        if task is not None and _takes_more_than_one(task.run):
            try:
                errback(request, exc, traceback)
            except Exception:
                logger.exception("Error callback %s of task %s failed", errback.task, request.id)
        else:
            options = {"parent_id": request.id, "root_id": request.root_id or request.id}
            errback.apply_async((request.id,), **options)


def _takes_more_than_one(function: Callable[..., Any]) -> bool:
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Parameter.VAR_POSITIONAL in kinds or sum(k in positional for k in kinds) > 1
