"""How a request hears of the end of its job: the engine calls this, in the process that knows.

Requests of the program's own classes (``Task.Request``) are told of every end; any request, of a
task that was killed at its hard time limit: nobody else could tell of that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .request import Request
from .strategy import request_of

__all__ = ("own_request", "tell_end", "tell_hard_limit")

logger = logging.getLogger("celery.worker.request")

DEFAULT = (Request, "celery.worker.request:Request", "celery.worker.request.Request")


def own_request(task: Any, job: Any, hostname: str) -> Any:
    """The request of a job whose task has a class of its own; ``None`` if it has not."""
    if task.Request in DEFAULT:
        return None
    return request_of(task.app, hostname, job, task)


def tell_end(request: Any, answer: Any) -> None:
    """Tell it what the tracer gave. It may do what it likes, but the job ends as it has."""
    if answer.info is None and answer.runtime is not None:
        end = 0, answer.retstr, answer.runtime
    else:
        end = 1, answer.retval, answer.runtime
    _guarded(request, lambda: request.on_success(end))


def tell_hard_limit(task: Any, job: Any, hostname: str, seconds: float) -> None:
    """Tell it that its process was killed when ``seconds`` were over."""
    request = request_of(task.app, hostname, job, task)
    request._context.chord = None  # the engine joins the parts of a chord
    limit = int(seconds) if seconds == int(seconds) else seconds
    _guarded(request, lambda: request.on_timeout(False, limit))


def _guarded(request: Any, tell: Callable[[], Any]) -> None:
    try:
        tell()
    except Exception:
        logger.exception("%r could not be told of its end", request)
