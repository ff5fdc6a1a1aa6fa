"""Celery's signals.

>>> from celery.signals import task_failure
>>> @task_failure.connect
... def report(sender=None, task_id=None, exception=None, **kwargs): ...
"""

from __future__ import annotations

from .utils.dispatch import Signal

__all__ = (
    "after_setup_logger",
    "after_setup_task_logger",
    "after_task_publish",
    "beat_embedded_init",
    "beat_init",
    "before_task_publish",
    "celeryd_after_setup",
    "celeryd_init",
    "eventlet_pool_apply",
    "eventlet_pool_postshutdown",
    "eventlet_pool_preshutdown",
    "eventlet_pool_started",
    "heartbeat_sent",
    "setup_logging",
    "task_failure",
    "task_internal_error",
    "task_postrun",
    "task_prerun",
    "task_received",
    "task_rejected",
    "task_retry",
    "task_revoked",
    "task_success",
    "task_unknown",
    "worker_before_create_process",
    "worker_init",
    "worker_process_init",
    "worker_process_shutdown",
    "worker_ready",
    "worker_shutdown",
    "worker_shutting_down",
)


def _signal(name: str, providing_args: str = "") -> Signal:
    return Signal(name=name, providing_args=providing_args.split())


# Publishing, in the process that publishes. The sender is the task's name.
before_task_publish = _signal(
    "before_task_publish", "body exchange routing_key headers properties declare retry_policy"
)
after_task_publish = _signal("after_task_publish", "body exchange routing_key")
task_sent = _signal("task_sent", "task_id task args kwargs eta taskset")  # its name before 3.1

# Running. The sender is the task, except where noted.
task_received = _signal("task_received", "request")  # the consumer
task_prerun = _signal("task_prerun", "task_id task args kwargs")
task_postrun = _signal("task_postrun", "task_id task args kwargs retval")
task_success = _signal("task_success", "result runtime")
task_retry = _signal("task_retry", "request reason einfo")
task_failure = _signal("task_failure", "task_id exception args kwargs traceback einfo")
task_internal_error = _signal(
    "task_internal_error", "task_id args kwargs request exception traceback einfo"
)
task_revoked = _signal("task_revoked", "request terminated signum expired")
task_rejected = _signal("task_rejected", "message exc")  # the consumer
task_unknown = _signal("task_unknown", "message exc name id")  # the consumer

# The program.
import_modules = _signal("import_modules")  # the app
user_preload_options = _signal("user_preload_options", "app options")
setup_logging = _signal("setup_logging", "loglevel logfile format colorize")
after_setup_logger = _signal("after_setup_logger", "logger loglevel logfile format colorize")
after_setup_task_logger = _signal(
    "after_setup_task_logger", "logger loglevel logfile format colorize"
)

# The worker.
celeryd_init = _signal("celeryd_init", "instance conf options")
celeryd_after_setup = _signal("celeryd_after_setup", "instance conf")
worker_init = _signal("worker_init")
worker_before_create_process = _signal("worker_before_create_process")
worker_process_init = _signal("worker_process_init")
worker_process_shutdown = _signal("worker_process_shutdown")
worker_ready = _signal("worker_ready")
worker_shutting_down = _signal("worker_shutting_down")
worker_shutdown = _signal("worker_shutdown")
heartbeat_sent = _signal("heartbeat_sent")

# The scheduler.
beat_init = _signal("beat_init")
beat_embedded_init = _signal("beat_embedded_init")

# The pools on green threads.
eventlet_pool_started = _signal("eventlet_pool_started")
eventlet_pool_preshutdown = _signal("eventlet_pool_preshutdown")
eventlet_pool_postshutdown = _signal("eventlet_pool_postshutdown")
eventlet_pool_apply = _signal("eventlet_pool_apply", "target args kwargs")
