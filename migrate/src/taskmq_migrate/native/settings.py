"""Celery's settings as arguments of the engine's ``Config``."""

from __future__ import annotations

import libcst as cst

from taskmq_migrate.arguments import Parts, is_literal, number
from taskmq_migrate.configstyle import is_django_settings, renames, style_of
from taskmq_migrate.facts import ConfigSource, Facts
from taskmq_migrate.names import literal_text
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.settingnames import NEW_NAMES

__all__ = [
    "DJANGO",
    "POOLS",
    "RENAMED",
    "WHY_NOT",
    "config_by_name",
    "config_of",
    "is_loaded",
    "names_of",
]

DJANGO = "django.conf.settings"

RENAMED = {
    "broker_url": "transport",
    "result_expires": "result_ttl",
    "task_always_eager": "eager",
    "task_default_queue": "default_queue",
    "timezone": "timezone",
    "worker_concurrency": "concurrency",
    "worker_max_tasks_per_child": "max_jobs_per_child",
    "worker_pool": "pool",
}
POOLS = {"prefork": '"processes"', "threads": '"threads"', "solo": '"solo"'}
# What the engine does anyway, or has no use for.
DROPPED = frozenset(
    {
        "beat_max_loop_interval",
        "beat_schedule_filename",
        "beat_scheduler",
        "broker_connection_max_retries",
        "broker_connection_retry",
        "broker_connection_retry_on_startup",
        "broker_connection_timeout",
        "broker_heartbeat",
        "broker_pool_limit",
        "cache_backend",
        "deprecated_settings",
        "enable_utc",
        "event_queue_expires",
        "event_queue_ttl",
        "redis_max_connections",
        "redis_socket_timeout",
        "result_backend",
        "result_backend_transport_options",
        "result_extended",
        "result_persistent",
        "task_create_missing_queues",
        "task_default_exchange",
        "task_default_exchange_type",
        "task_default_routing_key",
        "task_eager_propagates",
        "task_publish_retry",
        "task_publish_retry_policy",
        "task_reject_on_worker_lost",
        "task_send_sent_event",
        "task_store_eager_result",
        "task_track_started",
        "worker_cancel_long_running_tasks_on_connection_loss",
        "worker_disable_rate_limits",
        "worker_enable_remote_control",
        "worker_hijack_root_logger",
        "worker_log_color",
        "worker_pool_restarts",
        "worker_prefetch_multiplier",
        "worker_proc_alive_timeout",
        "worker_redirect_stdouts",
        "worker_send_task_events",
    }
)
JSON_ONLY = frozenset(
    {
        "accept_content",
        "event_serializer",
        "result_accept_content",
        "result_serializer",
        "task_serializer",
    }
)
WHY_NOT = {
    "beat_schedule": "schedules are app.schedule(cron(...), every(...))",
    "broker_transport_options": "options of the store are parts of its URL",
    "task_annotations": "options stand at each task",
    "task_queues": "queues are those that tasks name; QueueConfig has their limits",
    "task_routes": "queue= stands at each task",
    "task_soft_time_limit": "timeout= stands at each task",
    "task_time_limit": "hard_timeout= stands at each task",
    "task_default_rate_limit": "rate_limit= stands at each task",
}
SCHEMES = ("redis://", "rediss://", "sentinel://", "memory://", "sqlite://", "postgresql://")


def config_of(file: PythonFile, name: str, value: cst.BaseExpression) -> dict[str, Parts]:
    """Arguments of ``Config`` that say what a setting says. Raises `Unclear`."""
    if name == "broker_url":
        url = literal_text(value)
        if url is not None and not url.startswith(SCHEMES):
            raise Unclear(
                f"broker_url: a store of the engine is wanted; {url.partition('://')[0]} delivers "
                "with a store beside it (amqp://…?state=…)"
            )
    if name in JSON_ONLY:
        return _json(name, value)
    if name == "result_expires" and is_literal(value, "None"):
        raise Unclear("result_expires: results are kept for a time, in seconds")
    if name == "result_expires" and number(value) is None and isinstance(value, cst.Call):
        return {"result_ttl": (file.whole(value), ".total_seconds()")}
    if name == "worker_pool":
        pool = POOLS.get(literal_text(value) or "")
        if pool is None:
            raise Unclear("worker_pool: pools are processes, threads, asyncio and solo")
        return {"pool": (pool,)}
    if name == "worker_max_memory_per_child":
        return {"max_memory_per_child": (file.whole(value), " * 1024")}
    if name == "task_ignore_result":
        return {"store_results": ("not ", file.whole(value))}
    if name == "task_acks_late":
        if is_literal(value, "True"):
            return {}
        raise Unclear(
            'task_acks_late: ack="on_receipt" stands at each task that rather be lost than run '
            "twice"
        )
    if name in RENAMED:
        return {RENAMED[name]: (file.whole(value),)}
    if name in DROPPED or _is_at_tasks(file, name) or _is_of_nobody(name):
        return {}
    raise Unclear(f"{name}: {WHY_NOT.get(name, 'Config has no such setting')}")


def _is_at_tasks(file: PythonFile, name: str) -> bool:
    """Whether a setting is routes that TMQ110 writes to each task."""
    return name == "task_routes" and bool(file.facts.routes)


def _is_of_nobody(name: str) -> bool:
    """Whether a setting is a present name behind CELERY_, which without a namespace is none."""
    bare = name.removeprefix("celery_")
    return bare != name and bare in NEW_NAMES


def _json(name: str, value: cst.BaseExpression) -> dict[str, Parts]:
    values = [value]
    if isinstance(value, cst.List | cst.Tuple | cst.Set):
        values = [each.value for each in value.elements]
    if all(literal_text(each) in {"json", "application/json"} for each in values):
        return {}
    raise Unclear(
        f"{name}: arguments and results are JSON; other types are taken by register_codec"
    )


def names_of(file: PythonFile, source: ConfigSource) -> list[tuple[str, str]] | None:
    """Full names of the settings that ``config_from_object`` loads, each with Celery's name.

    Names are those that they have once TMQ030 has renamed them. None where they are not those of a
    module of this project, or of Django's with a namespace.
    """
    facts = file.facts
    if source.how == "module" and source.namespace == "":
        found = facts.module(source.reference, source.path)
        modules, owner, prefix = [found], source.reference, ""
    elif source.how == "object" and source.namespace == "":
        return _names_of_class(facts, source)
    elif source.how == "django" and source.namespace:
        modules = [each for each in facts.modules.values() if is_django_settings(facts, each)]
        owner, prefix = DJANGO, f"{source.namespace}_"
    else:
        return None
    if not modules or None in modules:
        return None
    renamed = renames(facts)
    names: dict[str, str] = {}
    for module in modules:
        for name in module.names if module is not None else ():
            full = f"{module.module}.{name}" if module is not None else ""
            present = renamed.names.get(full, name)
            if full not in renamed.doubled and present.startswith(prefix):
                names[f"{owner}.{present}"] = present.removeprefix(prefix)
    if prefix:
        return sorted((full, name.lower()) for full, name in names.items())
    return sorted((full, name) for full, name in names.items() if name.islower())


def _names_of_class(facts: Facts, source: ConfigSource) -> list[tuple[str, str]] | None:
    """The same for a class; None if it derives from what is not seen."""
    renamed, names = renames(facts).names, set[str]()
    left = [(source.reference, source.path)]
    while left:
        name, near = left.pop()
        if name == "builtins.object":
            continue
        owner, _, last = facts.canonical(name, near).rpartition(".")
        module = facts.module(owner, near)
        if module is None or last not in module.classes:
            return None
        for each in module.attributes.get(last, ()):
            present = renamed.get(f"{module.module}.{last}.{each}", each)
            names |= {present} if present.islower() else set()
        left += [(each, module.path) for each in module.classes[last]]
    return [(f"{source.reference}.{each}", each) for each in sorted(names)]


def is_loaded(file: PythonFile) -> bool:
    """Whether a module's settings are those of the one app of the project, and all of them can be
    passed to it by their names."""
    sources = file.facts.configuration
    module = file.facts.modules.get(file.path)
    if len(sources) != 1 or module is None or style_of(file.facts, module) is None:
        return False
    found = names_of(file, sources[0])
    try:
        for _, name in found or ():
            config_by_name(file, name)
    except Unclear:
        return False
    return found is not None


def config_by_name(file: PythonFile, name: str) -> tuple[str, str] | None:
    """Argument of ``Config`` and the form of its value for a setting whose value is not seen.

    None if there is nothing to say. Raises `Unclear` for a setting that is lost otherwise.
    """
    forms = {
        "task_ignore_result": ("store_results", "not {}"),
        "worker_max_memory_per_child": ("max_memory_per_child", "{} * 1024"),
    }
    if name in forms:
        return forms[name]
    if name in RENAMED and name != "worker_pool":
        return RENAMED[name], "{}"
    if name in WHY_NOT and name != "beat_schedule" and not _is_at_tasks(file, name):
        raise Unclear(f"{name}: {WHY_NOT[name]}")
    if name == "worker_pool":
        raise Unclear("worker_pool: pools are processes, threads, asyncio and solo")
    return None
