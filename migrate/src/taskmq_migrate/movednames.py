"""Names that old releases of Celery and kombu had elsewhere, and where they are now.

A target with a colon is an attribute of an object: ``celery.current_app:send_task``.
"""

from __future__ import annotations

__all__ = ["GONE", "MODULES", "NAMES", "gone", "moved_to"]

MODULES = {
    "celery.concurrency.processes": "celery.concurrency.prefork",
    "celery.task.schedules": "celery.schedules",
    "celery.task.trace": "celery.app.trace",
    "celery.utils.encoding": "kombu.utils.encoding",
    "celery.utils.timeutils": "celery.utils.time",
    "celery.worker.job": "celery.worker.request",
}
"""Whole modules: every name in them is in the other."""

_CONTROL = (
    "add_consumer",
    "autoscale",
    "broadcast",
    "cancel_consumer",
    "disable_events",
    "enable_events",
    "inspect",
    "ping",
    "pool_grow",
    "pool_shrink",
    "rate_limit",
    "revoke",
    "shutdown",
    "time_limit",
)
_FIVE = {
    "Counter": "collections.Counter",
    "Empty": "queue.Empty",
    "OrderedDict": "collections.OrderedDict",
    "Queue": "queue.Queue",
    "StringIO": "io.StringIO",
    "UserDict": "collections.UserDict",
    "UserList": "collections.UserList",
    "bytes_t": "builtins.bytes",
    "long_t": "builtins.int",
    "map": "builtins.map",
    "monotonic": "time.monotonic",
    "range": "builtins.range",
    "string_t": "builtins.str",
    "text_t": "builtins.str",
    "zip": "builtins.zip",
    "zip_longest": "itertools.zip_longest",
}
_TASK = {
    "Task": "celery.Task",
    "chord": "celery.chord",
    "chunks": "celery.chunks",
    "current": "celery.current_task",
    "group": "celery.group",
    "subtask": "celery.signature",
    "task": "celery.shared_task",
}

NAMES = {
    **{f"celery.task.{name}": new for name, new in _TASK.items()},
    **{f"celery.task.base.{name}": new for name, new in _TASK.items()},
    **{f"celery.task.control.{name}": f"celery.current_app:control.{name}" for name in _CONTROL},
    **{
        f"{module}.five.{old}": _FIVE[old]
        for module in ("celery", "kombu", "vine")
        for old in _FIVE
    },
    "celery.datastructures.AttributeDict": "celery.utils.collections.AttributeDict",
    "celery.datastructures.ConfigurationView": "celery.utils.collections.ConfigurationView",
    "celery.datastructures.DictAttribute": "celery.utils.collections.DictAttribute",
    "celery.datastructures.ExceptionInfo": "billiard.einfo.ExceptionInfo",
    "celery.datastructures.LRUCache": "kombu.utils.functional.LRUCache",
    "celery.datastructures.LimitedSet": "celery.utils.collections.LimitedSet",
    "celery.decorators.task": "celery.shared_task",
    "celery.execute.send_task": "celery.current_app:send_task",
    "celery.task.control.discard_all": "celery.current_app:control.purge",
    "celery.task.sets.subtask": "celery.signature",
    "celery.utils.compat.OrderedDict": "collections.OrderedDict",
    "celery.utils.default_nodename": "celery.utils.nodenames.default_nodename",
    "celery.utils.functional.LRUCache": "kombu.utils.functional.LRUCache",
    "celery.utils.host_format": "celery.utils.nodenames.host_format",
    "kombu.utils.compat.OrderedDict": "collections.OrderedDict",
}

GONE = {
    "celery.backends.amqp": "Celery 5 has no amqp result backend: use rpc",
    "celery.bin.worker.worker": "no class any more: use app.worker_main([...])",
    "celery.contrib.batches": "is the package celery-batches: from celery_batches import Batches",
    "celery.contrib.methods": "tasks are no methods any more: use functions, or classes of tasks",
    "celery.five": "was about Python 2: use the standard library",
    "celery.log": "is gone: use celery.utils.log",
    "celery.messaging": "is gone: use app.connection() and kombu",
    "celery.result.TaskSetResult": "is gone: use GroupResult",
    "celery.task.http": "is gone: call the address with an HTTP client in a task of your own",
    "celery.task.sets.TaskSet": "is gone: use group",
    "celery.task.TaskSet": "is gone: use group",
    "celery.utils.compat": "was about Python 2: use the standard library",
    "celery.utils.is_iterable": "is gone: isinstance(x, collections.abc.Iterable)",
    "celery.utils.kwdict": "was about Python 2: use dict",
    "celery.utils.mail": "Celery sends no mail any more: use the signal task_failure",
    "djcelery": "is not for Celery 5: make an app with config_from_object instead",
    "kombu.five": "was about Python 2: use the standard library",
    "kombu.utils.kwdict": "was about Python 2: use dict",
    "vine.five": "was about Python 2: use the standard library",
}
"""What has no successor to be put in its place, and what to do instead."""


def moved_to(old: str) -> str | None:
    """Where a full name is now; None if it has not moved."""
    if old in NAMES:
        return NAMES[old]
    module, _, name = old.rpartition(".")
    return f"{MODULES[module]}.{name}" if module in MODULES else None


def gone(old: str) -> str:
    """Why a full name, or something in it, is nowhere any more; empty if it is not gone."""
    if moved_to(old) is not None:
        return ""
    for name, why in GONE.items():
        if old == name or old.startswith(f"{name}."):
            return f"{name} {why}"
    return ""
