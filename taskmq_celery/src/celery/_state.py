"""Which app and which task are the current ones.

Each thread has its own current app. A thread that never set one has the default app, or else the
app that was made current last in any thread: a web server's threads publish where the program
says and not, as with Celery, to a broker on localhost that nobody runs. Not for direct use: read
`celery.current_app` and `celery.current_task`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .local import Proxy
from .utils.threads import LocalStack

if TYPE_CHECKING:
    from .app.base import Celery
    from .app.task import Task

__all__ = (
    "connect_on_app_finalize",
    "current_app",
    "current_task",
    "get_current_app",
    "get_current_task",
    "get_current_worker_task",
    "set_default_app",
)


class _TLS(threading.local):
    current_app: Celery | None = None


_tls = _TLS()
_task_stack = LocalStack()
default_app: Celery | None = None
_last_current: weakref.ReferenceType[Celery] | None = None

_apps: weakref.WeakSet[Celery] = weakref.WeakSet()
_on_app_finalizers: set[Callable[[Celery], Any]] = set()

_task_join_will_block = threading.local()
"""What somebody decided for a thread; otherwise it depends on whether a worker's task runs."""


def set_default_app(app: Celery | None) -> None:
    """Make ``app`` the one for threads that have no current app of their own."""
    global default_app  # the process has one
    default_app = app


def get_current_app() -> Celery:
    """The app of this thread, else the default app, else the last current one, else a new one."""
    app = _tls.current_app or default_app or (_last_current() if _last_current else None)
    if app is not None:
        return app
    # Here and not at the top: the app's module needs this one.
    from .app.base import Celery

    made = Celery(
        "default",
        fixups=[],
        set_as_current=False,
        loader=os.environ.get("CELERY_LOADER") or "default",
    )
    set_default_app(made)
    return made


_get_current_app = get_current_app


def _set_current_app(app: Celery | None) -> None:
    global _last_current  # the process has one
    _tls.current_app = app
    _last_current = None if app is None else weakref.ref(app)


def get_current_task() -> Task | None:
    """The task that runs in this thread, or ``None``."""
    task: Task | None = _task_stack.top
    return task


def get_current_worker_task() -> Task | None:
    """The task that the worker started in this thread: not one that was called from it."""
    for task in reversed(_task_stack.stack):
        if not task.request.called_directly:
            found: Task = task
            return found
    return None


current_app: Any = Proxy(get_current_app)
current_task: Any = Proxy(get_current_task)


def app_or_default(app: Celery | None = None) -> Celery:
    """``app``, or the current one."""
    return get_current_app() if app is None else app


def connect_on_app_finalize(callback: Callable[[Celery], Any]) -> Callable[[Celery], Any]:
    """Call ``callback(app)`` for every app that is finalized from now on."""
    _on_app_finalizers.add(callback)
    return callback


def _announce_app_finalized(app: Celery) -> None:
    for callback in list(_on_app_finalizers):
        callback(app)


def _register_app(app: Celery) -> None:
    _apps.add(app)


def _deregister_app(app: Celery) -> None:
    _apps.discard(app)


def _get_active_apps() -> weakref.WeakSet[Celery]:
    return _apps


def _set_task_join_will_block(blocks: bool | None) -> None:
    """Decide for this thread whether `task_join_will_block`; ``None`` takes that back."""
    _task_join_will_block.value = blocks


def task_join_will_block() -> bool:
    """Whether a worker's task runs in this thread: waiting for another could wait for ever."""
    decided: bool | None = getattr(_task_join_will_block, "value", None)
    if decided is not None:
        return decided
    task = get_current_worker_task() if _task_stack.stack else None
    return task is not None and not task.request.is_eager


def enable_trace() -> None:
    """Accepted for Celery's sake: lookups of the current app are not traced here."""


disable_trace = enable_trace
